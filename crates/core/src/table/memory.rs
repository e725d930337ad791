//! What the table remembers of things that are over, each bounded, the oldest dropped first.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::slot_memories::MemoryBounds;
use crate::ids::{ClientName, LogIndex, RequestNumber, SessionId, WallTime};
use crate::lock::Predecessor;
use crate::payload::Payload;
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
        self.shrink(max);
    }

    /// Drops what is too much, the oldest first.
    pub(super) fn shrink(&mut self, max: u32) {
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

/// What is remembered of a slot, also when its lock is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotMemory {
    /// Who held it last and ended.
    pub last: Option<Predecessor>,
    /// What was left for the next holder.
    pub baton: Option<Baton>,
}

/// What a holder left for the next one. It stays until a later holder replaces it: a holder that crashed before it wrote
/// its own leaves the one that it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baton {
    /// Under which token it was left.
    pub token: Token,
    /// Never empty.
    pub left: Payload,
}

impl SlotMemory {
    pub(super) fn bytes(&self) -> u64 {
        self.baton.as_ref().map_or(0, |baton| baton.left.as_bytes().len() as u64)
    }
}

impl super::LockTable {
    pub(super) fn memory_bounds(&self) -> MemoryBounds {
        MemoryBounds {
            slots_max: self.header.limits.predecessors_max,
            baton_bytes_max: self.more_limits.baton_bytes_max,
        }
    }

    /// Bytes of all batons.
    pub fn baton_bytes(&self) -> u64 {
        self.slot_memories.baton_bytes()
    }

    /// The bounded memories are within their bounds, and secrets name live sessions.
    pub(crate) fn check_memory(&self) -> Result<(), String> {
        let limits = &self.header.limits;
        if self.ended.len() > limits.ended_sessions_max as usize {
            return Err(format!("{} ended sessions are remembered", self.ended.len()));
        }
        self.slot_memories.check(self.memory_bounds())?;
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
