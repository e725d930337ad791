//! One enum for each operation; each variant says whether the operation took effect.

use std::time::Duration;

use palisade_core::ids::LockName;
use palisade_core::reply::{Ended, HolderView};
use palisade_core::token::Token;

/// Whether an operation that failed took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It changed nothing, or what it changed is undone.
    No,
    /// It took effect.
    Yes,
    /// Not known. The client goes on in the background until it is decided.
    Unknown,
}

/// Why a session, or one lock of it, is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// The cluster says how it ended.
    Ended(Ended),
    /// The cluster knows no such session.
    Unknown,
    /// The cluster does not take this client's secret for the session.
    SecretRefused,
    /// A resource refused the token: it has accepted a newer one.
    Rejected {
        /// What the resource had accepted.
        mark: Token,
    },
    /// The client was closed, and speaks for the session no more.
    ClientClosed,
}

impl std::fmt::Display for LostReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ended(ended) => f.write_str(ended.words()),
            Self::Unknown => f.write_str("unknown to the cluster"),
            Self::SecretRefused => f.write_str("refused by the cluster: the secret does not fit"),
            Self::Rejected { mark } => write!(f, "refused by a resource that has accepted token {mark}"),
            Self::ClientClosed => f.write_str("left behind by a closed client"),
        }
    }
}

/// Why no session was opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Unknown: no node decided it in time. A session that was opened after all ends by itself within a minute.
    #[error("no node decided the opening in time ({last}): check the endpoints and the cluster's quorum")]
    Unavailable {
        /// What was met last.
        last: String,
    },
    /// No effect.
    #[error("the cluster refused to open a session ({name}): {message}")]
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

impl OpenError {
    /// Whether it took effect.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Unavailable { .. } => Effect::Unknown,
            Self::Refused { .. } | Self::ClientClosed => Effect::No,
        }
    }
}

/// Why a lock was not acquired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// No effect: a try met a holder.
    #[error("{lock} is held{}", by(.holder.as_deref()))]
    Held {
        /// Which lock.
        lock: LockName,
        /// Who holds it.
        holder: Option<Box<HolderView>>,
        /// Waiters in the queue.
        waiting: u32,
    },
    /// No effect: a try met waiters, who are granted first.
    #[error("{lock} has {waiting} waiters, who are granted first")]
    QueuedAhead {
        /// Which lock.
        lock: LockName,
        /// How many.
        waiting: u32,
    },
    /// No effect: a try met a lock-delay.
    #[error("{lock} is closed by a lock-delay of {lock_delay:?} after its last holder's session ended")]
    Closed {
        /// Which lock.
        lock: LockName,
        /// The whole delay.
        lock_delay: Duration,
        /// What is left of it, where the cluster can tell.
        retry_after: Option<Duration>,
    },
    /// No effect: the bounded wait passed, and the place in the queue is given up.
    #[error("{lock} was not granted within the wait")]
    TimedOut {
        /// Which lock.
        lock: LockName,
    },
    /// No effect that lasts: the wait, or the grant, ended with the session.
    #[error("the session is lost ({0}): open a new one")]
    SessionLost(LostReason),
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
    /// No effect that lasts: the acquisition had ended, so, before this client learned of a grant.
    #[error("the acquisition of {lock} was {}", .ended.words())]
    Ended {
        /// Which lock.
        lock: LockName,
        /// How.
        ended: Ended,
    },
    /// Unknown: nothing decided it in time. A cancel is already arranged, and repeated until it is decided.
    #[error("no node decided the request for {lock} in time; it is being cancelled")]
    Unavailable {
        /// Which lock.
        lock: LockName,
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
            | Self::Limit { .. }
            | Self::BadArgument { .. }
            | Self::Ended { .. }
            | Self::Refused { .. }
            | Self::ClientClosed => Effect::No,
        }
    }
}

fn by(holder: Option<&HolderView>) -> String {
    match holder {
        Some(view) => {
            format!(" by {:?} (session {}, token {})", view.client, view.acquisition.session, view.token)
        }
        None => String::new(),
    }
}

/// Why a release did not free the lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// No effect: it was no longer held.
    #[error("the lock was no longer held{}{}", how(*.ended), by(.superseded_by.as_deref()))]
    NotHeld {
        /// How the tenure had ended, where that is known.
        ended: Option<Ended>,
        /// Who holds it now, where somebody does.
        superseded_by: Option<Box<HolderView>>,
    },
    /// No effect: the session's end had ended the tenure.
    #[error("the session was lost before the release ({0})")]
    SessionLost(LostReason),
    /// Unknown: nothing decided it in time. It is repeated until it is decided or the session ends.
    #[error("no node decided the release in time; it is repeated in the background")]
    Unavailable,
    /// No effect: any other refusal.
    #[error("refused ({name}): {message}")]
    Refused {
        /// Stable name, SPEC 12.
        name: String,
        /// For people.
        message: String,
    },
    /// No effect; the session and its locks ended, or will, with the client.
    #[error("the client is closed")]
    ClientClosed,
}

impl ReleaseError {
    /// Whether it took effect.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Unavailable => Effect::Unknown,
            Self::NotHeld { .. } | Self::SessionLost(_) | Self::Refused { .. } | Self::ClientClosed => {
                Effect::No
            }
        }
    }
}

fn how(ended: Option<Ended>) -> String {
    ended.map(|ended| format!(" ({})", ended.words())).unwrap_or_default()
}

/// Why a read, a renewal, a close or a request for a sequencer failed. None of them leaves anything undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Unknown: no node answered in time.
    #[error("no node answered in time ({last}): check the endpoints and the cluster's quorum")]
    Unavailable {
        /// What was met last.
        last: String,
    },
    /// No effect.
    #[error("the session is lost ({0}): open a new one")]
    SessionLost(LostReason),
    /// No effect.
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

impl CallError {
    /// Whether it took effect.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Unavailable { .. } => Effect::Unknown,
            Self::SessionLost(_) | Self::Refused { .. } | Self::ClientClosed => Effect::No,
        }
    }
}
