//! Waiting for a lock, the window, and who leads.

use palisade_client::{AcquireError, LostReason, SessionState};
use palisade_core::reply::Ended;
use palisade_proto::v1;
use palisade_proto::v1::event::What;
use palisade_proto::v1::response::Result as Answer;

use crate::fake::{Node, Scene, acquire, cancel, client, granted, leader, orders, soon};

#[tokio::test]
async fn a_late_grant_ends_a_wait() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.queue(&request).await;
    scene.stream.event(7, What::Granted(granted(7, acquire(&request).number, 55))).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    assert_eq!(guard.token().get(), 55);
}

#[tokio::test]
async fn a_waiter_that_leaves_gives_up_its_place() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.queue(&request).await;
    scene.settle().await;
    asked.abort();
    assert_eq!(cancel(&scene.stream.request().await), acquire(&request).number);
}

#[tokio::test]
async fn a_bounded_wait_ends_as_timed_out() {
    let mut scene = Scene::start().await;
    let bound = std::time::Duration::from_secs(5);
    let asked = tokio::spawn(scene.session.lock(orders()).wait_for(bound).acquire());
    let request = scene.stream.request().await;
    let wait = acquire(&request).wait.as_ref().and_then(|wait| wait.kind);
    assert_eq!(wait, Some(v1::wait::Kind::BoundedMs(5_000)));
    scene.stream.queue(&request).await;
    let error = Some(v1::Error { name: "WAIT_TIMED_OUT".to_owned(), ..v1::Error::default() });
    scene.stream.event(7, What::WaitEnded(v1::WaitEnded { number: 1, error })).await;
    let outcome = soon(asked).await.expect("it ran");
    assert!(matches!(outcome, Err(AcquireError::TimedOut { .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_refused_try_says_who_holds() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).try_now().acquire());
    let request = scene.stream.request().await;
    let holder = v1::Holder {
        acquisition: Some(v1::AcquisitionId { session: 3, number: 1 }),
        client: "worker-a".to_owned(),
        mode: v1::Mode::Exclusive.into(),
        token: 33,
        ..v1::Holder::default()
    };
    let error = v1::Error { name: "LOCK_HELD".to_owned(), holder: Some(holder), ..v1::Error::default() };
    scene.stream.respond(&request, Answer::Error(error)).await;
    match soon(asked).await.expect("it ran") {
        Err(AcquireError::Held { holder: Some(holder), .. }) => assert_eq!(holder.token.get(), 33),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_waits_and_its_guards() {
    let mut scene = Scene::start().await;
    let holding = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.grant(&request, 40).await;
    let guard = soon(holding).await.expect("it ran").expect("a guard");
    let waiting = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.queue(&request).await;
    scene.stream.event(7, What::SessionEnded(v1::SessionEnded { ended: v1::Ended::Expired.into() })).await;
    let expired = LostReason::Ended(Ended::Expired);
    let outcome = soon(waiting).await.expect("it ran");
    assert_eq!(outcome.err(), Some(AcquireError::SessionLost(expired)));
    assert_eq!(soon(guard.lost()).await, expired);
    assert!(guard.check().is_err());
    assert_eq!(scene.session.state(), SessionState::Lost(expired));
    // Nothing more can be asked for under it.
    let outcome = soon(scene.session.lock(orders()).acquire()).await;
    assert_eq!(outcome.err(), Some(AcquireError::SessionLost(expired)));
}

#[tokio::test]
async fn a_holder_hears_that_somebody_queues_behind_it() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.grant(&request, 40).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    scene.stream.event(7, What::Contended(v1::Contended { number: 1, lock: "orders".to_owned() })).await;
    soon(guard.contended()).await;
}

#[tokio::test]
async fn the_window_bounds_what_is_unanswered() {
    let mut node = Node::start().await;
    let clock = std::sync::Arc::new(palisade_host::ManualClock::default());
    let client = client(&[&node], &clock);
    let mut stream = node.silent_stream().await;
    stream.hello(3).await;
    let (session, ()) = tokio::join!(client.open_session(), stream.open(7));
    let session = session.expect("a session");
    let asked: Vec<_> = (0..8).map(|_| tokio::spawn(session.lock(orders()).acquire())).collect();
    let mut unanswered = Vec::new();
    for _ in 0..3 {
        unanswered.push(stream.request().await);
    }
    // A keepalive goes whatever the window says; nothing else has gone before it.
    clock.advance(std::time::Duration::from_secs(4));
    let renew = stream.renew().await;
    stream.renewed(renew.number).await;
    assert_eq!(stream.frames.iter().sum::<usize>(), 1 + 3);
    // A queued one is answered, and makes room for one more.
    for _ in 0..5 {
        let oldest = unanswered.remove(0);
        stream.queue(&oldest).await;
        unanswered.push(stream.request().await);
    }
    let numbers: Vec<u64> = unanswered.iter().map(|request| acquire(request).number).collect();
    assert_eq!(numbers, [6, 7, 8]);
    asked.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_client_moves_over_to_the_leader() {
    let (mut follower, mut leading) = (Node::start().await, Node::start().await);
    let clock = std::sync::Arc::new(palisade_host::ManualClock::default());
    let client = client(&[&follower], &clock);
    let stream = follower.silent_stream().await;
    let first = v1::ServerFrame {
        window: 64,
        leader: Some(leader(1, false, &leading.address)),
        ..v1::ServerFrame::default()
    };
    stream.say(first).await;
    let mut stream = leading.stream().await;
    let (session, ()) = tokio::join!(client.open_session(), stream.open(7));
    assert_eq!(session.expect("a session").id().0, 7);
}

#[tokio::test]
async fn a_client_that_stays_is_relayed() {
    let mut follower = Node::start().await;
    let mut config = palisade_client::ClientConfig::new([follower.address.clone()]);
    config.follow_leader = false;
    let clock = std::sync::Arc::new(palisade_host::ManualClock::default());
    let client = crate::fake::client_with(config, &clock);
    let mut stream = follower.silent_stream().await;
    let first = v1::ServerFrame {
        window: 64,
        leader: Some(leader(1, false, "127.0.0.1:1")),
        ..v1::ServerFrame::default()
    };
    stream.say(first).await;
    let (session, ()) = tokio::join!(client.open_session(), stream.open(7));
    assert_eq!(session.expect("a session").id().0, 7);
}

#[tokio::test]
async fn a_node_that_knows_no_leader_makes_way_for_another() {
    let (mut lost, mut leading) = (Node::start().await, Node::start().await);
    let clock = std::sync::Arc::new(palisade_host::ManualClock::default());
    let client = client(&[&lost, &leading], &clock);
    let stream = lost.silent_stream().await;
    let first =
        v1::ServerFrame { window: 64, leader: Some(leader(1, false, "")), ..v1::ServerFrame::default() };
    stream.say(first).await;
    let mut stream = leading.stream().await;
    let (session, ()) = tokio::join!(client.open_session(), stream.open(7));
    assert!(session.is_ok());
}
