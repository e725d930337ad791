//! A node whose every answer the test writes. The wire, the connection and the client are real.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use palisade_client::{Client, ClientConfig, Session};
use palisade_core::ids::LockName;
use palisade_host::{Host, Incoming, ManualClock, Net, SystemEntropy, TcpNet, server};
use palisade_proto::v1;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use palisade_proto::v1::sessions_server::{Sessions, SessionsServer};
use palisade_proto::v1::watches_server::WatchesServer;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::watching::{Telling, Watching};

/// Long enough for a loaded machine; no test waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(20);

/// One node that listens on loopback.
pub(crate) struct Node {
    pub(crate) address: String,
    /// Watches that clients begin here.
    pub(crate) watches: mpsc::Receiver<Telling>,
    streams: mpsc::Receiver<Stream>,
    server: JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Node {
    pub(crate) async fn start() -> Self {
        let listener = TcpNet.listen("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (sender, streams) = mpsc::channel(16);
        let (watching, watches) = mpsc::channel(16);
        let server = tokio::spawn(async move {
            let service = SessionsServer::new(Door { streams: sender });
            let watches = WatchesServer::new(Watching(watching));
            let served = server(Duration::from_secs(10)).add_service(service).add_service(watches);
            served.serve_with_incoming(Incoming::new(listener)).await.expect("it serves");
        });
        Self { address, watches, streams, server }
    }

    /// The next stream that a client opens here, unannounced.
    pub(crate) async fn silent_stream(&mut self) -> Stream {
        timeout(PATIENCE, self.streams.recv()).await.expect("a stream in time").expect("a stream")
    }

    /// Whether no client has opened a stream that was not taken yet.
    pub(crate) fn is_unasked(&mut self) -> bool {
        self.streams.try_recv().is_err()
    }

    /// The next stream, told that this node leads.
    pub(crate) async fn stream(&mut self) -> Stream {
        let stream = self.silent_stream().await;
        stream.hello(64).await;
        stream
    }
}

struct Door {
    streams: mpsc::Sender<Stream>,
}

type Frames = Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::ServerFrame, Status>> + Send>>;

#[tonic::async_trait]
impl Sessions for Door {
    type StreamStream = Frames;

    async fn stream(&self, request: Request<Streaming<v1::ClientFrame>>) -> Result<Response<Frames>, Status> {
        let (answers, frames) = mpsc::channel(64);
        let stream = Stream {
            inbound: request.into_inner(),
            answers,
            heard: VecDeque::new(),
            renews: true,
            frames: Vec::new(),
        };
        self.streams.send(stream).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(frames))))
    }

    async fn open(&self, _: Request<v1::OpenSessionCall>) -> Result<Response<v1::SessionOpened>, Status> {
        Err(Status::unimplemented("clients use the stream"))
    }

    async fn list(&self, _: Request<v1::ListSessions>) -> Result<Response<v1::SessionList>, Status> {
        Err(Status::unimplemented("clients use the stream"))
    }

    async fn keep_alive(&self, _: Request<v1::KeepAliveCall>) -> Result<Response<v1::Renewed>, Status> {
        Err(Status::unimplemented("clients use the stream"))
    }

    async fn close(&self, _: Request<v1::CloseSessionCall>) -> Result<Response<v1::SessionClosed>, Status> {
        Err(Status::unimplemented("clients use the stream"))
    }
}

/// One stream, as the node sees it.
pub(crate) struct Stream {
    inbound: Streaming<v1::ClientFrame>,
    answers: mpsc::Sender<Result<v1::ServerFrame, Status>>,
    heard: VecDeque<v1::Request>,
    /// Whether keepalives are answered as they come.
    pub(crate) renews: bool,
    /// How many requests each frame so far carried.
    pub(crate) frames: Vec<usize>,
}

impl Stream {
    pub(crate) async fn say(&self, frame: v1::ServerFrame) {
        self.answers.send(Ok(frame)).await.expect("the client listens");
    }

    pub(crate) async fn hello(&self, window: u32) {
        let leader = Some(leader(1, true, ""));
        self.say(v1::ServerFrame { window, leader, ..v1::ServerFrame::default() }).await;
    }

