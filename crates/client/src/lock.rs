//! Acquiring.

use std::sync::Arc;
use std::time::Duration;

use palisade_core::ids::{LockName, SessionId};
use palisade_core::limits::{LOCK_DELAY_MAX, WAIT_MAX};
use palisade_proto::v1;
use tokio::sync::oneshot;

use crate::client::{ClientHandle, Left};
use crate::driver::Command;
use crate::error::{AcquireError, CallError};
use crate::guard::LockGuard;
use crate::session::SessionHandle;

/// What is asked for, kept so that it can be asked again, word for word, under the same number.
#[derive(Clone, Debug)]
pub(crate) struct AcquireSpec {
    pub(crate) lock: LockName,
    pub(crate) wait: WaitFor,
    pub(crate) lock_delay: Option<Duration>,
    pub(crate) with_sequencer: bool,
}

/// How long to wait in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    Nothing,
    Bounded(Duration),
    Session,
}

impl AcquireSpec {
    pub(crate) fn message(&self, number: u64, mark: u64) -> v1::Acquire {
        let kind = match self.wait {
            WaitFor::Nothing => v1::wait::Kind::None(true),
            WaitFor::Bounded(bound) => v1::wait::Kind::BoundedMs(millis(bound)),
            WaitFor::Session => v1::wait::Kind::Session(true),
        };
        let part = v1::AcquirePart {
            lock: self.lock.as_str().to_owned(),
            mode: v1::Mode::Exclusive.into(),
            lock_delay_ms: self.lock_delay.map(millis),
            ..v1::AcquirePart::default()
        };
        v1::Acquire {
            number,
            mark,
            parts: vec![part],
            wait: Some(v1::Wait { kind: Some(kind) }),
            owner: String::new(),
            want_sequencer: self.with_sequencer,
            ..v1::Acquire::default()
        }
    }

    fn check(&self) -> Result<(), AcquireError> {
        if let WaitFor::Bounded(bound) = self.wait
            && (millis(bound) == 0 || millis(bound) > WAIT_MAX.0)
        {
            let message = format!("a bounded wait is 1 ms to a day, not {bound:?}");
            return Err(AcquireError::BadArgument { message });
        }
        if let Some(delay) = self.lock_delay
            && millis(delay) > LOCK_DELAY_MAX.0
        {
            let message = format!("a lock-delay is at most {} ms, not {delay:?}", LOCK_DELAY_MAX);
            return Err(AcquireError::BadArgument { message });
        }
        Ok(())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// An acquisition to be made.
#[derive(Debug)]
#[must_use = "nothing is asked for before acquire()"]
pub struct AcquireBuilder {
    session: Arc<SessionHandle>,
    spec: AcquireSpec,
}

impl AcquireBuilder {
    pub(crate) fn new(session: Arc<SessionHandle>, lock: LockName) -> Self {
        let spec = AcquireSpec { lock, wait: WaitFor::Session, lock_delay: None, with_sequencer: false };
        Self { session, spec }
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

    /// How long the lock stays closed if this session expires while it holds: 0 to 60 s. Unnamed: the cluster's default.
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.spec.lock_delay = Some(delay);
        self
    }

    /// The grant carries a signed sequencer.
    pub fn with_sequencer(mut self) -> Self {
        self.spec.with_sequencer = true;
        self
    }

    /// Asks, waits, and hands out the lock only while its lease is believed in. Dropping the future cancels the
    /// acquisition, whatever its state.
    ///
    /// # Errors
    ///
    /// Each says whether it took effect; see [`AcquireError`].
    pub async fn acquire(self) -> Result<LockGuard, AcquireError> {
        self.spec.check()?;
        let lock = self.spec.lock.clone();
        let (reply, answer) = oneshot::channel();
        let (client, session) = (self.session.client.clone(), self.session.shared.id());
        let command = Command::Acquire { session: self.session, spec: self.spec, reply };
        client.call(command).await.map_err(|error| match error {
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
        granted?.when_active().await.map_err(AcquireError::SessionLost)
    }
}

/// A caller that waits. Dropped before the answer, it tells the client's task, which cancels.
struct Wait {
    answer: Option<oneshot::Receiver<Result<LockGuard, AcquireError>>>,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> AcquireSpec {
        let lock = LockName::new("orders").expect("a name");
        AcquireSpec { lock, wait: WaitFor::Session, lock_delay: None, with_sequencer: false }
    }

    #[test]
    fn an_explicit_zero_delay_is_zero_and_an_unnamed_one_is_absent() {
        assert_eq!(spec().message(1, 1).parts[0].lock_delay_ms, None);
        let zero = AcquireSpec { lock_delay: Some(Duration::ZERO), ..spec() };
        assert_eq!(zero.message(1, 1).parts[0].lock_delay_ms, Some(0));
    }

    #[test]
    fn bounds_are_checked_before_anything_is_sent() {
        let never = AcquireSpec { wait: WaitFor::Bounded(Duration::ZERO), ..spec() };
        assert!(matches!(never.check(), Err(AcquireError::BadArgument { .. })));
        let long = AcquireSpec { lock_delay: Some(Duration::from_secs(61)), ..spec() };
        assert!(matches!(long.check(), Err(AcquireError::BadArgument { .. })));
        assert!(spec().check().is_ok());
    }
}
