//! A lock: its slots, each free, held by a tenure, or in lock-delay; and its queue.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::few::Few;
use crate::ids::{AcquisitionId, GuardName, LogIndex, Millis, Slot, WallTime};
use crate::mode::Mode;
use crate::queue::WaitQueue;
use crate::reply::Ended;
use crate::token::Token;

/// A name that sessions hold, await, or may not have yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Slots 0 to capacity - 1.
    pub capacity: u32,
    /// An operator set it: it wins over every named number above 1.
    pub capacity_set: bool,
    /// Slots that are not free.
    pub slots: Few<Slot, SlotState>,
    /// Who waits.
    pub queue: WaitQueue,
}

/// A slot that is not free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotState {
    /// By one exclusive holder, or by a changing set of shared ones.
    Held(Tenure),
    /// Closed after its holder's session expired.
    Delayed(Box<Delay>),
}

/// One unbroken period in which a slot is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenure {
    /// The token base and the index of the entry that began it.
    pub token: Token,
    /// That index.
    pub begun: LogIndex,
    /// Wall time of that entry.
    pub begun_at: WallTime,
    /// Which slot.
    pub slot: Slot,
    /// How.
    pub mode: Mode,
    /// Who. Never empty.
    pub holders: Few<AcquisitionId, Holder>,
    /// The longest delay of those holders of a shared tenure that already ended otherwise than by release, with
    /// their guards.
    pub owed: Option<Box<OwedDelay>>,
}

/// One holder of a tenure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The entry that gave it its place.
    pub grant: LogIndex,
    /// Wall time of that entry.
    pub granted_at: WallTime,
    /// How long the slot stays closed if its session expires.
    pub delay: Millis,
    /// Guards that cover everything the lock protects.
    pub fenced_by: Vec<GuardName>,
}

/// What a member of a shared tenure left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwedDelay {
    /// The longest.
    pub delay: Millis,
    /// Their guards; none skips nothing.
    pub guards: Vec<GuardName>,
}

/// A slot that is closed for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// The entry at which it began; what its end must name.
    pub began: LogIndex,
    /// Wall time of that entry.
    pub began_at: WallTime,
    /// The token that ended.
    pub ended: Token,
    /// Its length, counted by the leader.
    pub delay: Millis,
    /// Guards that must confirm to end it early; empty skips nothing.
    pub guards: Vec<GuardName>,
    /// Those of them that did.
    pub confirmed: BTreeSet<GuardName>,
    /// Whose the slot is when the delay ends, ahead of the queue: an acquisition that a restarted process took over.
    pub kept_for: Option<AcquisitionId>,
}

/// Bounds of the lock-delays below a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayRule {
    /// The least.
    pub least: Millis,
    /// The largest.
    pub most: Millis,
    /// Guards that cover everything below the prefix, taken by holders that name none; empty names none.
    pub fenced_by: Vec<GuardName>,
}

/// The last holder of a slot of a lock, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Predecessor {
    /// Which slot.
    pub slot: Slot,
    /// Which acquisition.
    pub acquisition: AcquisitionId,
    /// Whose.
    pub client: crate::ids::ClientName,
    /// Under which token.
    pub token: Token,
    /// How it ended.
    pub ended: Ended,
    /// The entry that ended it.
    pub end: LogIndex,
    /// Wall time of that entry.
    pub ended_at: WallTime,
}

impl Lock {
    /// A lock that nobody holds or awaits.
    pub fn new(capacity: u32) -> Self {
        Self { capacity, capacity_set: false, slots: Few::default(), queue: WaitQueue::default() }
    }

    /// The lowest free slot at or above `from`.
    pub(crate) fn free_slot(&self, from: Slot) -> Option<Slot> {
        let taken =
            self.slots.range(from..).zip(from.0..).take_while(|((slot, _), at)| slot.0 == *at).count();
        let free = from.0 + u32::try_from(taken).ok()?;
        (free < self.capacity).then_some(Slot(free))
    }

    /// How many slots are free. Those beyond the capacity, which a larger one left behind, are none of them.
    pub(crate) fn free_slots(&self) -> u32 {
        let beyond = self.slots.last_key_value().is_some_and(|(last, _)| last.0 >= self.capacity);
        let taken = if beyond { self.slots.range(..Slot(self.capacity)).count() } else { self.slots.len() };
        self.capacity - u32::try_from(taken).unwrap_or(self.capacity)
    }

    /// Whether what is asked fits what is held: so many free slots, or a shared tenure to join. The queue is another
    /// question.
    pub(crate) fn has_room(&self, mode: Mode, permits: u32) -> bool {
        self.free_slots() >= permits || (mode == Mode::Shared && self.shared_tenure().is_some())
    }

    /// The shared tenure that shared requests can join. A capacity above 1 knows the exclusive mode only.
    pub(crate) fn shared_tenure(&self) -> Option<&Tenure> {
        let tenure = self.slots.get(&Slot(0))?.tenure()?;
        (self.capacity == 1 && tenure.mode == Mode::Shared).then_some(tenure)
    }

    /// Whether nothing is left to know of it.
    pub fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.queue.is_empty()
    }
}

impl SlotState {
    /// The tenure, while it is held.
    pub fn tenure(&self) -> Option<&Tenure> {
        match self {
            Self::Held(tenure) => Some(tenure),
            Self::Delayed(_) => None,
        }
    }
}
