//! The lock table: pure, deterministic, total.
//!
//! `apply` turns one committed entry into a reply and events. Replicas that apply the same entries at the same
//! indexes hold the same table and return the same results, whatever their clocks, settings and builds. What is left
//! out on purpose: time (the leader's lease clock proposes, the log decides), transport, and who leads.

mod acquire;
mod admission;
#[cfg(test)]
mod apart;
#[cfg(test)]
mod bounds;
mod break_lock;
mod cancel;
mod close_session;
mod confirm_floor;
#[cfg(test)]
mod deadlocks;
mod downgrade;
mod end_lock_delay;
mod end_overdue;
mod end_session;
mod end_wait;
mod ending;
#[cfg(test)]
mod exactly_once;
mod expire_sessions;
mod found;
mod grant;
mod hand_over;
mod keep_sessions;
mod kept;
mod leader_ready;
mod memory;
mod open_session;
mod publish_key;
mod read;
mod release;
mod report_progress;
#[cfg(test)]
mod semaphores;
mod set_baton;
mod set_capacity;
mod set_delay_rule;
mod set_history;
mod set_limits;
mod set_metadata;
mod set_version;
#[cfg(test)]
mod several_locks;
mod sharded;
#[cfg(test)]
mod shared_mode;
mod slot_memories;
#[cfg(test)]
pub(crate) mod story;
mod take_over;
#[cfg(test)]
mod taking_over;
mod tick;
mod under_token;
mod verdict;
pub mod version_1;
mod view;
mod wait_cycle;
mod wait_graph;
mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::memory::{Baton, EndedSession, SlotMemory};
pub use self::verdict::{Presented, Verdict};
pub use self::view::{HoldView, LockView, SlotView, WaiterView};

use self::memory::EndedSessions;
use self::sharded::Sharded;
use self::slot_memories::SlotMemories;
use crate::command::{ClusterVersion, Command, Envelope, Member, Terms};
use crate::event::Event;
use crate::history::History;
use crate::ids::{
    AcquisitionId, ClusterId, ClusterName, Incarnation, KeyId, LockName, LockPrefix, LogIndex, NodeId,
    SecretHash, SessionId, Term, WallTime,
};
use crate::limits::{Limits, MoreLimits};
use crate::lock::{DelayRule, Lock};
use crate::reply::{Applied, EntryAt, NotYet, Refusal, Reply};
use crate::session::Session;
use crate::token::TokenBase;

/// Everything that the cluster knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockTable {
    header: Header,
    sessions: Sharded<SessionId, Session>,
    /// Which session a secret opened, so that a repeated open finds it.
    secrets: Sharded<SecretHash, SessionId>,
    locks: Sharded<LockName, Lock>,
    ended: Arc<EndedSessions>,
    slot_memories: SlotMemories,
    keys: BTreeMap<KeyId, SigningKey>,
    counts: Counts,
    /// Since format version 2, as is what follows.
    history: History,
    more_limits: MoreLimits,
    /// Bounds of lock-delays by prefix.
    delay_rules: BTreeMap<LockPrefix, DelayRule>,
    ticks: Ticks,
}

/// Minutes that leaders counted, for long leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticks {
    /// Of all leaders.
    pub count: u64,
    /// The entry of the present leader's last one.
    pub last: Option<LogIndex>,
}

/// The cluster itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// None before the cluster is founded.
    pub founding: Option<Founding>,
    /// The bounds that apply enforces.
    pub limits: Limits,
    /// What is added to a log index to make a token.
    pub token_base: TokenBase,
    /// Which behaviour of apply is in force.
    pub version: ClusterVersion,
    /// The largest wall clock seen in an entry; a restore compares itself with it.
    pub wall_max: WallTime,
    /// Whose lease clock is in force.
    pub lease: Option<Lease>,
    /// The last applied entry.
    pub applied: LogIndex,
}

/// Identity of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Founding {
    /// Drawn once.
    pub cluster: ClusterId,
    /// As in each node's configuration.
    pub name: ClusterName,
    /// Of this founding, restore or forced start.
    pub incarnation: Incarnation,
    /// The initial members.
    pub members: Vec<Member>,
}

/// Whose lease clock is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The lease epoch: index of the last `LeaderReady` that changed it.
    pub epoch: LogIndex,
    /// The leader's term.
    pub term: Term,
    /// The leader.
    pub node: NodeId,
    /// Its process.
    pub nonce: u64,
}

/// A node's public signing key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKey {
    /// Whose.
    pub node: NodeId,
    /// Ed25519.
    pub public: [u8; 32],
    /// What it may do.
    pub state: KeyState,
    /// The entry that published it.
    pub published: LogIndex,
}

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyState {
    /// Verifies; settling before it signs.
    Published,
    /// Signs and verifies.
    Signing,
    /// Verifies only.
    Retired,
    /// Neither.
    Dropped,
}

/// Totals, kept so that status need not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Slots held.
    pub held: u64,
    /// Acquisitions waiting.
    pub waiting: u64,
    /// Slots in lock-delay.
    pub delayed: u64,
}

/// One entry while it is applied: what it did so far, and which locks it touched.
pub(crate) struct Step {
    at: EntryAt,
    events: Vec<Event>,
    /// Locks whose queue may move, or that may be idle; some more than once.
    touched: Vec<LockName>,
    /// New holders behind whom others queued when they were granted.
    contended: Vec<(AcquisitionId, LockName)>,
    /// Acquisitions that searches of wait cycles may still look at.
    looks_left: u32,
}

impl Default for LockTable {
    fn default() -> Self {
        Self::new()
    }
}

