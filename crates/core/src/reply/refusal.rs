//! Why not.

use serde::{Deserialize, Serialize};

use super::{Ended, HolderView};
use crate::ids::{
    AcquisitionId, ClientName, LockName, LockPrefix, Millis, OwnerLabel, RequestNumber, SessionId,
};
use crate::token::Token;

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
    /// The same secret opened a session for another identity, or is that of the session to be replaced.
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
    /// The wait would close a cycle of owners that wait for each other.
    WouldDeadlock(Cycle),
    /// Nobody to whom the slot could be given in this very entry; the holder keeps it.
    NobodyToHandTo {
        /// The session that was named.
        to: Option<SessionId>,
        /// Waiters.
        waiting: u32,
    },
    /// A named delay is outside the bounds of its prefix.
    DelayOutOfBounds {
        /// The prefix.
        prefix: LockPrefix,
        /// The least.
        least: Millis,
        /// The largest.
        most: Millis,
    },
    /// An operator set a capacity below the permits that were asked.
    TooManyPermits {
        /// The capacity.
        capacity: u32,
        /// Asked.
        permits: u32,
    },
    /// Nobody holds or awaits the lock, and it is in no lock-delay.
    NotInUse,
    /// The secret is not that of the session to be replaced.
    SecretWrong,
    /// The cluster is at this version; a named one is older, or not known.
    Version {
        /// In force.
        present: u32,
        /// The newest that the applying build knows. The same on all replicas that could apply the entry.
        newest: u32,
    },
}

/// Owners that wait for each other, each for the next, the last for the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycle {
    /// Never empty.
    pub steps: Vec<CycleStep>,
}

/// One wait of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CycleStep {
    /// Who waits.
    pub owner: OwnerLabel,
    /// Its client, for people.
    pub client: ClientName,
    /// Its acquisition that waits.
    pub acquisition: AcquisitionId,
    /// For this lock, which the next one holds, or awaits ahead of it.
    pub lock: LockName,
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
            | Self::NotYet(_)
            | Self::WouldDeadlock(_)
            | Self::NobodyToHandTo { .. }
            | Self::DelayOutOfBounds { .. }
            | Self::TooManyPermits { .. }
            | Self::NotInUse
            | Self::SecretWrong
            | Self::Version { .. } => false,
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
    /// Shared, of a lock with a capacity above 1.
    Mode,
    /// A holding time or progress interval outside `DEADLINE_MIN` and `DEADLINE_MAX`.
    Deadline,
    /// A rule whose least delay is above its largest, or that names a delay above `LOCK_DELAY_MAX`.
    DelayRule,
    /// A limit of 0, or outside what can work.
    Limits,
    /// A slot closed for longer than `CLOSED_MAX`.
    Closed,
    /// A floor that is below the one that the delay asks for, or above every token that can exist.
    Floor,
    /// More than `KEEP_BATCH_MAX` sessions.
    Sessions,
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
    /// `MoreLimits::delay_rules_max`
    DelayRules,
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
