//! The calling side: openraft's network over the `Peer` service.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{NetworkError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::v2::RaftNetworkV2;
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory};

use openraft::OptionalSend;
use openraft::raft::{
    AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, TransferLeaderResponse, VoteRequest,
    VoteResponse,
};
use palisade_core::ids::NodeId;
use palisade_host::{SharedNet, channel};
use palisade_proto::raft::v1::Body;
use palisade_proto::raft::v1::peer_client::PeerClient as Grpc;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use super::Patience;
use super::credentials::Credentials;
use super::outbound::{Outbound, Unanswered};
use crate::codec::peer::{
    CHUNK_BYTES, MESSAGE_BYTES_MAX, SnapshotHead, SnapshotPart, decode_append_result, decode_message,
    encode_append, encode_message, encode_part,
};
use crate::replica::PeerNode;
use crate::snapshot_data::SnapshotData;
use crate::types::{AppendRequest, AppendResult, RpcError, Snapshot, Types, Vote};

/// Makes clients for openraft, and keeps the connections that they share.
pub(crate) struct Peers {
    net: SharedNet,
    credentials: Arc<Credentials>,
    patience: Patience,
    node: u64,
    connections: Mutex<BTreeMap<String, Connections>>,
}

/// Two connections to one peer.
#[derive(Clone)]
struct Connections {
    bulk: Grpc<Channel>,
    small: Grpc<Channel>,
}

impl Peers {
    pub(crate) fn new(net: SharedNet, credentials: Arc<Credentials>, patience: Patience, node: u64) -> Self {
        Self { net, credentials, patience, node, connections: Mutex::default() }
    }

    fn connect(&self, address: &str) -> Result<Connections, String> {
        let mut connections = self.connections.lock();
        if let Some(known) = connections.get(address) {
            return Ok(known.clone());
        }
        let open = || {
            let opened = channel(self.net.clone(), address, self.patience.keepalive);
            let grpc = opened.map(|channel| Grpc::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX));
            grpc.map_err(|why| format!("{address} is no address: {why}"))
        };
        let made = Connections { bulk: open()?, small: open()? };
        connections.insert(address.to_owned(), made.clone());
        Ok(made)
    }

    fn client(&self, target: u64, node: &PeerNode, heartbeats: bool) -> PeerClient {
        let connections = self.connect(&node.peer_address);
        let (credentials, patience) = (self.credentials.clone(), self.patience);
        PeerClient { node: self.node, target, connections, heartbeats, beats: None, credentials, patience }
    }
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = PeerClient;

    async fn new_client(&mut self, target: u64, node: &PeerNode) -> PeerClient {
        self.client(target, node, false)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &PeerNode) -> PeerClient {
        self.client(target, node, true)
    }
}

/// Speaks to one peer.
pub(crate) struct PeerClient {
    node: u64,
    target: u64,
    connections: Result<Connections, String>,
    heartbeats: bool,
    /// The stream that heartbeats share, while all of them are answered.
    beats: Option<Beats>,
    credentials: Arc<Credentials>,
    patience: Patience,
}

/// A stream on which one request is under way at a time.
struct Beats {
    requests: mpsc::Sender<Body>,
    answers: Streaming<Body>,
}

impl PeerClient {
    /// One heartbeat. openraft gives each a call of its own, and drops one that takes long; here they share a stream for
    /// as long as each is answered well.
    async fn beat(&mut self, request: &AppendRequest) -> Result<AppendResult, RpcError> {
        let request = Body { body: encode_append(request) };
        let stalled = self.patience.stalled;
        let beats = self.beats.take();
        let beat = tokio::time::timeout(stalled, self.beat_on(beats, request)).await;
        let (beats, answer) = beat.map_err(|_| self.too_late(RPCTypes::AppendEntries, stalled))??;
        self.beats = answer.is_ok().then_some(beats);
        Ok(answer)
    }

