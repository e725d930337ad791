//! A node that says nothing: who is asked, and when the client moves.

use std::sync::Arc;
use std::time::Duration;

use palisade_client::{AcquireError, Client, ClientConfig, LockGuard, Session};
use palisade_host::ManualClock;
use palisade_proto::v1;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::fake::{Node, Stream, acquire, client_with, orders, soon};

/// Longer than a client takes to ask another node, and shorter than it stays with one that names nobody newer.
const WHILE: Duration = Duration::from_millis(700);

type Asked = JoinHandle<Result<LockGuard, AcquireError>>;

fn led(term: u64, here: bool, client_address: &str) -> v1::Leader {
    v1::Leader {
        generation: term,
        here,
        term,
        client_address: client_address.to_owned(),
        ..Default::default()
    }
}

async fn hello(stream: &Stream, leader: v1::Leader) {
    stream.say(v1::ServerFrame { window: 64, leader: Some(leader), ..Default::default() }).await;
}

/// A client with a session at a node that leads in term 5, its first keepalive answered; `others` know nothing of it.
struct Silent {
    stream: Stream,
    session: Session,
    clock: Arc<ManualClock>,
    _client: Client,
}

impl Silent {
    async fn start(node: &mut Node, others: &[&Node]) -> Self {
        let endpoints = std::iter::once(&*node).chain(others.iter().copied());
        let mut config = ClientConfig::new(endpoints.map(|node| node.address.clone()));
        // Nothing else finds out in time that the node is silent.
        config.ttl = Duration::from_secs(600);
        let clock = Arc::new(ManualClock::default());
        clock.advance(Duration::from_secs(1_000));
        let client = client_with(config, &clock);
        let mut stream = node.silent_stream().await;
        hello(&stream, led(5, true, "")).await;
        let (session, ()) = tokio::join!(client.open_session(), stream.open(7));
        let renew = stream.renew().await;
        stream.renewed(renew.number).await;
        Self { stream, session: session.expect("a session"), clock, _client: client }
    }

    /// Asks for a lock; the node takes the request and says nothing.
    async fn ask(&mut self) -> (Asked, v1::Request) {
        let asked = tokio::spawn(self.session.lock(orders()).acquire());
        let request = self.stream.request().await;
        assert_eq!(acquire(&request).number, 1);
        (asked, request)
    }
}

/// The client binds on this stream, asks again under the same number, and is granted.
async fn granted_on(mut stream: Stream, asked: Asked) {
    stream.bind(Vec::new()).await;
    let again = stream.request().await;
    assert_eq!(acquire(&again).number, 1);
    stream.grant(&again, 60).await;
    assert_eq!(soon(asked).await.expect("it ran").expect("a guard").token().get(), 60);
}

async fn says_nothing(stream: &mut Stream) {
    let frame = timeout(WHILE, stream.next_frame()).await;
    assert!(frame.is_err(), "nothing is asked on it, and it is kept: {frame:?}");
}

#[tokio::test]
async fn a_client_moves_the_moment_that_another_node_names_a_newer_leader() {
    let (mut node, mut other) = (Node::start().await, Node::start().await);
    let mut silent = Silent::start(&mut node, &[&other]).await;
    let (asked, _) = silent.ask().await;
    let mut stream = other.silent_stream().await;
    hello(&stream, led(5, false, &node.address)).await;
    says_nothing(&mut stream).await;
    stream.leader(led(0, false, "")).await;
    stream.leader(led(6, true, "")).await;
    granted_on(stream, asked).await;
    silent.stream.ended().await;
}

#[tokio::test]
async fn a_client_goes_where_another_node_says_that_the_newer_leader_is() {
    let (mut node, mut other) = (Node::start().await, Node::start().await);
    let mut leading = Node::start().await;
    let mut silent = Silent::start(&mut node, &[&other]).await;
    let (asked, _) = silent.ask().await;
    let stream = other.silent_stream().await;
    hello(&stream, led(6, false, &leading.address)).await;
    let stream = leading.silent_stream().await;
    hello(&stream, led(6, true, "")).await;
    granted_on(stream, asked).await;
}

