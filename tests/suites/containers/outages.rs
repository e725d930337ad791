//! One node of three is lost: stopped, killed, paused, cut off. Always the leader, whose loss is the one that is felt.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::engine::docker;
use crate::grants::Grants;
use crate::three::{NODES, Three};
use crate::until;

/// Longer than the lease of the holder that takes grants, and than any that a node has.
const PAST_EVERY_LEASE: Duration = Duration::from_secs(11);

/// A node that is told to stop gives the lead to another first, and ends by itself.
pub(crate) async fn a_leader_that_is_stopped_hands_over(three: &Three, grants: &Grants) {
    let (leader, term) = three.leader().await;
    let fault = Instant::now();
    three.compose(&["stop", leader]).await;
    let container = three.container(leader).await;
    assert_eq!(docker(&["inspect", "--format", "{{.State.ExitCode}}", &container]).await, "0");
    let log = three.compose(&["logs", leader]).await;
    assert!(log.contains("handed the lead over") && log.contains("moved=true"), "{log}");
    replaced(three, leader, term).await;
    grants.go_on().await;
    grants.hardly_interrupted_since(fault, "the leader is stopped");
    back(three, leader).await;
}

pub(crate) async fn a_leader_is_killed(three: &Three, grants: &Grants) {
    let (leader, term) = three.leader().await;
    let fault = Instant::now();
    docker(&["kill", &three.container(leader).await]).await;
    replaced(three, leader, term).await;
    grants.go_on().await;
    grants.hardly_interrupted_since(fault, "the leader is killed");
    back(three, leader).await;
}

/// It wakes up with its beliefs intact, and finds that it was replaced.
pub(crate) async fn a_leader_is_paused_past_every_lease(three: &Three, grants: &Grants) {
    let (leader, term) = three.leader().await;
    let container = three.container(leader).await;
    let fault = Instant::now();
    docker(&["pause", &container]).await;
    replaced(three, leader, term).await;
    sleep(PAST_EVERY_LEASE).await;
    docker(&["unpause", &container]).await;
    grants.go_on().await;
    three.complete(leader).await;
    grants.go_on().await;
    grants.hardly_interrupted_since(fault, "the leader is paused");
    three.healthy(leader).await;
}

/// It runs on alone, knows that it has no quorum, and comes back when the network does.
pub(crate) async fn a_leader_is_cut_off(three: &Three, grants: &Grants) {
    let (leader, term) = three.leader().await;
    let (container, network) = (three.container(leader).await, three.network());
    let fault = Instant::now();
    docker(&["network", "disconnect", &network, &container]).await;
    replaced(three, leader, term).await;
    until("the node that is cut off has no quorum", async || {
        let arguments = ["exec", container.as_str(), "palisade", "status", "--local"];
        let answer = crate::engine::run("docker", &arguments, &[]).await;
        answer.status.code() == Some(1) && String::from_utf8_lossy(&answer.stdout).starts_with("No quorum")
    })
    .await;
    grants.go_on().await;
    docker(&["network", "connect", "--alias", leader, &network, &container]).await;
    three.complete(&other(leader)).await;
    grants.go_on().await;
    grants.hardly_interrupted_since(fault, "the leader is cut off");
    three.healthy(leader).await;
}

/// Waits until another node leads, in a later term.
async fn replaced(three: &Three, leader: &str, term: u64) {
    until("another node leads", async || {
        let (next, later) = three.leader().await;
        next != leader && later > term
    })
    .await;
}

/// Starts a node again, and waits until it is one of three.
async fn back(three: &Three, node: &str) {
    three.compose(&["start", node]).await;
    three.healthy(node).await;
    three.complete(node).await;
}

/// Some node that is not this one.
fn other(node: &str) -> String {
    NODES.into_iter().find(|other| *other != node).unwrap_or(node).to_owned()
}
