//! Exactly once (SPEC 6): what is undecided is repeated under its number, and nothing is left behind.

use std::time::Duration;

use palisade_client::{AcquireError, LostReason, ReleaseError, SessionState};
use palisade_core::reply::Ended;
use palisade_proto::v1::cancelled::Was;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use palisade_proto::v1::{self, SessionClosed};

use crate::fake::{Scene, acquire, cancel, cancelled, granted, leader, orders, release, released, soon};

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_under_the_same_number() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let first = scene.stream.request().await;
    drop(scene.stream);
    let mut stream = scene.node.stream().await;
    stream.bind(Vec::new()).await;
    let second = stream.request().await;
    assert_eq!(acquire(&second).number, acquire(&first).number);
    assert_eq!(acquire(&second).parts, acquire(&first).parts);
    stream.grant(&second, 40).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    assert_eq!(guard.token().get(), 40);
}

#[tokio::test]
async fn an_unknown_outcome_is_asked_for_again_under_the_same_number() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let first = scene.stream.request().await;
    scene.stream.refuse(&first, "OUTCOME_UNKNOWN").await;
    let second = scene.stream.request().await;
    assert_eq!(acquire(&second).number, acquire(&first).number);
    scene.stream.grant(&second, 40).await;
    assert!(soon(asked).await.expect("it ran").is_ok());
}

#[tokio::test]
async fn under_another_leader_sessions_are_bound_and_requests_repeated() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let first = scene.stream.request().await;
    scene.stream.leader(leader(2, true, "")).await;
    let bind = scene.stream.bind(Vec::new()).await;
    assert!(matches!(&bind.op, Some(Op::Bind(bind)) if bind.secret.len() == 32));
    let second = scene.stream.request().await;
    assert_eq!(acquire(&second).number, acquire(&first).number);
    // An answer to the first copy, from before the change, says nothing any more.
    scene.stream.refuse(&first, "LOCK_HELD").await;
    scene.stream.grant(&second, 41).await;
    assert_eq!(soon(asked).await.expect("it ran").expect("a guard").token().get(), 41);
}

#[tokio::test]
async fn a_binding_s_list_completes_what_it_names() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let number = acquire(&scene.stream.request().await).number;
    scene.stream.leader(leader(2, true, "")).await;
    let listed = palisade_proto::v1::BoundAcquisition { number, grant: Some(granted(7, number, 42)) };
    scene.stream.bind(vec![listed]).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    assert_eq!(guard.token().get(), 42);
}

#[tokio::test]
async fn what_no_task_owns_is_cancelled_when_a_binding_lists_it() {
    let mut scene = Scene::start().await;
    scene.stream.leader(leader(2, true, "")).await;
    let listed = palisade_proto::v1::BoundAcquisition { number: 99, grant: Some(granted(7, 99, 42)) };
    scene.stream.bind(vec![listed]).await;
    assert_eq!(cancel(&scene.stream.request().await), 99);
}

#[tokio::test]
async fn a_held_lock_that_a_binding_leaves_out_is_asked_about_and_lost() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let first = scene.stream.request().await;
    scene.stream.grant(&first, 40).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    scene.stream.leader(leader(2, true, "")).await;
    scene.stream.bind(Vec::new()).await;
    let again = scene.stream.request().await;
    assert_eq!(acquire(&again).number, acquire(&first).number);
    scene.stream.refuse(&again, "ALREADY_ENDED").await;
    soon(guard.lost()).await;
    assert!(guard.check().is_err());
}

#[tokio::test]
async fn a_dropped_acquire_is_cancelled_until_that_is_decided() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let first = scene.stream.request().await;
    let number = acquire(&first).number;
    asked.abort();
    let request = scene.stream.request().await;
    assert_eq!(cancel(&request), number);
    scene.stream.refuse(&request, "OUTCOME_UNKNOWN").await;
    let request = scene.stream.request().await;
    assert_eq!(cancel(&request), number);
    scene.stream.leader(leader(2, true, "")).await;
    scene.stream.bind(Vec::new()).await;
    let again = scene.stream.request().await;
    assert_eq!(cancel(&again), number);
    scene.stream.respond(&again, cancelled(Was::Holding)).await;
    scene.settle().await;
    // Decided: the mark passes the number with the next acquire.
    let _asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let next = scene.stream.request().await;
    assert_eq!((acquire(&next).number, acquire(&next).mark), (number + 1, number + 1));
}

#[tokio::test]
async fn an_undecided_number_holds_the_mark_back() {
    let mut scene = Scene::start().await;
    let first = tokio::spawn(scene.session.lock(orders()).acquire());
    let undecided = acquire(&scene.stream.request().await).number;
    let _second = tokio::spawn(scene.session.lock(orders()).acquire());
    assert_eq!(acquire(&scene.stream.request().await).mark, undecided);
    first.abort();
}

#[tokio::test]
async fn a_grant_that_nobody_takes_is_released() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.grant(&request, 40).await;
    drop(soon(asked).await.expect("it ran").expect("a guard"));
    let request = scene.stream.request().await;
    let sent = release(&request);
    assert_eq!(sent.token, 40);
    assert_eq!(sent.acquisition.as_ref().map(|id| id.number), Some(1));
}

