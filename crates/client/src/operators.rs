//! What an operator asks, and the guards of resources: of no session, through whichever node leads.
//!
//! They are repeated until they are decided, and each names what it was decided on. So a repeat over a lost answer changes
//! nothing twice; what it named can be told as ended by then, by its own first copy.

use std::time::Duration;

use palisade_core::ids::{GuardName, LockName, LockPrefix, SessionId, Slot};
use palisade_core::token::Token;
use palisade_proto::v1;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;

use crate::client::Client;
use crate::error::CallError;
use crate::spec::millis;
use crate::wire;

/// How long the slots that an operator takes from a holder stay closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// For the holder's TTL, for which it may believe in its lease, and then its lock-delay.
    Safely,
    /// For this time. Shorter than the other, the earlier holder and the next can act at the same time, on resources that
    /// check no tokens.
    For(Duration),
}

impl Closed {
    fn millis(self) -> Option<u64> {
        match self {
            Self::Safely => None,
            Self::For(time) => Some(millis(time)),
        }
    }
}

impl Client {
    /// Takes a slot from everyone who holds it under this token.
    ///
    /// # Errors
    ///
    /// See [`CallError`]; refused as `NOT_HELD` when nobody holds it under that token any more.
    pub async fn break_lock(
        &self,
        lock: &LockName,
        slot: Slot,
        token: Token,
        closed: Closed,
    ) -> Result<v1::Broken, CallError> {
        let op = v1::BreakLock {
            lock: lock.as_str().to_owned(),
            slot: slot.0,
            token: token.get(),
            closed_ms: closed.millis(),
        };
        match self.read(Op::BreakLock(op)).await? {
            Answer::Broken(broken) => Ok(broken),
            _ => Err(wire::unexpected()),
        }
    }

    /// Ends a session, with all that it holds and awaits.
    ///
    /// # Errors
    ///
    /// See [`CallError`]; refused when it has ended.
    pub async fn end_session(&self, session: SessionId, closed: Closed) -> Result<v1::Stopped, CallError> {
        let op = v1::EndSession { session: session.0, closed_ms: closed.millis() };
        match self.read(Op::EndSession(op)).await? {
            Answer::Stopped(stopped) => Ok(stopped),
            _ => Err(wire::unexpected()),
        }
    }

    /// Sets the capacity of a lock in use; it then wins over every named number above 1. Tell its resources first.
    ///
    /// # Errors
    ///
    /// See [`CallError`]; refused as `NOT_IN_USE` when nobody holds or awaits it.
    pub async fn set_capacity(&self, lock: &LockName, slots: u32) -> Result<(), CallError> {
        self.set(Op::SetCapacity(v1::SetCapacity { lock: lock.as_str().to_owned(), capacity: slots })).await
    }

    /// Bounds the lock-delays of all locks whose names begin so; none takes the rule away.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn set_delay_rule(
        &self,
        prefix: &LockPrefix,
        rule: Option<v1::DelayRule>,
    ) -> Result<(), CallError> {
        self.set(Op::SetDelayRule(v1::SetDelayRule { prefix: prefix.as_str().to_owned(), rule })).await
    }

    /// All that an operator can set, and the rules of lock-delays. Linearizable.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn settings(&self) -> Result<v1::Settings, CallError> {
        match self.read(Op::GetSettings(v1::GetSettings {})).await? {
            Answer::Settings(settings) => Ok(settings),
            _ => Err(wire::unexpected()),
        }
    }

    /// Sets what is named; the rest stays.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn set_settings(&self, named: v1::SetSettings) -> Result<(), CallError> {
        self.set(Op::SetSettings(named)).await
    }

    /// For the guard of a resource: it will accept nothing below `floor` of this slot, and has made that durable.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn confirm_floor(
        &self,
        guard: &GuardName,
        lock: &LockName,
        slot: Slot,
        floor: Token,
    ) -> Result<(), CallError> {
        let op = v1::ConfirmFloor {
            guard: guard.as_str().to_owned(),
            lock: lock.as_str().to_owned(),
            slot: slot.0,
            floor: floor.get(),
        };
        match self.read(Op::ConfirmFloor(op)).await? {
            Answer::Confirmed(_) => Ok(()),
            _ => Err(wire::unexpected()),
        }
    }

    async fn set(&self, op: Op) -> Result<(), CallError> {
        match self.read(op).await? {
            Answer::Set(_) => Ok(()),
            _ => Err(wire::unexpected()),
        }
    }
}
