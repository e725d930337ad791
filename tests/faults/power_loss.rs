//! All nodes die at once. Acknowledged means: on the disks of a majority.
//!
//! A killed process loses what it had not written; what it had not flushed, the system still has. That flushes reach
//! the disk is proved elsewhere.

use super::load::Load;
use crate::live::Live;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_all_nodes_are_killed_at_once() {
    let mut live = Live::start(3).await;
    let load = Load::start(&live, 6, 3).await;
    for _ in 0..2 {
        live.cluster.kill_all();
        assert!(live.leader_now().await.is_none(), "nobody is left to answer");
        live.cluster.start_all().unwrap();
        live.ready().await;
        load.progress().await;
        load.check().await;
    }
    load.finish().await;
}
