//! The floor of any lock: the lowest token that can still be valid, as far as a feed has heard (SPEC 7, way 3).
//!
//! One snapshot of held slots and an applied index A cover every lock. The floor of a held slot is its tenure's token,
//! that of any other, seen or never seen, is A + 1: whatever is granted later has a larger token. What is kept is
//! bounded by the slots that are held. Left out: where the news comes from, and how fresh it is.

use std::collections::BTreeMap;

use crate::event::Event;
use crate::ids::{GuardName, LockName, Slot};
use crate::limits::TOKEN_MAX;
use crate::lock::SlotState;
use crate::table::LockTable;
use crate::token::Token;

/// How a slot stands after an entry, as far as floors go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Held under this token: also while a member of a shared tenure has expired.
    Held(Token),
    /// In a lock-delay that asks guards to confirm a floor (SPEC 5, fence-ahead).
    Asking {
        /// The floor: the index, with the token base, of the entry that began the delay.
        floor: Token,
        /// Named guards that have not confirmed it. Never empty.
        guards: Vec<GuardName>,
    },
    /// Neither.
    Open,
}

/// A slot, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotStanding {
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// How it stands.
    pub standing: Standing,
}

impl Standing {
    /// As the table has it.
    pub fn of(table: &LockTable, lock: &LockName, slot: Slot) -> Self {
        let state = table.lock(lock).and_then(|lock| lock.slots.get(&slot));
        match state {
            None => Self::Open,
            Some(SlotState::Held(tenure)) => Self::Held(tenure.token),
            Some(SlotState::Delayed(delay)) => {
                let missing = delay.guards.iter().filter(|guard| !delay.confirmed.contains(*guard));
                let guards: Vec<_> = missing.cloned().collect();
                if guards.is_empty() {
                    return Self::Open;
                }
                Self::Asking { floor: table.header().token_base.token(delay.began), guards }
            }
        }
    }
}

/// The slots that an entry moved, as they stand after it.
pub fn moved(events: &[Event], table: &LockTable) -> Vec<SlotStanding> {
    let mut slots: Vec<(&LockName, Slot)> = Vec::new();
    for event in events {
        match event {
            Event::Granted { grant, .. } => {
                slots.extend(grant.parts.iter().map(|part| (&part.lock, part.slot)));
            }
            Event::HoldEnded { lock, slot, .. }
            | Event::DelayStarted { lock, slot, .. }
            | Event::DelayEnded { lock, slot, .. }
            | Event::FloorConfirmed { lock, slot, .. } => {
                slots.push((lock, *slot));
            }
            Event::Founded
            | Event::LeaderReady { .. }
            | Event::SessionOpened { .. }
            | Event::SessionEnded { .. }
            | Event::Queued { .. }
            | Event::Contended { .. }
            | Event::WaitEnded { .. }
            | Event::Refused { .. }
            | Event::KeyPublished { .. }
            | Event::MetadataSet { .. }
            | Event::ProgressReported { .. }
            | Event::SessionKept { .. }
            | Event::Ticked
            | Event::Broken { .. }
            | Event::SessionTakenOver { .. }
            | Event::CapacitySet { .. }
            | Event::CycleSearchGivenUp { .. }
            | Event::VersionSet { .. } => {}
        }
    }
    slots.sort_unstable();
    slots.dedup();
    let stands = |(lock, slot): (&LockName, Slot)| {
        let standing = Standing::of(table, lock, slot);
        SlotStanding { lock: lock.clone(), slot, standing }
    };
    slots.into_iter().map(stands).collect()
}

/// The floor of a slot, as the table has it.
pub fn floor_of(table: &LockTable, lock: &LockName, slot: Slot) -> Token {
    match Standing::of(table, lock, slot) {
        Standing::Held(token) => token,
        Standing::Asking { .. } | Standing::Open => {
            above(table.header().token_base.at(table.header().applied))
        }
    }
}

/// The lowest token that can be granted after an index.
fn above(applied: u64) -> Token {
    let next = applied.saturating_add(1).min(TOKEN_MAX);
    Token::new(next).expect("between 1 and the largest token")
}

/// A snapshot is older than what is known: its floors would be lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these floors are of index {offered}, and those of {known} are known: floors never go down")]
pub struct Older {
    /// Of the snapshot.
    pub offered: u64,
    /// What is known.
    pub known: u64,
}

/// The floors of every lock, as of one applied index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floors {
    held: BTreeMap<LockName, BTreeMap<Slot, Token>>,
    /// Everything up to here is in, with the token base.
    applied: u64,
}

impl Floors {
    /// As of `applied`, with the token base, when these slots are held and no others.
    pub fn at(applied: u64, held: impl IntoIterator<Item = (LockName, Slot, Token)>) -> Self {
        let mut floors = Self { held: BTreeMap::new(), applied };
        for (lock, slot, token) in held {
            floors.held.entry(lock).or_default().insert(slot, token);
        }
        floors
    }

    /// Everything up to here is in, with the token base.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Takes all that an entry moved; one that is in already changes nothing.
    pub fn entry(&mut self, index: u64, moved: impl IntoIterator<Item = SlotStanding>) {
        if index <= self.applied {
            return;
        }
        for SlotStanding { lock, slot, standing } in moved {
            match standing {
                Standing::Held(token) => {
                    self.held.entry(lock).or_default().insert(slot, token);
                }
                Standing::Asking { .. } | Standing::Open => {
                    let Some(slots) = self.held.get_mut(&lock) else { continue };
                    slots.remove(&slot);
                    if slots.is_empty() {
                        self.held.remove(&lock);
                    }
                }
            }
        }
        self.applied = index;
    }

    /// Nothing else moved up to here.
    pub fn progress(&mut self, applied: u64) {
        self.applied = self.applied.max(applied);
    }

    /// Takes a newer snapshot in place of everything.
    ///
    /// # Errors
    ///
    /// [`Older`]; nothing is changed then.
    pub fn replace(&mut self, newer: Self) -> Result<(), Older> {
        if newer.applied < self.applied {
            return Err(Older { offered: newer.applied, known: self.applied });
        }
        *self = newer;
        Ok(())
    }

    /// The lowest token of a slot that can still be valid. Never goes down.
    pub fn floor(&self, lock: &LockName, slot: Slot) -> Token {
        let held = self.held.get(lock).and_then(|slots| slots.get(&slot));
        held.copied().unwrap_or_else(|| above(self.applied))
    }
}

#[cfg(test)]
mod tests;
