//! A session as its holder sees it: its state, its lease, and what can be asked under it.
//!
//! The state is written by the client's task alone, and read here together with the clock: a deadline that has passed
//! counts at once, whether or not the task has run since (a process that was suspended learns it on its first check).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use palisade_core::ids::{LockName, SessionId};
use palisade_core::reply::Ended;
use palisade_host::{Moment, SharedClock};
use tokio::sync::{oneshot, watch};

use crate::client::{ClientHandle, Left};
use crate::deadline::time_left;
use crate::driver::Command;
use crate::error::{CallError, LostReason};
use crate::guard_set::GuardSet;
use crate::lock::AcquireBuilder;
use crate::spec::Part;

/// What a holder may believe (SPEC 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// The lease is believed in.
    Active,
    /// The deadline passed unanswered: stop work. Whether the cluster still keeps the session is not known.
    Suspended,
    /// It was suspended, and the cluster kept it: the same locks, the same tokens. `Active` follows.
    Reconnected,
    /// The cluster says that it is over. Nothing comes after this.
    Lost(LostReason),
}

/// The state of one session, written by the client's task.
#[derive(Debug)]
pub(crate) struct SessionShared {
    id: SessionId,
    clock: SharedClock,
    /// Nanoseconds of the clock.
    deadline: AtomicU64,
    states: watch::Sender<SessionState>,
}

impl SessionShared {
    pub(crate) fn new(id: SessionId, clock: SharedClock, deadline: Moment) -> Self {
        let states = watch::Sender::new(SessionState::Active);
        Self { id, clock, deadline: AtomicU64::new(deadline.as_nanos()), states }
    }

    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    pub(crate) fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Belief never ends earlier because an older sending was answered later.
    pub(crate) fn extend(&self, deadline: Moment) {
        self.deadline.fetch_max(deadline.as_nanos(), Ordering::AcqRel);
    }

    /// As written, whatever the clock says.
    pub(crate) fn reported(&self) -> SessionState {
        *self.states.borrow()
    }

    /// Nothing follows on `Lost`.
    pub(crate) fn report(&self, state: SessionState) {
        self.states.send_if_modified(|present| {
            let changes = !matches!(present, SessionState::Lost(_)) && *present != state;
            if changes {
                *present = state;
            }
            changes
        });
    }

    pub(crate) fn state(&self) -> SessionState {
        match self.reported() {
            lost @ SessionState::Lost(_) => lost,
            SessionState::Suspended => SessionState::Suspended,
            state @ (SessionState::Active | SessionState::Reconnected) => {
                if time_left(self.deadline(), self.clock.now()).is_some() {
                    state
                } else {
                    SessionState::Suspended
                }
            }
        }
    }

    /// None unless the lease is believed in now.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        match self.reported() {
            SessionState::Lost(_) | SessionState::Suspended => None,
            SessionState::Active | SessionState::Reconnected => time_left(self.deadline(), self.clock.now()),
        }
    }

    pub(crate) fn states(&self) -> watch::Receiver<SessionState> {
        self.states.subscribe()
    }
}

/// What all handles and guards of one session own together. Once the last of them is gone, nobody can want the
/// session any more, and it is closed.
#[derive(Debug)]
pub(crate) struct SessionHandle {
    pub(crate) shared: Arc<SessionShared>,
    pub(crate) client: Arc<ClientHandle>,
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        self.client.leave(Left::Session(self.shared.id()));
    }
}

/// A session: a lease that is kept alive in the background. Clones are the same session; when the last clone and the
/// last guard are dropped, it is closed.
#[derive(Clone, Debug)]
pub struct Session {
    handle: Arc<SessionHandle>,
}

impl Session {
    pub(crate) fn new(handle: Arc<SessionHandle>) -> Self {
        Self { handle }
    }

    /// Its id: the log index of its opening, with the token base.
    pub fn id(&self) -> SessionId {
        self.handle.shared.id()
    }

