//! Who may hold what, in the reference (SPEC 4): rooms, heads, grants.

use std::sync::Arc;

use palisade_core::command::AcquirePart;
use palisade_core::ids::{AcquisitionId, LockName, Slot};
use palisade_core::mode::Mode;
use palisade_core::reply::{Grant, GrantedPart, Inherited, Refusal};
use palisade_core::token::Token;

use super::reference::{Happened, Hold, Reference, Request, State};

impl Reference {
    /// The slots that a part could have now, and the token of the tenure that it would join; none if it does not fit.
    pub(super) fn room(&self, part: &AcquirePart) -> Option<Vec<(Slot, Option<Token>)>> {
        if let (Mode::Shared, Some((Mode::Shared, token))) = (part.mode, self.tenure(&part.lock, Slot(0))) {
            return Some(vec![(Slot(0), Some(token))]);
        }
        let slots = self.capacity(&part.lock).map_or(part.capacity, |capacity| capacity.slots);
        let busy = self.busy(&part.lock);
        let free = (0..slots).map(Slot).filter(|slot| !busy.contains(slot));
        let room: Vec<_> = free.take(part.permits as usize).map(|slot| (slot, None)).collect();
        (room.len() == part.permits as usize).then_some(room)
    }

    pub(super) fn is_head(&self, id: AcquisitionId, lock: &LockName) -> bool {
        self.waiters(lock).first() == Some(&id)
    }

    /// Whether a request that waits can be granted now.
    pub(super) fn fits(&self, request: &Request) -> bool {
        let fits = |part: &AcquirePart| self.is_head(request.id, &part.lock) && self.room(part).is_some();
        request.parts.iter().all(fits)
    }

    pub(super) fn grant(&mut self, at: usize) {
        let token = self.base.token(self.now);
        let parts = self.requests[at].parts.clone();
        for part in &parts {
            for (slot, joined) in self.room(part).unwrap_or_default() {
                let token = joined.unwrap_or(token);
                self.begin(at, part, slot, token);
            }
        }
        self.granted(at);
    }

    /// A request holds one more slot.
    pub(super) fn begin(&mut self, at: usize, part: &AcquirePart, slot: Slot, token: Token) {
        let hold = Hold {
            lock: part.lock.clone(),
            slot,
            mode: part.mode,
            token,
            since: self.now,
            since_wall: self.wall,
            delay: part.delay.millis(),
            guards: part.fenced_by.clone(),
            downgraded_from: None,
            baton_revision: 0,
            end: None,
            owed: None,
        };
        self.requests[at].holds.push(hold);
    }

    pub(super) fn granted(&mut self, at: usize) {
        let now = self.now;
        let request = &mut self.requests[at];
        request.grant = now;
        request.state = State::Holds;
        let held = request.held().map(|hold| (hold.lock.clone(), hold.slot, hold.mode, hold.token)).collect();
        let id = request.id;
        self.happened.push(Happened::Granted(id, held));
    }

    /// Whoever is at the head of all its queues, and fits, is granted, in the order of the places.
    pub(super) fn grant_all(&mut self) {
        loop {
            let waiting = (0..self.requests.len()).filter(|at| self.requests[*at].state == State::Waits);
            let fit = waiting.filter(|at| self.fits(&self.requests[*at]));
            let Some(at) = fit.min_by_key(|at| self.requests[*at].arrived) else { return };
            self.grant(at);
        }
    }

    /// What a request holds, as its caller is told.
    pub(super) fn told(&self, request: &Request) -> Grant {
        let parts = request.held().map(|hold| GrantedPart {
            lock: hold.lock.clone(),
            slot: hold.slot,
            mode: hold.mode,
            token: hold.token,
            delay: hold.delay,
            inherited: self.inherited(&hold.lock, hold.slot),
        });
        let terms = request.terms();
        Grant {
            acquisition: request.id,
            grant_index: self.base.at(request.grant),
            parts: parts.collect(),
            hold_max: terms.hold_max,
            progress_every: terms.progress_every,
        }
    }

    fn inherited(&self, lock: &LockName, slot: Slot) -> Option<Arc<Inherited>> {
        let memory = self.slots.get(lock, slot)?;
        let last = memory.last.as_ref()?;
        let baton = memory.baton.as_ref();
        Some(Arc::new(Inherited {
            token: last.token,
            client: last.client.clone(),
            ended: last.ended,
            baton: baton.map(|baton| baton.left.clone()).unwrap_or_default(),
            baton_token: baton.map(|baton| baton.token),
        }))
    }

    /// Why a try cannot have a part now.
    pub(super) fn why_not(&self, part: &AcquirePart) -> Refusal {
        let waiting = self.waiters(&part.lock).len() as u32;
        if self.room(part).is_some() {
            return Refusal::Queue { waiting };
        }
        for slot in self.busy(&part.lock) {
            if let Some(holder) = self.shown(&part.lock, slot) {
                return Refusal::Held { holder, waiting };
            }
            if let Some(delay) = self.delay(&part.lock, slot) {
                let began = self.base.at(delay.began);
                return Refusal::InLockDelay { began, delay: delay.delay, ended: delay.ended };
            }
        }
        Refusal::Queue { waiting }
    }
}
