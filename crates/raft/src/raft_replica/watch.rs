//! Follows openraft: who leads, and whether it has failed.

use openraft::errors::Fatal;
use openraft::type_config::async_runtime::watch::WatchReceiver;
use palisade_core::ids::{NodeId, Term};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::ReplicaFailure;
use crate::replica::Leadership;
use crate::types::Raft;

type Watched = (watch::Receiver<Leadership>, watch::Receiver<Option<ReplicaFailure>>, JoinHandle<()>);

/// Starts the one task that follows; it ends with openraft.
pub(super) fn watch(raft: &Raft, mut storage: watch::Receiver<Option<String>>) -> Watched {
    let (lead, leadership) = watch::channel(Leadership::default());
    let (fail, failed) = watch::channel(None);
    let mut server = raft.server_metrics();
    let all = raft.metrics();
    let task = tokio::spawn(async move {
        loop {
            let now = {
                let metrics = server.borrow_watched();
                Leadership {
                    term: Term(metrics.vote.leader_id().term),
                    leader: metrics.current_leader.map(NodeId),
                    leads: metrics.state.is_leader(),
                }
            };
            lead.send_if_modified(|known| std::mem::replace(known, now) != now);
            let storage_failed = storage.borrow_and_update().clone();
            if let Some(why) = storage_failed {
                fail.send_replace(Some(ReplicaFailure::Storage(why)));
                break;
            }
            tokio::select! {
                changed = server.changed() => if changed.is_err() { break },
                // A storage that is gone without a failure was closed, and openraft ends with it.
                changed = storage.changed() => if changed.is_err() { break },
            }
        }
        lead.send_modify(|known| *known = Leadership { leads: false, leader: None, ..*known });
        let running = all.borrow_watched().running_state.clone();
        if fail.borrow().is_none() {
            fail.send_replace(match running {
                Err(Fatal::Stopped) => None,
                // It tells how it ends, unless it panics.
                Ok(()) | Err(Fatal::Panicked) => Some(ReplicaFailure::Panicked),
                Err(fatal @ Fatal::StorageError(_)) => {
                    Some(ReplicaFailure::Storage(format!("the replicated log failed: {fatal}")))
                }
            });
        }
        // Whoever waits for a failure hears of one, never of a closed channel, as long as the replica is there.
        fail.closed().await;
    });
    (leadership, failed, task)
}
