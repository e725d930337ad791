//! What a holder asks.
//!
//! Nothing but an acquire has a number of its own: the others name exactly what they are about, acquisition and token, so
//! that a copy that comes late or twice changes nothing (SPEC 6). What replaces something carries a revision that only
//! rises.

use serde::{Deserialize, Serialize};

use crate::ids::{AcquisitionId, GuardName, LockName, Millis, OwnerLabel, RequestNumber, SessionId, Slot};
use crate::mode::Mode;
use crate::payload::Payload;
use crate::token::Token;

/// How long an acquire waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Wait {
    /// Not at all.
    Try,
    /// For this time, counted by the leader.
    Bounded(Millis),
    /// As long as the session lives.
    Session,
}

/// A lock-delay, and whether the caller named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LockDelay {
    /// Named: outside the bounds of its prefix it is refused. An explicit zero is zero.
    Named(Millis),
    /// The default, put in by the door.
    Default(Millis),
}

impl LockDelay {
    /// The delay.
    pub fn millis(self) -> Millis {
        match self {
            Self::Named(delay) | Self::Default(delay) => delay,
        }
    }
}

/// Asks for a lock, or several at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acquire {
    /// For whom.
    pub session: SessionId,
    /// None: the session's next number, which the answer names.
    pub number: Option<RequestNumber>,
    /// The client repeats nothing below it but what waits or holds.
    pub mark: RequestNumber,
    /// What to hold, all or none.
    pub parts: Vec<AcquirePart>,
    /// How long to wait.
    pub wait: Wait,
    /// A task, for the search of wait cycles.
    pub owner: Option<OwnerLabel>,
}

/// One lock of an acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AcquirePart {
    /// Which lock.
    pub lock: LockName,
    /// How.
    pub mode: Mode,
    /// Slots that the lock has; 1 unless it is a semaphore.
    pub capacity: u32,
    /// Slots wanted.
    pub permits: u32,
    /// How long the slot stays closed if the session expires.
    pub delay: LockDelay,
    /// Guards that cover everything the lock protects; empty skips nothing.
    pub fenced_by: Vec<GuardName>,
}

/// Frees what an acquisition holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Whose.
    pub acquisition: AcquisitionId,
    /// Which part; none means all.
    pub part: Option<(LockName, Slot)>,
    /// Under which token.
    pub token: Token,
}

/// Ends an acquisition in whatever state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// Which.
    pub acquisition: AcquisitionId,
}

/// Asks for locks on terms that the first version had no place for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcquireOnTerms {
    /// The request.
    pub acquire: Acquire,
    /// Its terms.
    pub terms: Terms,
}

/// Terms of an acquisition, for all its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Terms {
    /// The longest time that it may hold, from its first report of progress.
    pub hold_max: Option<Millis>,
    /// The longest time between two reports of progress.
    pub progress_every: Option<Millis>,
    /// What others can read of the holder.
    pub metadata: Payload,
}

/// Ends an exclusive tenure and begins a shared one in the same entry, under a new token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Downgrade {
    /// Whose.
    pub acquisition: AcquisitionId,
    /// Which lock. Its capacity is 1.
    pub lock: LockName,
    /// The exclusive tenure's token.
    pub token: Token,
}

/// Gives a slot that is held exclusively to a waiter: one entry, no gap, no delay, a new token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOver {
    /// Whose.
    pub acquisition: AcquisitionId,
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// Under which token.
    pub token: Token,
    /// To the earliest waiter of this session; none: to the head of the queue.
    pub to: Option<SessionId>,
}

/// Replaces the metadata of a holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetMetadata {
    /// Whose.
    pub acquisition: AcquisitionId,
    /// One that it holds.
    pub token: Token,
    /// Rises with each replacement of this acquisition's metadata; one not above the last changes nothing. 0: the next.
    pub revision: u64,
    /// What others can read.
    pub metadata: Payload,
}

/// Replaces the baton of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetBaton {
    /// Whose.
    pub acquisition: AcquisitionId,
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// Under which token.
    pub token: Token,
    /// Rises with each replacement under this token; one not above the last changes nothing. 0: the next.
    pub revision: u64,
    /// What the next holder gets.
    pub baton: Payload,
}

/// The holder gets on with its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportProgress {
    /// Whose.
    pub acquisition: AcquisitionId,
    /// One that it holds.
    pub token: Token,
    /// Rises with each report of this acquisition; one not above the last counts for nothing. 0: the next.
    pub number: u64,
}
