//! The holder's side of the lease (SPEC 9), on a manual clock.

use std::time::Duration;

use palisade_client::{CallError, LostReason, SessionState};
use palisade_core::holding::NotHolding;
use palisade_core::reply::Ended;
use palisade_proto::v1;

use crate::fake::{Scene, acquire, orders, released, soon};

/// `T * (1 - d) - margin` of the default 10 s.
const BELIEF: Duration = Duration::from_millis(8_900);

/// Sends a keepalive and answers it, so that the lease counts from now.
async fn renew_at_once(scene: &mut Scene) {
    let renewing = tokio::spawn({
        let session = scene.session.clone();
        async move { session.renew_now().await }
    });
    let renew = scene.stream.renew().await;
    scene.stream.renewed(renew.number).await;
    soon(renewing).await.expect("it ran").expect("renewed");
}

async fn until(scene: &Scene, wanted: SessionState) {
    let mut states = scene.session.states();
    soon(states.wait_for(|state| *state == wanted)).await.expect("the client lives");
}

#[tokio::test]
async fn a_renewal_counts_from_its_sending_not_from_its_answer() {
    let mut scene = Scene::start().await;
    let renewing = tokio::spawn({
        let session = scene.session.clone();
        async move { session.renew_now().await }
    });
    let renew = scene.stream.renew().await;
    scene.clock.advance(Duration::from_secs(3));
    scene.stream.renewed(renew.number).await;
    soon(renewing).await.expect("it ran").expect("renewed");
    assert_eq!(scene.session.remaining(), Some(BELIEF - Duration::from_secs(3)));
}

#[tokio::test]
async fn a_command_answered_as_renewed_counts_from_its_sending_and_another_not_at_all() {
    let mut scene = Scene::start().await;
    renew_at_once(&mut scene).await;
    scene.clock.advance(Duration::from_secs(1));
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.clock.advance(Duration::from_millis(500));
    scene.stream.grant(&request, 40).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    assert_eq!(guard.remaining(), Some(BELIEF - Duration::from_millis(500)));

    scene.clock.advance(Duration::from_millis(500));
    let releasing = tokio::spawn(guard.release());
    let request = scene.stream.request().await;
    scene.stream.respond(&request, released()).await;
    soon(releasing).await.expect("it ran").expect("released");
    assert_eq!(scene.session.remaining(), Some(BELIEF - Duration::from_secs(1)));
}

#[tokio::test]
async fn a_renewal_that_failed_renews_nothing() {
    let mut scene = Scene::start().await;
    renew_at_once(&mut scene).await;
    scene.stream.renews = false;
    scene.clock.advance(Duration::from_secs(4));
    let renew = scene.stream.renew().await;
    let error = Some(v1::Error { name: "NO_QUORUM".to_owned(), ..v1::Error::default() });
    let renewed = Some(v1::Renewed { number: renew.number, error, ..v1::Renewed::default() });
    scene.stream.say(v1::ServerFrame { renewed, ..v1::ServerFrame::default() }).await;
    scene.settle().await;
    // It is asked for again, and still counts from the last that was good.
    scene.clock.advance(Duration::from_millis(400));
    scene.stream.renew().await;
    assert_eq!(scene.session.remaining(), Some(BELIEF - Duration::from_millis(4_400)));
}

#[tokio::test]
async fn a_deadline_that_passes_unanswered_suspends_and_an_answer_reconnects() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.grant(&request, 40).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    scene.clock.advance(BELIEF);
    // At once, whatever the client's task has done since.
    assert_eq!(scene.session.state(), SessionState::Suspended);
    assert!(matches!(guard.check(), Err(NotHolding::DeadlinePassed { .. })));
    assert_eq!(soon(guard.suspended()).await, SessionState::Suspended);
    let mut states = scene.session.states();
    let renew = scene.stream.renew().await;
    scene.stream.renewed(renew.number).await;
    soon(states.wait_for(|state| *state == SessionState::Reconnected)).await.expect("the client lives");
    soon(states.wait_for(|state| *state == SessionState::Active)).await.expect("the client lives");
    // The same tenure, under the same token.
    assert_eq!((guard.check(), guard.token().get()), (Ok(()), 40));
}

