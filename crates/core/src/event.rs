//! What happened. Feeds waiters, watchers, timers, metrics and the audit log, in log order.

use crate::command::{ClusterVersion, Wait};
use crate::ids::{
    AcquisitionId, ClientName, GuardName, LockName, LogIndex, Millis, NodeId, Principal, SessionId, Slot,
    Term,
};
use crate::payload::Payload;
use crate::reply::{Cycle, Ended, Grant, Refusal};
use crate::token::Token;

/// One thing that an entry did. The index and the wall time are the entry's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The cluster exists.
    Founded,
    /// A leader's clock is in force.
    LeaderReady {
        /// Which node.
        node: NodeId,
        /// In which term.
        term: Term,
        /// Of which process.
        nonce: u64,
        /// The new lease epoch.
        epoch: LogIndex,
    },
    /// A session began.
    SessionOpened {
        /// Which.
        session: SessionId,
        /// Its lease.
        ttl: Millis,
        /// For people.
        client: ClientName,
    },
    /// A session ended, with everything it held or awaited.
    SessionEnded {
        /// Which.
        session: SessionId,
        /// How.
        ended: Ended,
    },
    /// An acquisition joined its queues.
    Queued {
        /// Which.
        acquisition: AcquisitionId,
        /// On which locks.
        locks: Vec<LockName>,
        /// How long it waits.
        wait: Wait,
    },
    /// Somebody queues behind a holder.
    Contended {
        /// The holder.
        holder: AcquisitionId,
        /// Of which lock.
        lock: LockName,
    },
    /// An acquisition holds.
    Granted {
        /// What.
        grant: Grant,
        /// Whether it had waited.
        waited: bool,
    },
    /// A part of an acquisition ended.
    HoldEnded {
        /// Whose.
        acquisition: AcquisitionId,
        /// Which lock.
        lock: LockName,
        /// Which slot.
        slot: Slot,
        /// Under which token.
        token: Token,
        /// How.
        ended: Ended,
    },
    /// A wait ended without a grant.
    WaitEnded {
        /// Whose.
        acquisition: AcquisitionId,
        /// On which locks.
        locks: Vec<LockName>,
        /// How.
        ended: Ended,
        /// The cycle that its wait closed, when it ended for that.
        cycle: Option<Box<Cycle>>,
    },
    /// A slot is closed.
    DelayStarted {
        /// Which lock.
        lock: LockName,
        /// Which slot.
        slot: Slot,
        /// The entry at which it began.
        began: LogIndex,
        /// Its length.
        delay: Millis,
    },
    /// A slot is open again.
    DelayEnded {
        /// Which lock.
        lock: LockName,
        /// Which slot.
        slot: Slot,
        /// The entry at which it had begun.
        began: LogIndex,
    },
    /// An acquire had no effect.
    Refused {
        /// Whose.
        session: SessionId,
        /// Why.
        refusal: Refusal,
    },
    /// A signing key is known.
    KeyPublished {
        /// Whose.
        node: NodeId,
    },
    /// What others can read of an acquisition changed.
    MetadataSet {
        /// Whose.
        acquisition: AcquisitionId,
        /// The locks that it holds.
        locks: Vec<LockName>,
        /// Present.
        metadata: Payload,
    },
    /// A holder got on with its work.
    ProgressReported {
        /// Who.
        acquisition: AcquisitionId,
    },
    /// A keepalive of a session with a long lease went through the log.
    SessionKept {
        /// Which.
        session: SessionId,
    },
    /// A minute of the leader's has passed.
    Ticked,
    /// Before an operator's break: the ends of its holds follow.
    Broken {
        /// Which lock.
        lock: LockName,
        /// Which slot.
        slot: Slot,
        /// Under which token.
        token: Token,
        /// Who asked.
        by: Principal,
    },
    /// A session goes on as another: its own end follows.
    SessionTakenOver {
        /// The earlier one.
        session: SessionId,
        /// The new one.
        by: SessionId,
    },
    /// The capacity of a lock in use is another one.
    CapacitySet {
        /// Which lock.
        lock: LockName,
        /// From now on.
        capacity: u32,
    },
    /// A guard confirmed the floor that a delay asks for; the delay's end follows when it was the last.
    FloorConfirmed {
        /// Which lock.
        lock: LockName,
        /// Which slot.
        slot: Slot,
        /// Which guard.
        guard: GuardName,
    },
    /// A search of a wait cycle was given up at its bound.
    CycleSearchGivenUp {
        /// Of which request.
        acquisition: AcquisitionId,
    },
    /// Another behaviour of apply is in force.
    VersionSet {
        /// Which.
        version: ClusterVersion,
    },
}
