//! The leader is suspended, others lead meanwhile, and it wakes up with every belief intact.

use std::time::{Duration, Instant};

use palisade_proto::v1::request::Op;

use crate::live::{
    Live, PATIENCE, Seen, acknowledges, acquire, error_name, eventually, hold, holder, no_wait, open_session,
};

/// Of the session that the woken leader believes to be long over.
const SHORT: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_suspended_renews_nobody_and_expires_nobody() {
    let live = Live::start(3).await;
    let (leader, term) = live.leader_and_term().await;
    let pinned = open_session(live.channel(leader), Duration::from_secs(60), "pinned").await;
    let mut raw = live.raw(leader).await;
    raw.bind(&pinned).await;
    assert!(acknowledges(&raw.renew(1, &[pinned.id]).await, pinned.id));
    let client = live.client(SHORT);
    let session = client.open_session().await.unwrap();
    let guard = hold(&session, "orders").await;

    live.pause(leader).await;
    let paused = Instant::now();
    // They wait in its socket until it wakes up.
    raw.send_renew(2, &[pinned.id]).await;
    let late = raw.send_op(pinned.id, Op::Acquire(acquire(1, "late", no_wait()))).await;
    let next = live.leader_after(term).await;
    assert_ne!(next, leader);
    session.renew_now().await.unwrap();
    eventually("the session outlives its TTL", async || (paused.elapsed() > SHORT * 2).then_some(())).await;

    live.cluster.wake(leader);
    loop {
        match raw.next(PATIENCE).await.expect("the woken node goes on") {
            Seen::Renewed(renewed) => assert!(!acknowledges(&renewed, pinned.id), "{renewed:?}"),
            Seen::Response(response) if response.tag == late => {
                assert_ne!(error_name(&response), "", "{response:?}");
            }
            Seen::Leader(leader) if !leader.here && !leader.client_address.is_empty() => break,
            Seen::Leader(_) | Seen::Response(_) | Seen::Event(_) => {}
        }
    }

    // From now on it relays, like any follower.
    raw.bind(&pinned).await;
    assert!(acknowledges(&raw.renew(3, &[pinned.id]).await, pinned.id));
    session.renew_now().await.unwrap();
    let view = client.lock_view(guard.lock()).await.unwrap();
    assert_eq!(holder(&view).unwrap().1, guard.token().get());
    guard.check().unwrap();
    for node in 0..3 {
        let ended = format!("session={} ", session.id().0);
        let log = live.cluster.log(node);
        assert!(!log.lines().any(|line| line.contains("session ended") && line.contains(&ended)), "{log}");
    }
    client.close().await;
}
