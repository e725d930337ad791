//! What a node tells of itself and of the cluster.

use std::sync::Arc;
use std::time::Duration;

use palisade_core::ids::NodeId;
use palisade_proto::v1;
use palisade_raft::{Replica, Role};

use crate::coordinator::Coordinator;
use crate::forward;
use crate::stream::Router;

/// A peer that says nothing within this time is shown as unreachable.
const PEER_WAIT: Duration = Duration::from_millis(500);

/// This node's own view of itself.
pub(crate) fn own(coordinator: &Coordinator, replica: &Replica) -> v1::NodeStatus {
    let status = replica.status();
    let members = replica.members();
    let peer = members.into_iter().find(|(id, _, _)| *id == coordinator.node).map(|(_, peer, _)| peer);
    let peer = peer.unwrap_or_default();
    let role = match status.role {
        Role::Leader => "leader",
        Role::Follower => "follower",
        Role::Candidate => "candidate",
        Role::Learner => "learner",
    };
    v1::NodeStatus {
        id: coordinator.node.0,
        name: coordinator.config.name.as_str().to_owned(),
        peer_address: peer.peer_address,
        client_address: peer.client_address,
        role: role.to_owned(),
        committed: status.committed.0,
        applied: status.applied.0,
        uptime_s: coordinator.uptime().as_secs(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        flush_p50_us: status.flush.p50_micros,
        flush_p99_us: status.flush.p99_micros,
        snapshot: status.snapshot.0,
        snapshots_installed: coordinator.metrics.snapshots_installed(),
        log_restarts: coordinator.metrics.log_restarts(),
    }
}

/// The cluster as this node sees it; unless `local`, with what every peer says of itself.
pub(crate) async fn cluster(
    coordinator: &Arc<Coordinator>,
    router: &Router,
    replica: &Replica,
    local: bool,
) -> v1::StatusAnswer {
    let mut nodes = vec![own(coordinator, replica)];
    if !local {
        let others = replica.members().into_iter().filter(|(id, _, _)| *id != coordinator.node);
        let asked = others.map(|(id, peer, _)| peer_status(coordinator, replica, id, peer));
        nodes.extend(futures_util::future::join_all(asked).await);
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let leader = router.leader();
    let reachable = nodes.iter().filter(|node| node.role != "unreachable").count();
    let voters = replica.members().len().max(1);
    let served = !leader.client_address.is_empty() || leader.here;
    let healthy = served && coordinator.has_quorum() && (local || reachable * 2 > voters);
    let status = replica.status();
    replica.read(|table| {
        let header = table.header();
        let founding = header.founding.as_ref();
        let counts = table.counts();
        v1::StatusAnswer {
            cluster_name: coordinator.config.cluster.as_str().to_owned(),
            cluster_id: founding.map(|f| f.cluster.to_string()).unwrap_or_default(),
            incarnation: founding.map(|f| f.incarnation.to_string()).unwrap_or_default(),
            leader: Some(leader.clone()),
            term: status.term.0,
            token_base: header.token_base.get(),
            locks_held: counts.held,
            sessions: table.session_count() as u64,
            waiters: counts.waiting,
            nodes,
            healthy,
        }
    })
}

async fn peer_status(
    coordinator: &Coordinator,
    replica: &Replica,
    id: NodeId,
    peer: palisade_raft::PeerNode,
) -> v1::NodeStatus {
    let asked = forward::node_status(coordinator, replica, id, &peer.peer_address);
    match tokio::time::timeout(PEER_WAIT, asked).await {
        Ok(Ok(status)) => status,
        Ok(Err(_)) | Err(_) => v1::NodeStatus {
            id: id.0,
            name: peer.name,
            peer_address: peer.peer_address,
            client_address: peer.client_address,
            role: "unreachable".to_owned(),
            ..v1::NodeStatus::default()
        },
    }
}
