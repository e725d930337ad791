//! What users of other lock services reported of their clients (`tests/CASES.md`), and no other test here shows.

use std::time::Duration;

use palisade_client::{AcquireError, LostReason, SessionState};
use palisade_core::reply::Ended;
use palisade_proto::v1::SessionClosed;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;

use crate::fake::{Scene, acquire, orders, release, released, soon};

#[tokio::test]
async fn b28_nobody_is_told_of_a_grant_before_it_is_decided() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).try_now().acquire());
    let first = scene.stream.request().await;
    scene.stream.refuse(&first, "OUTCOME_UNKNOWN").await;
    let second = scene.stream.request().await;
    assert_eq!(acquire(&second).number, acquire(&first).number);
    scene.settle().await;
    assert!(!asked.is_finished());
    // Somebody else was faster.
    scene.stream.refuse(&second, "LOCK_HELD").await;
    let outcome = soon(asked).await.expect("it ran");
    assert!(matches!(outcome, Err(AcquireError::Held { .. })), "{outcome:?}");
}

#[tokio::test]
async fn b29_an_acquire_that_failed_does_not_keep_its_session() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.refuse(&request, "LIMIT_REACHED").await;
    assert!(soon(asked).await.expect("it ran").is_err());
    drop(scene.session);
    let request = scene.stream.request().await;
    assert!(matches!(request.op, Some(Op::Close(_))), "{request:?}");
}

#[tokio::test]
async fn b38_a_renewal_that_is_answered_after_the_end_revives_nothing() {
    let mut scene = Scene::start().await;
    scene.stream.renews = false;
    let renewing = tokio::spawn({
        let session = scene.session.clone();
        async move { session.renew_now().await }
    });
    let renew = scene.stream.renew().await;
    let closing = tokio::spawn(scene.session.clone().close());
    let request = scene.stream.request().await;
    assert!(matches!(request.op, Some(Op::Close(_))), "{request:?}");
    scene.stream.respond(&request, Answer::Closed(SessionClosed {})).await;
    assert_eq!(soon(closing).await.expect("it ran"), Ok(()));
    scene.stream.renewed(renew.number).await;
    scene.settle().await;
    let closed = LostReason::Ended(Ended::Closed);
    assert_eq!((scene.session.state(), scene.session.remaining()), (SessionState::Lost(closed), None));
    assert!(soon(renewing).await.expect("it ran").is_err());
}

#[tokio::test]
async fn b41_a_task_that_panics_releases_what_it_held() {
    let mut scene = Scene::start().await;
    let asked = scene.session.lock(orders()).acquire();
    let working = tokio::spawn(async move {
        let guard = asked.await.expect("a guard");
        panic!("the work under {} failed", guard.token());
    });
    let request = scene.stream.request().await;
    scene.stream.grant(&request, 40).await;
    // The process lives on, and so does its session.
    assert_eq!(release(&scene.stream.request().await).token, 40);
    assert!(soon(working).await.is_err_and(|error| error.is_panic()));
    assert_eq!(scene.session.state(), SessionState::Active);
}

#[tokio::test]
async fn b89_a_session_that_ended_is_renewed_no_more() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.grant(&request, 40).await;
    let releasing = tokio::spawn(soon(asked).await.expect("it ran").expect("a guard").release());
    let request = scene.stream.request().await;
    scene.stream.respond(&request, released()).await;
    assert!(soon(releasing).await.expect("it ran").is_ok());
    let closing = tokio::spawn(scene.session.clone().close());
    let request = scene.stream.request().await;
    scene.stream.respond(&request, Answer::Closed(SessionClosed {})).await;
    assert_eq!(soon(closing).await.expect("it ran"), Ok(()));

    let (session, ()) = tokio::join!(scene.client.open_session(), scene.stream.open(8));
    let session = session.expect("a session");
    for _ in 0..3 {
        let renew = scene.stream.renew().await;
        assert_eq!(renew.sessions, [session.id().0]);
        scene.stream.renewed(renew.number).await;
        scene.settle().await;
        scene.clock.advance(Duration::from_secs(4));
    }
}
