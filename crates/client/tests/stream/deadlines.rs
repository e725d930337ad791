//! A holder's own deadlines (SPEC 4), on a manual clock.

use std::time::Duration;

use palisade_client::{AcquireError, LockGuard, SessionState};
use palisade_core::holding::NotHolding;
use palisade_core::reply::Ended;
use palisade_proto::v1;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use tokio::task::JoinHandle;

use crate::fake::{Scene, granted, orders, soon};

const EVERY: Duration = Duration::from_secs(4);
/// Less the drift.
const COUNTED: Duration = Duration::from_millis(3_960);

fn report(request: &v1::Request) -> u64 {
    match &request.op {
        Some(Op::ReportProgress(report)) => {
            assert_eq!(report.token, 40);
            report.number
        }
        other => panic!("a report was expected, not {other:?}"),
    }
}

fn reported() -> Answer {
    Answer::Reported(v1::Reported {})
}

fn grant() -> v1::Grant {
    let every = u64::try_from(EVERY.as_millis()).expect("small");
    v1::Grant { progress_every_ms: every, ..granted(7, 1, 40) }
}

/// Granted, and the first report is on its way.
async fn asked(scene: &mut Scene) -> (JoinHandle<Result<LockGuard, AcquireError>>, v1::Request) {
    let asked = tokio::spawn(scene.session.lock(orders()).progress_every(EVERY).acquire());
    let request = scene.stream.request().await;
    scene.stream.respond_so(&request, Answer::Granted(grant()), true).await;
    let first = scene.stream.request().await;
    assert_eq!(report(&first), 1);
    (asked, first)
}

#[tokio::test]
async fn the_guard_comes_after_the_first_report_and_counts_from_its_sending() {
    let mut scene = Scene::start().await;
    let (asked, first) = asked(&mut scene).await;
    assert!(!asked.is_finished());
    scene.clock.advance(Duration::from_secs(1));
    scene.stream.respond(&first, reported()).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    assert_eq!(guard.remaining(), Some(COUNTED - Duration::from_secs(1)));
}

#[tokio::test]
async fn a_report_that_is_repeated_counts_from_its_first_copy() {
    let mut scene = Scene::start().await;
    let (asked, first) = asked(&mut scene).await;
    scene.clock.advance(Duration::from_secs(2));
    let listed = vec![v1::BoundAcquisition { number: 1, grant: Some(grant()) }];
    let mut stream = scene.stream.broken(&mut scene.node, listed).await;
    let second = stream.request().await;
    assert_eq!(second.op, first.op);
    stream.respond(&second, reported()).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    // The cluster may have counted the first copy, two seconds ago.
    assert_eq!(guard.remaining(), Some(COUNTED - Duration::from_secs(2)));
}

#[tokio::test]
async fn past_the_interval_nothing_is_believed_and_a_report_in_time_moves_it_on() {
    let mut scene = Scene::start().await;
    let (asked, first) = asked(&mut scene).await;
    scene.stream.respond(&first, reported()).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    scene.clock.advance(Duration::from_secs(3));
    let reporting = tokio::spawn(async move { (guard.report_progress().await, guard) });
    let second = scene.stream.request().await;
    assert_eq!(report(&second), 2);
    scene.stream.respond(&second, reported()).await;
    let (outcome, guard) = soon(reporting).await.expect("it ran");
    assert_eq!(outcome, Ok(()));
    scene.clock.advance(Duration::from_secs(3));
    assert!(guard.check().is_ok());
    let suspended = guard.suspended();
    scene.clock.advance(Duration::from_secs(1));
    assert!(matches!(guard.check(), Err(NotHolding::DeadlinePassed { .. })));
    assert_eq!(guard.state(), SessionState::Suspended);
    assert_eq!(soon(suspended).await, SessionState::Suspended);
    // The session is not concerned.
    assert_eq!(scene.session.state(), SessionState::Active);
}

#[tokio::test]
async fn a_first_report_that_comes_too_late_is_no_grant() {
    let mut scene = Scene::start().await;
    let (asked, first) = asked(&mut scene).await;
    let error =
        v1::Error { name: "OVERDUE".to_owned(), ended: v1::Ended::Overdue.into(), ..v1::Error::default() };
    scene.stream.respond(&first, Answer::Error(error)).await;
    let outcome = soon(asked).await.expect("it ran");
    assert!(matches!(outcome, Err(AcquireError::Ended { ended: Ended::Overdue, .. })), "{outcome:?}");
}
