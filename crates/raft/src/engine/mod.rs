//! Where log, vote and identity are kept.
//!
//! An engine is shaped as a log, not as a map. Operations take effect in the order of their calls; `done` is called
//! once they, and everything before them, are durable. The first failure is final: a flush is never tried again
//! (SPEC 11). What is left out: which entries are committed means nothing here.

mod convert;
mod flushed;
mod flusher;
mod kind;
pub mod memory;
mod segments;
mod sled;
mod threaded;

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use palisade_core::ids::{ClusterId, ClusterName, Incarnation, NodeId, NodeName};
use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};

pub use self::convert::convert_log;
pub use self::kind::EngineKind;
pub use crate::codec::log::{Record, RecordKind};
use crate::error::OpenError;
use crate::flush_meter::FlushMeter;
use crate::types::{LogId, Vote, log_id};

/// Called once an operation is durable, or has failed for good.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// Which node's data this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Drawn by the node at its first start, never reused.
    pub node: NodeId,
    /// As in its configuration.
    pub name: NodeName,
    /// The cluster's name, as in its configuration.
    pub cluster: ClusterName,
    /// Known once the node has applied the founding.
    pub cluster_id: Option<ClusterId>,
    /// Known once the node has applied the founding.
    pub incarnation: Option<Incarnation>,
}

/// An entry's place: term and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogPoint {
    /// The leader's term.
    pub term: u64,
    /// The index.
    pub index: u64,
}

impl From<LogId> for LogPoint {
    fn from(id: LogId) -> Self {
        Self { term: id.leader_id.term, index: id.index }
    }
}

impl From<&LogId> for LogPoint {
    fn from(id: &LogId) -> Self {
        (*id).into()
    }
}

impl From<LogPoint> for LogId {
    fn from(point: LogPoint) -> Self {
        log_id(point.term, point.index)
    }
}

/// Whom a node voted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedVote {
    /// In which term.
    pub term: u64,
    /// For whom.
    pub node: u64,
    /// Whether a quorum did so too.
    pub granted: bool,
}

impl From<Vote> for SavedVote {
    fn from(vote: Vote) -> Self {
        Self { term: vote.leader_id.term, node: vote.leader_id.voted_for, granted: vote.committed }
    }
}

impl From<SavedVote> for Vote {
    fn from(saved: SavedVote) -> Self {
        let leader_id = openraft::vote::leader_id_std::LeaderId { term: saved.term, voted_for: saved.node };
        Self { leader_id, committed: saved.granted }
    }
}

/// What an engine held when it was opened.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The last vote.
    pub vote: Option<SavedVote>,
    /// Everything up to here is gone from the log, and covered by a snapshot.
    pub purged: Option<LogPoint>,
    /// What was known to be committed. May lag behind.
    pub committed: Option<LogPoint>,
    /// First and last index of the log, if it holds anything.
    pub log: Option<(u64, u64)>,
    /// The newest entries, the last of them being the last of the log: as many as a replica keeps in memory.
    pub tail: Vec<Record>,
}

/// Bytes of entries that a replica keeps in memory: some 10,000 of them, more than may be undecided. Who is further behind
/// reads from the disk.
pub const TAIL_BYTES: usize = 1 << 20;

/// A durable log. Shared by one replica's log store and whoever reads its status.
pub trait Engine: Send + Sync + 'static {
    /// Where the data is, for messages.
    fn place(&self) -> PathBuf;

    /// Whose data this is, if it was ever said.
    fn identity(&self) -> Option<Identity>;

    /// What it held when it was opened.
    ///
    /// # Errors
    ///
    /// When the data cannot be read.
    fn load(&self) -> Result<Recovered, OpenError>;

    /// Appends entries; the first has index `first`.
    fn append(&self, first: u64, records: Vec<Record>, done: Done);

    /// Drops every entry after `last`; all of them when none is given.
    fn truncate_after(&self, last: Option<u64>);

    /// Drops every entry up to `point`, which may lie beyond the end of the log. Rides on the next flush.
    fn purge_to(&self, point: LogPoint);

    /// Records a vote.
    fn save_vote(&self, vote: SavedVote, done: Done);

    /// Records what is known to be committed. Rides on the next flush.
    fn save_committed(&self, committed: Option<LogPoint>);

    /// Records whose data this is.
    fn save_identity(&self, identity: Identity, done: Done);

    /// Reads durable entries from the front of `range`, as many as fit `bytes_max`, at least one. May block.
    ///
    /// # Errors
    ///
    /// When they are not there, or cannot be read.
    fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>>;

    /// Whether [`read`](Self::read) may wait for a disk, and so must not run on a reactor.
    fn blocks(&self) -> bool;

    /// How long flushes take.
    fn flushes(&self) -> &FlushMeter;

    /// Becomes `Some` with the first failure: the node must stop.
    fn failed(&self) -> watch::Receiver<Option<String>>;

    /// Waits until everything asked so far is durable, and lets go of the files. Nothing may be asked afterwards.
    fn close(&self);
}

/// Makes `identity` durable.
///
/// # Errors
///
/// When the engine has failed.
pub async fn save_identity(engine: &Arc<dyn Engine>, identity: Identity) -> io::Result<()> {
    let (sender, receiver) = oneshot::channel();
    let done = move |result| {
        // The caller may have given up waiting.
        let _ = sender.send(result);
    };
    engine.save_identity(identity, Box::new(done));
    receiver.await.unwrap_or_else(|_| Err(io::Error::other("the storage was closed")))
}

#[cfg(test)]
mod tests;