    async fn beat_on(&self, beats: Option<Beats>, request: Body) -> Result<(Beats, AppendResult), RpcError> {
        let mut beats = match beats {
            Some(beats) => {
                // A stream that ended says so where its answer would come.
                let _ = beats.requests.send(request).await;
                beats
            }
            None => {
                let (requests, queue) = mpsc::channel(1);
                let _ = requests.send(request).await;
                let call = self.request(ReceiverStream::new(queue));
                let answers = self.small()?.append(call).await.map_err(|status| refused(&status))?;
                Beats { requests, answers: answers.into_inner() }
            }
        };
        let answer = beats.answers.message().await.map_err(|status| refused(&status))?;
        let answer = answer.ok_or_else(|| Unreachable::from_string("the peer closed the stream"))?;
        let answer = decode_append_result(&answer.body).map_err(|why| NetworkError::new(&why))?;
        Ok((beats, answer))
    }

    fn small(&self) -> Result<Grpc<Channel>, RpcError> {
        self.connected().map(|connections| connections.small.clone())
    }

    fn connected(&self) -> Result<&Connections, RpcError> {
        self.connections.as_ref().map_err(|why| Unreachable::from_string(why).into())
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        self.credentials.stamp(request.metadata_mut(), NodeId(self.target));
        request
    }

    fn body(&self, message: &impl Serialize) -> Request<Body> {
        self.request(Body { body: encode_message(message) })
    }

    fn too_late(&self, action: RPCTypes, timeout: Duration) -> RpcError {
        Timeout { action, id: self.node, target: self.target, timeout }.into()
    }

    /// One small answer within `ttl`.
    async fn answer<T: DeserializeOwned>(
        &self,
        action: RPCTypes,
        ttl: Duration,
        call: impl Future<Output = Result<Response<Body>, Status>>,
    ) -> Result<T, RpcError> {
        match tokio::time::timeout(ttl, call).await {
            Ok(Ok(answer)) => decode_message(&answer.into_inner().body, "an answer of a peer")
                .map_err(|why| NetworkError::new(&why).into()),
            Ok(Err(status)) => Err(refused(&status)),
            Err(_) => Err(self.too_late(action, ttl)),
        }
    }
}

/// Whatever went wrong on the way, the peer is left alone for a moment: openraft waits before it tries an unreachable
/// one again, and tries at once after any other failure. A peer whose connections break as soon as they are made must
/// not be called in a tight loop.
fn refused(status: &Status) -> RpcError {
    Unreachable::from_string(status.message()).into()
}

impl RaftNetworkV2<Types> for PeerClient {
    type SnapshotData = SnapshotData;

