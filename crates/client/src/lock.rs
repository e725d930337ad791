//! Acquiring: one lock, or several at once.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use palisade_core::ids::{GuardName, OwnerLabel, SessionId};
use tokio::sync::oneshot;

use crate::client::{ClientHandle, Left};
use crate::driver::Command;
use crate::error::{AcquireError, AskedFor, CallError};
use crate::guard::LockGuard;
use crate::guard_set::GuardSet;
use crate::session::SessionHandle;
use crate::spec::{AcquireSpec, Part, WaitFor};

/// An acquisition to be made, of one slot (its guard is a [`LockGuard`]) or of several ([`GuardSet`]).
#[derive(Debug)]
#[must_use = "nothing is asked for before acquire()"]
pub struct AcquireBuilder<G = LockGuard> {
    session: Arc<SessionHandle>,
    spec: AcquireSpec,
    guard: PhantomData<fn() -> G>,
}

impl<G> AcquireBuilder<G> {
    pub(crate) fn new(session: Arc<SessionHandle>, parts: Vec<Part>) -> Self {
        Self { session, spec: AcquireSpec::new(parts), guard: PhantomData }
    }

    /// Waits in the queue at most so long (1 ms to a day), counted by the leader.
    pub fn wait_for(mut self, bound: Duration) -> Self {
        self.spec.wait = WaitFor::Bounded(bound);
        self
    }

    /// Waits in the queue as long as the session lives. This is the default.
    pub fn wait_while_session(mut self) -> Self {
        self.spec.wait = WaitFor::Session;
        self
    }

    /// Refused at once when the lock is not free. Leaves nothing in the queue.
    pub fn try_now(mut self) -> Self {
        self.spec.wait = WaitFor::Nothing;
        self
    }

    /// The grant carries signed sequencers.
    pub fn with_sequencer(mut self) -> Self {
        self.spec.with_sequencer = true;
        self
    }

    /// The longest time that it may be held (1 s to 30 days), counted from the first report of progress, which the client
    /// sends before it hands out the guard. After it the hold ends as `overdue`, with the lock-delay; the session lives.
    pub fn hold_max(mut self, bound: Duration) -> Self {
        self.spec.hold_max = Some(bound);
        self
    }

    /// The longest time between two calls of [`LockGuard::report_progress`] (1 s to 30 days). What is not reported in time
    /// ends as `overdue`, with the lock-delay; the session lives.
    pub fn progress_every(mut self, interval: Duration) -> Self {
        self.spec.progress_every = Some(interval);
        self
    }

    /// What others can read and watch of the holder, an address say: up to 4 KiB.
    pub fn metadata(mut self, metadata: impl Into<Vec<u8>>) -> Self {
        self.spec.metadata = metadata.into();
        self
    }

    /// Names the task that asks. A wait that would close a cycle of named tasks is refused. Without a name it takes no part
    /// in that search.
    pub fn owner(mut self, task: OwnerLabel) -> Self {
        self.spec.owner = Some(task);
        self
    }

    async fn all(self) -> Result<GuardSet, AcquireError> {
        let Self { session, spec, guard: PhantomData } = self;
        spec.check()?;
        let lock = spec.asked_for();
        let (client, id) = (session.client.clone(), session.shared.id());
        granted(client, id, lock, |reply| Command::Acquire { session, spec, reply }).await
    }
}

impl AcquireBuilder {
    fn part(mut self, change: impl FnOnce(Part) -> Part) -> Self {
        if let Some(part) = self.spec.parts.pop() {
            self.spec.parts.push(change(part));
        }
        self
    }

    /// Shared with other shared holders. They all carry the same token, so that a resource cannot tell them apart.
    pub fn shared(self) -> Self {
        self.part(Part::shared)
    }

    /// How many slots the lock has: a semaphore. Whoever asks for it names the same number while it is in use. The guard
    /// has one of them.
    pub fn capacity(self, slots: u32) -> Self {
        self.part(|part| part.capacity(slots))
    }

    /// How many slots are wanted, all in one entry or none; each has a guard of its own in the set.
    pub fn permits(self, permits: u32) -> AcquireBuilder<GuardSet> {
        let Self { session, spec, guard: PhantomData } = self.part(|part| part.permits(permits));
        AcquireBuilder { session, spec, guard: PhantomData }
    }

    /// How long the lock stays closed if this session expires while it holds: 0 to 60 s. Unnamed: the cluster's default.
    pub fn lock_delay(self, delay: Duration) -> Self {
        self.part(|part| part.lock_delay(delay))
    }

    /// See [`Part::fenced_by`].
    pub fn fenced_by(self, guards: impl IntoIterator<Item = GuardName>) -> Self {
        self.part(|part| part.fenced_by(guards))
    }

    /// Asks, waits, and hands out the lock only while its lease is believed in. Dropping the future cancels the
    /// acquisition, whatever its state.
    ///
    /// # Errors
    ///
    /// Each says whether it took effect; see [`AcquireError`].
    pub async fn acquire(self) -> Result<LockGuard, AcquireError> {
        Ok(self.all().await?.into_first())
    }
}

impl AcquireBuilder<GuardSet> {
    /// Asks, waits, and hands out all of them, in one entry under one token, only while their lease is believed in. While
    /// it waits it holds nothing, and everybody behind it in any of the queues waits as well: use a bounded wait.
    ///
    /// # Errors
    ///
    /// Each says whether it took effect; see [`AcquireError`].
    pub async fn acquire(self) -> Result<GuardSet, AcquireError> {
        self.all().await
    }
}

/// Where the client's task answers who waits for a grant.
pub(crate) type Granted = oneshot::Sender<Result<GuardSet, AcquireError>>;

/// Hands a command to the client's task that is answered by a grant, and waits for it, as long as this future lives.
pub(crate) async fn granted(
    client: Arc<ClientHandle>,
    session: SessionId,
    lock: AskedFor,
    command: impl FnOnce(Granted) -> Command,
) -> Result<GuardSet, AcquireError> {
    let (reply, answer) = oneshot::channel();
    client.call(command(reply)).await.map_err(|error| match error {
        CallError::SessionLost(reason) => AcquireError::SessionLost(reason),
        // It never left this process.
        CallError::Unavailable { .. } => AcquireError::Unavailable { lock: lock.clone() },
        CallError::Refused { .. } | CallError::ClientClosed => AcquireError::ClientClosed,
    })?;
    let mut wait = Wait { answer: Some(answer), client, session };
    let granted = match &mut wait.answer {
        Some(answer) => answer.await.unwrap_or(Err(AcquireError::ClientClosed)),
        None => Err(AcquireError::ClientClosed),
    };
    wait.answer = None;
    granted?.ready(lock).await
}

/// A caller that waits. Dropped before the answer, it tells the client's task, which cancels.
struct Wait {
    answer: Option<oneshot::Receiver<Result<GuardSet, AcquireError>>>,
    client: Arc<ClientHandle>,
    session: SessionId,
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            // A guard that is already on its way drops with the channel, and releases.
            drop(answer);
            self.client.leave(Left::Wait(self.session));
        }
    }
}
