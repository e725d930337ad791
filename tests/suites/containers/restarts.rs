//! What operators do: restart, move, take down and bring up again.

use std::time::Instant;

use crate::engine::docker;
use crate::grants::Grants;
use crate::three::{NODES, Three};
use crate::until;

/// Node after node, each once the one before is healthy again.
pub(crate) async fn node_after_node_is_restarted(three: &Three, grants: &Grants) {
    let began = Instant::now();
    for node in NODES {
        three.compose(&["restart", node]).await;
        three.healthy(node).await;
        three.complete(node).await;
    }
    grants.go_on().await;
    grants.hardly_interrupted_since(began, "node after node is restarted");
}

/// Another container takes a node's address while it is down. The others find the node at its new one, by its name.
pub(crate) async fn a_node_comes_back_at_another_address(three: &Three, grants: &Grants) {
    let began = Instant::now();
    let (node, other) = ("n3", "n1");
    let before = three.address(node).await;
    three.compose(&["stop", node]).await;
    let network = three.network();
    let squatter =
        docker(&["run", "--detach", "--rm", "--network", &network, &three.image.name, "dev"]).await;
    three.compose(&["start", node]).await;
    let after = three.address(node).await;
    assert_ne!(before, after, "its address was to change");
    three.healthy(node).await;
    // As another node sees it: that one had the old address in its hand.
    three.complete(other).await;
    docker(&["rm", "--force", &squatter]).await;
    grants.go_on().await;
    grants.hardly_interrupted_since(began, "a node comes back at another address");
}

/// Containers and network are gone and made anew; cluster and tokens go on.
pub(crate) async fn volumes_outlive_their_containers(three: &Three) {
    let (leader, _) = three.leader().await;
    let before = three.view(leader).await.unwrap();
    three.compose(&["down"]).await;
    three.up().await;
    until("the cluster is as it was", async || {
        let after = three.view("n1").await.unwrap_or_default();
        after.healthy && after.cluster_id == before.cluster_id && after.term > before.term
    })
    .await;
    crate::service::each_node_grants(three).await;
}
