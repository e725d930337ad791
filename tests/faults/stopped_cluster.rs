//! All nodes are told to stop, and start again: leases outlive that.

use std::time::Duration;

use crate::live::{Live, eventually, hold, holder};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_and_locks_outlive_a_stop_of_all_nodes() {
    let mut live = Live::start(3).await;
    let client = live.client(Duration::from_secs(60));
    let session = client.open_session().await.unwrap();
    let guard = hold(&session, "orders").await;
    let waiter = client.open_session().await.unwrap();
    let waiting = tokio::spawn(waiter.lock(guard.lock().clone()).acquire());
    eventually("it waits", async || {
        let view = client.lock_view(guard.lock()).await.unwrap();
        (view.queue.len() == 1).then_some(())
    })
    .await;

    for node in 0..3 {
        assert_eq!(live.cluster.terminate(node, Duration::from_secs(10)), Some(0), "node {node}");
    }
    live.cluster.start_all().unwrap();
    live.ready().await;

    session.renew_now().await.unwrap();
    guard.check().unwrap();
    let view = client.lock_view(guard.lock()).await.unwrap();
    let (acquisition, token) = holder(&view).unwrap();
    assert_eq!((acquisition.session, acquisition.number), (session.id().0, guard.acquisition().number.0));
    assert_eq!(token, guard.token().get());
    assert_eq!(view.queue.len(), 1, "the waiter kept its place");
    let before = guard.token();
    guard.release().await.unwrap();
    let next = crate::live::soon("the waiter is granted", waiting).await.unwrap().unwrap();
    assert!(next.token() > before);
    client.close().await;
}
