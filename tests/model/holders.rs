//! What holders ask of what they hold, in the reference (SPEC 4).

use palisade_core::command::{AcquirePart, Downgrade, HandOver, ReportProgress, SetBaton, SetMetadata};
use palisade_core::ids::{AcquisitionId, LockName, Slot};
use palisade_core::mode::Mode;
use palisade_core::reply::{BadArgument, Cycle, Ended, Refusal, Reply};
use palisade_core::table::Baton;
use palisade_core::token::Token;

use super::endings::Closed;
use super::reference::{Happened, Hold, Reference, Request, State};

impl Reference {
    /// The hold that a holder names: where in the requests, and where in its holds. Else what a late release is told.
    fn named_hold(
        &mut self,
        id: AcquisitionId,
        part: Option<(&LockName, Slot)>,
        token: Token,
    ) -> Result<(usize, usize), Refusal> {
        let part = part.map(|(lock, slot)| (lock.clone(), slot));
        let session = self.heard(id.session, part.as_ref())?;
        let passed = id.number < session.mark && id.number <= session.highest;
        let superseded = self.superseding(id, part.as_ref());
        let Some(at) = self.known(id) else {
            return Err(match passed {
                true => Refusal::AlreadyEnded { ended: Ended::Forgotten, superseded },
                false => Refusal::NotHeld { superseded },
            });
        };
        let request = &self.requests[at];
        let is_it = |hold: &Hold| {
            hold.token == token
                && part.as_ref().is_none_or(|part| (&part.0, part.1) == (&hold.lock, hold.slot))
        };
        if let Some(hold) = request.holds.iter().position(|hold| hold.end.is_none() && is_it(hold)) {
            return Ok((at, hold));
        }
        if let State::Ended { how: ended, at } = request.state {
            let last = |hold: &&Hold| is_it(hold) && hold.end.is_some_and(|(_, end)| end == at);
            if let Some(hold) = request.holds.iter().find(last) {
                let superseded = self.shown(&hold.lock, hold.slot);
                return Err(Refusal::AlreadyEnded { ended, superseded });
            }
        }
        // A part that ended before others of it did.
        let before = part.and_then(|(lock, slot)| match request.state {
            State::Refused(_) => None,
            State::Ended { .. } => self.last_end(id, &lock, slot, token),
            _ => self.part_before(request, &lock, slot, token),
        });
        if let Some(ended) = before {
            return Err(Refusal::AlreadyEnded { ended, superseded });
        }
        Err(Refusal::NotHeld { superseded })
    }

    pub(super) fn downgrade(&mut self, downgrade: &Downgrade) -> Result<Reply, Refusal> {
        let Downgrade { acquisition: id, lock, token } = downgrade;
        let found = self.requests.iter().position(|request| request.id == *id).and_then(|at| {
            let is_it = |hold: &Hold| {
                let under = hold.token == *token || hold.downgraded_from == Some(*token);
                hold.end.is_none() && hold.lock == *lock && under
            };
            Some((at, self.requests[at].holds.iter().position(is_it)?))
        });
        let (at, old) = match found {
            Some(found) => self.heard(id.session, None).map(|_| found)?,
            None => self.named_hold(*id, Some((lock, Slot(0))), *token)?,
        };
        let hold = self.requests[at].holds[old].clone();
        if hold.downgraded_from == Some(*token) {
            return Ok(Reply::Downgraded(self.told(&self.requests[at])));
        }
        let asked_one = self.requests[at].parts.iter().any(|part| part.lock == *lock && part.capacity == 1);
        let has_one = self.capacity(lock).is_some_and(|capacity| capacity.slots == 1);
        if hold.mode == Mode::Shared || !asked_one || !has_one {
            return Err(Refusal::BadArgument(BadArgument::Mode));
        }
        // It holds the new one before the old one ends, so that its others do not end with it.
        let shared = Hold {
            mode: Mode::Shared,
            token: self.base.token(self.now),
            since: self.now,
            since_wall: self.wall,
            downgraded_from: Some(hold.token),
            baton_revision: 0,
            ..hold
        };
        self.requests[at].holds.insert(old + 1, shared);
        self.end_hold(at, old, Ended::Released, Closed::AsEnded);
        self.granted(at);
        Ok(Reply::Downgraded(self.told(&self.requests[at])))
    }

