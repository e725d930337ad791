use super::{LockTable, Step};
use crate::command::Release;
use crate::ids::{LockName, Slot};
use crate::reply::{Ended, HolderView, Refusal, Reply};
use crate::session::{AcquisitionState, HeldPart, OutcomeHow};

impl LockTable {
    /// Frees only what exactly this acquisition holds under exactly this token. Repeated, it answers how that ended;
    /// a late release by a stale holder changes nothing and says who superseded it (SPEC 4).
    pub(super) fn release(&mut self, step: &mut Step, release: &Release) -> Reply {
        let id = release.acquisition;
        let Some(session) = self.sessions.get_mut(&id.session) else {
            let refusal = match self.no_session(id.session) {
                Refusal::SessionEnded { ended, .. } => {
                    Refusal::SessionEnded { ended, superseded: self.now_holding(release) }
                }
                other => other,
            };
            return Reply::Refused(refusal);
        };
        session.last_command = step.at.index;
        if let Some(outcome) = session.outcomes.get(&id.number) {
            let how = outcome.how.clone();
            return self.released_before(release, &how);
        }
        let Some(acquisition) = session.acquisitions.get(&id.number) else {
            if id.number <= session.highest && id.number < session.mark {
                return Reply::Released(Ended::Forgotten);
            }
            return Reply::Refused(Refusal::NotHeld { superseded: self.now_holding(release) });
        };
        let AcquisitionState::Holding { held, .. } = &acquisition.state else {
            return Reply::Refused(Refusal::NotHeld { superseded: self.now_holding(release) });
        };
        let named = |part: &HeldPart| match &release.part {
            None => true,
            Some((lock, slot)) => part.lock == *lock && part.slot == *slot,
        };
        let freed: Vec<HeldPart> = held.iter().filter(|part| named(part)).cloned().collect();
        if freed.is_empty() || freed.iter().any(|part| part.token != release.token) {
            return Reply::Refused(Refusal::NotHeld { superseded: self.now_holding(release) });
        }
        if freed.len() == held.len() {
            self.end_one(step, id, Ended::Released);
            return Reply::Released(Ended::Released);
        }
        self.release_parts(step, release, &freed);
        Reply::Released(Ended::Released)
    }

    /// Frees some parts of an acquisition that goes on holding the others.
    fn release_parts(&mut self, step: &mut Step, release: &Release, freed: &[HeldPart]) {
        let id = release.acquisition;
        let Some(session) = self.sessions.get_mut(&id.session) else { return };
        let client = session.client.clone();
        if let Some(acquisition) = session.acquisitions.get_mut(&id.number)
            && let AcquisitionState::Holding { held, .. } = &mut acquisition.state
        {
            held.retain(|part| !freed.contains(part));
        }
        for part in freed {
            self.end_holding(step, id, part, &client, Ended::Released);
        }
    }

    fn released_before(&self, release: &Release, how: &OutcomeHow) -> Reply {
        let OutcomeHow::Ended { ended, held } = how else {
            return Reply::Refused(Refusal::NotHeld { superseded: self.now_holding(release) });
        };
        let was_held = held.iter().any(|(lock, slot, token)| {
            *token == release.token
                && release.part.as_ref().is_none_or(|part| part.0 == *lock && part.1 == *slot)
        });
        if !was_held {
            return Reply::Refused(Refusal::NotHeld { superseded: self.now_holding(release) });
        }
        match ended {
            Ended::Released | Ended::Cancelled => Reply::Released(*ended),
            _ => {
                Reply::Refused(Refusal::AlreadyEnded { ended: *ended, superseded: self.now_holding(release) })
            }
        }
    }

    fn now_holding(&self, release: &Release) -> Option<Box<HolderView>> {
        let (lock, slot): &(LockName, Slot) = release.part.as_ref()?;
        let holder = self.holder_of(lock, *slot)?;
        (holder.acquisition != release.acquisition).then_some(holder)
    }
}
