//! Who are you? Asked before a cluster is founded, and by operators. Needs no credentials.

use std::time::Duration;

use palisade_core::ids::ClusterName;
use palisade_host::{SharedNet, channel};
use palisade_proto::raft::v1::peer_client::PeerClient;
use palisade_proto::raft::v1::{IdentifyAnswer, IdentifyRequest};
use tonic::Code;

use crate::error::IdentifyError;

/// What a node answers beside what its replica knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// Initial members as this node was started with them: `name=address`, sorted.
    pub members: Vec<String>,
    /// Where clients reach it, `host:port`.
    pub client_address: String,
}

/// Asks the node at `address` who it is.
///
/// # Errors
///
/// When it does not answer within `wait`, or is of another cluster.
pub async fn identify(
    net: SharedNet,
    address: &str,
    cluster: &ClusterName,
    wait: Duration,
) -> Result<IdentifyAnswer, IdentifyError> {
    let unreachable = |why: String| IdentifyError::Unreachable { address: address.to_owned(), why };
    let channel = channel(net, address, wait).map_err(|why| unreachable(why.to_string()))?;
    let request = IdentifyRequest { cluster_name: cluster.to_string() };
    let mut client = PeerClient::new(channel);
    match tokio::time::timeout(wait, client.identify(request)).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) if status.code() == Code::FailedPrecondition => {
            Err(IdentifyError::Refused { address: address.to_owned(), why: status.message().to_owned() })
        }
        Ok(Err(status)) => Err(unreachable(status.message().to_owned())),
        Err(_) => Err(unreachable(format!("no answer within {wait:?}"))),
    }
}
