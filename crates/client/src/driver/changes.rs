//! Releases, handovers and downgrades: what ends a hold, or makes another one of it.
//!
//! From the moment that a guard was given up for one of them, this task sees to the hold: it repeats the request until it is
//! decided, and what is still held then goes back to the caller, or is released when nobody is there to take it.

use palisade_core::ids::{AcquisitionId, SessionId};
use palisade_core::reply::{Ended, HolderView};
use palisade_proto::convert::{ErrorName, words};
use palisade_proto::v1;
use palisade_proto::v1::request::Op as Message;
use palisade_proto::v1::response::Result as Answer;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Driver;
use super::holding::{Changing, Holding};
use super::outgoing::Op;
use super::record::Stage;
use crate::error::{ChangeError, LostReason, ReleaseError};
use crate::guard::{LockGuard, Released};
use crate::holder::HandedOver;
use crate::wire;

/// What is to become of a hold, and who waits to hear of it.
pub(crate) enum Change {
    Release { reply: Option<oneshot::Sender<Result<Released, ReleaseError>>> },
    HandOver { to: Option<SessionId>, reply: Option<oneshot::Sender<Result<HandedOver, ChangeError>>> },
    Downgrade { reply: Option<oneshot::Sender<Result<LockGuard, ChangeError>>> },
}

impl Change {
    fn fail(&mut self, released: ReleaseError, changed: ChangeError) {
        match self {
            Self::Release { reply } => tell(reply, Err(released)),
            Self::HandOver { reply, .. } => tell(reply, Err(changed)),
            Self::Downgrade { reply } => tell(reply, Err(changed)),
        }
    }

    pub(super) fn session_lost(mut self, reason: LostReason) {
        self.fail(ReleaseError::SessionLost(reason), ChangeError::SessionLost(reason));
    }

    /// The caller's patience is over; the request is repeated all the same.
    pub(super) fn undecided(&mut self) {
        self.fail(ReleaseError::Unavailable, ChangeError::Unavailable);
    }

    pub(super) fn not_held(&mut self, ended: Option<Ended>, by: Option<Box<HolderView>>) {
        let changed = ChangeError::NotHeld { ended, superseded_by: by.clone() };
        self.fail(ReleaseError::NotHeld { ended, superseded_by: by }, changed);
    }
}

/// A guard that nobody takes drops here, and releases.
fn tell<T>(reply: &mut Option<oneshot::Sender<T>>, outcome: T) {
    if let Some(reply) = reply.take() {
        let _ = reply.send(outcome);
    }
}

impl Driver {
    pub(super) fn change(
        &mut self,
        id: AcquisitionId,
        place: Option<usize>,
        mut change: Change,
        give_up: Instant,
    ) {
        let (session, number) = (id.session.0, id.number.0);
        if let Some(holding) = self.holding(session, number)
            && let Some(token) = holding.begin(place)
        {
            holding.changes.push(Changing { place, token, change, give_up });
            self.outgoing.push(Op::Change { session, number, place });
            return;
        }
        // It was found lost before: the guard says why.
        change.not_held(None, None);
    }

    pub(super) fn holding(&mut self, session: u64, number: u64) -> Option<&mut Holding> {
        match &mut self.sessions.get_mut(&session)?.acquisitions.get_mut(&number)?.stage {
            Stage::Holding(holding) => Some(holding),
            Stage::Asking { .. } | Stage::Waiting { .. } | Stage::Kept { .. } => None,
        }
    }

    fn changing(&self, session: u64, number: u64, place: Option<usize>) -> Option<(&Holding, &Changing)> {
        match &self.sessions.get(&session)?.acquisitions.get(&number)?.stage {
            Stage::Holding(holding) => {
                let changing = holding.changes.iter().find(|changing| changing.place == place)?;
                Some((holding, changing))
            }
            Stage::Asking { .. } | Stage::Waiting { .. } | Stage::Kept { .. } => None,
        }
    }

    /// The request of a change; none when it is not wanted any more.
    pub(super) fn change_message(&self, session: u64, number: u64, place: Option<usize>) -> Option<Message> {
        let (holding, changing) = self.changing(session, number, place)?;
        let acquisition = Some(v1::AcquisitionId { session, number });
        let token = changing.token.get();
        // The lock is named, so that a release that comes too late hears who holds it now.
        let part = place.and_then(|place| holding.part(place));
        let (lock, slot) =
            part.map_or((String::new(), 0), |part| (part.lock.as_str().to_owned(), part.slot.0));
        Some(match &changing.change {
            Change::Release { .. } => Message::Release(v1::Release { acquisition, lock, slot, token }),
            Change::HandOver { to, .. } => {
                let to = to.map_or(0, |to| to.0);
                Message::HandOver(v1::HandOver { acquisition, lock, slot, token, to })
            }
            Change::Downgrade { .. } => Message::Downgrade(v1::Downgrade { acquisition, lock, token }),
        })
    }