#[tokio::test]
async fn a_suspended_session_is_lost_when_the_cluster_says_so() {
    let mut scene = Scene::start().await;
    scene.clock.advance(Duration::from_secs(60));
    until(&scene, SessionState::Suspended).await;
    let renew = scene.stream.renew().await;
    let ended = vec![v1::EndedSession { session: 7, ended: v1::Ended::Expired.into() }];
    let renewed = Some(v1::Renewed { number: renew.number, ended, error: None });
    scene.stream.say(v1::ServerFrame { renewed, ..v1::ServerFrame::default() }).await;
    let expired = LostReason::Ended(Ended::Expired);
    until(&scene, SessionState::Lost(expired)).await;
    assert_eq!(soon(scene.session.renew_now()).await, Err(CallError::SessionLost(expired)));
}

#[tokio::test]
async fn a_session_that_was_not_renewed_but_has_not_ended_is_bound_again() {
    let mut scene = Scene::start().await;
    renew_at_once(&mut scene).await;
    scene.clock.advance(Duration::from_secs(4));
    let renew = scene.stream.renew().await;
    let ended = vec![v1::EndedSession { session: 7, ended: v1::Ended::Unspecified.into() }];
    let renewed = Some(v1::Renewed { number: renew.number, ended, error: None });
    scene.stream.say(v1::ServerFrame { renewed, ..v1::ServerFrame::default() }).await;
    scene.stream.bind(Vec::new()).await;
    // Asked again; the one before counts for nothing.
    let renew = scene.stream.renew().await;
    assert_eq!(renew.sessions, [7]);
    assert_eq!(scene.session.remaining(), Some(BELIEF - Duration::from_secs(4)));
}

#[tokio::test]
async fn a_grant_that_comes_too_late_waits_for_the_next_renewal() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.renews = false;
    scene.clock.advance(Duration::from_secs(20));
    until(&scene, SessionState::Suspended).await;
    // Granted, and even `renewed`: but it was sent 20 s ago, and that lease is over.
    scene.stream.grant(&request, 40).await;
    let renew = scene.stream.renew().await;
    scene.settle().await;
    assert!(!asked.is_finished());
    scene.stream.renewed(renew.number).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    assert_eq!(guard.check(), Ok(()));
}

#[tokio::test]
async fn a_grant_of_a_session_that_is_over_is_never_handed_out() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.clock.advance(Duration::from_secs(20));
    until(&scene, SessionState::Suspended).await;
    scene.stream.grant(&request, 40).await;
    let ended = v1::SessionEnded { ended: v1::Ended::Expired.into() };
    scene.stream.event(7, v1::event::What::SessionEnded(ended)).await;
    assert!(soon(asked).await.expect("it ran").is_err());
}

#[tokio::test]
async fn a_first_lease_counts_from_the_first_copy_of_the_open() {
    let mut node = crate::fake::Node::start().await;
    let clock = std::sync::Arc::new(palisade_host::ManualClock::default());
    let client = crate::fake::client(&[&node], &clock);
    let mut stream = node.stream().await;
    let opening = tokio::spawn({
        let client = client.clone();
        async move { client.open_session().await }
    });
    let first = stream.request().await;
    clock.advance(Duration::from_secs(2));
    stream.refuse(&first, "OUTCOME_UNKNOWN").await;
    let second = stream.request().await;
    stream.renews = false;
    stream.opened(&second, 7).await;
    let session = soon(opening).await.expect("it ran").expect("a session");
    assert_eq!(session.remaining(), Some(BELIEF - Duration::from_secs(2)));
}

#[tokio::test]
async fn a_resource_s_refusal_poisons_the_guard() {
    use palisade_core::holding::Holding;
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    assert_eq!(acquire(&request).number, 1);
    scene.stream.grant(&request, 40).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    let mark = palisade_core::token::Token::new(41).expect("a token");
    guard.rejected(mark);
    assert!(matches!(guard.check(), Err(NotHolding::Rejected { .. })));
    assert_eq!(soon(guard.lost()).await, LostReason::Rejected { mark });
}

#[tokio::test]
async fn a_silent_node_is_left_and_the_session_survives_at_another() {
    let mut scene = Scene::start().await;
    scene.stream.renews = false;
    scene.clock.advance(Duration::from_secs(4));
    scene.stream.renew().await;
    // Never answered: the client opens another stream by itself.
    let mut stream = scene.node.stream().await;
    stream.bind(Vec::new()).await;
    let renew = stream.renew().await;
    stream.renewed(renew.number).await;
    scene.stream.ended().await;
    assert_eq!(scene.session.state(), SessionState::Active);
}
