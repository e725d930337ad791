//! The answering side of the `Peer` service.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, Stream, StreamExt};
use openraft::errors::Fatal;
use openraft::raft::{TransferLeaderRequest, VoteRequest};

use palisade_core::table::LockTable;
use palisade_proto::raft::v1::peer_server::{Peer, PeerServer};
use palisade_proto::raft::v1::{Body, IdentifyAnswer, IdentifyRequest, RecordedMember};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::{Request, Response, Status, Streaming};

use crate::codec::DecodeError;
use crate::codec::peer::{
    MESSAGE_BYTES_MAX, SnapshotHead, SnapshotPart, cover_of, decode_append, decode_message, decode_part,
    encode_append_result, encode_message,
};
use crate::raft_replica::Replica;
use crate::snapshot_data::SnapshotData;
use crate::types::{Snapshot, Types};

/// Bytes of a snapshot that a peer may send.
const SNAPSHOT_BYTES_MAX: u64 = 8 << 30;
/// A snapshot whose next part does not come within this time is given up.
const PART_WAIT: Duration = Duration::from_secs(10);

type Answer<T> = Result<Response<T>, Status>;

/// Answers peers for one replica.
pub(crate) struct PeerService {
    replica: Replica,
}

impl PeerService {
    pub(crate) fn server(replica: Replica) -> PeerServer<Self> {
        PeerServer::new(Self { replica })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    #[allow(clippy::result_large_err)]
    fn open<T: DeserializeOwned>(&self, request: Request<Body>) -> Result<T, Status> {
        self.replica.credentials().admit(request.metadata())?;
        decode_message(&request.into_inner().body, "a peer's message").map_err(undecodable)
    }
}

fn undecodable(why: DecodeError) -> Status {
    tracing::warn!(%why, "could not read a peer's message");
    Status::invalid_argument(why.to_string())
}

fn stopped(fatal: Fatal<Types>) -> Status {
    Status::unavailable(format!("this node has stopped: {fatal}"))
}

fn answer(message: &impl Serialize) -> Answer<Body> {
    Ok(Response::new(Body { body: encode_message(message) }))
}

#[tonic::async_trait]
impl Peer for PeerService {
    type AppendStream = Pin<Box<dyn Stream<Item = Result<Body, Status>> + Send>>;

    async fn append(&self, request: Request<Streaming<Body>>) -> Answer<Self::AppendStream> {
        self.replica.credentials().admit(request.metadata())?;
        // A message that cannot be read ends the stream; the sender sees what it got no answer for.
        let appends = stream::unfold(request.into_inner(), |mut messages| async move {
            let message = messages.message().await.ok()??;
            let append = decode_append(message.body).map_err(undecodable).ok()?;
            Some((append, messages))
        });
        let appends = self.replica.intake().appends(appends);
        let heard = self.replica.heard().clone();
        let answers = self.replica.raft().stream_append(appends).map(move |result| {
            let result = result.map_err(stopped)?;
            heard.answered(&result);
            Ok(Body { body: encode_append_result(&result) })
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn vote(&self, request: Request<Body>) -> Answer<Body> {
        let request: VoteRequest<Types> = self.open(request)?;
        let result = self.replica.raft().vote(request).await;
        answer(&result.map_err(|error| Status::unavailable(error.to_string()))?)
    }

    async fn pre_vote(&self, request: Request<Body>) -> Answer<Body> {
        let request: VoteRequest<Types> = self.open(request)?;
        let result = self.replica.raft().pre_vote(request).await;
        answer(&result.map_err(|error| Status::unavailable(error.to_string()))?)
    }

    async fn transfer_leader(&self, request: Request<Body>) -> Answer<Body> {
        let request: TransferLeaderRequest<Types> = self.open(request)?;
        answer(&self.replica.raft().handle_transfer_leader(request).await.map_err(stopped)?)
    }

    async fn snapshot(&self, request: Request<Streaming<Body>>) -> Answer<Body> {
        self.replica.credentials().admit(request.metadata())?;
        let (head, snapshot) = collect(request.into_inner()).await?;
        let meta = cover_of(&snapshot).map_err(undecodable)?;
        let snapshot = Snapshot { meta, snapshot: SnapshotData::here(snapshot) };
        let installed = self.replica.intake().snapshot(self.replica.raft(), head.vote, snapshot).await;
        answer(&installed.map_err(|why| Status::unavailable(format!("this node has stopped: {why}")))?)
    }

    async fn identify(&self, request: Request<IdentifyRequest>) -> Answer<IdentifyAnswer> {
        let identity = self.replica.credentials().identity();
        let asked = request.into_inner().cluster_name;
        if asked != identity.cluster.as_str() {
            return Err(Status::failed_precondition(format!(
                "this node is of cluster {}, not of {asked}",
                identity.cluster
            )));
        }
        let introduction = self.replica.introduction();
        Ok(Response::new(IdentifyAnswer {
            cluster_name: identity.cluster.to_string(),
            node_name: identity.name.to_string(),
            node_id: identity.node.0,
            pristine: self.replica.is_pristine(),
            members: introduction.members,
            client_address: introduction.client_address,
            cluster_id: identity.cluster_id.map(|id| Bytes::copy_from_slice(&id.0)).unwrap_or_default(),
            recorded: self.replica.read(recorded),
        }))
    }
}

/// The members that the cluster was founded with.
fn recorded(table: &LockTable) -> Vec<RecordedMember> {
    let members = table.header().founding.iter().flat_map(|founding| &founding.members);
    members.map(|member| RecordedMember { name: member.name.to_string(), node_id: member.node.0 }).collect()
}

/// Puts the parts together and checks the whole.
async fn collect(mut parts: Streaming<Body>) -> Result<(SnapshotHead, Bytes), Status> {
    let SnapshotPart::Head(head) = next(&mut parts).await? else {
        return Err(Status::invalid_argument("a snapshot began without its head"));
    };
    if head.bytes > SNAPSHOT_BYTES_MAX {
        return Err(Status::resource_exhausted(format!("a snapshot of {} bytes is too large", head.bytes)));
    }
    let (mut snapshot, mut so_far) = (BytesMut::new(), crc32fast::Hasher::new());
    loop {
        match next(&mut parts).await? {
            SnapshotPart::Chunk(chunk) if (snapshot.len() + chunk.len()) as u64 <= head.bytes => {
                so_far.update(&chunk);
                snapshot.extend_from_slice(&chunk);
            }
            SnapshotPart::End(checksum)
                if snapshot.len() as u64 == head.bytes && so_far.clone().finalize() == checksum =>
            {
                return Ok((head, snapshot.freeze()));
            }
            SnapshotPart::Head(_) | SnapshotPart::Chunk(_) | SnapshotPart::End(_) => {
                return Err(Status::data_loss("the snapshot did not arrive as it was sent"));
            }
        }
    }
}

async fn next(parts: &mut Streaming<Body>) -> Result<SnapshotPart, Status> {
    let part = tokio::time::timeout(PART_WAIT, parts.message()).await;
    let part = part.map_err(|_| Status::deadline_exceeded("the snapshot stopped coming"))??;
    let part = part.ok_or_else(|| Status::cancelled("the snapshot ended early"))?;
    decode_part(part.body).map_err(undecodable)
}