#[tokio::test]
async fn a_release_is_repeated_until_it_is_answered() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.grant(&request, 40).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    let releasing = tokio::spawn(guard.release());
    let first = scene.stream.request().await;
    assert_eq!(release(&first).token, 40);
    drop(scene.stream);
    let mut stream = scene.node.stream().await;
    let listed = palisade_proto::v1::BoundAcquisition { number: 1, grant: Some(granted(7, 1, 40)) };
    stream.bind(vec![listed]).await;
    let second = stream.request().await;
    assert_eq!(release(&second), release(&first));
    stream.respond(&second, released()).await;
    let outcome = soon(releasing).await.expect("it ran").expect("released");
    assert_eq!(outcome.ended, Ended::Released);
}

#[tokio::test]
async fn a_stale_holder_s_release_says_that_it_held_nothing() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.grant(&request, 40).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    let releasing = tokio::spawn(guard.release());
    let request = scene.stream.request().await;
    scene.stream.refuse(&request, "NOT_HELD").await;
    let outcome = soon(releasing).await.expect("it ran");
    assert!(matches!(outcome, Err(ReleaseError::NotHeld { .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_holder_whose_session_ended_hears_who_came_after_it() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.grant(&request, 40).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    let releasing = tokio::spawn(guard.release());
    let request = scene.stream.request().await;
    assert_eq!(release(&request).lock, orders().as_str(), "else the cluster cannot tell");
    let successor = v1::Holder {
        acquisition: Some(v1::AcquisitionId { session: 9, number: 1 }),
        mode: v1::Mode::Exclusive.into(),
        token: 52,
        grant_index: 52,
        ..v1::Holder::default()
    };
    let error = v1::Error {
        name: "SESSION_EXPIRED".to_owned(),
        ended: v1::Ended::Expired.into(),
        holder: Some(successor),
        superseded_by: 52,
        ..v1::Error::default()
    };
    scene.stream.respond(&request, Answer::Error(error)).await;
    let outcome = soon(releasing).await.expect("it ran");
    let Err(ReleaseError::NotHeld { ended, superseded_by: Some(by) }) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((ended, by.token.get()), (Some(Ended::Expired), 52));
    let lost = SessionState::Lost(LostReason::Ended(Ended::Expired));
    let mut states = scene.session.states();
    soon(states.wait_for(|state| *state == lost)).await.expect("the session is lost as well");
}

#[tokio::test]
async fn a_caller_s_patience_ends_as_unknown_and_a_cancel_follows() {
    let mut scene = Scene::with(|mut config| {
        config.request_timeout = Duration::from_millis(300);
        config
    })
    .await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let number = acquire(&scene.stream.request().await).number;
    let outcome = soon(asked).await.expect("it ran");
    assert!(matches!(outcome, Err(AcquireError::Unavailable { .. })), "{outcome:?}");
    assert_eq!(cancel(&scene.stream.request().await), number);
}

#[tokio::test]
async fn an_open_is_repeated_with_the_same_secret() {
    let mut node = crate::fake::Node::start().await;
    let clock = std::sync::Arc::new(palisade_host::ManualClock::default());
    let client = crate::fake::client(&[&node], &clock);
    let mut stream = node.stream().await;
    let opening = tokio::spawn(async move { client.open_session().await });
    let first = stream.request().await;
    drop(stream);
    let mut stream = node.stream().await;
    let second = stream.request().await;
    assert!(matches!((&first.op, &second.op), (Some(Op::Open(a)), Some(Op::Open(b))) if a == b));
    stream.opened(&second, 7).await;
    assert_eq!(soon(opening).await.expect("it ran").expect("a session").id().0, 7);
}

#[tokio::test]
async fn the_last_handle_of_a_session_closes_it() {
    let mut scene = Scene::start().await;
    drop(scene.session);
    let request = scene.stream.request().await;
    assert!(matches!(request.op, Some(Op::Close(_))), "{request:?}");
}

#[tokio::test]
async fn a_session_that_is_being_closed_asks_for_nothing() {
    let mut scene = Scene::start().await;
    let closing = tokio::spawn(scene.session.clone().close());
    let request = scene.stream.request().await;
    assert!(matches!(request.op, Some(Op::Close(_))), "{request:?}");
    let outcome = soon(scene.session.lock(orders()).acquire()).await;
    assert_eq!(outcome.err(), Some(AcquireError::SessionLost(LostReason::Ended(Ended::Closed))));
    scene.stream.respond(&request, Answer::Closed(SessionClosed {})).await;
    assert_eq!(soon(closing).await.expect("it ran"), Ok(()));
}

#[tokio::test]
async fn closing_the_client_closes_its_sessions() {
    let mut scene = Scene::start().await;
    let closing = tokio::spawn(scene.client.clone().close());
    let request = scene.stream.request().await;
    assert!(matches!(request.op, Some(Op::Close(_))), "{request:?}");
    scene.stream.respond(&request, Answer::Closed(SessionClosed {})).await;
    soon(closing).await.expect("it ran");
    scene.stream.ended().await;
    assert_eq!(scene.session.state(), SessionState::Lost(LostReason::Ended(Ended::Closed)));
}
