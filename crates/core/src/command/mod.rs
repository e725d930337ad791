//! Everything that can be asked of the table, as it stands in the log.
//!
//! The encoding knows variants by their position: new ones go to the end, in every enum here. What apply needs
//! (limits, defaults, wall time for display) is in the entry, or is replicated state: apply knows no clock and no
//! setting (SPEC 3).

mod clock;
mod holder;
mod operator;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::history::HistorySizes;
use crate::ids::{
    AcquisitionId, ClientName, ClusterId, ClusterName, Incarnation, KeyId, LockName, LogIndex, Millis,
    NodeId, NodeName, Principal, SecretHash, SessionId, Slot, Term, WallTime,
};
use crate::limits::Limits;
use crate::token::TokenBase;

pub use self::clock::{EndOverdue, KeepSessions, Overdue, Tick};
pub use self::holder::{
    Acquire, AcquireOnTerms, AcquirePart, Cancel, Downgrade, HandOver, LockDelay, Release, ReportProgress,
    SetBaton, SetMetadata, Terms, Wait,
};
pub use self::operator::{
    BreakLock, ConfirmFloor, EndSession, SetCapacity, SetDelayRule, SetLimits, SetVersion,
};

/// One entry of the log. The codec puts a format version before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The proposer's wall clock. For display and audit.
    pub wall: WallTime,
    /// The node that proposed it.
    pub node: NodeId,
    /// What is asked.
    pub command: Command,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// The first command of a cluster. A second one changes nothing.
    Found(Found),
    /// A leader's first command; sets the lease epoch.
    LeaderReady(LeaderReady),
    /// Opens a session, or finds the one that the same secret opened.
    OpenSession(OpenSession),
    /// Ends a session and frees what it held at once.
    CloseSession(CloseSession),
    /// The lease clock: these sessions are over.
    ExpireSessions(ExpireSessions),
    /// Asks for a lock, or for several at once.
    Acquire(Acquire),
    /// Frees what exactly this acquisition holds.
    Release(Release),
    /// Ends an acquisition in whatever state.
    Cancel(Cancel),
    /// The lease clock: this delay is over.
    EndLockDelay(EndLockDelay),
    /// The lease clock: this bounded wait is over.
    EndWait(EndWait),
    /// A node's public signing key.
    PublishKey(PublishKey),
    /// How many ended holds are remembered.
    SetHistory(HistorySizes),
    /// Asks for locks on terms that the first version had no place for.
    AcquireOnTerms(AcquireOnTerms),
    /// Makes an exclusive hold a shared one.
    Downgrade(Downgrade),
    /// Gives a held slot to a waiter, without a gap.
    HandOver(HandOver),
    /// Replaces what others can read of a holder.
    SetMetadata(SetMetadata),
    /// Replaces what the next holder of a slot will find.
    SetBaton(SetBaton),
    /// The holder gets on with its work.
    ReportProgress(ReportProgress),
    /// The lease clock: a holder's own deadline passed.
    EndOverdue(EndOverdue),
    /// Keepalives of sessions with long leases.
    KeepSessions(KeepSessions),
    /// The lease clock: a minute of this leader's has passed.
    Tick(Tick),
    /// An operator takes a slot from its holders.
    BreakLock(BreakLock),
    /// An operator ends a session.
    EndSession(EndSession),
    /// An operator sets the capacity of a lock in use.
    SetCapacity(SetCapacity),
    /// An operator bounds the lock-delays of a prefix.
    SetDelayRule(SetDelayRule),
    /// An operator sets the bounds that apply enforces.
    SetLimits(SetLimits),
    /// A guard has made a floor durable.
    ConfirmFloor(ConfirmFloor),
    /// Puts a later behaviour of apply in force.
    SetVersion(SetVersion),
}

/// Founds the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Drawn once.
    pub cluster: ClusterId,
    /// As in each node's configuration.
    pub name: ClusterName,
    /// Of this founding.
    pub incarnation: Incarnation,
    /// The bounds that apply enforces.
    pub limits: Limits,
    /// 0, unless the cluster was restored.
    pub token_base: TokenBase,
    /// Which behaviour of apply is in force.
    pub version: ClusterVersion,
    /// The initial members.
    pub members: Vec<Member>,
}

/// A node as the founding records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Drawn by the node.
    pub node: NodeId,
    /// As in its configuration.
    pub name: NodeName,
}

/// Which behaviour of apply is in force. What apply does changes only with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterVersion(pub u32);

impl ClusterVersion {
    /// What this build applies, as it does every earlier one.
    pub const CURRENT: Self = Self(2);
}

/// Sets the lease epoch to this entry's index. Applied again with the same three it changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderReady {
    /// The term in which the node leads.
    pub term: Term,
    /// The leader.
    pub node: NodeId,
    /// Drawn by the leader's process at its start.
    pub nonce: u64,
}

/// Opens a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSession {
    /// Makes the open repeatable.
    pub secret: SecretHash,
    /// The caller's identity.
    pub owner: Principal,
    /// For people.
    pub client: ClientName,
    /// The lease.
    pub ttl: Millis,
    /// A session that this one replaces, with that one's secret hash. Refused by cluster version 1.
    pub replaces: Option<Replaces>,
}

