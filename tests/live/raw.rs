//! The session stream itself, without the client: what was sent, what came back, in which order.

use std::collections::VecDeque;
use std::time::Duration;

use palisade_proto::v1;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::sessions_client::SessionsClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use super::PATIENCE;

/// Frames that may wait to be sent.
const UNSENT_MAX: usize = 64;

/// A session that nobody keeps alive but the test.
#[derive(Clone, Debug)]
pub(crate) struct RawSession {
    pub(crate) id: u64,
    pub(crate) secret: Vec<u8>,
}

/// One thing that came back.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Response(v1::Response),
    Event(v1::Event),
    Renewed(v1::Renewed),
    Leader(v1::Leader),
}

/// A stream to one node.
pub(crate) struct Raw {
    out: mpsc::Sender<v1::ClientFrame>,
    frames: Streaming<v1::ServerFrame>,
    seen: VecDeque<Seen>,
    tag: u64,
    /// Of the last news of the leader on this stream.
    pub(crate) generation: u64,
}

impl Raw {
    /// None when the node takes no stream now.
    pub(crate) async fn connect(channel: Channel) -> Option<Self> {
        let (out, frames) = mpsc::channel(UNSENT_MAX);
        let mut client = SessionsClient::new(channel);
        let opening = client.stream(ReceiverStream::new(frames));
        let frames = tokio::time::timeout(Duration::from_secs(2), opening).await.ok()?.ok()?.into_inner();
        Some(Self { out, frames, seen: VecDeque::new(), tag: 0, generation: 0 })
    }

    /// Sends a frame as it is.
    pub(crate) async fn send(&mut self, frame: v1::ClientFrame) {
        self.out.send(frame).await.expect("the stream is open");
    }

    /// Sends one request and waits for nothing; its tag.
    pub(crate) async fn send_op(&mut self, session: u64, op: Op) -> u64 {
        let request = self.request(session, op);
        let tag = request.tag;
        self.send(v1::ClientFrame { requests: vec![request], ..v1::ClientFrame::default() }).await;
        tag
    }

    /// A request with the next tag.
    pub(crate) fn request(&mut self, session: u64, op: Op) -> v1::Request {
        self.tag += 1;
        v1::Request { tag: self.tag, session, op: Some(op) }
    }

    /// The next thing that comes back; none when nothing does within `wait`, or the stream ended.
    pub(crate) async fn next(&mut self, wait: Duration) -> Option<Seen> {
        while self.seen.is_empty() {
            let frame = tokio::time::timeout(wait, self.frames.message()).await.ok()?.ok()??;
            self.take(frame);
        }
        self.seen.pop_front()
    }

    fn take(&mut self, frame: v1::ServerFrame) {
        if let Some(leader) = frame.leader {
            self.generation = leader.generation;
            self.seen.push_back(Seen::Leader(leader));
        }
        self.seen.extend(frame.renewed.map(Seen::Renewed));
        self.seen.extend(frame.items.into_iter().filter_map(|item| match item.item? {
            v1::item::Item::Response(response) => Some(Seen::Response(response)),
            v1::item::Item::Event(event) => Some(Seen::Event(event)),
        }));
    }

    /// Waits for the first thing that is looked for, and passes over the others.
    pub(crate) async fn find<T>(&mut self, what: &str, mut look: impl FnMut(&Seen) -> Option<T>) -> T {
        let finding = async {
            loop {
                let seen =
                    self.next(PATIENCE).await.unwrap_or_else(|| panic!("the stream ended before: {what}"));
                if let Some(found) = look(&seen) {
                    return found;
                }
            }
        };
        tokio::time::timeout(PATIENCE, finding).await.unwrap_or_else(|_| panic!("not in time: {what}"))
    }