    pub(super) fn hand_over(&mut self, hand_over: &HandOver) -> Result<Reply, Refusal> {
        let HandOver { acquisition, lock, slot, token, to } = hand_over;
        let (at, hold) = match self.named_hold(*acquisition, Some((lock, *slot)), *token) {
            Err(Refusal::AlreadyEnded { ended: Ended::HandedOver, .. }) => {
                return Ok(Reply::Released(Ended::HandedOver));
            }
            found => found?,
        };
        if self.requests[at].holds[hold].mode == Mode::Shared {
            return Err(Refusal::BadArgument(BadArgument::Mode));
        }
        let waiters = self.waiters(lock);
        let nobody = Refusal::NobodyToHandTo { to: *to, waiting: waiters.len() as u32 };
        let next = waiters.iter().find(|id| to.is_none_or(|to| id.session == to));
        let Some(next) = next.copied() else { return Err(nobody) };
        let mut after = self.clone();
        if !after.give(at, hold, next) {
            return Err(nobody);
        }
        let heir = after.requests.iter().find(|request| request.id == next).and_then(Request::owner);
        if waiters.first() != Some(&next) && heir.is_some_and(|owner| after.is_in_cycle(&owner)) {
            return Err(Refusal::WouldDeadlock(Cycle { steps: Vec::new() }));
        }
        *self = after;
        Ok(Reply::HandedOver { to: next, token: self.base.token(self.now) })
    }

    /// Gives a held slot to a waiter, with what else it asked for; false if it cannot be granted with that.
    fn give(&mut self, at: usize, hold: usize, to: AcquisitionId) -> bool {
        let (lock, slot) = (self.requests[at].holds[hold].lock.clone(), self.requests[at].holds[hold].slot);
        self.end_hold(at, hold, Ended::HandedOver, Closed::AsEnded);
        let Some(heir) = self.requests.iter().position(|request| request.id == to) else { return false };
        let token = self.base.token(self.now);
        for part in self.requests[heir].parts.clone() {
            if part.lock != lock {
                let room = self.room(&part).filter(|_| self.is_head(to, &part.lock));
                let Some(room) = room else { return false };
                for (slot, joined) in room {
                    self.begin(heir, &part, slot, joined.unwrap_or(token));
                }
                continue;
            }
            if self.capacity(&lock).is_none_or(|capacity| slot.0 >= capacity.slots) {
                return false;
            }
            // The given slot, and the lowest free ones beside it.
            let others = AcquirePart { permits: part.permits - 1, ..part.clone() };
            let first = self.requests[heir].holds.len();
            self.begin(heir, &part, slot, token);
            if others.permits > 0 {
                let Some(room) = self.room(&others) else { return false };
                room.into_iter().for_each(|(slot, _)| self.begin(heir, &part, slot, token));
            }
            self.requests[heir].holds[first..].sort_by_key(|hold| hold.slot);
        }
        self.granted(heir);
        true
    }

    pub(super) fn set_metadata(&mut self, set: &SetMetadata) -> Result<Reply, Refusal> {
        let (at, _) = self.named_hold(set.acquisition, None, set.token)?;
        let request = &mut self.requests[at];
        let revision = if set.revision == 0 { request.metadata_revision + 1 } else { set.revision };
        if revision > request.metadata_revision {
            request.metadata_revision = revision;
            request.metadata = set.metadata.clone();
            self.happened.push(Happened::Metadata(set.acquisition, set.metadata.clone()));
        }
        Ok(Reply::Written { revision: self.requests[at].metadata_revision })
    }

    pub(super) fn set_baton(&mut self, set: &SetBaton) -> Result<Reply, Refusal> {
        let (at, hold) = self.named_hold(set.acquisition, Some((&set.lock, set.slot)), set.token)?;
        let hold = &mut self.requests[at].holds[hold];
        let revision = if set.revision == 0 { hold.baton_revision + 1 } else { set.revision };
        let present = hold.baton_revision.max(revision);
        if revision > hold.baton_revision {
            hold.baton_revision = revision;
            let baton = Baton { token: set.token, left: set.baton.clone() };
            self.slots.left(&set.lock, set.slot, Some(baton).filter(|baton| !baton.left.is_empty()));
            self.cut_slots();
        }
        Ok(Reply::Written { revision: present })
    }

    pub(super) fn report(&mut self, report: &ReportProgress) -> Result<Reply, Refusal> {
        let (at, _) = self.named_hold(report.acquisition, None, report.token)?;
        let now = self.now;
        let (first, last, number) = &mut self.requests[at].reports;
        let counted = if report.number == 0 { *number + 1 } else { report.number };
        if counted > *number {
            *number = counted;
            *first = first.or(Some(now));
            *last = Some(now);
            self.happened.push(Happened::Progress(report.acquisition));
        }
        Ok(Reply::Reported)
    }
}