    pub(crate) async fn leader(&self, leader: v1::Leader) {
        self.say(v1::ServerFrame { leader: Some(leader), ..v1::ServerFrame::default() }).await;
    }

    /// None once the client has left.
    pub(crate) async fn next_frame(&mut self) -> Option<v1::ClientFrame> {
        self.inbound.message().await.ok().flatten()
    }

    async fn frame(&mut self) -> v1::ClientFrame {
        let frame = timeout(PATIENCE, self.inbound.message()).await.expect("a frame in time");
        let frame = frame.expect("a whole frame").expect("a frame");
        self.frames.push(frame.requests.len());
        frame
    }

    /// The next request. Keepalives on the way are answered, or skipped.
    pub(crate) async fn request(&mut self) -> v1::Request {
        loop {
            if let Some(request) = self.heard.pop_front() {
                return request;
            }
            let frame = self.frame().await;
            self.heard.extend(frame.requests);
            if let Some(renew) = frame.renew
                && self.renews
            {
                self.renewed(renew.number).await;
            }
        }
    }

    /// The next keepalive, unanswered. Requests on the way are kept.
    pub(crate) async fn renew(&mut self) -> v1::Renew {
        loop {
            let frame = self.frame().await;
            self.heard.extend(frame.requests);
            if let Some(renew) = frame.renew {
                return renew;
            }
        }
    }

    pub(crate) async fn renewed(&self, number: u64) {
        let renewed = Some(v1::Renewed { number, ..v1::Renewed::default() });
        self.say(v1::ServerFrame { renewed, ..v1::ServerFrame::default() }).await;
    }

    /// Until the client has left this stream.
    pub(crate) async fn ended(mut self) {
        while let Ok(Some(_)) = timeout(PATIENCE, self.inbound.message()).await.expect("an end in time") {}
    }

    pub(crate) async fn respond(&self, to: &v1::Request, answer: Answer) {
        self.respond_so(to, answer, false).await;
    }

    pub(crate) async fn respond_so(&self, to: &v1::Request, answer: Answer, renewed: bool) {
        let response =
            v1::Response { tag: to.tag, session: to.session, index: 0, renewed, result: Some(answer) };
        self.item(v1::item::Item::Response(response)).await;
    }

    pub(crate) async fn refuse(&self, to: &v1::Request, name: &str) {
        let error = v1::Error { name: name.to_owned(), ..v1::Error::default() };
        self.respond(to, Answer::Error(error)).await;
    }

    pub(crate) async fn event(&self, session: u64, what: v1::event::What) {
        self.item(v1::item::Item::Event(v1::Event { session, index: 0, what: Some(what) })).await;
    }

    async fn item(&self, item: v1::item::Item) {
        let items = vec![v1::Item { item: Some(item) }];
        self.say(v1::ServerFrame { items, ..v1::ServerFrame::default() }).await;
    }

    pub(crate) async fn grant(&self, to: &v1::Request, token: u64) {
        let number = acquire(to).number;
        self.respond_so(to, Answer::Granted(granted(to.session, number, token)), true).await;
    }

    /// Ends this stream as a node that dies does; the client's next one, with its sessions bound.
    pub(crate) async fn broken(self, node: &mut Node, listed: Vec<v1::BoundAcquisition>) -> Self {
        drop(self);
        let mut stream = node.stream().await;
        stream.bind(listed).await;
        stream
    }

    pub(crate) async fn queue(&self, to: &v1::Request) {
        let acquisition = Some(v1::AcquisitionId { session: to.session, number: acquire(to).number });
        self.respond(to, Answer::Queued(v1::Queued { acquisition, place: 1 })).await;
    }

    /// Opens the session that the client asks for.
    pub(crate) async fn open(&mut self, session: u64) {
        let request = self.request().await;
        assert!(matches!(request.op, Some(Op::Open(_))), "{request:?}");
        self.opened(&request, session).await;
    }

    pub(crate) async fn opened(&self, to: &v1::Request, session: u64) {
        let opened = v1::SessionOpened { session, ttl_ms: 10_000, ..v1::SessionOpened::default() };
        self.respond(to, Answer::Opened(opened)).await;
    }

