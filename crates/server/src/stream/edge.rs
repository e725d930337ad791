//! The edge: every node accepts every call, and passes it on once.
//!
//! A change of route raises the generation, and every stream is told. What a client had unanswered it then asks
//! again, under the same numbers; so nothing here needs to survive such a change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use palisade_core::ids::{NodeId, Principal, Term};
use palisade_proto::raft::v1::{RelayFrame, relay_frame};
use palisade_proto::v1::{self, ClientFrame};
use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::{ClientQueue, Deliver};
use crate::coordinator::{Attachment, Coordinator};
use crate::error;

/// The way to the leader.
#[derive(Clone)]
pub(crate) struct Relay {
    pub(crate) frames: mpsc::Sender<RelayFrame>,
}

/// Where frames go.
#[derive(Clone)]
pub(crate) enum Route {
    /// No leader is known, or it does not serve yet.
    Nowhere,
    /// This node leads and serves.
    Here,
    /// Another node does.
    There(Relay),
}

/// Who leads, as clients are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaderInfo {
    pub(crate) node: NodeId,
    pub(crate) name: String,
    pub(crate) client_address: String,
    /// In which it serves.
    pub(crate) term: Term,
}

struct Current {
    generation: u64,
    route: Route,
    leader: LeaderInfo,
}

/// All client streams of this node, and the route that they share.
pub(crate) struct Router {
    current: RwLock<Current>,
    streams: Mutex<BTreeMap<u64, Weak<EdgeStream>>>,
    next_stream: AtomicU64,
}

impl Router {
    pub(crate) fn new() -> Self {
        let current = Current { generation: 1, route: Route::Nowhere, leader: LeaderInfo::default() };
        Self { current: RwLock::new(current), streams: Mutex::default(), next_stream: AtomicU64::new(1) }
    }

    /// What a client is told of the leader now.
    pub(crate) fn leader(&self) -> v1::Leader {
        self.current.read().leader_frame()
    }

    /// Client streams, single calls included.
    pub(crate) fn stream_count(&self) -> usize {
        self.streams.lock().len()
    }

    /// Changes the route of every stream and tells each.
    pub(crate) fn set(&self, coordinator: &Coordinator, route: Route, leader: LeaderInfo) {
        {
            let mut current = self.current.write();
            if matches!((&route, &current.route), (Route::Nowhere, Route::Nowhere))
                && current.leader == leader
            {
                return;
            }
            current.generation += 1;
            current.route = route;
            current.leader = leader;
        }
        let streams: Vec<Arc<EdgeStream>> = self.streams.lock().values().filter_map(Weak::upgrade).collect();
        for stream in streams {
            stream.reroute(coordinator, &self.current.read());
        }
    }

    /// A stream of a client of this node.
    pub(crate) fn open(
        self: &Arc<Self>,
        coordinator: &Arc<Coordinator>,
        principal: Principal,
        single: bool,
    ) -> Arc<EdgeStream> {
        let current = self.current.read();
        let window = coordinator.config.door.window;
        let stream = Arc::new(EdgeStream {
            id: self.next_stream.fetch_add(1, Ordering::Relaxed),
            queue: Arc::new(ClientQueue::new(window, current.leader_frame())),
            principal,
            single,
            coordinator: coordinator.clone(),
            router: self.clone(),
            unanswered: AtomicUsize::new(0),
            attached: Mutex::new(Attached { generation: 0, attachment: None }),
        });
        self.streams.lock().insert(stream.id, Arc::downgrade(&stream));
        stream.reroute(coordinator, &current);
        stream
    }

    /// Hands what the leader sent to the stream that it is for.
    pub(crate) fn deliver(&self, stream: u64, frame: v1::ServerFrame) {
        let Some(stream) = self.streams.lock().get(&stream).and_then(Weak::upgrade) else { return };
        for item in frame.items {
            stream.queue.item(item);
        }
        if let Some(renewed) = frame.renewed {
            stream.queue.renewed(renewed);
        }
    }

    /// Ends every stream with `status`, after what is queued.
    pub(crate) fn end_all(&self, status: &tonic::Status) {
        for stream in self.streams.lock().values().filter_map(Weak::upgrade) {
            stream.queue.end(status.clone());
        }
    }
}

impl Current {
    fn leader_frame(&self) -> v1::Leader {
        v1::Leader {
            generation: self.generation,
            node: self.leader.node.0,
            name: self.leader.name.clone(),
            client_address: self.leader.client_address.clone(),
            here: matches!(self.route, Route::Here),
            term: self.leader.term.0,
        }
    }
}

/// One client stream of this node, or one single call.
pub(crate) struct EdgeStream {
    id: u64,
    /// What goes back.
    pub(crate) queue: Arc<ClientQueue>,
    principal: Principal,
    single: bool,
    coordinator: Arc<Coordinator>,
    router: Arc<Router>,
    unanswered: AtomicUsize,
    attached: Mutex<Attached>,
}

struct Attached {
    generation: u64,
    attachment: Option<Arc<Attachment>>,
}

