//! What the client's task keeps of one session: its lease, its acquisitions, and what is undecided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_host::Moment;
use palisade_proto::v1;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Opened;
use super::holding::Holding;
use super::outgoing::Op;
use crate::client::ClientHandle;
use crate::deadline::Lease;
use crate::error::{AcquireError, CallError, LostReason, OpenError};
use crate::lock::Granted;
use crate::session::{SessionHandle, SessionShared, SessionState};
use crate::spec::AcquireSpec;
use crate::state_file::Secret;

/// A session being opened.
pub(super) struct Opening {
    pub(super) secret: Secret,
    pub(super) replaces: Option<v1::Replaces>,
    /// Of the first copy: the cluster may have opened the session for it.
    pub(super) first_sent: Option<Moment>,
    pub(super) client: Arc<ClientHandle>,
    pub(super) reply: oneshot::Sender<Result<Opened, OpenError>>,
    pub(super) give_up: Instant,
}

/// A caller that waits for a lock.
pub(super) struct Caller {
    pub(super) session: Arc<SessionHandle>,
    pub(super) reply: Granted,
}

/// Where an acquisition is, as far as this client knows. One that is being cancelled is only a number.
pub(super) enum Stage {
    /// Undecided.
    Asking { caller: Caller, give_up: Instant },
    /// In the queue. A bounded wait that is not told of its end gives up by itself.
    Waiting { caller: Caller, give_up: Option<Instant> },
    /// Granted, and handed to the caller; some of it may be about to be released.
    Holding(Holding),
    /// Taken over from an earlier process, and not adopted yet. With its grant, once that is known.
    Kept { grant: Option<v1::Grant> },
}

/// Where an acquisition came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// This process asked for it, and can ask again.
    Asked,
    /// An earlier process did. How it ended, where it did, is learned by its cancel.
    TakenOver,
}

pub(super) struct Acquisition {
    pub(super) spec: AcquireSpec,
    pub(super) origin: Origin,
    /// Copies of the request that left this process.
    pub(super) copies: u32,
    pub(super) stage: Stage,
}

/// A close that is repeated until it is decided.
pub(super) struct Closing {
    pub(super) reply: Option<oneshot::Sender<Result<(), CallError>>>,
    pub(super) give_up: Instant,
}

/// A caller of `renew_now`.
pub(super) struct RenewWaiter {
    /// The first renewal that was sent after it asked.
    pub(super) number: u64,
    pub(super) give_up: Instant,
    pub(super) reply: oneshot::Sender<Result<(), CallError>>,
}

pub(super) struct SessionRecord {
    pub(super) shared: Arc<SessionShared>,
    pub(super) lease: Lease,
    pub(super) secret: Secret,
    /// The stream may speak for the session.
    pub(super) bound: bool,
    /// Requests that wait for the binding.
    pub(super) held_back: Vec<Op>,
    pub(super) acquisitions: BTreeMap<u64, Acquisition>,
    /// Cancels that are not decided yet.
    pub(super) cancelling: BTreeSet<u64>,
    next_number: u64,
    undecided: BTreeSet<u64>,
    pub(super) next_renew: Moment,
    /// When a reconnection was reported; it turns into `Active` a little later, so that watchers see it.
    pub(super) reconnected: Option<Instant>,
    pub(super) renew_waiters: Vec<RenewWaiter>,
    pub(super) closing: Option<Closing>,
}

impl SessionRecord {
    pub(super) fn new(shared: Arc<SessionShared>, lease: Lease, secret: Secret, now: Moment) -> Self {
        Self {
            shared,
            lease,
            secret,
            bound: true,
            held_back: Vec::new(),
            acquisitions: BTreeMap::new(),
            cancelling: BTreeSet::new(),
            next_number: 1,
            undecided: BTreeSet::new(),
            next_renew: now,
            reconnected: None,
            renew_waiters: Vec::new(),
            closing: None,
        }
    }

    pub(super) fn ask(&mut self, spec: AcquireSpec, caller: Caller, give_up: Instant) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.undecided.insert(number);
        let stage = Stage::Asking { caller, give_up };
        self.acquisitions.insert(number, Acquisition { spec, origin: Origin::Asked, copies: 0, stage });
        number
    }

    /// What it took over goes on under these numbers, until it is adopted or cancelled.
    pub(super) fn keep(&mut self, numbers: impl Iterator<Item = u64>) {
        for number in numbers {
            let spec = AcquireSpec::new(Vec::new());
            // The earlier process sent it.
            let copies = 1;
            let stage = Stage::Kept { grant: None };
            self.acquisitions.insert(number, Acquisition { spec, origin: Origin::TakenOver, copies, stage });
            self.next_number = self.next_number.max(number.saturating_add(1));
        }
    }

    /// The outcome of `number` is known: it is not repeated below the mark any more (SPEC 6).
    pub(super) fn decided(&mut self, number: u64) {
        self.undecided.remove(&number);
    }

    /// Below it, nothing is repeated but what waits or holds. Sent along with `number`, which it never passes.
    pub(super) fn mark_for(&self, number: u64) -> u64 {
        self.undecided.first().copied().unwrap_or(self.next_number).min(number)
    }

    /// Whether a task of this process holds a lock in it.
    pub(super) fn holds(&self) -> bool {
        self.acquisitions.values().any(|acquisition| match &acquisition.stage {
            Stage::Holding(holding) => holding.is_held(),
            Stage::Asking { .. } | Stage::Waiting { .. } | Stage::Kept { .. } => false,
        })
    }

    /// A request sent at `sent` was answered `renewed`.
    pub(super) fn count(&mut self, sent: Moment, now: Moment, instant: Instant) {
        let passed = self.shared.deadline() <= now;
        if passed {
            self.shared.report(SessionState::Suspended);
        }
        self.shared.extend(self.lease.deadline(sent));
        if self.shared.reported() == SessionState::Suspended && self.shared.deadline() > now {
            self.shared.report(SessionState::Reconnected);
            self.reconnected = Some(instant);
            tracing::info!(session = %self.shared.id(), "session was reconnected");
        }
    }

    /// Ends everything that waits or holds here, with the session.
    pub(super) fn lose(mut self, reason: LostReason) {
        self.shared.report(SessionState::Lost(reason));
        for acquisition in std::mem::take(&mut self.acquisitions).into_values() {
            match acquisition.stage {
                Stage::Asking { caller, .. } | Stage::Waiting { caller, .. } => {
                    let _ = caller.reply.send(Err(AcquireError::SessionLost(reason)));
                }
                Stage::Holding(holding) => holding.lose(reason),
                Stage::Kept { .. } => {}
            }
        }
        for waiter in self.renew_waiters.drain(..) {
            let _ = waiter.reply.send(Err(CallError::SessionLost(reason)));
        }
        if let Some(reply) = self.closing.and_then(|closing| closing.reply) {
            let _ = reply.send(Ok(()));
        }
    }
}
