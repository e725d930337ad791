//! A holder that slept past its lease releases what is another's by now.

use std::time::Duration;

use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;

use crate::live::{Live, acquire, error_name, hold, holder, open_session, release, while_session};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_release_frees_nothing_and_names_who_came_after() {
    let live = Live::start(3).await;
    let node = live.leader().await;
    let stale = open_session(live.channel(node), Duration::from_secs(2), "stale").await;
    let mut raw = live.raw(node).await;
    raw.bind(&stale).await;
    let grant = raw.granted(stale.id, acquire(1, "orders", while_session())).await;

    // Nobody keeps it alive: the next one is granted because it expired.
    let client = live.client(Duration::from_secs(60));
    let session = client.open_session().await.unwrap();
    let guard = hold(&session, "orders").await;
    assert!(guard.token().get() > grant.parts[0].token);

    let answer = raw.ask(stale.id, Op::Release(release(&grant))).await;
    assert_eq!(error_name(&answer), "SESSION_EXPIRED", "{answer:?}");
    let Some(Answer::Error(error)) = answer.result else { panic!("no error") };
    assert_eq!(error.superseded_by, guard.token().get());
    let named = error.holder.unwrap();
    assert_eq!(named.token, guard.token().get());
    assert_eq!(named.acquisition.unwrap().session, session.id().0);

    // So does one of a live session that names a token which is not its own any more.
    let live_one = open_session(live.channel(node), Duration::from_secs(60), "live").await;
    raw.bind(&live_one).await;
    let mut wrong = release(&grant);
    wrong.acquisition = Some(palisade_proto::v1::AcquisitionId { session: live_one.id, number: 1 });
    let answer = raw.ask(live_one.id, Op::Release(wrong)).await;
    assert_eq!(error_name(&answer), "NOT_HELD", "{answer:?}");

    let view = client.lock_view(guard.lock()).await.unwrap();
    assert_eq!(holder(&view).unwrap().1, guard.token().get(), "it frees nothing");
    guard.release().await.unwrap();
    client.close().await;
}
