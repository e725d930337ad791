//! What the caller is told. Refusals are data: applying a command cannot fail.
//!
//! Replies are remembered in the replicated state, so their bytes are stable: new variants go to the end.

use serde::{Deserialize, Serialize};

use crate::ids::{
    AcquisitionId, ClientName, LockName, LogIndex, Millis, RequestNumber, SessionId, Slot, WallTime,
};
use crate::mode::Mode;
use crate::token::Token;

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Nothing to say: a command of the cluster's own took effect, or was past.
    Done,
    /// The session, new or found again by its secret.
    SessionOpened {
        /// Its id.
        session: SessionId,
        /// Its lease.
        ttl: Millis,
    },
    /// The session is closed.
    SessionClosed,
    /// The acquisition holds.
    Granted(Grant),
    /// The acquisition waits.
    Queued {
        /// Which.
        acquisition: AcquisitionId,
        /// Waiters ahead, plus one.
        place: u32,
    },
    /// What was named is free. A repeat is told how it had ended.
    Released(Ended),
    /// The acquisition is over; `was` is what the cancel met.
    Cancelled(CancelMet),
    /// No, and why.
    Refused(Refusal),
}

/// What an acquisition holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Which.
    pub acquisition: AcquisitionId,
    /// The entry that gave it its present tenure, with the token base.
    pub grant_index: u64,
    /// What it still holds.
    pub parts: Vec<GrantedPart>,
}

/// One held slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedPart {
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// How.
    pub mode: Mode,
    /// Under which token.
    pub token: Token,
    /// How long it stays closed if the session expires.
    pub delay: Millis,
}

/// What a cancel met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CancelMet {
    /// The request had not arrived; its number is now remembered as ended.
    NotArrived,
    /// It waited.
    Waiting,
    /// It held, and is released without a delay.
    Holding,
    /// It had ended, so.
    Ended(Ended),
}

/// How a session or an acquisition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Ended {
    /// By its holder.
    Released,
    /// To another acquisition.
    HandedOver,
    /// By its caller, who gave up.
    Cancelled,
    /// Its session was closed.
    Closed,
    /// Its session was not heard from.
    Expired,
    /// A restarted process took its session over.
    TakenOver,
    /// An operator ended the session.
    ByOperator,
    /// An operator broke the lock.
    Broken,
    /// Its own deadline passed.
    Overdue,
    /// Its bounded wait passed.
    TimedOut,
    /// It was refused on arrival.
    Refused,
    /// It ended; how is forgotten.
    Forgotten,
    /// The cluster was restored.
    Restored,
}

impl Ended {
    /// Whether a slot that ends so enters its lock-delay (SPEC 5).
    pub fn delays(self) -> bool {
        match self {
            Self::Expired | Self::ByOperator | Self::Broken | Self::Overdue => true,
            Self::Released
            | Self::HandedOver
            | Self::Cancelled
            | Self::Closed
            | Self::TakenOver
            | Self::TimedOut
            | Self::Refused
            | Self::Forgotten
            | Self::Restored => false,
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::HandedOver => "handed over",
            Self::Cancelled => "cancelled",
            Self::Closed => "closed",
            Self::Expired => "expired",
            Self::TakenOver => "taken over",
            Self::ByOperator => "ended by an operator",
            Self::Broken => "broken",
            Self::Overdue => "overdue",
            Self::TimedOut => "timed out",
            Self::Refused => "refused",
            Self::Forgotten => "ended",
            Self::Restored => "ended by a restore",
        }
    }
}

/// A holder, as a refusal tells it: enough to act on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderView {
    /// Which acquisition.
    pub acquisition: AcquisitionId,
    /// Whose.
    pub client: ClientName,
    /// How it holds.
    pub mode: Mode,
    /// Under which token.
    pub token: Token,
    /// Since which entry, with the token base.
    pub grant_index: u64,
    /// Wall time of that entry.
    pub granted_at: WallTime,
}