    /// What may be believed now.
    pub fn state(&self) -> SessionState {
        self.handle.shared.state()
    }

    /// Changes of the state, as the client's task reports them. `Suspended` comes here up to a tenth of a second later
    /// than [`Session::state`] and [`crate::LockGuard::check`] tell it.
    pub fn states(&self) -> watch::Receiver<SessionState> {
        self.handle.shared.states()
    }

    /// How long the lease is believed in, unless it is renewed; None when it is not.
    pub fn remaining(&self) -> Option<Duration> {
        self.handle.shared.remaining()
    }

    /// Asks for a lock. Two acquisitions of one session exclude each other like those of two.
    pub fn lock(&self, lock: LockName) -> AcquireBuilder {
        AcquireBuilder::new(self.handle.clone(), vec![lock.into()])
    }

    /// Asks for several locks at once, all or none, in one entry under one token. A lock that is named twice is refused.
    pub fn lock_all<P: Into<Part>>(&self, parts: impl IntoIterator<Item = P>) -> AcquireBuilder<GuardSet> {
        AcquireBuilder::new(self.handle.clone(), parts.into_iter().map(Into::into).collect())
    }

    /// Ends the session: its locks are free at once, its waits end. Locks should be released first, in the order that
    /// the work asks for.
    ///
    /// # Errors
    ///
    /// `Unavailable` when nothing decided it in time; it goes on in the background.
    pub async fn close(self) -> Result<(), CallError> {
        let (reply, answer) = oneshot::channel();
        self.handle.client.call(Command::Close { session: self.handle.shared.clone(), reply }).await?;
        answer.await.unwrap_or(Err(CallError::ClientClosed))
    }

    /// Sends a keepalive now and waits for its answer.
    ///
    /// # Errors
    ///
    /// `SessionLost` when the session is over, `Unavailable` when nothing renewed it in time.
    pub async fn renew_now(&self) -> Result<(), CallError> {
        let (reply, answer) = oneshot::channel();
        self.handle.client.call(Command::Renew { session: self.handle.shared.clone(), reply }).await?;
        answer.await.unwrap_or(Err(CallError::ClientClosed))
    }
}

/// Why an ask under a session that the client's task no longer has fails.
pub(crate) fn why_gone(shared: &SessionShared) -> LostReason {
    match shared.reported() {
        SessionState::Lost(reason) => reason,
        SessionState::Active | SessionState::Suspended | SessionState::Reconnected => {
            LostReason::Ended(Ended::Closed)
        }
    }
}

#[cfg(test)]
mod tests {
    use palisade_host::{Clock, ManualClock};

    use super::*;

    fn session(clock: &Arc<ManualClock>, belief: Duration) -> SessionShared {
        SessionShared::new(SessionId(7), clock.clone(), clock.now() + belief)
    }

    #[test]
    fn a_passed_deadline_counts_before_anybody_reports_it() {
        let clock = Arc::new(ManualClock::default());
        let session = session(&clock, Duration::from_secs(9));
        assert_eq!(session.state(), SessionState::Active);
        clock.advance(Duration::from_secs(300));
        assert_eq!(session.state(), SessionState::Suspended);
        assert_eq!(session.remaining(), None);
    }

    #[test]
    fn nothing_comes_after_lost() {
        let clock = Arc::new(ManualClock::default());
        let session = session(&clock, Duration::from_secs(9));
        session.report(SessionState::Lost(LostReason::Unknown));
        session.extend(clock.now() + Duration::from_secs(60));
        session.report(SessionState::Active);
        assert_eq!(session.state(), SessionState::Lost(LostReason::Unknown));
        assert_eq!(session.remaining(), None);
    }

    #[test]
    fn an_answer_to_an_older_sending_shortens_nothing() {
        let clock = Arc::new(ManualClock::default());
        let session = session(&clock, Duration::from_secs(9));
        session.extend(clock.now() + Duration::from_secs(3));
        assert_eq!(session.remaining(), Some(Duration::from_secs(9)));
    }
}
