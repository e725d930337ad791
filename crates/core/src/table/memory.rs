//! What the table remembers of things that are over, each bounded, the oldest dropped first.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::ids::{ClientName, LockName, LogIndex, RequestNumber, SessionId, WallTime};
use crate::lock::Predecessor;
use crate::reply::Ended;
use crate::token::Token;

/// A session that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedSession {
    /// How.
    pub ended: Ended,
    /// The entry that ended it.
    pub end: LogIndex,
    /// Wall time of that entry.
    pub ended_at: WallTime,
    /// What it held when it ended, up to `ENDED_HELD_MAX`: enough to answer a late check.
    pub held: Vec<(RequestNumber, Token)>,
    /// Whose it was, for people.
    pub client: ClientName,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EndedSessions {
    by_id: BTreeMap<SessionId, EndedSession>,
    in_order: VecDeque<SessionId>,
}

impl EndedSessions {
    pub(super) fn get(&self, session: SessionId) -> Option<&EndedSession> {
        self.by_id.get(&session)
    }

    pub(super) fn remember(&mut self, session: SessionId, ended: EndedSession, max: u32) {
        if self.by_id.insert(session, ended).is_none() {
            self.in_order.push_back(session);
        }
        while self.in_order.len() > max as usize {
            if let Some(oldest) = self.in_order.pop_front() {
                self.by_id.remove(&oldest);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len()
    }
}

/// The last holder of each lock that was held, also when the lock itself is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Predecessors {
    by_lock: BTreeMap<LockName, (u64, Predecessor)>,
    /// By a running number, because one entry can end many.
    in_order: BTreeMap<u64, LockName>,
    next: u64,
}

impl Predecessors {
    pub(super) fn get(&self, lock: &LockName) -> Option<&Predecessor> {
        self.by_lock.get(lock).map(|(_, predecessor)| predecessor)
    }

    pub(super) fn remember(&mut self, lock: LockName, predecessor: Predecessor, max: u32) {
        let number = self.next;
        self.next += 1;
        if let Some((old, _)) = self.by_lock.insert(lock.clone(), (number, predecessor)) {
            self.in_order.remove(&old);
        }
        self.in_order.insert(number, lock);
        while self.in_order.len() > max as usize {
            if let Some((_, oldest)) = self.in_order.pop_first() {
                self.by_lock.remove(&oldest);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len()
    }
}

impl super::LockTable {
    /// The bounded memories are within their bounds, and secrets name live sessions.
    pub(crate) fn check_memory(&self) -> Result<(), String> {
        let limits = &self.header.limits;
        if self.ended.len() > limits.ended_sessions_max as usize {
            return Err(format!("{} ended sessions are remembered", self.ended.len()));
        }
        if self.predecessors.len() > limits.predecessors_max as usize {
            return Err(format!("{} predecessors are remembered", self.predecessors.len()));
        }
        if self.secrets.len() != self.sessions.len() {
            return Err(format!("{} secrets for {} sessions", self.secrets.len(), self.sessions.len()));
        }
        for (id, session) in self.sessions() {
            if self.secrets.get(&session.secret) != Some(&id) {
                return Err(format!("the secret of session {id} does not find it"));
            }
        }
        Ok(())
    }
}