/// Why a command had no effect, or not the one that was hoped for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Nobody ever opened it here.
    SessionUnknown,
    /// The session ended.
    SessionEnded {
        /// How.
        ended: Ended,
        /// Who holds the slot that a release named, where somebody does.
        superseded: Option<Box<HolderView>>,
    },
    /// The same secret opened a session for another identity.
    SecretTaken,
    /// The number is below the mark, and neither waits nor holds.
    BelowMark {
        /// The session's mark.
        mark: RequestNumber,
    },
    /// The acquisition ended, so; it is never acquired again.
    AlreadyEnded {
        /// How.
        ended: Ended,
        /// Who holds the slot now, where somebody does.
        superseded: Option<Box<HolderView>>,
    },
    /// A known number came with other content, or a field is out of bounds.
    BadArgument(BadArgument),
    /// A try met a holder.
    Held {
        /// Who.
        holder: Box<HolderView>,
        /// Waiters.
        waiting: u32,
    },
    /// A try met waiters on a free lock (they are granted first), or a lock that waits for all its locks at once.
    Queue {
        /// Waiters.
        waiting: u32,
    },
    /// A try met a lock-delay.
    InLockDelay {
        /// Which entry began it, with the token base.
        began: u64,
        /// Its length.
        delay: Millis,
        /// The token that ended.
        ended: Token,
    },
    /// The lock is in use with another capacity.
    CapacityDiffers {
        /// In use.
        lock: u32,
        /// Asked.
        asked: u32,
    },
    /// What was to be released is not held by this acquisition under this token.
    NotHeld {
        /// Who holds the slot now, where somebody does.
        superseded: Option<Box<HolderView>>,
    },
    /// A bound was met.
    LimitReached {
        /// Which.
        limit: LimitName,
        /// Its value.
        max: u64,
    },
    /// The cluster's version does not know this yet.
    NotYet(NotYet),
    /// The cluster is not founded.
    NotFounded,
}

impl Refusal {
    /// Whether the refusal is for the session itself, so that it renews nothing (SPEC 3).
    pub fn for_session(&self) -> bool {
        match self {
            Self::SessionUnknown | Self::SessionEnded { .. } | Self::SecretTaken | Self::NotFounded => true,
            Self::BelowMark { .. }
            | Self::AlreadyEnded { .. }
            | Self::BadArgument(_)
            | Self::Held { .. }
            | Self::Queue { .. }
            | Self::InLockDelay { .. }
            | Self::CapacityDiffers { .. }
            | Self::NotHeld { .. }
            | Self::LimitReached { .. }
            | Self::NotYet(_) => false,
        }
    }
}

/// What was wrong with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BadArgument {
    /// The number is known, with other content.
    NumberReused,
    /// A number is 0.
    NumberZero,
    /// No part, or more than `PARTS_MAX`.
    Parts,
    /// A lock is named twice.
    LockTwice,
    /// 0, or above `CAPACITY_MAX`.
    Capacity,
    /// 0, or above the capacity.
    Permits,
    /// Above `LOCK_DELAY_MAX`.
    LockDelay,
    /// Outside `TTL_MIN` and `TTL_MAX`.
    Ttl,
    /// 0, or above `WAIT_MAX`.
    Wait,
    /// More than `GUARDS_MAX`.
    Guards,
    /// The key is known with other bytes.
    Key,
    /// Above `HISTORY_MAX`.
    HistorySize,
}

/// A bound that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LimitName {
    /// `Limits::sessions_max`
    Sessions,
    /// `Limits::locks_max`
    Locks,
    /// `Limits::acquisitions_per_session_max`
    AcquisitionsPerSession,
    /// `Limits::waiters_per_lock_max`
    WaitersPerLock,
    /// `Limits::outcomes_per_session_max`
    OutcomesPerSession,
    /// `Limits::keys_max`
    Keys,
}

/// What the format has a place for, and cluster version 1 refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotYet {
    /// Shared mode.
    SharedMode,
    /// Several locks at once.
    SeveralLocks,
    /// A capacity above 1.
    Semaphores,
    /// Taking over a session.
    TakingOver,
    /// A kind of command.
    ThisCommand,
}

/// The result of applying one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// For the caller.
    pub reply: Reply,
    /// For waiters, watchers, timers and metrics, in order.
    pub events: Vec<crate::event::Event>,
    /// The session that this command renews (SPEC 3): it was alive, and the refusal, if any, was not for it.
    pub renewed: Option<SessionId>,
}

/// Where an entry stands and what it says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryAt {
    /// Its log index.
    pub index: LogIndex,
    /// The proposer's wall clock.
    pub wall: WallTime,
    /// The proposing node.
    pub node: crate::ids::NodeId,
}
