//! The connection: to which node, and when to try another.

use std::time::Duration;

use palisade_host::{BoxFuture, Host, channel};
use palisade_proto::v1::sessions_client::SessionsClient;
use palisade_proto::v1::{ClientFrame, ServerFrame};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// Time for a connection, the stream and its first frame, at most.
const OPEN_TIMEOUT_MAX: Duration = Duration::from_secs(3);
/// Frames that wait to be written; what is behind them is still ours to order and to batch.
const FRAMES_MAX: usize = 4;
/// Bytes of one frame. Many answers can share one.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// Shortest rest after a failed attempt.
const REST_MIN: Duration = Duration::from_millis(20);
/// Longest.
const REST_MAX: Duration = Duration::from_secs(1);
/// How long a leader that could not be reached is not followed.
const AVOID: Duration = Duration::from_secs(5);
/// How long to stay with a node that knows no leader, at least; up to twice as long.
const LEADERLESS: Duration = Duration::from_millis(750);

/// An open stream and its first frame.
pub(super) struct Opened {
    pub(super) outbound: mpsc::Sender<ClientFrame>,
    pub(super) inbound: Streaming<ServerFrame>,
    pub(super) first: ServerFrame,
}

/// What the connection is doing.
pub(super) enum Link {
    Resting(Instant),
    Connecting(BoxFuture<'static, Result<Opened, String>>),
    Up(Box<Streaming<ServerFrame>>),
}

/// What came of it.
pub(super) enum Happened {
    Rested,
    Opened(Box<Opened>),
    Frame(ServerFrame),
    Failed(String),
}

impl Link {
    /// Loses nothing when it is dropped before it ends.
    pub(super) async fn next(&mut self) -> Happened {
        match self {
            Self::Resting(until) => {
                sleep_until(*until).await;
                Happened::Rested
            }
            Self::Connecting(attempt) => match attempt.as_mut().await {
                Ok(opened) => Happened::Opened(Box::new(opened)),
                Err(why) => Happened::Failed(why),
            },
            Self::Up(inbound) => match inbound.message().await {
                Ok(Some(frame)) => Happened::Frame(frame),
                Ok(None) => Happened::Failed("the node ended the stream".to_owned()),
                Err(status) => Happened::Failed(status.message().to_owned()),
            },
        }
    }
}

async fn open(host: Host, address: String, keepalive: Duration) -> Result<Opened, String> {
    let attempt = async {
        let channel = channel(host.net, &address, keepalive).map_err(|error| error.to_string())?;
        let mut sessions = SessionsClient::new(channel).max_decoding_message_size(FRAME_BYTES_MAX);
        let (outbound, frames) = mpsc::channel(FRAMES_MAX);
        let answer = sessions.stream(ReceiverStream::new(frames)).await.map_err(describe)?;
        let mut inbound = answer.into_inner();
        match inbound.message().await.map_err(describe)? {
            Some(first) => Ok(Opened { outbound, inbound, first }),
            None => Err("the node ended the stream".to_owned()),
        }
    };
    match timeout(open_timeout(keepalive), attempt).await {
        Ok(opened) => opened,
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// No more than a dead connection takes to be found: an address that answers nothing must not cost a short lease.
fn open_timeout(keepalive: Duration) -> Duration {
    OPEN_TIMEOUT_MAX.min(keepalive * 2)
}

fn describe(status: tonic::Status) -> String {
    match std::error::Error::source(&status) {
        Some(source) => format!("{}: {source}", status.message()),
        None => status.message().to_owned(),
    }
}

/// Which node is next.
pub(super) struct Route {
    endpoints: Vec<String>,
    at: usize,
    /// A leader that is followed; none while at an endpoint of the list.
    leader: Option<String>,
    avoided: Option<(String, Instant)>,
    failures: u32,
    /// Moves to a leader since a node last did its work.
    moves: u32,
    leaderless: Option<Instant>,
}

impl Route {
    pub(super) fn new(endpoints: Vec<String>) -> Self {
        Self { endpoints, at: 0, leader: None, avoided: None, failures: 0, moves: 0, leaderless: None }
    }

    pub(super) fn address(&self) -> &str {
        match &self.leader {
            Some(leader) => leader,
            None => self.endpoints.get(self.at).map_or("", String::as_str),
        }
    }

    pub(super) fn connect(&self, host: &Host, keepalive: Duration) -> Link {
        Self::connect_to(self.address(), host, keepalive)
    }

    pub(super) fn connect_to(address: &str, host: &Host, keepalive: Duration) -> Link {
        Link::Connecting(Box::pin(open(host.clone(), address.to_owned(), keepalive)))
    }

    /// One of the other nodes of the list, in turn.
    pub(super) fn other(&self, at: usize) -> Option<&str> {
        let others = || self.endpoints.iter().filter(|endpoint| *endpoint != self.address());
        let count = others().count();
        others().nth(at.checked_rem(count)?).map(String::as_str)
    }

    /// The stream is with another node of the list now; the one before is left alone for a while.
    pub(super) fn adopted(&mut self, address: &str, now: Instant) {
        self.avoided = Some((self.address().to_owned(), now + AVOID));
        self.leader = None;
        self.leaderless = None;
        self.at = self.endpoints.iter().position(|endpoint| endpoint == address).unwrap_or(self.at);
    }

    /// The next attempt goes elsewhere, after a rest that grows. `share` is random, from 0 to 1.
    pub(super) fn failed(&mut self, now: Instant, share: f64) -> Link {
        match self.leader.take() {
            Some(leader) => self.avoided = Some((leader, now + AVOID)),
            None => self.at = (self.at + 1) % self.endpoints.len().max(1),
        }
        self.leaderless = None;
        let rest = rest(self.failures, share);
        self.failures = self.failures.saturating_add(1);
        Link::Resting(now + rest)
    }

    /// On the way to a leader: at once, unless nodes send their clients to each other.
    pub(super) fn moved(&mut self, now: Instant, share: f64) -> Option<Link> {
        let moves = self.moves;
        self.moves = moves.saturating_add(1);
        (moves > 0).then(|| Link::Resting(now + rest(moves, share)))
    }

    /// The node does its work.
    pub(super) fn works(&mut self) {
        self.failures = 0;
        self.moves = 0;
    }

    /// Whether to move to the leader at `address`; if so, it is next.
    pub(super) fn follow(&mut self, address: &str, now: Instant) -> bool {
        let avoided = self.avoided.as_ref().is_some_and(|(at, until)| at == address && *until > now);
        if avoided || address == self.address() {
            return false;
        }
        self.leader = Some(address.to_owned());
        self.leaderless = None;
        true
    }

    /// Whether the node knows a leader. Remembers since when it does not.
    pub(super) fn heard_of_leader(&mut self, known: bool, now: Instant) {
        self.leaderless = if known { None } else { self.leaderless.or(Some(now)) };
    }

    /// Another node may know more.
    pub(super) fn leaderless_too_long(&self, now: Instant, share: f64) -> bool {
        let patience = LEADERLESS.mul_f64(1.0 + share);
        self.endpoints.len() > 1 && self.leaderless.is_some_and(|since| now >= since + patience)
    }
}

fn rest(times: u32, share: f64) -> Duration {
    let rest = (REST_MIN * 2u32.saturating_pow(times.min(16))).min(REST_MAX);
    rest.mul_f64(0.5 + share / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn route() -> Route {
        Route::new(vec!["a:1".to_owned(), "b:1".to_owned()])
    }

    #[test]
    fn an_address_that_answers_nothing_costs_half_of_the_shortest_lease() {
        let mut config = crate::ClientConfig::new(["a:1"]);
        config.ttl = Duration::from_millis(palisade_core::limits::TTL_MIN.0);
        let keepalive = Settings::try_from(config.clone()).expect("settings").connection_keepalive();
        assert!(open_timeout(keepalive) <= config.ttl / 2);
        assert_eq!(open_timeout(Duration::from_secs(60)), OPEN_TIMEOUT_MAX);
    }

    #[test]
    fn a_failed_node_makes_way_for_the_next_and_rests_grow() {
        let mut route = route();
        let now = Instant::now();
        let rest = |link: Link| match link {
            Link::Resting(until) => until - now,
            Link::Connecting(_) | Link::Up(_) => Duration::ZERO,
        };
        assert_eq!(route.address(), "a:1");
        let first = rest(route.failed(now, 1.0));
        assert_eq!(route.address(), "b:1");
        assert!(rest(route.failed(now, 1.0)) > first);
        assert_eq!(route.address(), "a:1");
        for _ in 0..40 {
            assert!(rest(route.failed(now, 1.0)) <= REST_MAX);
        }
    }

    #[test]
    fn a_leader_that_cannot_be_reached_is_not_followed_for_a_while() {
        let mut route = route();
        let now = Instant::now();
        assert!(route.follow("c:1", now));
        assert_eq!(route.address(), "c:1");
        route.failed(now, 0.0);
        assert_eq!(route.address(), "a:1");
        assert!(!route.follow("c:1", now));
        assert!(route.follow("c:1", now + AVOID));
    }

    #[test]
    fn nodes_that_send_clients_to_each_other_are_not_hammered() {
        let mut route = route();
        let now = Instant::now();
        assert!(route.moved(now, 0.0).is_none());
        assert!(matches!(route.moved(now, 0.0), Some(Link::Resting(until)) if until > now));
        route.works();
        assert!(route.moved(now, 0.0).is_none());
    }

    #[test]
    fn a_node_is_not_told_to_move_to_itself() {
        assert!(!route().follow("a:1", Instant::now()));
    }

    #[test]
    fn a_node_without_a_leader_is_left_after_a_while() {
        let mut route = route();
        let now = Instant::now();
        route.heard_of_leader(false, now);
        route.heard_of_leader(false, now + LEADERLESS);
        assert!(!route.leaderless_too_long(now, 0.0));
        assert!(route.leaderless_too_long(now + LEADERLESS, 0.0));
        route.heard_of_leader(true, now);
        assert!(!route.leaderless_too_long(now + LEADERLESS, 0.0));
    }
}
