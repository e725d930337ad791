//! What the table remembers of things that are over, each bounded, the oldest dropped first.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::ids::{ClientName, LockName, LogIndex, RequestNumber, SessionId, Slot, WallTime};
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

/// What is remembered of slots, the least recently changed dropped first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SlotMemories {
    by_slot: BTreeMap<(LockName, Slot), (u64, SlotMemory)>,
    /// By a running number, because one entry can end many.
    in_order: BTreeMap<u64, (LockName, Slot)>,
    next: u64,
    /// Of all batons.
    baton_bytes: u64,
}

/// Bounds of `SlotMemories`.
#[derive(Clone, Copy)]
pub(super) struct MemoryBounds {
    pub(super) slots_max: u32,
    pub(super) baton_bytes_max: u64,
}

impl SlotMemories {
    pub(super) fn get(&self, lock: &LockName, slot: Slot) -> Option<&SlotMemory> {
        self.by_slot.get(&(lock.clone(), slot)).map(|(_, memory)| memory)
    }

    /// Those of all slots of a lock, in their order.
    pub(super) fn of_lock(&self, lock: &LockName) -> impl Iterator<Item = (Slot, &SlotMemory)> {
        let all = (lock.clone(), Slot(0))..=(lock.clone(), Slot(u32::MAX));
        self.by_slot.range(all).map(|((_, slot), (_, memory))| (*slot, memory))
    }

    /// Who held it last.
    pub(super) fn remember(&mut self, lock: LockName, predecessor: Predecessor, bounds: MemoryBounds) {
        let slot = predecessor.slot;
        self.change(lock, slot, bounds, |memory| memory.last = Some(predecessor));
    }

    /// What is left for the next holder; none takes it away.
    pub(super) fn leave(&mut self, lock: LockName, slot: Slot, baton: Option<Baton>, bounds: MemoryBounds) {
        self.change(lock, slot, bounds, |memory| memory.baton = baton);
    }

    /// Drops what is too much, the oldest first.
    pub(super) fn shrink(&mut self, bounds: MemoryBounds) {
        while self.in_order.len() > bounds.slots_max as usize || self.baton_bytes > bounds.baton_bytes_max {
            let Some((_, oldest)) = self.in_order.pop_first() else { return };
            if let Some((_, memory)) = self.by_slot.remove(&oldest) {
                self.baton_bytes -= memory.bytes();
            }
        }
    }

    /// As version 1 remembered: one predecessor of each lock, and no batons.
    pub(super) fn of_version_1(
        in_order: impl Iterator<Item = (u64, LockName, Predecessor)>,
        next: u64,
    ) -> Self {
        let mut all = Self { next, ..Self::default() };
        for (number, lock, last) in in_order {
            let key = (lock, last.slot);
            all.in_order.insert(number, key.clone());
            all.by_slot.insert(key, (number, SlotMemory { last: Some(last), baton: None }));
        }
        all
    }

    fn change(
        &mut self,
        lock: LockName,
        slot: Slot,
        bounds: MemoryBounds,
        change: impl FnOnce(&mut SlotMemory),
    ) {
        let number = self.next;
        self.next += 1;
        let key = (lock, slot);
        let mut memory = match self.by_slot.remove(&key) {
            Some((old, memory)) => {
                self.in_order.remove(&old);
                self.baton_bytes -= memory.bytes();
                memory
            }
            None => SlotMemory::default(),
        };
        change(&mut memory);
        if memory != SlotMemory::default() {
            self.baton_bytes += memory.bytes();
            self.in_order.insert(number, key.clone());
            self.by_slot.insert(key, (number, memory));
        }
        self.shrink(bounds);
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len()
    }

    /// Bytes of all batons, as they are counted, and as they are.
    fn baton_bytes(&self) -> (u64, u64) {
        (self.baton_bytes, self.by_slot.values().map(|(_, memory)| memory.bytes()).sum())
    }
}

impl SlotMemory {
    fn bytes(&self) -> u64 {
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
        self.slot_memories.baton_bytes
    }

    /// The bounded memories are within their bounds, and secrets name live sessions.
    pub(crate) fn check_memory(&self) -> Result<(), String> {
        let limits = &self.header.limits;
        if self.ended.len() > limits.ended_sessions_max as usize {
            return Err(format!("{} ended sessions are remembered", self.ended.len()));
        }
        if self.slot_memories.len() > limits.predecessors_max as usize {
            return Err(format!("{} slots are remembered", self.slot_memories.len()));
        }
        let (counted, bytes) = self.slot_memories.baton_bytes();
        if counted != bytes || bytes > self.more_limits.baton_bytes_max {
            return Err(format!("batons have {bytes} bytes, {counted} are counted"));
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