#[tokio::test]
async fn a_client_that_stays_with_its_node_goes_where_it_is_relayed_to_the_newer_leader() {
    let (mut node, mut other) = (Node::start().await, Node::start().await);
    let mut config = ClientConfig::new([node.address.clone(), other.address.clone()]);
    config.follow_leader = false;
    config.ttl = Duration::from_secs(600);
    let client = client_with(config, &Arc::new(ManualClock::default()));
    let mut stream = node.silent_stream().await;
    hello(&stream, led(5, false, "127.0.0.1:1")).await;
    let (session, ()) = tokio::join!(client.open_session(), stream.open(7));
    let session = session.expect("a session");
    let asked = tokio::spawn(session.lock(orders()).acquire());
    let stream = other.silent_stream().await;
    hello(&stream, led(6, false, "127.0.0.1:1")).await;
    granted_on(stream, asked).await;
}

#[tokio::test]
async fn a_leader_that_is_merely_slow_keeps_its_clients_and_one_other_node_is_asked() {
    let (mut node, mut one, mut two) = (Node::start().await, Node::start().await, Node::start().await);
    let mut silent = Silent::start(&mut node, &[&one, &two]).await;
    let (asked, request) = silent.ask().await;
    // Either of them, drawn by the client.
    let (mut stream, idle) = tokio::select! {
        stream = one.silent_stream() => (stream, &mut two),
        stream = two.silent_stream() => (stream, &mut one),
    };
    hello(&stream, led(5, false, &node.address)).await;
    // Nor does an older one make it move, which a node that was cut off may still believe in.
    stream.leader(led(4, true, "")).await;
    says_nothing(&mut stream).await;
    assert!(idle.is_unasked(), "one at a time");
    silent.stream.grant(&request, 40).await;
    assert_eq!(soon(asked).await.expect("it ran").expect("a guard").token().get(), 40);
}

#[tokio::test]
async fn a_node_that_does_not_answer_makes_way_for_the_next_one() {
    let (mut node, mut one, mut two) = (Node::start().await, Node::start().await, Node::start().await);
    let mut silent = Silent::start(&mut node, &[&one, &two]).await;
    let (asked, _) = silent.ask().await;
    let (_mute, next) = tokio::select! {
        stream = one.silent_stream() => (stream, &mut two),
        stream = two.silent_stream() => (stream, &mut one),
    };
    let stream = next.silent_stream().await;
    hello(&stream, led(6, true, "")).await;
    granted_on(stream, asked).await;
}

#[tokio::test]
async fn a_wait_for_a_lock_is_no_silence_and_an_unanswered_keepalive_is() {
    let (mut node, mut other) = (Node::start().await, Node::start().await);
    let mut silent = Silent::start(&mut node, &[&other]).await;
    let (asked, request) = silent.ask().await;
    silent.stream.queue(&request).await;
    says_nothing(&mut silent.stream).await;
    assert!(other.is_unasked());
    silent.clock.advance(Duration::from_secs(300));
    silent.stream.renew().await;
    let mut stream = other.silent_stream().await;
    hello(&stream, led(6, true, "")).await;
    stream.bind(vec![v1::BoundAcquisition { number: 1, grant: None }]).await;
    let renew = stream.renew().await;
    assert_eq!(renew.sessions, [7]);
    stream.renewed(renew.number).await;
    asked.abort();
}

#[tokio::test]
async fn a_node_that_opens_no_stream_is_left_for_one_that_does() {
    let (mut node, mut other) = (Node::start().await, Node::start().await);
    let config = ClientConfig::new([node.address.clone(), other.address.clone()]);
    let client = client_with(config, &Arc::new(ManualClock::default()));
    let mut mute = node.silent_stream().await;
    let mut stream = tokio::select! {
        biased;
        _ = mute.next_frame() => panic!("it was given up before another one was asked"),
        stream = other.silent_stream() => stream,
    };
    hello(&stream, led(5, true, "")).await;
    let (session, ()) = tokio::join!(client.open_session(), stream.open(7));
    assert_eq!(session.expect("a session").id().0, 7);
}
