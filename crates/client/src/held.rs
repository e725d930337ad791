//! What is held, as its guards and the client's task share it: an acquisition, and each of its parts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use palisade_core::ids::{AcquisitionId, LockName, Slot};
use palisade_core::mode::Mode;
use palisade_core::reply::{Ended, Grant, GrantedPart, Inherited};
use palisade_core::token::Token;
use tokio::sync::Notify;

use crate::deadline::HoldDeadlines;
use crate::error::LostReason;
use crate::session::{SessionHandle, SessionState};

/// What all parts of one acquisition have in common.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) session: Arc<SessionHandle>,
    pub(crate) acquisition: AcquisitionId,
    /// Its own, beside the lease.
    pub(crate) deadlines: HoldDeadlines,
    /// Of the metadata.
    pub(crate) revision: AtomicU64,
    pub(crate) reports: AtomicU64,
}

impl Hold {
    pub(crate) fn new(session: Arc<SessionHandle>, grant: &Grant) -> Self {
        let bound = |bound: palisade_core::ids::Millis| Duration::from_millis(bound.0);
        let deadlines = session
            .client
            .settings
            .hold_deadlines(grant.hold_max.map(bound), grant.progress_every.map(bound));
        Self {
            session,
            acquisition: grant.acquisition,
            deadlines,
            revision: AtomicU64::new(0),
            reports: AtomicU64::new(0),
        }
    }

    /// Until the nearest of all deadlines, the lease's and its own; None once one passed.
    fn remaining(&self) -> Option<Duration> {
        let lease = self.session.shared.remaining()?;
        match self.deadlines.remaining(self.session.shared.now()) {
            Some(left) if left.is_zero() => None,
            Some(left) => Some(lease.min(left)),
            None => Some(lease),
        }
    }
}

/// One held slot: the tenure, or this acquisition's share in it.
#[derive(Debug)]
pub(crate) struct HeldPart {
    pub(crate) hold: Arc<Hold>,
    /// In the order of the grant.
    pub(crate) place: usize,
    pub(crate) lock: LockName,
    pub(crate) slot: Slot,
    pub(crate) mode: Mode,
    pub(crate) token: Token,
    pub(crate) grant_index: u64,
    pub(crate) lock_delay: Duration,
    pub(crate) inherited: Option<Arc<Inherited>>,
    pub(crate) sequencer: OnceLock<String>,
    /// Of the baton, under this token.
    pub(crate) revision: AtomicU64,
    contended: AtomicBool,
    lost: OnceLock<LostReason>,
    /// Of `contended` and `lost`.
    pub(crate) changed: Notify,
}

impl HeldPart {
    pub(crate) fn new(
        hold: Arc<Hold>,
        place: usize,
        grant_index: u64,
        part: GrantedPart,
        sequencer: Option<String>,
    ) -> Self {
        Self {
            hold,
            place,
            lock: part.lock,
            slot: part.slot,
            mode: part.mode,
            token: part.token,
            grant_index,
            lock_delay: Duration::from_millis(part.delay.0),
            inherited: part.inherited,
            sequencer: sequencer.map_or_else(OnceLock::new, OnceLock::from),
            revision: AtomicU64::new(0),
            contended: AtomicBool::new(false),
            lost: OnceLock::new(),
            changed: Notify::new(),
        }
    }

    /// The first reason stands.
    pub(crate) fn lose(&self, reason: LostReason) {
        if self.lost.set(reason).is_ok() {
            self.changed.notify_waiters();
        }
    }

    /// The cluster no longer has it so.
    pub(crate) fn end(&self, ended: Option<Ended>) {
        self.lose(LostReason::Ended(ended.unwrap_or(Ended::Forgotten)));
    }

    pub(crate) fn contend(&self) {
        self.contended.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    pub(crate) fn is_contended(&self) -> bool {
        self.contended.load(Ordering::Acquire)
    }

    /// Why this very hold is over, whatever became of its session.
    pub(crate) fn own_reason(&self) -> Option<LostReason> {
        self.lost.get().copied()
    }

    pub(crate) fn reason(&self) -> Option<LostReason> {
        if let Some(reason) = self.own_reason() {
            return Some(reason);
        }
        match self.hold.session.shared.reported() {
            SessionState::Lost(reason) => Some(reason),
            SessionState::Active | SessionState::Suspended | SessionState::Reconnected => None,
        }
    }

    pub(crate) fn state(&self) -> SessionState {
        match self.reason() {
            Some(reason) => SessionState::Lost(reason),
            None if self.hold.remaining().is_none() => SessionState::Suspended,
            None => self.hold.session.shared.state(),
        }
    }

    pub(crate) fn remaining(&self) -> Option<Duration> {
        if self.own_reason().is_some() { None } else { self.hold.remaining() }
    }

    pub(crate) async fn until<T>(&self, mut found: impl FnMut(&Self) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(value) = found(self) {
                return value;
            }
            changed.await;
        }
    }
}
