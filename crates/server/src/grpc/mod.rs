//! Thin doors on the coordinator: what is decided here is only how a call becomes a frame, and an answer a message.

mod cluster;
mod fences;
mod locks;
mod operators;
mod sequencers;
mod sessions;
mod watches;

use palisade_proto::v1::{self, request, response};
use tonic::Status;
use tonic::service::Routes;

use crate::door::Door;
use crate::{error, single};

/// Every client service, with reflection.
pub(crate) fn routes(door: &Door) -> Result<Routes, tonic_reflection::server::Error> {
    let max = door.coordinator.config.door.message_bytes_max;
    let sessions = v1::sessions_server::SessionsServer::new(sessions::Sessions(door.clone()));
    let locks = v1::locks_server::LocksServer::new(locks::Locks(door.clone()));
    let sequencers = v1::sequencers_server::SequencersServer::new(sequencers::Sequencers(door.clone()));
    let watches = v1::watches_server::WatchesServer::new(watches::Watches(door.clone()));
    let fences = v1::fences_server::FencesServer::new(fences::Fences(door.clone()));
    let operators = v1::operators_server::OperatorsServer::new(operators::Operators(door.clone()));
    let cluster = v1::cluster_server::ClusterServer::new(cluster::Cluster(door.clone()));
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(palisade_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .with_service_name("palisade.v1.Sessions")
        .with_service_name("palisade.v1.Locks")
        .with_service_name("palisade.v1.Sequencers")
        .with_service_name("palisade.v1.Watches")
        .with_service_name("palisade.v1.Fences")
        .with_service_name("palisade.v1.Operators")
        .with_service_name("palisade.v1.Cluster")
        .with_service_name("grpc.health.v1.Health")
        .build_v1()?;
    Ok(Routes::new(sessions.max_decoding_message_size(max))
        .add_service(locks.max_decoding_message_size(max))
        .add_service(sequencers.max_decoding_message_size(max))
        .add_service(watches.max_decoding_message_size(max))
        .add_service(fences.max_decoding_message_size(max))
        .add_service(operators.max_decoding_message_size(max))
        .add_service(cluster.max_decoding_message_size(max))
        .add_service(reflection))
}

/// A single call, as gRPC answers it.
async fn call(
    door: &Door,
    session: Option<(u64, Vec<u8>)>,
    op: request::Op,
) -> Result<response::Result, Status> {
    match single::call(door, session, op, None).await {
        Ok(answer) => Ok(answer.result),
        Err(error) => Err(error::status(&error)),
    }
}
