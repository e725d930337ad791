//! How a holder that sits at the leader, as it does by default, comes to the next one: when the leader is stopped, killed,
//! told to end.
//!
//! A bound here is far above what a machine with room takes, for these run beside other tests, and far below what it would
//! take without what is tested.

use std::time::{Duration, Instant};

use palisade_client::Session;
use rustix::process::Signal;

use crate::live::{Live, eventually, hold};

/// So long that neither a third of it nor the connection's own probes (10 s) tell in time that the leader is silent.
const TTL: Duration = Duration::from_secs(60);
/// 600 ms at most until another node leads, some more until it serves and the client is there: 0.7 s. The rest is slack.
const STOPPED_MAX: Duration = Duration::from_secs(3);
/// 100 ms are promised. The rest is slack.
const ENDED_MAX: Duration = Duration::from_secs(1);
const ROUNDS: usize = 3;

/// The time that a grant takes.
async fn granted(session: &Session) -> Duration {
    let asked = Instant::now();
    hold(session, "orders").await.release().await.unwrap();
    asked.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_at_a_stopped_leader_finds_the_next_one_without_waiting_for_its_lease() {
    let live = Live::start(3).await;
    let client = live.client(TTL);
    let session = client.open_session().await.unwrap();
    for _ in 0..ROUNDS {
        let (leader, term) = live.leader_and_term().await;
        granted(&session).await;
        live.pause(leader).await;
        let took = granted(&session).await;
        assert!(took < STOPPED_MAX, "the next grant took {took:?}");
        assert_ne!(live.leader_after(term).await, leader);
        live.cluster.wake(leader);
        live.ready().await;
    }
    session.renew_now().await.unwrap();
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_without_waiting_for_its_lease() {
    let mut live = Live::start(3).await;
    let client = live.client(TTL);
    let session = client.open_session().await.unwrap();
    for _ in 0..ROUNDS {
        let (leader, term) = live.leader_and_term().await;
        granted(&session).await;
        live.cluster.kill(leader);
        let took = granted(&session).await;
        assert!(took < STOPPED_MAX, "the next grant took {took:?}");
        let next = live.leader_after(term).await;
        // Each follower saw for itself that nobody listens there: that, and no timeout, was the reason.
        let gone = format!("the leader's process is gone term={term}");
        eventually("the next leader says why", async || live.cluster.log(next).contains(&gone).then_some(()))
            .await;
        live.cluster.start_node(leader).unwrap();
        live.ready().await;
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_told_to_end_leaves_hardly_a_gap() {
    let mut live = Live::start(3).await;
    let client = live.client(TTL);
    let session = client.open_session().await.unwrap();
    for _ in 0..ROUNDS {
        let (leader, term) = live.leader_and_term().await;
        granted(&session).await;
        live.cluster.signal(leader, Signal::TERM);
        let mut longest = Duration::ZERO;
        while live.cluster.ended(leader).is_none() {
            longest = longest.max(granted(&session).await);
        }
        assert!(longest < ENDED_MAX, "a grant took {longest:?}");
        assert_ne!(live.leader_after(term).await, leader);
        live.cluster.start_node(leader).unwrap();
        live.ready().await;
    }
    client.close().await;
}
