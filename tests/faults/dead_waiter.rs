//! Somebody waits, dies, and is not granted what others wait for as well.

use std::time::Duration;

use palisade_proto::v1;
use palisade_proto::v1::event::What;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;

use crate::live::{Live, Seen, acquire, eventually, hold, holder, name, open_session, soon, while_session};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_session_ended_is_passed_over() {
    let live = Live::start(3).await;
    let node = live.leader().await;
    let client = live.client(Duration::from_secs(60));
    let first = client.open_session().await.unwrap();
    let guard = hold(&first, "orders").await;

    let dying = open_session(live.channel(node), Duration::from_secs(2), "dying").await;
    let mut raw = live.raw(node).await;
    raw.bind(&dying).await;
    let queued = raw.ask(dying.id, Op::Acquire(acquire(1, "orders", while_session()))).await;
    assert!(matches!(&queued.result, Some(Answer::Queued(queued)) if queued.place == 1), "{queued:?}");
    let next = client.open_session().await.unwrap();
    let waits = next.lock(name("orders"));
    let waiting = tokio::spawn(waits.acquire());
    eventually("two wait", async || {
        let view = client.lock_view(&name("orders")).await.unwrap();
        (view.queue.len() == 2).then_some(())
    })
    .await;

    let ended = raw
        .find("the session ends", |seen| match seen {
            Seen::Event(v1::Event { session, what: Some(What::SessionEnded(ended)), .. }) => {
                Some((*session, ended.ended()))
            }
            Seen::Event(v1::Event { what: Some(What::Granted(grant)), .. }) => panic!("granted: {grant:?}"),
            Seen::Event(_) | Seen::Response(_) | Seen::Renewed(_) | Seen::Leader(_) => None,
        })
        .await;
    assert_eq!(ended, (dying.id, v1::Ended::Expired));
    let view = client.lock_view(&name("orders")).await.unwrap();
    assert_eq!(view.queue.len(), 1, "it left the queue: {view:?}");

    guard.release().await.unwrap();
    let guard = soon("the next one is granted", waiting).await.unwrap().unwrap();
    let view = client.lock_view(&name("orders")).await.unwrap();
    assert_eq!(holder(&view).unwrap().0.session, next.id().0);
    guard.release().await.unwrap();
    client.close().await;
}
