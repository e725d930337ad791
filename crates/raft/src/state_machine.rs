//! Feeds the lock table, and tells the observer and the proposers.
//!
//! For each entry, in log order: the table applies it, the observer sees it, the proposer's sink hears. Nothing here
//! knows whether this node leads.

use std::io::{self, Write};
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use palisade_core::command::Command;
use palisade_core::ids::LogIndex;
use palisade_core::reply::EntryAt;
use palisade_core::table::LockTable;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::codec::log::decode_command;
use crate::codec::snapshot::{decode_snapshot, write_snapshot};
use crate::error::OpenError;
use crate::network::credentials::Credentials;
use crate::off_reactor::off_reactor;
use crate::replica::{Decided, Observer};
use crate::snapshot_data::SnapshotData;
use crate::snapshot_store::SnapshotStore;
use crate::types::{ApplyResult, EncodedCommand, LogId, Snapshot, SnapshotMeta, StoredMembership, Types};

/// What apply shares with readers.
pub(crate) struct Shared {
    pub(crate) table: Mutex<LockTable>,
    /// The last applied entry, published after each batch.
    pub(crate) applied: watch::Sender<u64>,
}

pub(crate) struct StateMachine {
    shared: Arc<Shared>,
    observer: Mutex<Box<dyn Observer>>,
    store: Arc<dyn SnapshotStore>,
    credentials: Arc<Credentials>,
    applied: Option<LogId>,
    membership: StoredMembership,
    /// What the newest snapshot covers.
    newest: Arc<Mutex<Option<SnapshotMeta>>>,
}

impl StateMachine {
    /// Starts from the newest snapshot, or from nothing.
    ///
    /// # Errors
    ///
    /// When the snapshot is damaged, or belongs to another cluster.
    pub(crate) async fn open(
        store: Arc<dyn SnapshotStore>,
        mut observer: Box<dyn Observer>,
        credentials: Arc<Credentials>,
    ) -> Result<(Self, Arc<Shared>), OpenError> {
        let (place, reader) = (store.place(), store.clone());
        let found = off_reactor(store.blocks(), move || {
            let Some(bytes) = reader.newest()? else { return Ok(None) };
            decode_snapshot(&bytes).map(Some).map_err(|source| OpenError::decode(reader.place(), source))
        });
        let found = found.await.map_err(|source| OpenError::io(place, source))?;
        let (meta, table) = found?.unwrap_or_default();
        if meta.last_log_id.is_some() {
            observer.installed(&table);
        }
        credentials.founded(&table);
        let (applied, _) = watch::channel(meta.last_log_id.map_or(0, |id| id.index));
        let shared = Arc::new(Shared { table: Mutex::new(table), applied });
        let machine = Self {
            shared: shared.clone(),
            observer: Mutex::new(observer),
            store,
            credentials,
            applied: meta.last_log_id,
            newest: Arc::new(Mutex::new(meta.last_log_id.is_some().then(|| meta.clone()))),
            membership: meta.last_membership,
        };
        Ok((machine, shared))
    }

    /// The last entry that the newest snapshot covered at the start.
    pub(crate) fn applied(&self) -> Option<LogId> {
        self.applied
    }

    fn command(&mut self, index: u64, command: &EncodedCommand) -> io::Result<Decided> {
        let envelope = decode_command(&command.bytes).map_err(io::Error::other)?;
        let index = LogIndex(index);
        let at = EntryAt { index, wall: envelope.wall, node: envelope.node };
        let mut table = self.shared.table.lock();
        let applied = table.apply(index, &envelope);
        self.observer.get_mut().applied(at, &envelope.command, &applied, &table);
        if matches!(envelope.command, Command::Found(_)) {
            self.credentials.founded(&table);
        }
        Ok(Decided { index, reply: applied.reply, renewed: applied.renewed })
    }
}

impl RaftStateMachine<Types> for StateMachine {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let decided = match &entry.payload {
                EntryPayload::Blank => None,
                EntryPayload::Normal(command) => Some(self.command(entry.log_id.index, command)?),
                EntryPayload::Membership(members) => {
                    self.membership = StoredMembership::new(Some(entry.log_id), members.clone());
                    None
                }
            };
            self.applied = Some(entry.log_id);
            if let Some(responder) = responder {
                responder.send(ApplyResult { decided });
            }
        }
        self.shared.applied.send_replace(self.applied.map_or(0, |id| id.index));
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        let meta = SnapshotMeta { last_log_id: self.applied, last_membership: self.membership.clone() };
        let (store, newest) = (self.store.clone(), self.newest.clone());
        SnapshotBuilder { meta, table: Some(self.shared.table.lock().clone()), store, newest }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: SnapshotData) -> io::Result<()> {
        let snapshot = snapshot.bytes().await?;
        let store = self.store.clone();
        let saved = off_reactor(self.store.blocks(), move || {
            let (cover, table) = decode_snapshot(&snapshot).map_err(io::Error::other)?;
            let mut write = |to: &mut dyn Write| to.write_all(&snapshot);
            store.save(index_of(&cover), &mut write).map_err(io::Error::other)?;
            Ok::<_, io::Error>((cover, table))
        });
        let (cover, table) = saved.await??;
        if cover != *meta {
            return Err(io::Error::other("the snapshot does not cover what its sender said"));
        }
        self.credentials.founded(&table);
        *self.newest.lock() = Some(cover.clone());
        self.applied = cover.last_log_id;
        self.membership = cover.last_membership;
        let earlier = {
            let mut current = self.shared.table.lock();
            let earlier = std::mem::replace(&mut *current, table);
            self.observer.get_mut().installed(&current);
            earlier
        };
        // To take it apart is work in proportion to it, too.
        off_reactor(self.store.blocks(), move || drop(earlier)).await?;
        self.shared.applied.send_replace(self.applied.map_or(0, |id| id.index));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let Some(meta) = self.newest.lock().clone() else { return Ok(None) };
        let snapshot = SnapshotData::kept(self.store.clone(), index_of(&meta));
        Ok(Some(Snapshot { meta, snapshot }))
    }
}

/// Holds a copy-on-write view of the table; apply goes on meanwhile.
pub(crate) struct SnapshotBuilder {
    meta: SnapshotMeta,
    table: Option<LockTable>,
    store: Arc<dyn SnapshotStore>,
    newest: Arc<Mutex<Option<SnapshotMeta>>>,
}

impl RaftSnapshotBuilder<Types> for SnapshotBuilder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let (meta, store, newest) = (self.meta.clone(), self.store.clone(), self.newest.clone());
        let table = self.table.take().ok_or_else(|| io::Error::other("a snapshot is built once"))?;
        let built = off_reactor(self.store.blocks(), move || {
            let mut write = |to: &mut dyn Write| write_snapshot(&meta, &table, to);
            store.save(index_of(&meta), &mut write).map_err(io::Error::other)?;
            let mut newest = newest.lock();
            // One that a leader sent meanwhile may be newer.
            if newest.as_ref().is_none_or(|newest| newest.last_log_id < meta.last_log_id) {
                *newest = Some(meta.clone());
            }
            Ok::<_, io::Error>(meta)
        });
        let meta = built.await??;
        let snapshot = SnapshotData::kept(self.store.clone(), index_of(&meta));
        Ok(Snapshot { meta, snapshot })
    }
}

/// The last entry that a snapshot covers.
fn index_of(meta: &SnapshotMeta) -> u64 {
    meta.last_log_id.map_or(0, |id| id.index)
}
