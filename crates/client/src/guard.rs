//! A held lock in the hands of its holder.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use palisade_core::holding::{Holding, NotHolding};
use palisade_core::ids::{AcquisitionId, ClientName, LockName, Slot};
use palisade_core::mode::Mode;
use palisade_core::reply::Ended;
use palisade_core::token::Token;
use palisade_proto::v1;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use tokio::sync::oneshot;

use crate::client::Left;
use crate::driver::{Change, Command};
use crate::error::{CallError, LostReason, ReleaseError};
use crate::held::HeldPart;
use crate::session::SessionState;
use crate::wire;

/// How often a holder's own deadlines are looked at by the clock that counts suspension.
const LOOK: Duration = Duration::from_millis(100);

/// How a release ended the tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// `Released`; or `Forgotten`, when a repeat found it ended and the cluster no longer remembers how.
    pub ended: Ended,
}

/// A held lock: one slot of it. Dropped, it is released in the background; [`LockGuard::release`] says whether that worked.
///
/// The token was captured with the grant and never changes: a lock that is acquired again has a new guard.
#[derive(Debug)]
#[must_use = "a dropped guard releases its lock"]
pub struct LockGuard {
    pub(crate) held: Arc<HeldPart>,
    /// Its end was handed over; nothing is left to do on drop.
    released: bool,
}

impl LockGuard {
    pub(crate) fn new(held: Arc<HeldPart>) -> Self {
        Self { held, released: false }
    }

    /// Somebody else sees to its end from now on.
    pub(crate) fn disarm(mut self) -> Arc<HeldPart> {
        self.released = true;
        self.held.clone()
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
        self.held.hold.acquisition
    }

    /// How long the slot stays closed if this session expires.
    pub fn lock_delay(&self) -> Duration {
        self.held.lock_delay
    }

    /// Whether the lock may be believed in now.
    pub fn state(&self) -> SessionState {
        self.held.state()
    }

    /// How long it is believed in, unless the session is renewed or progress reported; None when it is not.
    pub fn remaining(&self) -> Option<Duration> {
        self.held.remaining()
    }

    /// An error once the nearest deadline passed, a resource refused the token, or the cluster ended the tenure. Call it before
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
        async move { held.until(HeldPart::reason).await }
    }

    /// Ends once work must stop: a deadline passed (`Suspended`), or the lock is lost.
    pub fn suspended(&self) -> impl Future<Output = SessionState> + Send + 'static {
        let held = self.held.clone();
        async move {
            let mut states = held.hold.session.shared.states();
            let stopped =
                states.wait_for(|state| matches!(state, SessionState::Suspended | SessionState::Lost(_)));
            tokio::select! {
                reason = held.until(HeldPart::reason) => SessionState::Lost(reason),
                state = stopped => match state {
                    Ok(state) => *state,
                    Err(_) => SessionState::Lost(LostReason::ClientClosed),
                },
                () = own_deadline(&held) => SessionState::Suspended,
            }
        }
    }

    /// Ends once somebody queues behind this holder.
    pub fn contended(&self) -> impl Future<Output = ()> + Send + 'static {
        let held = self.held.clone();
        async move { held.until(|held| held.is_contended().then_some(())).await }
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
        let held = &self.held;
        let session = &held.hold.session;
        let message = v1::GetSequencer {
            acquisition: Some(wire::acquisition(held.hold.acquisition)),
            lock: held.lock.as_str().to_owned(),
            slot: held.slot.0,
        };
        let asked = session.client.ask(Some(session.shared.clone()), Op::Sequencer(message)).await?;
        let sequencer = match asked.answer {
            Ok(Answer::Sequencer(answer)) => answer.sequencer,
            Ok(_) => return Err(wire::unexpected()),
            Err(error) => return Err(wire::call_error(error)),
        };
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
    pub async fn release(self) -> Result<Released, ReleaseError> {
        let (reply, answer) = oneshot::channel();
        let held = self.held.clone();
        let command = Command::Change {
            acquisition: held.hold.acquisition,
            session: held.hold.session.shared.clone(),
            place: Some(held.place),
            change: Change::Release { reply: Some(reply) },
        };
        // Until it is handed over, dropping this future drops an armed guard.
        held.hold.session.client.call(command).await?;
        let known = held.own_reason();
        held.lose(LostReason::Ended(Ended::Released));
        drop(self.disarm());
        answer.await.unwrap_or(Err(ReleaseError::ClientClosed)).map_err(|error| error.because(known))
    }
}

/// Ends once one of the holder's own deadlines has passed; never without any.
async fn own_deadline(held: &HeldPart) {
    let deadlines = &held.hold.deadlines;
    if !deadlines.exist() {
        return std::future::pending().await;
    }
    while deadlines.remaining(held.hold.session.shared.now()).is_none_or(|left| !left.is_zero()) {
        tokio::time::sleep(LOOK).await;
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if !self.released {
            self.held.lose(LostReason::Ended(Ended::Released));
            let hold = &self.held.hold;
            hold.session.client.leave(Left::Guard(hold.acquisition, self.held.place));
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

    fn client(&self) -> Option<&ClientName> {
        Some(&self.held.hold.session.client.settings.name)
    }

    fn acquisition(&self) -> Option<AcquisitionId> {
        Some(self.held.hold.acquisition)
    }

    fn check(&self) -> Result<(), NotHolding> {
        Self::check(self)
    }

    fn rejected(&self, mark: Token) {
        self.held.lose(LostReason::Rejected { mark });
    }
}
