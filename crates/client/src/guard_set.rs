//! Several slots that were granted at once, in the hands of their holder.

use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use palisade_core::holding::NotHolding;
use palisade_core::ids::{AcquisitionId, LockName};
use palisade_core::reply::Ended;
use tokio::sync::oneshot;

use crate::driver::{Change, Command};
use crate::error::{AcquireError, AskedFor, HoldError, LostReason, ReleaseError};
use crate::guard::{LockGuard, Released};
use crate::session::SessionState;

/// How often a lease is looked at that was extended just before it passed: that changes no state.
const LOOK: Duration = Duration::from_millis(100);

/// What one acquisition holds: each slot with a guard of its own. Dropped, all of it is released in the background.
///
/// Taken apart by [`GuardSet::into_guards`], each guard is released, handed over, lost and dropped by itself.
#[derive(Debug)]
#[must_use = "a dropped set releases its locks"]
pub struct GuardSet {
    first: LockGuard,
    rest: Vec<LockGuard>,
}

impl GuardSet {
    /// None of nothing.
    pub(crate) fn new(guards: Vec<LockGuard>) -> Option<Self> {
        let mut guards = guards.into_iter();
        Some(Self { first: guards.next()?, rest: guards.collect() })
    }

    /// Each slot, in the order in which the locks were named. Never empty.
    pub fn guards(&self) -> impl Iterator<Item = &LockGuard> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// Each by itself.
    pub fn into_guards(self) -> Vec<LockGuard> {
        std::iter::once(self.first).chain(self.rest).collect()
    }

    /// The only one, where one slot was asked for; others are released.
    pub(crate) fn into_first(self) -> LockGuard {
        self.first
    }

    /// The first slot of a lock.
    pub fn of(&self, lock: &LockName) -> Option<&LockGuard> {
        self.guards().find(|guard| guard.lock() == lock)
    }

    /// Which acquisition.
    pub fn acquisition(&self) -> AcquisitionId {
        self.first.acquisition()
    }

    /// How long all of it is believed in; None once any part is not.
    pub fn remaining(&self) -> Option<Duration> {
        self.guards().map(LockGuard::remaining).min().flatten()
    }

    /// An error once any part is not to be believed in: see [`LockGuard::check`].
    ///
    /// # Errors
    ///
    /// That of the first such part.
    pub fn check(&self) -> Result<(), NotHolding> {
        self.guards().try_for_each(LockGuard::check)
    }

    /// Ends once work that needs all of it must stop: see [`LockGuard::suspended`].
    pub fn suspended(&self) -> impl Future<Output = SessionState> + Send + 'static {
        let mut parts: Vec<_> = self.guards().map(|guard| Box::pin(guard.suspended())).collect();
        std::future::poll_fn(move |context| {
            let stopped = parts.iter_mut().find_map(|part| match part.as_mut().poll(context) {
                Poll::Ready(state) => Some(state),
                Poll::Pending => None,
            });
            stopped.map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// Frees everything in one entry, and says so. Stop the work first. Repeated in the background until it is decided,
    /// also when this future is dropped.
    ///
    /// # Errors
    ///
    /// Each says whether it was still held; see [`ReleaseError`].
    pub async fn release(self) -> Result<Released, ReleaseError> {
        let (reply, answer) = oneshot::channel();
        let hold = self.first.held.hold.clone();
        let command = Command::Change {
            acquisition: hold.acquisition,
            session: hold.session.shared.clone(),
            place: None,
            change: Change::Release { reply: Some(reply) },
        };
        hold.session.client.call(command).await?;
        let known = self.first.held.own_reason();
        for guard in self.into_guards() {
            guard.disarm().lose(LostReason::Ended(Ended::Released));
        }
        answer.await.unwrap_or(Err(ReleaseError::ClientClosed)).map_err(|error| error.because(known))
    }

    /// Waits until the lease is believed in, and reports for the first time where deadlines ask for it.
    pub(crate) async fn ready(self, lock: AskedFor) -> Result<Self, AcquireError> {
        let mut states = self.first.held.hold.session.shared.states();
        while self.remaining().is_none() {
            if let Some(reason) = self.guards().find_map(|guard| guard.held.reason()) {
                return Err(lost(lock, reason));
            }
            tokio::select! {
                changed = states.changed() => if changed.is_err() {
                    return Err(AcquireError::ClientClosed);
                },
                () = self.first.held.changed.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        if self.first.held.hold.deadlines.exist() {
            self.first.report_progress().await.map_err(|error| not_reported(lock, error))?;
        }
        Ok(self)
    }
}

fn lost(lock: AskedFor, reason: LostReason) -> AcquireError {
    match reason {
        LostReason::Ended(ended @ (Ended::Overdue | Ended::Broken)) => AcquireError::Ended { lock, ended },
        reason => AcquireError::SessionLost(reason),
    }
}

fn not_reported(lock: AskedFor, error: HoldError) -> AcquireError {
    match error {
        HoldError::NotHeld { ended, .. } => {
            AcquireError::Ended { lock, ended: ended.unwrap_or(Ended::Forgotten) }
        }
        HoldError::SessionLost(reason) => AcquireError::SessionLost(reason),
        HoldError::Unavailable { .. } => AcquireError::Unavailable { lock },
        HoldError::Refused { name, message } => AcquireError::Refused { name, message },
        HoldError::ClientClosed => AcquireError::ClientClosed,
    }
}
