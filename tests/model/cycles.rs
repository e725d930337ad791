//! Owners that would wait for each other, in the reference (SPEC 4): the largest set of them that are all held back by
//! others of the set.

use palisade_core::command::AcquirePart;
use palisade_core::ids::{LockName, OwnerLabel, SessionId, Slot};
use palisade_core::mode::Mode;

use super::reference::{Reference, Request, State};

/// A task of a session.
pub(super) type Owner = (SessionId, OwnerLabel);

impl Request {
    pub(super) fn owner(&self) -> Option<Owner> {
        let (asked, _) = self.asked.as_ref()?;
        Some((self.id.session, asked.owner.clone()?))
    }
}

impl Reference {
    /// Whether an owner waits, over others, for itself.
    pub(super) fn is_in_cycle(&self, owner: &Owner) -> bool {
        let stuck = self.stuck();
        let mut reached: Vec<Owner> = Vec::new();
        let mut next = vec![owner.clone()];
        while let Some(at) = next.pop() {
            for onto in self.held_back_by(&at, &stuck) {
                if !reached.contains(&onto) {
                    reached.push(onto.clone());
                    next.push(onto);
                }
            }
        }
        stuck.contains(owner) && reached.contains(owner)
    }

    fn stuck(&self) -> Vec<Owner> {
        let waiting = self.requests.iter().filter(|request| request.state == State::Waits);
        let mut stuck: Vec<Owner> = waiting.filter_map(Request::owner).collect();
        loop {
            let free = stuck.iter().position(|owner| self.held_back_by(owner, &stuck).is_empty());
            match free {
                Some(free) => drop(stuck.remove(free)),
                None => return stuck,
            }
        }
    }

    /// Those of these owners that hold this one back.
    fn held_back_by(&self, owner: &Owner, stuck: &[Owner]) -> Vec<Owner> {
        let waits =
            self.requests.iter().filter(|r| r.state == State::Waits && r.owner().as_ref() == Some(owner));
        let parts = waits.flat_map(|wait| wait.parts.iter().map(move |part| (wait, part)));
        let by = parts.flat_map(|(wait, part)| {
            let mut by = self.ahead(wait, part);
            by.extend(self.in_all_slots(part, stuck));
            by
        });
        by.filter(|owner| stuck.contains(owner)).collect()
    }

    /// Owners of the waiters ahead that exclude it.
    fn ahead(&self, wait: &Request, part: &AcquirePart) -> Vec<Owner> {
        let ahead = self.requests.iter().filter(|other| {
            let excludes =
                |theirs: &AcquirePart| theirs.lock == part.lock && !theirs.mode.shares_with(part.mode);
            other.state == State::Waits && other.arrived < wait.arrived && other.parts.iter().any(excludes)
        });
        ahead.filter_map(Request::owner).collect()
    }

    /// Owners of the holders that exclude it; none as long as one of the slots can open without these.
    fn in_all_slots(&self, part: &AcquirePart, stuck: &[Owner]) -> Vec<Owner> {
        let slots = self.capacity(&part.lock).map_or(part.capacity, |capacity| capacity.slots);
        let mut all = Vec::new();
        for slot in (0..slots).map(Slot) {
            let have = self.who_has(&part.lock, slot);
            let by = have.into_iter().filter(|(mode, _)| !mode.shares_with(part.mode));
            let by: Vec<_> = by.filter_map(|(_, owner)| owner).filter(|o| stuck.contains(o)).collect();
            if by.is_empty() {
                return Vec::new();
            }
            all.extend(by);
        }
        all
    }

    /// Holders of a slot, and whom it is kept for.
    fn who_has(&self, lock: &LockName, slot: Slot) -> Vec<(Mode, Option<Owner>)> {
        let kept_for = self.delay(lock, slot).and_then(|delay| delay.kept_for);
        let kept = self.requests.iter().filter(|request| Some(request.id) == kept_for);
        let mut have: Vec<_> = kept.map(|request| (Mode::Exclusive, request.owner())).collect();
        for request in &self.requests {
            have.extend(request.holds_slot(lock, slot).map(|hold| (hold.mode, request.owner())));
        }
        have
    }
}
