//! How things end.

use serde::{Deserialize, Serialize};

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
    /// Its wait closed a cycle, and it was the youngest in it.
    Deadlocked,
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
            | Self::Restored
            | Self::Deadlocked => false,
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
            Self::Deadlocked => "ended to break a wait cycle",
        }
    }
}