/// A session that a new one takes over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaces {
    /// The old session.
    pub session: SessionId,
    /// Its secret's hash.
    pub secret: SecretHash,
    /// Whether a file lock under the same boot id showed that the earlier process is dead.
    pub proven_dead: bool,
}

/// Closes a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseSession {
    /// Which.
    pub session: SessionId,
}

/// Ends sessions that were not heard from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpireSessions {
    /// Under which leader's clock.
    pub epoch: LogIndex,
    /// Each with the index of its last command that the leader had applied.
    pub sessions: Vec<(SessionId, LogIndex)>,
}

/// Ends a lock-delay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndLockDelay {
    /// Under which leader's clock.
    pub epoch: LogIndex,
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// The entry at which the delay began.
    pub began: LogIndex,
}

/// Ends a bounded wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndWait {
    /// Under which leader's clock.
    pub epoch: LogIndex,
    /// Which wait.
    pub acquisition: AcquisitionId,
}

/// Publishes a node's signing key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishKey {
    /// Whose.
    pub node: NodeId,
    /// Its id.
    pub key: KeyId,
    /// Ed25519, 32 bytes.
    pub public: [u8; 32],
}

impl Command {
    /// The session that asks, where one does.
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::CloseSession(close) => Some(close.session),
            Self::Acquire(acquire) => Some(acquire.session),
            Self::Release(release) => Some(release.acquisition.session),
            Self::Cancel(cancel) => Some(cancel.acquisition.session),
            Self::AcquireOnTerms(asked) => Some(asked.acquire.session),
            Self::Downgrade(downgrade) => Some(downgrade.acquisition.session),
            Self::HandOver(hand_over) => Some(hand_over.acquisition.session),
            Self::SetMetadata(set) => Some(set.acquisition.session),
            Self::SetBaton(set) => Some(set.acquisition.session),
            Self::ReportProgress(report) => Some(report.acquisition.session),
            Self::Found(_)
            | Self::LeaderReady(_)
            | Self::OpenSession(_)
            | Self::ExpireSessions(_)
            | Self::EndLockDelay(_)
            | Self::EndWait(_)
            | Self::PublishKey(_)
            | Self::SetHistory(_)
            | Self::EndOverdue(_)
            | Self::KeepSessions(_)
            | Self::Tick(_)
            | Self::BreakLock(_)
            | Self::EndSession(_)
            | Self::SetCapacity(_)
            | Self::SetDelayRule(_)
            | Self::SetLimits(_)
            | Self::ConfirmFloor(_)
            | Self::SetVersion(_) => None,
        }
    }

    /// Its name, for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Found(_) => "found",
            Self::LeaderReady(_) => "leader_ready",
            Self::OpenSession(_) => "open_session",
            Self::CloseSession(_) => "close_session",
            Self::ExpireSessions(_) => "expire_sessions",
            Self::Acquire(_) => "acquire",
            Self::Release(_) => "release",
            Self::Cancel(_) => "cancel",
            Self::EndLockDelay(_) => "end_lock_delay",
            Self::EndWait(_) => "end_wait",
            Self::PublishKey(_) => "publish_key",
            Self::SetHistory(_) => "set_history",
            Self::AcquireOnTerms(_) => "acquire_on_terms",
            Self::Downgrade(_) => "downgrade",
            Self::HandOver(_) => "hand_over",
            Self::SetMetadata(_) => "set_metadata",
            Self::SetBaton(_) => "set_baton",
            Self::ReportProgress(_) => "report_progress",
            Self::EndOverdue(_) => "end_overdue",
            Self::KeepSessions(_) => "keep_sessions",
            Self::Tick(_) => "tick",
            Self::BreakLock(_) => "break_lock",
            Self::EndSession(_) => "end_session",
            Self::SetCapacity(_) => "set_capacity",
            Self::SetDelayRule(_) => "set_delay_rule",
            Self::SetLimits(_) => "set_limits",
            Self::ConfirmFloor(_) => "confirm_floor",
            Self::SetVersion(_) => "set_version",
        }
    }

    /// The format version that first had this kind. The bytes of a kind never change.
    pub fn format(&self) -> u8 {
        match self {
            Self::Found(_)
            | Self::LeaderReady(_)
            | Self::OpenSession(_)
            | Self::CloseSession(_)
            | Self::ExpireSessions(_)
            | Self::Acquire(_)
            | Self::Release(_)
            | Self::Cancel(_)
            | Self::EndLockDelay(_)
            | Self::EndWait(_)
            | Self::PublishKey(_) => 1,
            Self::SetHistory(_)
            | Self::AcquireOnTerms(_)
            | Self::Downgrade(_)
            | Self::HandOver(_)
            | Self::SetMetadata(_)
            | Self::SetBaton(_)
            | Self::ReportProgress(_)
            | Self::EndOverdue(_)
            | Self::KeepSessions(_)
            | Self::Tick(_)
            | Self::BreakLock(_)
            | Self::EndSession(_)
            | Self::SetCapacity(_)
            | Self::SetDelayRule(_)
            | Self::SetLimits(_)
            | Self::ConfirmFloor(_) => 2,
            // A build that does not know the version cannot apply what follows: it must stop here, and not read on.
            Self::SetVersion(set) => u8::try_from(set.version.0.max(2)).unwrap_or(u8::MAX),
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
