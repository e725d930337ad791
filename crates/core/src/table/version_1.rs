//! A table as format version 1 wrote it: read, never written.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::memory::{EndedSessions, Predecessors};
use super::sharded::Sharded;
use super::{Counts, Header, SigningKey};
use crate::history::History;
use crate::ids::{KeyId, LockName, SecretHash, SessionId};
use crate::lock::Lock;
use crate::session::Session;

/// Everything that the cluster knew.
#[derive(Deserialize)]
pub struct LockTable {
    header: Header,
    sessions: Sharded<SessionId, Session>,
    secrets: Sharded<SecretHash, SessionId>,
    locks: Sharded<LockName, Lock>,
    ended: EndedSessions,
    predecessors: Predecessors,
    keys: BTreeMap<KeyId, SigningKey>,
    counts: Counts,
}

impl From<LockTable> for super::LockTable {
    /// The history begins here, and says so.
    fn from(old: LockTable) -> Self {
        let history = History::beginning_after(old.header.applied);
        Self {
            header: old.header,
            sessions: old.sessions,
            secrets: old.secrets,
            locks: old.locks,
            ended: Arc::new(old.ended),
            predecessors: Arc::new(old.predecessors),
            keys: old.keys,
            counts: old.counts,
            history,
        }
    }
}
