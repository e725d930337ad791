//! What happened. Feeds waiters, watchers, timers, metrics and the audit log, in log order.

use crate::command::Wait;
use crate::ids::{AcquisitionId, ClientName, LockName, LogIndex, Millis, NodeId, SessionId, Slot, Term};
use crate::reply::{Ended, Grant, Refusal};
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
}
