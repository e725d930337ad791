//! A held lock in the hands of its holder.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use palisade_core::holding::{Holding, NotHolding};
use palisade_core::ids::{AcquisitionId, LockName, Slot};
use palisade_core::mode::Mode;
use palisade_core::reply::Ended;
use palisade_core::token::Token;
use tokio::sync::{Notify, oneshot};

use crate::client::Left;
use crate::driver::Command;
use crate::error::{CallError, LostReason, ReleaseError};
use crate::session::{SessionHandle, SessionState};

/// One tenure, as the guard and the client's task share it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) session: Arc<SessionHandle>,
    pub(crate) acquisition: AcquisitionId,
    pub(crate) lock: LockName,
    pub(crate) slot: Slot,
    pub(crate) mode: Mode,
    pub(crate) token: Token,
    pub(crate) grant_index: u64,
    pub(crate) lock_delay: Duration,
    pub(crate) sequencer: OnceLock<String>,
    pub(crate) contended: AtomicBool,
    pub(crate) lost: OnceLock<LostReason>,
    /// Of `contended` and `lost`.
    pub(crate) changed: Notify,
}

impl Held {
    /// The first reason stands.
    pub(crate) fn lose(&self, reason: LostReason) {
        if self.lost.set(reason).is_ok() {
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn contend(&self) {
        self.contended.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    fn reason(&self) -> Option<LostReason> {
        if let Some(reason) = self.lost.get() {
            return Some(*reason);
        }
        match self.session.shared.reported() {
            SessionState::Lost(reason) => Some(reason),
            SessionState::Active | SessionState::Suspended | SessionState::Reconnected => None,
        }
    }

    fn remaining(&self) -> Option<Duration> {
        if self.lost.get().is_some() {
            return None;
        }
        self.session.shared.remaining()
    }

    async fn until<T>(&self, mut found: impl FnMut(&Self) -> Option<T>) -> T {
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

/// How a release ended the tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// `Released`; or `Forgotten`, when a repeat found it ended and the cluster no longer remembers how.
    pub ended: Ended,
}

/// A held lock. Dropped, it is released in the background; [`LockGuard::release`] says whether that worked.
///
/// The token was captured with the grant and never changes: a lock that is acquired again has a new guard.
#[derive(Debug)]
#[must_use = "a dropped guard releases its lock"]
pub struct LockGuard {
    held: Arc<Held>,
    /// A release was handed over; nothing is left to do on drop.
    released: bool,
}

impl LockGuard {
    pub(crate) fn new(held: Arc<Held>) -> Self {
        Self { held, released: false }
    }

    /// The fencing token: send it with each write; the resource rejects it once it has seen a newer one.
    pub fn token(&self) -> Token {
        self.held.token
    }

    /// The entry that made the grant, with the token base.
    pub fn grant_index(&self) -> u64 {
        self.held.grant_index
    }

    /// Which slot.
    pub fn slot(&self) -> Slot {
        self.held.slot
    }

    /// Which lock.
    pub fn lock(&self) -> &LockName {
        &self.held.lock
    }

    /// Which acquisition.
    pub fn acquisition(&self) -> AcquisitionId {
        self.held.acquisition
    }

    /// How long the slot stays closed if this session expires.
    pub fn lock_delay(&self) -> Duration {
        self.held.lock_delay
    }

    /// Whether the lock may be believed in now.
    pub fn state(&self) -> SessionState {
        match self.held.reason() {
            Some(reason) => SessionState::Lost(reason),
            None => self.held.session.shared.state(),
        }
    }

    /// How long it is believed in, unless the session is renewed; None when it is not.
    pub fn remaining(&self) -> Option<Duration> {
        self.held.remaining()
    }

    /// An error once the deadline passed, a resource refused the token, or the cluster ended the tenure. Call it before
    /// each effect. Advice: only the resource's own check, at the write, is proof.
    ///
    /// # Errors
    ///
    /// Each says to stop work and acquire again.
    pub fn check(&self) -> Result<(), NotHolding> {
        let (lock, token) = (&self.held.lock, self.held.token);
        match self.held.reason() {
            Some(LostReason::Rejected { mark }) => {
                Err(NotHolding::Rejected { lock: lock.clone(), token, mark })
            }
            Some(_) => Err(NotHolding::Lost { lock: lock.clone(), token }),
            None if self.held.remaining().is_none() => {
                Err(NotHolding::DeadlinePassed { lock: lock.clone(), token })
            }
            None => Ok(()),
        }
    }

    /// Ends once the lock is lost, or was released by its holder (so that no watcher stays behind). A passed deadline is not a loss: see [`LockGuard::suspended`].
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static {
        let held = self.held.clone();
        async move { held.until(Held::reason).await }
    }

    /// Ends once work must stop: the deadline passed (`Suspended`), or the lock is lost.
    pub fn suspended(&self) -> impl Future<Output = SessionState> + Send + 'static {
        let held = self.held.clone();
        async move {
            let mut states = held.session.shared.states();
            let stopped =
                states.wait_for(|state| matches!(state, SessionState::Suspended | SessionState::Lost(_)));
            tokio::select! {
                reason = held.until(Held::reason) => SessionState::Lost(reason),
                state = stopped => match state {
                    Ok(state) => *state,
                    Err(_) => SessionState::Lost(LostReason::ClientClosed),
                },
            }
        }
    }

    /// Ends once somebody queues behind this holder.
    pub fn contended(&self) -> impl Future<Output = ()> + Send + 'static {
        let held = self.held.clone();
        async move { held.until(|held| held.contended.load(Ordering::Acquire).then_some(())).await }
    }

    /// The signed sequencer: as the grant carried it, or fetched now, once.
    ///
    /// # Errors
    ///
    /// `Refused` when the acquisition no longer holds; see [`CallError`].
    pub async fn sequencer(&self) -> Result<String, CallError> {
        if let Some(sequencer) = self.held.sequencer.get() {
            return Ok(sequencer.clone());
        }
        self.sequencer_again().await
    }

    /// A fresh sequencer: for a resource that does not know the key of the first (SPEC 7).
    ///
    /// # Errors
    ///
    /// As [`LockGuard::sequencer`].
    pub async fn sequencer_again(&self) -> Result<String, CallError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Sequencer { held: self.held.clone(), reply };
        self.held.session.client.call(command).await?;
        let sequencer = answer.await.unwrap_or(Err(CallError::ClientClosed))?;
        // A later one proves the same; the first stands for `Holding`, which lends it out.
        let _ = self.held.sequencer.set(sequencer.clone());
        Ok(sequencer)
    }

    /// Frees the lock, and says so. Stop the work first. Repeated in the background until it is decided, also when
    /// this future is dropped.
    ///
    /// # Errors
    ///
    /// Each says whether the lock was still held; see [`ReleaseError`].
    pub async fn release(mut self) -> Result<Released, ReleaseError> {
        let (reply, answer) = oneshot::channel();
        let session = self.held.session.shared.clone();
        let command = Command::Release { session, number: self.held.acquisition.number, reply };
        let client = self.held.session.client.clone();
        // Until it is handed over, dropping this future drops an armed guard.
        client.call(command).await.map_err(|error| match error {
            CallError::Unavailable { .. } => ReleaseError::Unavailable,
            CallError::SessionLost(reason) => ReleaseError::SessionLost(reason),
            CallError::Refused { .. } | CallError::ClientClosed => ReleaseError::ClientClosed,
        })?;
        self.released = true;
        let before = self.held.lost.get().copied();
        self.held.lose(LostReason::Ended(Ended::Released));
        drop(self);
        match (answer.await.unwrap_or(Err(ReleaseError::ClientClosed)), before) {
            (Err(ReleaseError::NotHeld { ended: None, superseded_by }), Some(LostReason::Ended(ended))) => {
                Err(ReleaseError::NotHeld { ended: Some(ended), superseded_by })
            }
            (outcome, _) => outcome,
        }
    }

    /// Waits until the lease is believed in.
    pub(crate) async fn when_active(self) -> Result<Self, LostReason> {
        if self.held.remaining().is_some() {
            return Ok(self);
        }
        let mut states = self.held.session.shared.states();
        loop {
            if let Some(reason) = self.held.reason() {
                return Err(reason);
            }
            if self.held.remaining().is_some() {
                return Ok(self);
            }
            tokio::select! {
                changed = states.changed() => if changed.is_err() {
                    return Err(LostReason::ClientClosed);
                },
                () = self.held.changed.notified() => {}
                // A deadline that was extended just before it passed changes no state.
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
        }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if !self.released {
            self.held.lose(LostReason::Ended(Ended::Released));
            self.held.session.client.leave(Left::Guard(self.held.acquisition));
        }
    }
}

impl Holding for LockGuard {
    fn issuer(&self) -> Option<&str> {
        None
    }

    fn lock(&self) -> &LockName {
        &self.held.lock
    }

    fn slot(&self) -> Slot {
        self.held.slot
    }

    fn mode(&self) -> Mode {
        self.held.mode
    }

    fn token(&self) -> Token {
        self.held.token
    }

    fn sequencer(&self) -> Option<&str> {
        self.held.sequencer.get().map(String::as_str)
    }

    fn check(&self) -> Result<(), NotHolding> {
        Self::check(self)
    }

    fn rejected(&self, mark: Token) {
        self.held.lose(LostReason::Rejected { mark });
    }
}