    /// Answers the binding that comes next with what waits or holds.
    pub(crate) async fn bind(&mut self, acquisitions: Vec<v1::BoundAcquisition>) -> v1::Request {
        let request = self.request().await;
        assert!(matches!(request.op, Some(Op::Bind(_))), "{request:?}");
        self.respond(&request, Answer::Bound(v1::Bound { acquisitions })).await;
        request
    }
}

pub(crate) fn leader(generation: u64, here: bool, client_address: &str) -> v1::Leader {
    let client_address = client_address.to_owned();
    v1::Leader { generation, here, client_address, ..v1::Leader::default() }
}

pub(crate) fn part(lock: &str, slot: u32, token: u64) -> v1::GrantedPart {
    v1::GrantedPart {
        lock: lock.to_owned(),
        slot,
        mode: v1::Mode::Exclusive.into(),
        token,
        lock_delay_ms: 15_000,
        inherited: None,
    }
}

pub(crate) fn granted(session: u64, number: u64, token: u64) -> v1::Grant {
    let part = part("orders", 0, token);
    let acquisition = Some(v1::AcquisitionId { session, number });
    v1::Grant { acquisition, grant_index: token, parts: vec![part], ..v1::Grant::default() }
}

/// What a request asks for.
pub(crate) fn acquire(request: &v1::Request) -> &v1::Acquire {
    match &request.op {
        Some(Op::Acquire(acquire)) => acquire,
        other => panic!("an acquire was expected, not {other:?}"),
    }
}

pub(crate) fn release(request: &v1::Request) -> &v1::Release {
    match &request.op {
        Some(Op::Release(release)) => release,
        other => panic!("a release was expected, not {other:?}"),
    }
}

pub(crate) fn cancel(request: &v1::Request) -> u64 {
    match &request.op {
        Some(Op::Cancel(cancel)) => cancel.number,
        other => panic!("a cancel was expected, not {other:?}"),
    }
}

pub(crate) fn cancelled(was: v1::cancelled::Was) -> Answer {
    Answer::Cancelled(v1::Cancelled { was: was.into(), ended: 0 })
}

pub(crate) fn released() -> Answer {
    Answer::Released(v1::Released { ended: v1::Ended::Released.into() })
}

/// A client on the manual clock.
pub(crate) fn client(endpoints: &[&Node], clock: &Arc<ManualClock>) -> Client {
    client_with(ClientConfig::new(endpoints.iter().map(|node| node.address.clone())), clock)
}

pub(crate) fn client_with(config: ClientConfig, clock: &Arc<ManualClock>) -> Client {
    let host = Host { clock: clock.clone(), net: Arc::new(TcpNet), entropy: Arc::new(SystemEntropy) };
    Client::new(config, host).expect("a client")
}

/// A node, a client and an open session, number 7, whose first keepalive is answered.
pub(crate) struct Scene {
    pub(crate) node: Node,
    pub(crate) stream: Stream,
    pub(crate) client: Client,
    pub(crate) session: Session,
    pub(crate) clock: Arc<ManualClock>,
}

impl Scene {
    pub(crate) async fn start() -> Self {
        Self::with(|config| config).await
    }

    pub(crate) async fn with(change: impl FnOnce(ClientConfig) -> ClientConfig) -> Self {
        let mut node = Node::start().await;
        let clock = Arc::new(ManualClock::default());
        clock.advance(Duration::from_secs(1_000));
        let client = client_with(change(ClientConfig::new([node.address.clone()])), &clock);
        let mut stream = node.stream().await;
        let (session, ()) = tokio::join!(client.open_session(), stream.open(7));
        let renew = stream.renew().await;
        assert_eq!(renew.sessions, [7]);
        stream.renewed(renew.number).await;
        Self { node, stream, client, session: session.expect("a session"), clock }
    }
}

impl Scene {
    /// Until the client has taken in all that was said before: a read's answer comes after it.
    pub(crate) async fn settle(&mut self) {
        let reading = tokio::spawn({
            let client = self.client.clone();
            async move { client.lock_view(&orders()).await }
        });
        let read = self.stream.request().await;
        self.stream.respond(&read, Answer::Lock(v1::LockView::default())).await;
        soon(reading).await.expect("it ran").expect("a view");
    }
}

pub(crate) fn orders() -> LockName {
    LockName::new("orders").expect("a name")
}

/// Within patience, or the test fails.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("in time")
}