    /// openraft asks through [`stream_append`](Self::stream_append) alone.
    async fn append_entries(
        &mut self,
        _request: AppendRequest,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RpcError> {
        Err(Unreachable::from_string("appends go through their stream").into())
    }

    /// openraft's backoff is a delay before the input's first request: so that is awaited before anything is dialled,
    /// or a dead peer would be dialled in a tight loop.
    fn stream_append<'s, S>(
        &'s mut self,
        mut input: S,
        _option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<AppendResult, RpcError>>, RpcError>>
    where
        S: futures_util::Stream<Item = AppendRequest> + OptionalSend + Unpin + 'static,
    {
        Box::pin(async move {
            if self.heartbeats {
                let answers = stream::unfold((self, input), |(client, mut input)| async move {
                    let request = input.next().await?;
                    Some((client.beat(&request).await, (client, input)))
                });
                return Ok(answers.boxed() as BoxStream<'s, _>);
            }
            let Some(first) = input.next().await else {
                return Ok(stream::empty().boxed() as BoxStream<'s, _>);
            };
            let input = stream::iter([first]).chain(input);
            let connections = self.connected()?;
            let mut grpc = connections.bulk.clone();
            let unanswered = Unanswered::default();
            let outbound = Outbound::new(input, unanswered.clone());
            let outbound = outbound.map(|request| Body { body: encode_append(&request) });
            let stalled = self.patience.stalled;
            let inbound = match tokio::time::timeout(stalled, grpc.append(self.request(outbound))).await {
                Ok(Ok(answers)) => answers.into_inner(),
                Ok(Err(status)) => return Err(refused(&status)),
                Err(_) => return Err(self.too_late(RPCTypes::AppendEntries, stalled)),
            };
            let too_late = self.too_late(RPCTypes::AppendEntries, stalled);
            let answers = Answers { inbound, unanswered, stalled, too_late };
            let answers = stream::unfold(Some(answers), |answers| async move {
                let mut answers = answers?;
                let next = answers.next().await?;
                let goes_on = matches!(next, Ok(Ok(_)));
                Some((next, goes_on.then_some(answers)))
            });
            Ok(answers.boxed() as BoxStream<'s, _>)
        })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RpcError> {
        let mut grpc = self.small()?;
        self.answer(RPCTypes::Vote, self.patience.small, grpc.vote(self.body(&request))).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RpcError> {
        let mut grpc = self.small()?;
        self.answer(RPCTypes::Vote, self.patience.small, grpc.pre_vote(self.body(&request))).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let mut grpc = self.connected()?.bulk.clone();
        let snapshot = snapshot.snapshot.bytes().await;
        let snapshot = snapshot.map_err(|why| RpcError::from(Unreachable::from_string(why)))?;
        let request = self.request(parts(vote, snapshot));
        let call = self.answer(RPCTypes::InstallSnapshot, option.hard_ttl(), grpc.snapshot(request));
        tokio::select! {
            biased;
            closed = cancel => Err(closed.into()),
            answer = call => Ok(answer?),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        _option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RpcError> {
        let mut grpc = self.small()?;
        let call = grpc.transfer_leader(self.body(&request));
        self.answer(RPCTypes::TransferLeader, self.patience.small, call).await
    }
}

/// A snapshot, cut up as it is sent. Its checksum is made along the way: to go over all of it at one time would stop this
/// node for as long.
fn parts(vote: Vote, snapshot: Bytes) -> impl futures_util::Stream<Item = Body> + Send + 'static {
    let head = SnapshotPart::Head(SnapshotHead { vote, bytes: snapshot.len() as u64 });
    let chunks = stream::unfold(Some((snapshot, crc32fast::Hasher::new())), |left| async move {
        let (mut snapshot, mut checksum) = left?;
        if snapshot.is_empty() {
            return Some((SnapshotPart::End(checksum.finalize()), None));
        }
        let chunk = snapshot.split_to(snapshot.len().min(CHUNK_BYTES));
        checksum.update(&chunk);
        Some((SnapshotPart::Chunk(chunk), Some((snapshot, checksum))))
    });
    stream::iter([head]).chain(chunks).map(|part| Body { body: encode_part(&part) })
}

struct Answers {
    inbound: Streaming<Body>,
    unanswered: Unanswered,
    stalled: Duration,
    too_late: RpcError,
}

impl Answers {
    /// The next answer. A stream that owes one for too long is an error: the network may have swallowed it.
    async fn next(&mut self) -> Option<Result<AppendResult, RpcError>> {
        loop {
            let oldest = self.unanswered.oldest();
            let until = oldest.unwrap_or_else(Instant::now) + self.stalled;
            match tokio::time::timeout_at(until, self.inbound.message()).await {
                Ok(Ok(Some(answer))) => {
                    self.unanswered.answered();
                    return Some(
                        decode_append_result(&answer.body).map_err(|why| NetworkError::new(&why).into()),
                    );
                }
                Ok(Ok(None)) if self.unanswered.oldest().is_none() => return None,
                Ok(Ok(None)) => {
                    return Some(Err(Unreachable::from_string("the peer closed the stream").into()));
                }
                Ok(Err(status)) => return Some(Err(refused(&status))),
                Err(_) if self.unanswered.oldest().is_some_and(|at| at.elapsed() >= self.stalled) => {
                    return Some(Err(self.too_late.clone()));
                }
                Err(_) => {}
            }
        }
    }
}
