//! What a node takes from its leader: entries and snapshots, never both at one time.
//!
//! openraft forgets the entries that a snapshot covers as soon as the snapshot is handed to it, and installs it only after
//! what it has yet to do. In between it may want to apply one of those entries, and panics (its issue 2116). So a snapshot is
//! handed over when nothing is left to write, and entries that come meanwhile wait for it, as does the next snapshot.
//! Heartbeats do not.

use std::sync::Arc;

use futures_util::stream::{self, Stream, StreamExt};
use openraft::errors::{Fatal, RaftError};
use openraft::raft::SnapshotResponse;
use tokio::sync::RwLock;

use crate::types::{AppendRequest, Raft, RaftFailure, Snapshot, Types, Vote};

/// Lets entries in, or one snapshot.
#[derive(Default)]
pub(crate) struct Intake {
    gate: Arc<RwLock<()>>,
}

impl Intake {
    /// The same appends; those with entries wait while a snapshot is taken in.
    pub(crate) fn appends(
        &self,
        appends: impl Stream<Item = AppendRequest> + Send + 'static,
    ) -> impl Stream<Item = AppendRequest> + Send + 'static {
        let gate = self.gate.clone();
        stream::unfold((Box::pin(appends), None), move |(mut appends, handed)| {
            let gate = gate.clone();
            async move {
                // Whoever asks for the next one has handed the last one to openraft.
                drop(handed);
                let append = appends.next().await?;
                let handed = match append.entries.is_empty() {
                    true => None,
                    false => Some(gate.read_owned().await),
                };
                Some((append, (appends, handed)))
            }
        })
    }

    /// Installs a snapshot, once all that came before it is on the disk.
    ///
    /// # Errors
    ///
    /// When the replica has stopped.
    pub(crate) async fn snapshot(
        &self,
        raft: &Raft,
        vote: Vote,
        snapshot: Snapshot,
    ) -> Result<SnapshotResponse<Types>, RaftFailure> {
        let alone = self.gate.clone().write_owned().await;
        let raft = raft.clone();
        // A task of its own: a leader that goes away ends its call, and must not let the next snapshot in before this one.
        let installed = tokio::spawn(async move {
            let _alone = alone;
            // Answered when everything that was accepted before it is flushed. A vote that is too old is told by the
            // snapshot's own answer.
            let nothing = AppendRequest { vote, prev_log_id: None, entries: Vec::new(), leader_commit: None };
            raft.append_entries(nothing).await?;
            Ok(raft.install_full_snapshot(vote, snapshot).await?)
        });
        // It cannot be cancelled; if it panicked, so has the log.
        installed.await.unwrap_or(Err(RaftError::Fatal(Fatal::Panicked)))
    }
}
