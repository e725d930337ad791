//! Why something that a holder asked about its own hold did not happen.

use palisade_core::reply::{Ended, HolderView};

use super::{CallError, Effect, LostReason, by, how};
use crate::guard::LockGuard;

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

impl From<CallError> for ReleaseError {
    /// Of a release that was not handed over.
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unavailable { .. } => Self::Unavailable,
            CallError::SessionLost(reason) => Self::SessionLost(reason),
            CallError::Refused { .. } | CallError::ClientClosed => Self::ClientClosed,
        }
    }
}

impl ReleaseError {
    /// The guard knew already why.
    pub(crate) fn because(self, known: Option<LostReason>) -> Self {
        match (self, known) {
            (Self::NotHeld { ended: None, superseded_by }, Some(LostReason::Ended(ended))) => {
                Self::NotHeld { ended: Some(ended), superseded_by }
            }
            (error, _) => error,
        }
    }

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

/// Why metadata, a baton or a report of progress was not taken. Stale ones fail as a late release does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    /// No effect: the lock was no longer held. The guard is lost.
    #[error("the lock was no longer held{}{}: stop work, and acquire again", how(*.ended), by(.superseded_by.as_deref()))]
    NotHeld {
        /// How the hold had ended, where that is known.
        ended: Option<Ended>,
        /// Who holds it now, where somebody does.
        superseded_by: Option<Box<HolderView>>,
    },
    /// No effect: the session's end had ended the hold.
    #[error("the session is lost ({0}): stop work, and open a new one")]
    SessionLost(LostReason),
    /// Unknown: nothing decided it in time. Asking again is safe: the later one counts.
    #[error("no node decided it in time ({last}); ask again")]
    Unavailable {
        /// What was met last.
        last: String,
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

impl From<CallError> for HoldError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unavailable { last } => Self::Unavailable { last },
            CallError::SessionLost(reason) => Self::SessionLost(reason),
            CallError::Refused { name, message } => Self::Refused { name, message },
            CallError::ClientClosed => Self::ClientClosed,
        }
    }
}

impl HoldError {
    /// Whether it took effect.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Unavailable { .. } => Effect::Unknown,
            Self::NotHeld { .. } | Self::SessionLost(_) | Self::Refused { .. } | Self::ClientClosed => {
                Effect::No
            }
        }
    }
}

/// Why a hold was not handed over, or not downgraded.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// No effect: nobody waits who could have been granted the slot in that very moment. The lock is kept.
    #[error("nobody could be given the slot now ({waiting} waiting); it is kept")]
    Nobody {
        /// The lock, still held under the same token.
        guard: Box<LockGuard>,
        /// Waiters in the queue.
        waiting: u32,
    },
    /// No effect: any other refusal. The lock is kept.
    #[error("refused ({name}), and the lock is kept: {message}")]
    Kept {
        /// The lock, still held under the same token.
        guard: Box<LockGuard>,
        /// Stable name, SPEC 12.
        name: String,
        /// For people.
        message: String,
    },
    /// No effect: it was no longer held.
    #[error("the lock was no longer held{}{}", how(*.ended), by(.superseded_by.as_deref()))]
    NotHeld {
        /// How the hold had ended, where that is known.
        ended: Option<Ended>,
        /// Who holds it now, where somebody does.
        superseded_by: Option<Box<HolderView>>,
    },
    /// No effect: the session's end had ended the hold.
    #[error("the session was lost before ({0})")]
    SessionLost(LostReason),
    /// Unknown: nothing decided it in time. It is repeated until it is decided; what is still held then is released.
    #[error(
        "no node decided it in time; it is repeated in the background, and what is still held then is released"
    )]
    Unavailable,
    /// No effect; the session and its locks ended, or will, with the client.
    #[error("the client is closed")]
    ClientClosed,
}

impl From<CallError> for ChangeError {
    /// Of a change that was not handed over: the guard is dropped, and releases.
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unavailable { .. } => Self::Unavailable,
            CallError::SessionLost(reason) => Self::SessionLost(reason),
            CallError::Refused { .. } | CallError::ClientClosed => Self::ClientClosed,
        }
    }
}

impl ChangeError {
    /// The guard knew already why.
    pub(crate) fn because(self, known: Option<LostReason>) -> Self {
        match (self, known) {
            (Self::NotHeld { ended: None, superseded_by }, Some(LostReason::Ended(ended))) => {
                Self::NotHeld { ended: Some(ended), superseded_by }
            }
            (error, _) => error,
        }
    }

    /// Whether it took effect.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Unavailable => Effect::Unknown,
            Self::Nobody { .. }
            | Self::Kept { .. }
            | Self::NotHeld { .. }
            | Self::SessionLost(_)
            | Self::ClientClosed => Effect::No,
        }
    }

    /// The lock, where it is kept.
    pub fn into_guard(self) -> Option<LockGuard> {
        match self {
            Self::Nobody { guard, .. } | Self::Kept { guard, .. } => Some(*guard),
            Self::NotHeld { .. } | Self::SessionLost(_) | Self::Unavailable | Self::ClientClosed => None,
        }
    }
}
