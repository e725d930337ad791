//! The relay: a follower passes its clients' frames on to the leader over one stream on the peer port, once; answers
//! and late grants come back the same way. A follower keeps no waiters.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use palisade_core::command::PublishKey;
use palisade_core::ids::{KeyId, NodeId, Principal, Term};
use palisade_proto::raft::v1::relay_client::RelayClient;
use palisade_proto::raft::v1::relay_frame::What;
use palisade_proto::raft::v1::relay_server;
use palisade_proto::raft::v1::{Hello, NodeStatusRequest, RelayFrame};
use palisade_proto::v1;
use palisade_raft::Replica;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::coordinator::{Attachment, Coordinator};
use crate::leadership;
use crate::status;
use crate::stream::{Deliver, LeaderInfo, Relay, Route, Router};

/// Frames of clients that wait to be sent to the leader.
const RELAY_QUEUE: usize = 1_024;
/// Items of one relayed frame at most.
const FRAME_ITEMS_MAX: usize = 1_024;
/// What a follower may leave unread before its relay is cut.
const UNREAD_MAX: usize = 1 << 20;
/// The leader must say within this time that it serves.
const LEADING_WAIT: Duration = Duration::from_secs(2);
/// How long a node lets a follower wait until it serves; the follower's own patience is longer.
const SERVING_WAIT: Duration = Duration::from_secs(1);
/// Between two attempts to reach the leader.
const RETRY: Duration = Duration::from_millis(50);
/// A silent connection is found dead within twice this.
const KEEPALIVE: Duration = Duration::from_secs(2);
/// Bytes of one relayed message.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Relays to `leader` for as long as it is polled.
pub(crate) async fn follow(
    coordinator: &Arc<Coordinator>,
    router: &Arc<Router>,
    replica: &Replica,
    leader: NodeId,
) {
    loop {
        let members = replica.members();
        let peer = members.into_iter().find(|(id, _, _)| *id == leader).map(|(_, peer, _)| peer);
        if let Some(peer) = peer {
            let info = LeaderInfo {
                node: leader,
                name: peer.name,
                client_address: peer.client_address,
                ..LeaderInfo::default()
            };
            if let Err(why) = relay(coordinator, router, replica, leader, &peer.peer_address, info).await {
                tracing::debug!(%why, leader = leader.0, "the relay to the leader ended");
            }
            router.set(coordinator, Route::Nowhere, LeaderInfo::default());
            replica.leader_lost(leader).await;
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn relay(
    coordinator: &Arc<Coordinator>,
    router: &Arc<Router>,
    replica: &Replica,
    leader: NodeId,
    address: &str,
    info: LeaderInfo,
) -> Result<(), Status> {
    let channel = palisade_host::channel(coordinator.host.net.clone(), address, KEEPALIVE)
        .map_err(|why| Status::internal(why.to_string()))?;
    let mut client = RelayClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let (frames, queue) = mpsc::channel(RELAY_QUEUE);
    let hello = Hello {
        node: coordinator.node.0,
        key_id: coordinator.signer.id().as_str().to_owned(),
        public_key: coordinator.signer.public().to_vec().into(),
    };
    let first = RelayFrame { what: Some(What::Hello(hello)), ..RelayFrame::default() };
    frames.send(first).await.map_err(|_| Status::unavailable("closed"))?;
    let mut request = Request::new(ReceiverStream::new(queue));
    replica.credentials().stamp(request.metadata_mut(), leader);
    let opened = async {
        let mut answers = client.link(request).await?.into_inner();
        match answers.next().await.transpose()?.and_then(|frame| frame.what) {
            Some(What::LeadingTerm(term)) => Ok((answers, Term(term))),
            _ => Err(Status::unavailable("the node does not lead")),
        }
    };
    let (mut answers, term) = match tokio::time::timeout(LEADING_WAIT, opened).await {
        Ok(opened) => opened?,
        Err(_) => return Err(Status::deadline_exceeded("the leader does not serve yet")),
    };
    router.set(coordinator, Route::There(Relay { frames }), LeaderInfo { term, ..info });
    while let Some(frame) = answers.next().await {
        let frame = frame?;
        match frame.what {
            Some(What::Server(server)) => router.deliver(frame.stream, server),
            Some(What::NotLeading(_)) => return Err(Status::unavailable("the leader stepped down")),
            Some(What::Client(_) | What::Closed(_) | What::LeadingTerm(_) | What::Hello(_)) | None => {}
        }
    }
    Ok(())
}

/// The leader's side.
pub(crate) struct RelayService {
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) replica: Replica,
}

#[tonic::async_trait]
impl relay_server::Relay for RelayService {
    type LinkStream = RelayAnswers;

    async fn link(&self, request: Request<Streaming<RelayFrame>>) -> Result<Response<RelayAnswers>, Status> {
        let from = self.replica.credentials().admit(request.metadata())?;
        // A follower hears of a new leader before that one serves: it waits here, and is answered the moment it does.
        let Ok(serving) = tokio::time::timeout(SERVING_WAIT, self.coordinator.starts_serving()).await else {
            return Err(Status::unavailable("this node does not lead, or does not serve yet"));
        };
        let queue = Arc::new(RelayQueue::default());
        queue.push(0, What::LeadingTerm(serving.term.0));
        let link = Link {
            coordinator: self.coordinator.clone(),
            replica: self.replica.clone(),
            queue: queue.clone(),
            streams: BTreeMap::new(),
            from,
        };
        let task = tokio::spawn(link.run(request.into_inner(), serving));
        Ok(Response::new(RelayAnswers { queue, task }))
    }

    async fn node_status(
        &self,
        request: Request<NodeStatusRequest>,
    ) -> Result<Response<v1::NodeStatus>, Status> {
        self.replica.credentials().admit(request.metadata())?;
        Ok(Response::new(status::own(&self.coordinator, &self.replica)))
    }
}

/// Asks another node for its own view.
pub(crate) async fn node_status(
    coordinator: &Coordinator,
    replica: &Replica,
    node: NodeId,
    address: &str,
) -> Result<v1::NodeStatus, Status> {
    let channel = palisade_host::channel(coordinator.host.net.clone(), address, KEEPALIVE)
        .map_err(|why| Status::internal(why.to_string()))?;
    let mut request = Request::new(NodeStatusRequest {});
    replica.credentials().stamp(request.metadata_mut(), node);
    Ok(RelayClient::new(channel).node_status(request).await?.into_inner())
}

/// One follower's relay, at the leader.
struct Link {
    coordinator: Arc<Coordinator>,
    replica: Replica,
    queue: Arc<RelayQueue>,
    streams: BTreeMap<u64, Arc<Attachment>>,
    from: NodeId,
}

impl Link {
    async fn run(mut self, mut frames: Streaming<RelayFrame>, serving: crate::coordinator::Serving) {
        loop {
            let frame = tokio::select! {
                frame = frames.next() => frame,
                () = self.coordinator.stopped_serving(serving) => None,
            };
            match frame {
                Some(Ok(frame)) => self.take(frame).await,
                Some(Err(_)) | None => break,
            }
        }
    }

    async fn take(&mut self, frame: RelayFrame) {
        let received = self.coordinator.host.clock.now();
        match frame.what {
            Some(What::Client(client)) => {
                let attachment = self.attachment(frame.stream, &frame.principal, frame.single);
                self.coordinator.handle(&attachment, client, received).await;
            }
            Some(What::Closed(_)) => {
                if let Some(attachment) = self.streams.remove(&frame.stream) {
                    self.coordinator.detach(&attachment);
                }
            }
            Some(What::Hello(hello)) => self.publish(hello),
            Some(What::Server(_) | What::LeadingTerm(_) | What::NotLeading(_)) | None => {}
        }
    }

    /// A member's key goes through the log; the member is who its credentials say.
    fn publish(&self, hello: Hello) {
        let key = KeyId::new(&hello.key_id);
        let (Ok(key), Ok(public)) = (key, <[u8; 32]>::try_from(hello.public_key.as_ref())) else { return };
        let (replica, node) = (self.replica.clone(), self.from);
        if node == NodeId(hello.node) {
            tokio::spawn(async move {
                let publish = leadership::publish_key(&replica, PublishKey { node, key, public });
                // A leader that loses its place leaves it to the next one.
                let _ = tokio::time::timeout(Duration::from_secs(10), publish).await;
            });
        }
    }

    fn attachment(&mut self, stream: u64, principal: &str, single: bool) -> Arc<Attachment> {
        let known = self.streams.entry(stream).or_insert_with(|| {
            let principal = Principal::new(principal).unwrap_or_else(|_| Principal::anonymous());
            let to: Arc<dyn Deliver> = Arc::new(RelayedStream { stream, single, queue: self.queue.clone() });
            let attachment = Attachment::new(to, principal, single);
            self.coordinator.attach(&attachment);
            attachment
        });
        known.clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for attachment in self.streams.values() {
            self.coordinator.detach(attachment);
        }
        self.queue.push(0, What::NotLeading(true));
        self.queue.end();
    }
}

/// What goes back over one relay, for all its streams, in log order.
#[derive(Default)]
struct RelayQueue {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Answers to keepalives go first: a lease is counted from the receipt of its keepalive, whatever waits.
    renewed: VecDeque<(u64, v1::Renewed)>,
    parts: VecDeque<(u64, Part)>,
    ended: bool,
    waker: Option<Waker>,
}

enum Part {
    Item(v1::Item),
    Other(What),
}

impl RelayQueue {
    fn push(&self, stream: u64, what: What) {
        self.with(|inner| inner.parts.push_back((stream, Part::Other(what))));
    }

    fn end(&self) {
        self.with(|inner| inner.ended = true);
    }

    fn with(&self, change: impl FnOnce(&mut Inner)) {
        let waker = {
            let mut inner = self.inner.lock();
            change(&mut inner);
            if inner.parts.len() + inner.renewed.len() > UNREAD_MAX {
                inner.parts.clear();
                inner.renewed.clear();
                inner.ended = true;
            }
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next frame: as many items in a row as go to one stream.
    fn poll_frame(&self, context: &mut Context<'_>) -> Poll<Option<RelayFrame>> {
        let mut inner = self.inner.lock();
        let head = matches!(inner.parts.front(), Some((_, Part::Other(What::LeadingTerm(_)))));
        if !head && let Some((stream, renewed)) = inner.renewed.pop_front() {
            let frame = v1::ServerFrame { renewed: Some(renewed), ..v1::ServerFrame::default() };
            return Poll::Ready(Some(RelayFrame {
                stream,
                what: Some(What::Server(frame)),
                ..RelayFrame::default()
            }));
        }
        let Some((stream, first)) = inner.parts.pop_front() else {
            if inner.ended {
                return Poll::Ready(None);
            }
            inner.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        let what = match first {
            Part::Other(what) => what,
            Part::Item(item) => {
                let mut items = vec![item];
                while items.len() < FRAME_ITEMS_MAX
                    && matches!(inner.parts.front(), Some((next, Part::Item(_))) if *next == stream)
                {
                    if let Some((_, Part::Item(item))) = inner.parts.pop_front() {
                        items.push(item);
                    }
                }
                What::Server(v1::ServerFrame { items, ..v1::ServerFrame::default() })
            }
        };
        Poll::Ready(Some(RelayFrame { stream, what: Some(what), ..RelayFrame::default() }))
    }
}

/// A client stream of a follower, as the leader answers it.
struct RelayedStream {
    stream: u64,
    single: bool,
    queue: Arc<RelayQueue>,
}

impl Deliver for RelayedStream {
    fn item(&self, item: v1::Item) {
        self.queue.with(|inner| inner.parts.push_back((self.stream, Part::Item(item))));
    }

    fn hint(&self, item: v1::Item) {
        self.item(item);
    }

    fn renewed(&self, renewed: v1::Renewed) {
        if self.single {
            // Its caller hears first why it could not be bound.
            let frame = v1::ServerFrame { renewed: Some(renewed), ..v1::ServerFrame::default() };
            return self.queue.push(self.stream, What::Server(frame));
        }
        self.queue.with(|inner| inner.renewed.push_back((self.stream, renewed)));
    }
}

/// The transport's end of a relay. Dropped, it ends the relay's task.
pub(crate) struct RelayAnswers {
    queue: Arc<RelayQueue>,
    task: tokio::task::JoinHandle<()>,
}

impl Stream for RelayAnswers {
    type Item = Result<RelayFrame, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.queue.poll_frame(context).map(|frame| frame.map(Ok))
    }
}

impl Drop for RelayAnswers {
    fn drop(&mut self) {
        self.task.abort();
    }
}
