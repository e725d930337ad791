//! The leader dies under load, again and again.

use std::time::Duration;

use super::load::Load;
use crate::live::Live;

const KILLS: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_leader_after_leader_is_killed() {
    let mut live = Live::start(3).await;
    let load = Load::start(&live, 6, 3).await;
    for _ in 0..KILLS {
        let (leader, term) = live.leader_and_term().await;
        live.cluster.kill(leader);
        let next = live.leader_after(term).await;
        assert_ne!(next, leader, "the killed one leads no more");
        load.progress().await;
        load.check().await;
        live.cluster.start_node(leader).unwrap();
        live.node_ready(leader).await;
    }
    load.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_told_to_stop_hands_over_and_ends_well() {
    let mut live = Live::start(3).await;
    let load = Load::start(&live, 3, 1).await;
    let (leader, term) = live.leader_and_term().await;
    assert_eq!(live.cluster.terminate(leader, Duration::from_secs(10)), Some(0));
    assert_ne!(live.leader_after(term).await, leader);
    load.progress().await;
    load.check().await;
    load.finish().await;
}