    pub(super) fn changed(
        &mut self,
        session: u64,
        number: u64,
        place: Option<usize>,
        answer: Result<Answer, v1::Error>,
    ) {
        let Some(holding) = self.holding(session, number) else { return };
        let Some(Changing { change, .. }) = holding.decided(place) else { return };
        match change {
            Change::Release { mut reply } => {
                let (outcome, ended) = released(answer);
                holding.over(place, ended);
                tell(&mut reply, outcome);
            }
            Change::HandOver { mut reply, .. } => {
                let outcome = match answer {
                    Ok(Answer::HandedOver(to)) => {
                        holding.over(place, Some(Ended::HandedOver));
                        handed_over(&to)
                    }
                    Ok(_) => Err(released_instead(holding, place)),
                    Err(error) => Err(not_changed(holding, place, error)),
                };
                tell(&mut reply, outcome);
            }
            Change::Downgrade { mut reply } => {
                let outcome = match answer {
                    Ok(Answer::Downgraded(answer)) => {
                        let grant = answer.grant.as_ref().and_then(|grant| words::grant_from(grant).ok());
                        let guard = grant.zip(place).and_then(|(grant, at)| holding.downgraded(at, &grant));
                        guard.ok_or_else(|| released_instead(holding, place))
                    }
                    Ok(_) => Err(released_instead(holding, place)),
                    Err(error) => Err(not_changed(holding, place, error)),
                };
                tell(&mut reply, outcome);
            }
        }
        self.forget_what_is_over(session, number);
    }

    /// Of an acquisition of which nothing is held and nothing undecided, nothing is kept.
    pub(super) fn forget_what_is_over(&mut self, session: u64, number: u64) {
        if self.holding(session, number).is_some_and(|holding| holding.is_over())
            && let Some(record) = self.sessions.get_mut(&session)
        {
            record.acquisitions.remove(&number);
        }
    }
}

fn released(answer: Result<Answer, v1::Error>) -> (Result<Released, ReleaseError>, Option<Ended>) {
    match answer {
        Ok(Answer::Released(released)) => {
            let ended = words::ended_from(released.ended).unwrap_or(Ended::Released);
            let outcome = match ended {
                Ended::Released | Ended::Forgotten => Ok(Released { ended }),
                other => Err(ReleaseError::NotHeld { ended: Some(other), superseded_by: None }),
            };
            (outcome, Some(ended))
        }
        Ok(_) => (Err(ReleaseError::Unavailable), None),
        Err(error) => {
            let ended = words::ended_from(error.ended);
            (Err(wire::release_error(error)), ended)
        }
    }
}

fn handed_over(answer: &v1::HandedOver) -> Result<HandedOver, ChangeError> {
    let to = words::acquisition_from(answer.to.as_ref());
    match (to, words::token_from(answer.token)) {
        (Ok(to), Ok(token)) => Ok(HandedOver { to, token }),
        // It took place; to whom cannot be told.
        (Err(_), _) | (_, Err(_)) => {
            Err(ChangeError::NotHeld { ended: Some(Ended::HandedOver), superseded_by: None })
        }
    }
}

/// An answer that makes no sense: what may be held still is released, by the guard that drops here.
fn released_instead(holding: &mut Holding, place: Option<usize>) -> ChangeError {
    drop(place.and_then(|place| holding.kept(place)));
    ChangeError::Unavailable
}

fn not_changed(holding: &mut Holding, place: Option<usize>, error: v1::Error) -> ChangeError {
    if let Some((ended, superseded_by)) = wire::not_held(&error) {
        holding.over(place, ended);
        return ChangeError::NotHeld { ended, superseded_by };
    }
    let Some(guard) = place.and_then(|place| holding.kept(place)).map(Box::new) else {
        return ChangeError::Unavailable;
    };
    match ErrorName::parse(&error.name) {
        Some(ErrorName::NobodyToHandTo) => ChangeError::Nobody { guard, waiting: error.waiting },
        _ => ChangeError::Kept { guard, name: error.name, message: error.message },
    }
}