impl EdgeStream {
    fn reroute(&self, coordinator: &Coordinator, current: &Current) {
        let old = {
            let mut attached = self.attached.lock();
            if attached.generation >= current.generation {
                return;
            }
            let fresh = matches!(current.route, Route::Here).then(|| {
                let to: Arc<dyn Deliver> = self.queue.clone();
                let attachment = Attachment::new(to, self.principal.clone(), self.single);
                coordinator.attach(&attachment);
                attachment
            });
            attached.generation = current.generation;
            std::mem::replace(&mut attached.attachment, fresh)
        };
        if let Some(old) = old {
            coordinator.detach(&old);
        }
        self.queue.take_answered();
        self.unanswered.store(0, Ordering::Relaxed);
        self.queue.leader(current.leader_frame());
    }

    /// Takes a frame from the client.
    ///
    /// # Errors
    ///
    /// When the client broke the bounds of its stream: the stream ends with this status.
    pub(crate) async fn frame(&self, frame: ClientFrame) -> Result<(), tonic::Status> {
        let received = self.coordinator.host.clock.now();
        let door = &self.coordinator.config.door;
        if frame.requests.len() > door.frame_requests_max {
            let words = format!(
                "a frame has {} requests; at most {} are allowed",
                frame.requests.len(),
                door.frame_requests_max
            );
            return Err(tonic::Status::resource_exhausted(words));
        }
        let (generation, route) = {
            let current = self.router.current.read();
            (current.generation, current.route.clone())
        };
        if frame.generation != 0 && frame.generation != generation {
            return Ok(());
        }
        self.count(frame.requests.len())?;
        match route {
            Route::Nowhere => {
                self.refuse(frame.requests, &error::no_quorum());
                if let Some(renew) = frame.renew {
                    let error = Some(error::no_quorum());
                    self.queue.renewed(v1::Renewed { number: renew.number, ended: Vec::new(), error });
                }
            }
            Route::Here => {
                // A change of route in between voids the frame, as it would have voided one that came a moment later.
                let attachment = {
                    let attached = self.attached.lock();
                    attached.attachment.clone().filter(|_| attached.generation == generation)
                };
                if let Some(attachment) = attachment {
                    self.coordinator.handle(&attachment, frame, received).await;
                }
            }
            Route::There(relay) => {
                // A relay that is gone loses the frame; the route changes, and the client asks again.
                match relay.frames.try_reserve() {
                    Ok(room) => room.send(self.relayed(relay_frame::What::Client(frame))),
                    Err(TrySendError::Closed(())) => {}
                    Err(TrySendError::Full(())) => self.relay_renewal(&relay, frame).await,
                }
            }
        }
        Ok(())
    }

    /// Takes a frame whose requests are refused at the door. Its keepalive goes on: that nobody loses a lease by asking
    /// too often.
    ///
    /// # Errors
    ///
    /// As [`Self::frame`].
    pub(crate) async fn frame_refused(
        &self,
        mut frame: ClientFrame,
        error: &v1::Error,
    ) -> Result<(), tonic::Status> {
        let requests = std::mem::take(&mut frame.requests);
        self.count(requests.len())?;
        self.refuse(requests, error);
        if frame.renew.is_some() { self.frame(frame).await } else { Ok(()) }
    }

    /// The relay is full. Requests are refused; a keepalive, and the binding that it needs, wait for their place.
    async fn relay_renewal(&self, relay: &Relay, mut frame: ClientFrame) {
        let binds = |request: &v1::Request| matches!(request.op, Some(v1::request::Op::Bind(_)));
        let (binding, refused) = std::mem::take(&mut frame.requests).into_iter().partition(binds);
        self.refuse(refused, &error::overloaded());
        frame.requests = binding;
        if frame.renew.is_some() || !frame.requests.is_empty() {
            let _ = relay.frames.send(self.relayed(relay_frame::What::Client(frame))).await;
        }
    }

    fn count(&self, requests: usize) -> Result<(), tonic::Status> {
        let window = self.coordinator.config.door.window as usize;
        let answered = self.queue.take_answered();
        let before = self.unanswered.load(Ordering::Relaxed).saturating_sub(answered);
        let now = before + requests;
        self.unanswered.store(now, Ordering::Relaxed);
        if now > window {
            let words = format!("{now} requests of this stream are unanswered; its window is {window}");
            return Err(tonic::Status::resource_exhausted(words));
        }
        Ok(())
    }

    fn refuse(&self, requests: Vec<v1::Request>, error: &v1::Error) {
        for request in requests {
            let response = error::response(request.tag, request.session, error.clone());
            self.queue.item(v1::Item { item: Some(v1::item::Item::Response(response)) });
        }
    }

    fn relayed(&self, what: relay_frame::What) -> RelayFrame {
        RelayFrame {
            stream: self.id,
            what: Some(what),
            principal: self.principal.as_str().to_owned(),
            single: self.single,
        }
    }
}

impl Drop for EdgeStream {
    fn drop(&mut self) {
        self.router.streams.lock().remove(&self.id);
        if let Some(attachment) = self.attached.lock().attachment.take() {
            self.coordinator.detach(&attachment);
        }
        let relay = match &self.router.current.read().route {
            Route::There(relay) => relay.clone(),
            Route::Here | Route::Nowhere => return,
        };
        // A full relay must not hold the drop; the leader also forgets the stream with the relay itself.
        let _ = relay.frames.try_send(self.relayed(relay_frame::What::Closed(true)));
    }
}