    /// Waits for the response to a request.
    pub(crate) async fn response(&mut self, tag: u64) -> v1::Response {
        self.find("the response", |seen| match seen {
            Seen::Response(response) if response.tag == tag => Some(response.clone()),
            Seen::Response(_) | Seen::Event(_) | Seen::Renewed(_) | Seen::Leader(_) => None,
        })
        .await
    }

    /// Asks, and waits for the response.
    pub(crate) async fn ask(&mut self, session: u64, op: Op) -> v1::Response {
        let tag = self.send_op(session, op).await;
        self.response(tag).await
    }

    /// Binds a session to this stream.
    pub(crate) async fn bind(&mut self, session: &RawSession) -> v1::Bound {
        let answer = self.ask(session.id, Op::Bind(v1::Bind { secret: session.secret.clone() })).await;
        match answer.result {
            Some(v1::response::Result::Bound(bound)) => bound,
            other => panic!("not bound: {other:?}"),
        }
    }

    /// Asks, and has the grant.
    pub(crate) async fn granted(&mut self, session: u64, acquire: v1::Acquire) -> v1::Grant {
        match self.ask(session, Op::Acquire(acquire)).await.result {
            Some(v1::response::Result::Granted(grant)) => grant,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// Sends a keepalive.
    pub(crate) async fn send_renew(&mut self, number: u64, sessions: &[u64]) {
        let renew = Some(v1::Renew { number, sessions: sessions.to_vec(), report: None });
        self.send(v1::ClientFrame { renew, ..v1::ClientFrame::default() }).await;
    }

    /// Sends a keepalive, and waits for its answer.
    pub(crate) async fn renew(&mut self, number: u64, sessions: &[u64]) -> v1::Renewed {
        self.send_renew(number, sessions).await;
        self.find("the keepalive's answer", |seen| match seen {
            Seen::Renewed(renewed) if renewed.number == number => Some(renewed.clone()),
            Seen::Response(_) | Seen::Event(_) | Seen::Renewed(_) | Seen::Leader(_) => None,
        })
        .await
    }
}

/// Opens a session by a single call; the node draws the secret.
pub(crate) async fn open_session(channel: Channel, ttl: Duration, client: &str) -> RawSession {
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap();
    let open = v1::OpenSession { ttl_ms, client: client.to_owned(), ..v1::OpenSession::default() };
    let call = v1::OpenSessionCall { open: Some(open) };
    let opened = SessionsClient::new(channel).open(call).await.unwrap().into_inner();
    RawSession { id: opened.session, secret: opened.secret }
}

/// An acquire of one lock, without a lock-delay.
pub(crate) fn acquire(number: u64, lock: &str, wait: v1::wait::Kind) -> v1::Acquire {
    let part =
        v1::AcquirePart { lock: lock.to_owned(), lock_delay_ms: Some(0), ..v1::AcquirePart::default() };
    v1::Acquire {
        number,
        parts: vec![part],
        wait: Some(v1::Wait { kind: Some(wait) }),
        ..v1::Acquire::default()
    }
}

pub(crate) fn while_session() -> v1::wait::Kind {
    v1::wait::Kind::Session(true)
}

pub(crate) fn no_wait() -> v1::wait::Kind {
    v1::wait::Kind::None(true)
}

/// A release of what a grant of one lock gave.
pub(crate) fn release(grant: &v1::Grant) -> v1::Release {
    let part = &grant.parts[0];
    let acquisition = grant.acquisition;
    v1::Release { acquisition, lock: part.lock.clone(), slot: part.slot, token: part.token }
}

/// The stable name of an answer that is an error; empty for any other.
pub(crate) fn error_name(response: &v1::Response) -> &str {
    match &response.result {
        Some(v1::response::Result::Error(error)) => &error.name,
        _ => "",
    }
}

/// Whether a keepalive was acknowledged for a session.
pub(crate) fn acknowledges(renewed: &v1::Renewed, session: u64) -> bool {
    renewed.error.is_none() && renewed.ended.iter().all(|ended| ended.session != session)
}
