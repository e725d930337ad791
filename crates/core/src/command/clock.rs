//! What the leader's lease clock and its keepalives put into the log.

use serde::{Deserialize, Serialize};

use crate::ids::{AcquisitionId, LogIndex, SessionId};

/// Ends a holder whose own deadline passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndOverdue {
    /// Under which leader's clock.
    pub epoch: LogIndex,
    /// Who.
    pub acquisition: AcquisitionId,
    /// The entry that gave it what it holds.
    pub grant: LogIndex,
    /// Which deadline.
    pub overdue: Overdue,
}

/// Which deadline of a holder passed, and what it was decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overdue {
    /// The longest holding time. Nothing but the end of the hold makes it past.
    Maximum,
    /// The progress interval, since this report; none came yet.
    Progress {
        /// The entry of the last report that the leader had applied.
        report: Option<LogIndex>,
    },
}

/// Keepalives of sessions whose lease is longer than a minute, one entry a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepSessions {
    /// Which.
    pub sessions: Vec<SessionId>,
}

/// A minute of the leader's has passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// Under which leader's clock.
    pub epoch: LogIndex,
    /// The tick before it, so that a repeated one counts once; none before the first.
    pub previous: Option<LogIndex>,
}
