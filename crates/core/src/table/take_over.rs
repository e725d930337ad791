use std::collections::BTreeMap;

use super::{LockTable, Step};
use crate::command::{OpenSession, Replaces};
use crate::event::Event;
use crate::ids::{AcquisitionId, LockName, Millis, RequestNumber, SessionId, Slot};
use crate::mode::Mode;
use crate::reply::{Ended, Refusal, Reply, TakenAcquisition, TakenState, TookOver};
use crate::session::{Acquisition, AcquisitionState, HeldPart, OutcomeHow, Session};

/// An acquisition of the earlier session that goes on, and where it goes on from.
struct Goes {
    was: RequestNumber,
    acquisition: Acquisition,
    from: From,
}

enum From {
    /// It waits, and keeps its places.
    Queues,
    /// It held these exclusively; they are free for no one else.
    Held(Vec<HeldPart>),
    /// It was taken over before, and its slots are closed still.
    Kept(Vec<(LockName, Slot)>),
}

impl LockTable {
    /// Goes on as a new session where an earlier one stopped, in one entry (SPEC 3).
    ///
    /// What was held exclusively is begun anew under new tokens, so that the earlier process is fenced. Unless it is
    /// proven dead it may believe in its lease, so its slots are closed for that long, and then for their lock-delay.
    pub(super) fn take_over(&mut self, step: &mut Step, open: &OpenSession, replaces: &Replaces) -> Reply {
        let old_id = replaces.session;
        let Some(old) = self.sessions.get(&old_id) else {
            return Reply::Refused(self.no_session(old_id));
        };
        if old.secret != replaces.secret {
            return Reply::Refused(Refusal::SecretWrong);
        }
        if old.owner != open.owner {
            return Reply::Refused(Refusal::SecretTaken);
        }
        let Some(mut old) = self.sessions.remove(&old_id) else {
            return Reply::Refused(self.no_session(old_id));
        };
        self.secrets.remove(&old.secret);
        let new_id = self.begin_session(step, open);
        step.events.push(Event::SessionTakenOver { session: old_id, by: new_id });
        let tokens = old.held_tokens();
        let mut ended = ends_of(&old);
        let mut going = Vec::new();
        for (number, acquisition) in std::mem::take(&mut old.acquisitions) {
            let id = AcquisitionId { session: old_id, number };
            match self.leave(step, id, acquisition, &old) {
                Some(goes) => going.push(goes),
                None => {
                    ended.insert(number, Ended::TakenOver);
                }
            }
        }
        self.remember_session(step, old_id, &old, tokens, Ended::TakenOver);
        let lease = (!replaces.proven_dead).then_some(old.ttl);
        let kept = (1..).map(RequestNumber).zip(going);
        let kept = kept.map(|(number, goes)| self.go_on(step, new_id, number, goes, lease)).collect();
        let ended = ended.into_iter().collect();
        let took = TookOver { session: new_id, ttl: open.ttl, replaced: old_id, kept, ended };
        if let Some(session) = self.sessions.get_mut(&new_id) {
            session.took_over = Some(Box::new(took.clone()));
        }
        Reply::TookOver(took)
    }

    /// Ends an acquisition of the earlier session; what of it goes on.
    fn leave(
        &mut self,
        step: &mut Step,
        id: AcquisitionId,
        mut acquisition: Acquisition,
        old: &Session,
    ) -> Option<Goes> {
        let ended = Ended::TakenOver;
        let state = std::mem::replace(&mut acquisition.state, AcquisitionState::Waiting);
        let from = match state {
            AcquisitionState::Waiting => {
                let locks = acquisition.parts.iter().map(|part| part.lock.clone()).collect();
                step.events.push(Event::WaitEnded { acquisition: id, locks, ended, cycle: None });
                From::Queues
            }
            AcquisitionState::Kept { slots } => From::Kept(slots),
            AcquisitionState::Holding { held, .. } => {
                for part in &held {
                    self.end_holding(step, id, part, &old.client, ended);
                }
                let held: Vec<_> = held.into_iter().filter(|part| part.mode == Mode::Exclusive).collect();
                if held.is_empty() {
                    return None;
                }
                acquisition.ask_only_for(&held);
                From::Held(held)
            }
        };
        acquisition.metadata_revision = 0;
        Some(Goes { was: id.number, acquisition, from })
    }

    /// Begins an acquisition anew. `lease`: how long the earlier process may believe in what it held.
    fn go_on(
        &mut self,
        step: &mut Step,
        session: SessionId,
        number: RequestNumber,
        goes: Goes,
        lease: Option<Millis>,
    ) -> TakenAcquisition {
        let Goes { was, acquisition, from } = goes;
        let id = AcquisitionId { session, number };
        if let Some(session) = self.sessions.get_mut(&session) {
            session.highest = number;
            session.acquisitions.insert(number, acquisition.clone());
        }
        let state = match from {
            From::Queues => {
                self.keep_places(step, id, &acquisition);
                TakenState::Waits
            }
            From::Held(held) => match lease {
                None => {
                    let slots: Vec<_> = held.into_iter().map(|part| (part.lock, part.slot)).collect();
                    self.hold_anew(step, id, &slots, false);
                    TakenState::Holds
                }
                Some(lease) => {
                    let longest = held.iter().map(|part| part.delay).max().unwrap_or_default();
                    let closed = Millis(lease.0.saturating_add(longest.0));
                    self.keep_closed(step, id, &held, closed);
                    TakenState::Closed { closed }
                }
            },
            From::Kept(slots) => TakenState::Closed { closed: self.keep_for(id, slots) },
        };
        TakenAcquisition { was, number, state }
    }

    fn keep_places(&mut self, step: &mut Step, id: AcquisitionId, acquisition: &Acquisition) {
        for part in &acquisition.parts {
            if let Some(lock) = self.locks.get_mut(&part.lock) {
                lock.queue.pass_on(acquisition.arrived, id);
            }
        }
        let locks = acquisition.parts.iter().map(|part| part.lock.clone()).collect();
        step.events.push(Event::Queued { acquisition: id, locks, wait: acquisition.wait });
    }
}

/// How the requests ended that the earlier session remembers.
fn ends_of(old: &Session) -> BTreeMap<RequestNumber, Ended> {
    let ends = old.outcomes.iter().map(|(number, outcome)| match &outcome.how {
        OutcomeHow::Ended { ended, .. } => (*number, *ended),
        OutcomeHow::Refused(_) => (*number, Ended::Refused),
    });
    ends.collect()
}

impl Acquisition {
    /// What it holds is all that it asks for from now on.
    fn ask_only_for(&mut self, held: &[HeldPart]) {
        self.parts.retain_mut(|part| {
            let permits = held.iter().filter(|held| held.lock == part.lock).count();
            part.permits = u32::try_from(permits).unwrap_or(part.permits);
            permits > 0
        });
    }
}
