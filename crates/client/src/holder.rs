//! What a holder asks about its own hold, beside its release.
//!
//! Everything here names acquisition and token, and is repeated under them: a copy that comes late or twice changes nothing
//! (SPEC 6). What replaces something carries a number that this process counts.

use std::sync::atomic::{AtomicU64, Ordering};

use palisade_core::ids::{AcquisitionId, SessionId};
use palisade_core::reply::Inherited;
use palisade_core::token::Token;
use palisade_proto::v1;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use tokio::sync::oneshot;

use crate::client::Answered;
use crate::driver::{Change, Command};
use crate::error::{CallError, ChangeError, HoldError, LostReason};
use crate::guard::LockGuard;
use crate::wire;

/// To whom a lock was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOver {
    /// The acquisition that holds it now.
    pub to: AcquisitionId,
    /// Under which token.
    pub token: Token,
}

impl LockGuard {
    /// Who held the slot before, how that ended, and the baton that was left; none where that is not remembered.
    pub fn inherited(&self) -> Option<&Inherited> {
        self.held.inherited.as_deref()
    }

    /// Replaces what others can read and watch of this holder: up to 4 KiB.
    ///
    /// # Errors
    ///
    /// See [`HoldError`]; `NotHeld` when another came after this holder.
    pub async fn set_metadata(&self, metadata: &[u8]) -> Result<(), HoldError> {
        let hold = &self.held.hold;
        self.write(&hold.revision, |revision| {
            Op::SetMetadata(v1::SetMetadata {
                acquisition: Some(wire::acquisition(hold.acquisition)),
                token: self.held.token.get(),
                revision,
                metadata: metadata.to_owned(),
            })
        })
        .await
    }

    /// Leaves up to 4 KiB for the next holder of this slot, which gets it with its grant. It stays until a later holder
    /// replaces it; empty takes it away.
    ///
    /// # Errors
    ///
    /// See [`HoldError`]; `NotHeld` when another came after this holder.
    pub async fn leave_baton(&self, baton: &[u8]) -> Result<(), HoldError> {
        let held = &self.held;
        self.write(&held.revision, |revision| {
            Op::SetBaton(v1::SetBaton {
                acquisition: Some(wire::acquisition(held.hold.acquisition)),
                lock: held.lock.as_str().to_owned(),
                slot: held.slot.0,
                token: held.token.get(),
                revision,
                baton: baton.to_owned(),
            })
        })
        .await
    }

    /// Tells the cluster that the work gets on. Its own deadlines count from the *sending* of the last report that was
    /// answered; of an acquisition of several slots, for all of them.
    ///
    /// # Errors
    ///
    /// See [`HoldError`]; `NotHeld` when a deadline had passed.
    pub async fn report_progress(&self) -> Result<(), HoldError> {
        let hold = &self.held.hold;
        let message = v1::ReportProgress {
            acquisition: Some(wire::acquisition(hold.acquisition)),
            token: self.held.token.get(),
            number: next(&hold.reports),
        };
        let asked = self.ask(Op::ReportProgress(message)).await?;
        match asked.answer {
            Ok(Answer::Reported(_)) => {
                // A repeat is answered as its first copy was, and the leader counts from that one's arrival.
                hold.deadlines.reported(asked.sent);
                Ok(())
            }
            Ok(_) => Err(wire::unexpected().into()),
            Err(error) => Err(self.stale(error)),
        }
    }

    /// Makes the exclusive hold a shared one, without a gap, under a new token: shared waiters at the head of the queue come
    /// in. There is no way back but release and acquire.
    ///
    /// # Errors
    ///
    /// See [`ChangeError`]; some give the guard back.
    pub async fn downgrade(self) -> Result<Self, ChangeError> {
        let (reply, answer) = oneshot::channel();
        let known = self.change(Change::Downgrade { reply: Some(reply) }).await?;
        let answer = answer.await.unwrap_or(Err(ChangeError::ClientClosed));
        let guard = answer.map_err(|error| error.because(known))?;
        if guard.held.hold.deadlines.exist() {
            guard.report_progress().await.map_err(|error| match error {
                HoldError::NotHeld { ended, superseded_by } => ChangeError::NotHeld { ended, superseded_by },
                HoldError::SessionLost(reason) => ChangeError::SessionLost(reason),
                HoldError::Unavailable { .. } | HoldError::Refused { .. } => ChangeError::Unavailable,
                HoldError::ClientClosed => ChangeError::ClientClosed,
            })?;
        }
        Ok(guard)
    }

    /// Gives the slot to the earliest waiter of a session, or else to the head of the queue: no gap, no delay, a new token.
    /// Stop the work first.
    ///
    /// # Errors
    ///
    /// See [`ChangeError`]: when nobody can be given it in this very moment, the guard comes back, and the lock is kept.
    pub async fn hand_over(self, to: Option<SessionId>) -> Result<HandedOver, ChangeError> {
        let (reply, answer) = oneshot::channel();
        let known = self.change(Change::HandOver { to, reply: Some(reply) }).await?;
        answer.await.unwrap_or(Err(ChangeError::ClientClosed)).map_err(|error| error.because(known))
    }

    /// From here on the client's task sees to the hold, also when this future is dropped. Why it was lost before, if it was.
    async fn change(self, change: Change) -> Result<Option<LostReason>, CallError> {
        let held = self.held.clone();
        let command = Command::Change {
            acquisition: held.hold.acquisition,
            session: held.hold.session.shared.clone(),
            place: Some(held.place),
            change,
        };
        let known = held.own_reason();
        held.hold.session.client.call(command).await?;
        drop(self.disarm());
        Ok(known)
    }

    async fn ask(&self, message: Op) -> Result<Answered, CallError> {
        let session = &self.held.hold.session;
        session.client.ask(Some(session.shared.clone()), message).await
    }

    /// Writes under the next revision of `counter`.
    async fn write(&self, counter: &AtomicU64, message: impl Fn(u64) -> Op) -> Result<(), HoldError> {
        loop {
            let revision = next(counter);
            match self.ask(message(revision)).await?.answer {
                // This process counted no such revision: the one that it took over from did.
                Ok(Answer::Written(written)) if written.revision > counter.load(Ordering::Acquire) => {
                    counter.fetch_max(written.revision, Ordering::AcqRel);
                }
                Ok(Answer::Written(_)) => return Ok(()),
                Ok(_) => return Err(wire::unexpected().into()),
                Err(error) => return Err(self.stale(error)),
            }
        }
    }

    /// What no longer holds is lost.
    fn stale(&self, error: v1::Error) -> HoldError {
        match wire::not_held(&error) {
            Some((ended, superseded_by)) => {
                self.held.end(ended);
                HoldError::NotHeld { ended, superseded_by }
            }
            None => HoldError::Refused { name: error.name, message: error.message },
        }
    }
}

/// Numbers begin at 1.
fn next(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::AcqRel) + 1
}
