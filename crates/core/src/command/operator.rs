//! What an operator asks, and the guards of resources.

use serde::{Deserialize, Serialize};

use super::ClusterVersion;
use crate::history::HistorySizes;
use crate::ids::{GuardName, LockName, LockPrefix, Millis, Principal, SessionId, Slot};
use crate::limits::{Limits, MoreLimits};
use crate::lock::DelayRule;
use crate::token::Token;

/// Takes a slot from everyone who holds it under this token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakLock {
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// The tenure's token, so that a successor is not broken instead.
    pub token: Token,
    /// How long the slot is closed; none: the holder's TTL and its lock-delay, because it may believe in its lease so long.
    pub closed: Option<Millis>,
    /// Who asks.
    pub by: Principal,
}

/// Ends a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndSession {
    /// Which.
    pub session: SessionId,
    /// How long its slots are closed; none: its TTL and their lock-delays.
    pub closed: Option<Millis>,
    /// Who asks.
    pub by: Principal,
}

/// Sets the capacity of a lock in use; it then wins over every named number above 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetCapacity {
    /// Which lock.
    pub lock: LockName,
    /// Its slots from now on. Those beyond are not granted again.
    pub capacity: u32,
}

/// Bounds the lock-delays of all locks whose names begin so. The longest prefix that fits a name counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetDelayRule {
    /// A byte prefix; empty: every lock.
    pub prefix: LockPrefix,
    /// The rule; none takes it away.
    pub rule: Option<DelayRule>,
}

/// Sets the bounds that apply enforces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLimits {
    /// Those of the first version.
    pub limits: Limits,
    /// Those that came later.
    pub more: MoreLimits,
    /// Of the history.
    pub history: HistorySizes,
}

/// A guard has made a floor of a slot durable: it will accept nothing below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmFloor {
    /// Which guard.
    pub guard: GuardName,
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// At or above the one that the delay asks for: the index, with the base, of the entry that began it.
    pub floor: Token,
    /// Who says so.
    pub by: Principal,
}

/// Puts a later behaviour of apply in force. An earlier one than the present is refused, as is one that is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetVersion {
    /// Which.
    pub version: ClusterVersion,
}