impl LockTable {
    /// The table before the first entry.
    pub fn new() -> Self {
        Self {
            header: Header {
                founding: None,
                limits: Limits::default(),
                token_base: TokenBase::default(),
                version: ClusterVersion::CURRENT,
                wall_max: WallTime(0),
                lease: None,
                applied: LogIndex(0),
            },
            sessions: Sharded::new(),
            secrets: Sharded::new(),
            locks: Sharded::new(),
            ended: Arc::default(),
            slot_memories: SlotMemories::new(),
            keys: BTreeMap::new(),
            counts: Counts::default(),
            history: History::default(),
            more_limits: MoreLimits::default(),
            delay_rules: BTreeMap::new(),
            ticks: Ticks::default(),
        }
    }

    /// Applies one committed entry. Total and deterministic: replicas that apply the same entries at the same
    /// indexes hold the same table and return the same result.
    ///
    /// # Panics
    ///
    /// When `index` is not above every index applied before: two grants could share a token, and the node must stop.
    pub fn apply(&mut self, index: LogIndex, envelope: &Envelope) -> Applied {
        assert!(index > self.header.applied, "entry {index} came after {}", self.header.applied);
        self.header.applied = index;
        self.header.wall_max = self.header.wall_max.max(envelope.wall);
        let at = EntryAt { index, wall: envelope.wall, node: envelope.node };
        let mut step = Step {
            at,
            events: Vec::new(),
            touched: Vec::new(),
            contended: Vec::new(),
            looks_left: self.more_limits.cycle_search_max,
        };
        let reply = self.dispatch(&mut step, &envelope.command);
        // First everything that the entry ends has ended; only then is anything granted (SPEC 2).
        self.grant_pass(&mut step);
        let renewed = match &reply {
            Reply::Refused(refusal) if refusal.for_session() => None,
            Reply::SessionClosed => None,
            Reply::SessionOpened { session, .. } => Some(*session),
            Reply::TookOver(took) => Some(took.session),
            _ => envelope.command.session(),
        };
        self.heard(index, renewed, &envelope.command);
        Applied { reply, events: step.events, renewed }
    }

    /// What renews a session makes past what a clock decided before it.
    fn heard(&mut self, index: LogIndex, renewed: Option<SessionId>, command: &Command) {
        let Some(session) = renewed.and_then(|id| self.sessions.get_mut(&id)) else { return };
        session.last_command = index;
        session.ticks = self.ticks.count;
        if command.session().is_some() {
            session.took_over = None;
        }
    }

    fn dispatch(&mut self, step: &mut Step, command: &Command) -> Reply {
        match command {
            Command::Found(found) => return self.found(step, found),
            Command::LeaderReady(ready) => return self.leader_ready(step, ready),
            _ if self.header.founding.is_none() => return Reply::Refused(Refusal::NotFounded),
            Command::SetVersion(set) => return self.set_version(step, set),
            _ if command.format() > 1 && !self.knows(2) => {
                return Reply::Refused(Refusal::NotYet(NotYet::ThisCommand));
            }
            _ => {}
        }
        match command {
            Command::Found(_) | Command::LeaderReady(_) | Command::SetVersion(_) => Reply::Done,
            Command::OpenSession(open) => self.open_session(step, open),
            Command::CloseSession(close) => self.close_session(step, close.session),
            Command::ExpireSessions(expire) => self.expire_sessions(step, expire),
            Command::Acquire(acquire) => self.acquire(step, acquire, &Terms::default()),
            Command::AcquireOnTerms(asked) => self.acquire(step, &asked.acquire, &asked.terms),
            Command::Release(release) => self.release(step, release),
            Command::Cancel(cancel) => self.cancel(step, cancel.acquisition),
            Command::EndLockDelay(end) => self.end_lock_delay(step, end),
            Command::EndWait(end) => self.end_wait(step, end),
            Command::PublishKey(publish) => self.publish_key(step, publish),
            Command::SetHistory(sizes) => self.set_history(*sizes),
            Command::SetCapacity(set) => self.set_capacity(step, set),
            Command::SetMetadata(set) => self.set_metadata(step, set),
            Command::SetBaton(set) => self.set_baton(set),
            Command::ReportProgress(report) => self.report_progress(step, report),
            Command::EndOverdue(end) => self.end_overdue(step, end),
            Command::BreakLock(asked) => self.break_lock(step, asked),
            Command::EndSession(asked) => self.stop_session(step, asked),
            Command::KeepSessions(keep) => self.keep_sessions(step, keep),
            Command::Tick(tick) => self.tick(step, tick),
            Command::SetDelayRule(set) => self.set_delay_rule(set),
            Command::SetLimits(set) => self.set_limits(set),
            Command::ConfirmFloor(confirm) => self.confirm_floor(step, confirm),
            Command::Downgrade(downgrade) => self.downgrade(step, downgrade),
            Command::HandOver(hand_over) => self.hand_over(step, hand_over),
        }
    }

    /// Whether this cluster applies what this version brought.
    pub(crate) fn knows(&self, version: u32) -> bool {
        self.header.version >= ClusterVersion(version)
    }

    /// Whether a timer command was decided under the clock that is in force.
    fn in_epoch(&self, epoch: LogIndex) -> bool {
        self.header.lease.is_some_and(|lease| lease.epoch == epoch)
    }

    /// Why a session that is not live cannot ask anything.
    pub fn why_no_session(&self, session: SessionId) -> Refusal {
        self.no_session(session)
    }

    fn no_session(&self, session: SessionId) -> Refusal {
        match self.ended.get(session) {
            Some(ended) => Refusal::SessionEnded { ended: ended.ended, superseded: None },
            None => Refusal::SessionUnknown,
        }
    }
}
