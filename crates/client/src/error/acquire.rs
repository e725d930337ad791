//! Why a lock was not acquired.

use std::fmt;
use std::time::Duration;

use palisade_core::ids::{ClientName, LockName, OwnerLabel};
use palisade_core::reply::{Ended, HolderView};

use super::{Effect, LostReason, by};

/// What an acquire asked for: one lock, or several at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedFor(pub(crate) Vec<LockName>);

impl AskedFor {
    /// Which locks.
    pub fn locks(&self) -> &[LockName] {
        &self.0
    }
}

impl fmt::Display for AskedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [lock] => lock.fmt(f),
            locks => {
                f.write_str("one of")?;
                for (at, lock) in locks.iter().enumerate() {
                    write!(f, "{}{lock}", if at == 0 { " " } else { ", " })?;
                }
                Ok(())
            }
        }
    }
}

/// One wait of a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The task that waits.
    pub owner: OwnerLabel,
    /// Its client, for people.
    pub client: ClientName,
    /// What it waits for, which the next one has.
    pub lock: LockName,
}

/// Why a lock was not acquired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// No effect: a try met a holder.
    #[error("{lock} is held{}", by(.holder.as_deref()))]
    Held {
        /// Which lock.
        lock: AskedFor,
        /// Who holds it.
        holder: Option<Box<HolderView>>,
        /// Waiters in the queue.
        waiting: u32,
    },
    /// No effect: a try met waiters, who are granted first.
    #[error("{lock} has {waiting} waiters, who are granted first")]
    QueuedAhead {
        /// Which lock.
        lock: AskedFor,
        /// How many.
        waiting: u32,
    },
    /// No effect: a try met a lock-delay.
    #[error("{lock} is closed by a lock-delay of {lock_delay:?} after its last holder's session ended")]
    Closed {
        /// Which lock.
        lock: AskedFor,
        /// The whole delay.
        lock_delay: Duration,
        /// What is left of it, where the cluster can tell.
        retry_after: Option<Duration>,
    },
    /// No effect: the bounded wait passed, and the place in the queue is given up.
    #[error("{lock} was not granted within the wait")]
    TimedOut {
        /// Which lock.
        lock: AskedFor,
    },
    /// No effect that lasts: the wait, or the grant, ended with the session.
    #[error("the session is lost ({0}): open a new one")]
    SessionLost(LostReason),
    /// No effect: its wait would have closed a cycle of tasks that wait for each other; or it did, when a grant closed
    /// one, and this wait was the youngest in it.
    #[error("{message}")]
    WouldDeadlock {
        /// Which lock.
        lock: AskedFor,
        /// Who waits for whom, the last for the first; empty where that is forgotten.
        cycle: Vec<Waiting>,
        /// The same in a sentence.
        message: String,
    },
    /// No effect: the lock is in use with another capacity, or more permits were asked than it has.
    #[error("{lock}: {message}")]
    CapacityDiffers {
        /// Which lock.
        lock: AskedFor,
        /// The capacity in use.
        capacity: u64,
        /// For people.
        message: String,
    },
    /// No effect: the named lock-delay is outside the bounds that an operator set.
    #[error("{lock}: {message}")]
    DelayOutOfBounds {
        /// Which lock.
        lock: AskedFor,
        /// For people.
        message: String,
    },
    /// No effect: a limit of the cluster was met.
    #[error("a limit of {limit} was reached: {message}")]
    Limit {
        /// Its value; 0 when the cluster named none.
        limit: u64,
        /// For people.
        message: String,
    },
    /// No effect.
    #[error("bad argument: {message}")]
    BadArgument {
        /// For people.
        message: String,
    },
    /// No effect that lasts: the acquisition had ended, so, before its guard was handed out: overdue, broken, cancelled, …
    #[error("the acquisition of {lock} was {}", .ended.words())]
    Ended {
        /// Which lock.
        lock: AskedFor,
        /// How.
        ended: Ended,
    },
    /// Unknown: nothing decided it in time. A cancel is already arranged, and repeated until it is decided.
    #[error("no node decided the request for {lock} in time; it is being cancelled")]
    Unavailable {
        /// Which lock.
        lock: AskedFor,
    },
    /// No effect: any other refusal.
    #[error("refused ({name}): {message}")]
    Refused {
        /// Stable name, SPEC 12.
        name: String,
        /// For people.
        message: String,
    },
    /// No effect.
    #[error("the client is closed")]
    ClientClosed,
}

impl AcquireError {
    /// Whether it took effect.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Unavailable { .. } => Effect::Unknown,
            Self::Held { .. }
            | Self::QueuedAhead { .. }
            | Self::Closed { .. }
            | Self::TimedOut { .. }
            | Self::SessionLost(_)
            | Self::WouldDeadlock { .. }
            | Self::CapacityDiffers { .. }
            | Self::DelayOutOfBounds { .. }
            | Self::Limit { .. }
            | Self::BadArgument { .. }
            | Self::Ended { .. }
            | Self::Refused { .. }
            | Self::ClientClosed => Effect::No,
        }
    }
}
