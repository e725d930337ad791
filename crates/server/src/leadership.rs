//! What a node does when the leader changes: lead, follow, or wait.
//!
//! A node that wins an election founds the cluster if nobody did, proposes its `LeaderReady`, and serves once that is
//! applied. A node that follows opens one relay to the leader. Every change of route raises the generation that
//! clients see.

use std::sync::Arc;
use std::time::Duration;

use palisade_core::command::{ClusterVersion, Command, Found, LeaderReady, Member, PublishKey};
use palisade_core::ids::{ClusterId, Incarnation, NodeId, NodeName, Term};
use palisade_core::token::TokenBase;
use palisade_raft::{Leadership, PeerNode, ProposeError, Replica};
use tokio::sync::watch;

use crate::coordinator::Coordinator;
use crate::forward;
use crate::stream::{LeaderInfo, Route, Router};

/// Between the first two attempts at what must happen; each rest is twice the one before.
const RETRY_MIN: Duration = Duration::from_millis(5);
/// Longest.
const RETRY_MAX: Duration = Duration::from_millis(50);

/// Follows the leadership for ever.
pub(crate) async fn run(coordinator: Arc<Coordinator>, router: Arc<Router>, replica: Replica) {
    let mut changes = replica.leadership();
    loop {
        let leadership = *changes.borrow_and_update();
        let act = async {
            if leadership.leads {
                lead(&coordinator, &router, &replica, leadership.term).await;
            } else if let Some(leader) = leadership.leader {
                forward::follow(&coordinator, &router, &replica, leader).await;
            }
            // Nothing more to do until something changes.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            changed = changed(&mut changes, leadership) => {
                if !changed {
                    return;
                }
                coordinator.metrics.leader_changed();
            }
            () = act => {}
        }
        coordinator.stop_serving();
        router.set(&coordinator, Route::Nowhere, LeaderInfo::default());
    }
}

async fn changed(changes: &mut watch::Receiver<Leadership>, from: Leadership) -> bool {
    loop {
        if changes.changed().await.is_err() {
            return false;
        }
        if *changes.borrow() != from {
            return true;
        }
    }
}

/// Takes over: founds, proves that what came before is applied, serves.
async fn lead(coordinator: &Arc<Coordinator>, router: &Arc<Router>, replica: &Replica, term: Term) {
    if replica.read(|table| table.header().founding.is_none()) {
        insist(replica, || Command::Found(found(coordinator, replica))).await;
    }
    let ready = LeaderReady { term, node: coordinator.node, nonce: coordinator.nonce };
    insist(replica, || Command::LeaderReady(ready.clone())).await;
    // Before it serves, so that every grant that it tells of can be signed.
    publish_key(replica, coordinator.signer.publish(coordinator.node)).await;
    if !coordinator.serve(term) {
        return;
    }
    let own = leader_info(replica, coordinator.node, term);
    tracing::info!(node = %coordinator.config.name, term = term.0, "leads and serves");
    router.set(coordinator, Route::Here, own);
}

/// Proposes until it is decided. Ends with the term: the caller drops it when leadership changes.
async fn insist(replica: &Replica, command: impl Fn() -> Command) {
    let mut rest = RETRY_MIN;
    loop {
        match replica.propose(command()).await {
            Ok(_) => return,
            Err(ProposeError::Stopped(_)) => std::future::pending().await,
            Err(why) => tracing::debug!(%why, "proposed again"),
        }
        tokio::time::sleep(rest).await;
        rest = (rest * 2).min(RETRY_MAX);
    }
}

/// Makes a node's signing key known, once.
pub(crate) async fn publish_key(replica: &Replica, publish: PublishKey) {
    let known = replica.read(|table| table.keys().contains_key(&publish.key));
    if !known {
        insist(replica, || Command::PublishKey(publish.clone())).await;
    }
}

fn found(coordinator: &Coordinator, replica: &Replica) -> Found {
    let (mut cluster, mut incarnation) = ([0; 16], [0; 16]);
    coordinator.host.entropy.fill(&mut cluster);
    coordinator.host.entropy.fill(&mut incarnation);
    let members = replica.members().into_iter().filter_map(|(node, peer, _)| {
        let name = NodeName::new(&peer.name).ok()?;
        Some(Member { node, name })
    });
    Found {
        cluster: ClusterId(cluster),
        name: coordinator.config.cluster.clone(),
        incarnation: Incarnation(incarnation),
        limits: coordinator.config.limits.clone(),
        token_base: TokenBase::default(),
        version: ClusterVersion::CURRENT,
        members: members.collect(),
    }
}

/// Who a node is, as clients are told.
fn leader_info(replica: &Replica, node: NodeId, term: Term) -> LeaderInfo {
    let members = replica.members();
    let peer = members.into_iter().find(|(id, _, _)| *id == node).map(|(_, peer, _)| peer);
    let PeerNode { name, client_address, .. } = peer.unwrap_or_default();
    LeaderInfo { node, name, client_address, term }
}
