//! One enum for each operation; each variant says whether the operation took effect.

mod acquire;
mod holding;

use palisade_core::reply::{Ended, HolderView};
use palisade_core::token::Token;

pub use self::acquire::{AcquireError, AskedFor, Waiting};
pub use self::holding::{ChangeError, HoldError, ReleaseError};

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
    /// No effect that lasts: the state file.
    #[error("the state file{}: {message}", at(path.as_deref()))]
    StateFile {
        /// Where it is, when it was read or written in vain.
        path: Option<std::path::PathBuf>,
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
            Self::Refused { .. } | Self::StateFile { .. } | Self::ClientClosed => Effect::No,
        }
    }
}

/// Why a read, a renewal, a close, a request for a sequencer or an operator's request failed.
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
    /// No effect; of an operator's request that was repeated over a lost answer, the refusal can be of the repeat.
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

fn by(holder: Option<&HolderView>) -> String {
    match holder {
        Some(view) => {
            format!(" by {:?} (session {}, token {})", view.client, view.acquisition.session, view.token)
        }
        None => String::new(),
    }
}

fn at(path: Option<&std::path::Path>) -> String {
    path.map_or_else(String::new, |path| format!(" {}", path.display()))
}

fn how(ended: Option<Ended>) -> String {
    ended.map(|ended| format!(" ({})", ended.words())).unwrap_or_default()
}
