//! The table as it is read: by tools, timers and tests.

use std::collections::BTreeMap;

use super::{Counts, EndedSession, Header, LockTable, SigningKey, SlotMemory, Ticks};
use crate::history::History;
use crate::ids::{KeyId, LockName, LockPrefix, SessionId, Slot};
use crate::limits::MoreLimits;
use crate::lock::{DelayRule, Lock};
use crate::session::Session;

impl LockTable {
    /// The cluster itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Totals.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Live sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Locks that are held, awaited or in lock-delay.
    pub fn lock_count(&self) -> usize {
        self.locks.len()
    }

    /// A live session.
    pub fn session(&self, session: SessionId) -> Option<&Session> {
        self.sessions.get(&session)
    }

    /// Live sessions, in an order that is the same on every replica.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// A lock that is held, awaited or in lock-delay.
    pub fn lock(&self, lock: &LockName) -> Option<&Lock> {
        self.locks.get(lock)
    }

    /// Locks, in an order that is the same on every replica.
    pub fn locks(&self) -> impl Iterator<Item = (&LockName, &Lock)> {
        self.locks.iter()
    }

    /// How a session ended, where that is remembered.
    pub fn ended_session(&self, session: SessionId) -> Option<&EndedSession> {
        self.ended.get(session)
    }

    /// How held parts ended. A clone of it is cheap.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Bounds that came after the first version.
    pub fn more_limits(&self) -> &MoreLimits {
        &self.more_limits
    }

    /// Bounds of lock-delays by prefix.
    pub fn delay_rules(&self) -> &BTreeMap<LockPrefix, DelayRule> {
        &self.delay_rules
    }

    /// Minutes that leaders counted.
    pub fn ticks(&self) -> Ticks {
        self.ticks
    }

    /// What is remembered of a slot.
    pub fn slot_memory(&self, lock: &LockName, slot: Slot) -> Option<&SlotMemory> {
        self.slot_memories.get(lock, slot)
    }

    /// Signing keys.
    pub fn keys(&self) -> &BTreeMap<KeyId, SigningKey> {
        &self.keys
    }
}
