//! The grant pass: after everything that an entry ends, what is next in the queues is granted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{LockTable, Step};
use crate::event::Event;
use crate::few::Few;
use crate::ids::{AcquisitionId, GuardName, LockName, LogIndex, Millis, Slot};
use crate::lock::{Holder, Lock, SlotState, Tenure};
use crate::mode::Mode;
use crate::reply::{EntryAt, Grant, GrantedPart, Inherited};
use crate::session::{Acquisition, AcquisitionState, HeldPart, Reports};
use crate::token::Token;

/// How an acquisition comes to be granted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Came<'a> {
    /// On arrival.
    AtOnce,
    /// Out of its queues.
    Waited,
    /// Out of its queues, to this very slot.
    HandedOver(&'a LockName, Slot),
}

/// A place in a tenure, for one holder.
pub(super) struct Place {
    pub(super) id: AcquisitionId,
    pub(super) mode: Mode,
    /// Of the tenure, if it begins here.
    pub(super) token: Token,
    pub(super) at: EntryAt,
    pub(super) delay: Millis,
    pub(super) fenced_by: Vec<GuardName>,
}

impl LockTable {
    /// Grants the heads of the touched queues, in order of their arrival, as long as they fit. One pass, at the end
    /// of the entry, so that one entry begins at most one tenure of a slot.
    ///
    /// Who leaves the head of a queue makes another the head, there and in all the other queues that it left: those are
    /// looked at too, so that afterwards no head fits anywhere.
    pub(super) fn grant_pass(&mut self, step: &mut Step) {
        let mut seen = Vec::new();
        let mut heads: BTreeMap<LogIndex, AcquisitionId> = BTreeMap::new();
        loop {
            // A wait that is ended to break a cycle touches more.
            for name in step.touched.drain(..) {
                match self.locks.get(&name) {
                    // Nobody waits for it, so that nothing of this pass concerns it.
                    Some(lock) if lock.is_idle() => {
                        self.locks.remove(&name);
                    }
                    Some(lock) => {
                        heads.extend(lock.queue.head());
                        seen.push(name);
                    }
                    None => {}
                }
            }
            let Some((_, id)) = heads.pop_first() else { break };
            if !self.fits(id) {
                continue;
            }
            let before = step.contended.len();
            let Some(grant) = self.grant_waiter(step, id, Came::Waited) else { continue };
            for part in &grant.parts {
                heads.extend(self.locks.get(&part.lock).and_then(|lock| lock.queue.head()));
            }
            step.events.push(Event::Granted { grant, waited: true });
            if step.contended.len() > before {
                self.break_cycles(step, id);
            }
        }
        self.tell_contended(step);
        self.forget_idle(seen);
    }

    /// Whether an acquisition is at the head of all its queues and all its locks have room.
    pub(crate) fn fits(&self, id: AcquisitionId) -> bool {
        let Some(acquisition) =
            self.sessions.get(&id.session).and_then(|s| s.acquisitions.get_whole(id.number))
        else {
            return false;
        };
        acquisition.parts.iter().all(|part| {
            self.locks.get(&part.lock).is_some_and(|lock| {
                lock.queue.head().is_some_and(|(_, head)| head == id)
                    && lock.has_room(part.mode, part.permits)
            })
        })
    }

    /// Grants an acquisition that waits. It was checked to fit.
    pub(super) fn grant_waiter(
        &mut self,
        step: &mut Step,
        id: AcquisitionId,
        came: Came<'_>,
    ) -> Option<Grant> {
        let mut acquisition = self.take_out(id)?;
        let grant = self.take_places(step, id, &mut acquisition, came);
        self.put_back(id, acquisition);
        self.counts.waiting -= u64::from(grant.is_some());
        grant
    }

    /// Gives each part of an acquisition its places, and takes it out of its queues. It was checked to fit.
    pub(super) fn take_places(
        &mut self,
        step: &mut Step,
        id: AcquisitionId,
        acquisition: &mut Acquisition,
        came: Came<'_>,
    ) -> Option<Grant> {
        let token = self.header.token_base.token(step.at.index);
        let mut held = Vec::with_capacity(acquisition.parts.len());
        for part in &acquisition.parts {
            let lock = self.locks.get_or_insert_with(&part.lock, || Lock::new(part.capacity));
            if came != Came::AtOnce {
                lock.queue.remove(acquisition.arrived);
                // Those who queued behind its predecessor now queue behind it.
                if !lock.queue.is_empty() {
                    step.contended.push((id, part.lock.clone()));
                }
            }
            let mut handed = match came {
                Came::HandedOver(name, slot) if *name == part.lock => Some(slot),
                Came::HandedOver(..) | Came::Waited | Came::AtOnce => None,
            };
            let (first, mut from) = (held.len(), Slot(0));
            for _ in 0..part.permits {
                let joins = part.mode == Mode::Shared && lock.shared_tenure().is_some();
                let slot = match handed.take() {
                    Some(slot) => slot,
                    None if joins => Slot(0),
                    None => {
                        let lowest = lock.free_slot(from)?;
                        from = Slot(lowest.0 + 1);
                        lowest
                    }
                };
                let place = Place {
                    id,
                    mode: part.mode,
                    token,
                    at: step.at,
                    delay: part.delay.millis(),
                    fenced_by: part.fenced_by.clone(),
                };
                self.counts.held += u64::from(!joins);
                held.push(lock.hold(&part.lock, slot, place));
            }
            if let Came::HandedOver(..) = came {
                held[first..].sort_by_key(|part| part.slot);
            }
        }
        acquisition.state =
            AcquisitionState::Holding { grant: step.at.index, held, reports: Reports::default() };
        Some(self.grant_of(id, acquisition))
    }

    /// Tells new holders that others wait behind them, unless those were granted in the same entry.
    fn tell_contended(&self, step: &mut Step) {
        for (holder, lock) in std::mem::take(&mut step.contended) {
            if self.locks.get(&lock).is_some_and(|lock| !lock.queue.is_empty()) {
                step.events.push(Event::Contended { holder, lock });
            }
        }
    }

    /// What an acquisition holds, as its caller is told.
    pub(super) fn grant_of(&self, id: AcquisitionId, acquisition: &Acquisition) -> Grant {
        let base = self.header.token_base;
        let (grant, held) = match &acquisition.state {
            AcquisitionState::Waiting | AcquisitionState::Kept { .. } => (acquisition.arrived, [].as_slice()),
            AcquisitionState::Holding { grant, held, .. } => (*grant, held.as_slice()),
        };
        let parts = held.iter().map(|part| GrantedPart {
            lock: part.lock.clone(),
            slot: part.slot,
            mode: part.mode,
            token: part.token,
            delay: part.delay,
            inherited: self.inherited(&part.lock, part.slot),
        });
        Grant {
            acquisition: id,
            grant_index: base.at(grant),
            parts: parts.collect(),
            hold_max: acquisition.terms.hold_max,
            progress_every: acquisition.terms.progress_every,
        }
    }

    /// What the holder of a slot inherits.
    fn inherited(&self, lock: &LockName, slot: Slot) -> Option<Arc<Inherited>> {
        let memory = self.slot_memories.get(lock, slot)?;
        let last = memory.last.as_ref()?;
        Some(Arc::new(Inherited {
            token: last.token,
            client: last.client.clone(),
            ended: last.ended,
            baton: memory.baton.as_ref().map(|baton| baton.left.clone()).unwrap_or_default(),
            baton_token: memory.baton.as_ref().map(|baton| baton.token),
        }))
    }

    fn forget_idle(&mut self, touched: Vec<LockName>) {
        for name in touched {
            if self.locks.get(&name).is_some_and(Lock::is_idle) {
                self.locks.remove(&name);
            }
        }
    }
}

impl Lock {
    /// Begins a tenure of a free slot, or joins the shared one that holds it.
    pub(super) fn hold(&mut self, name: &LockName, slot: Slot, place: Place) -> HeldPart {
        let holder = Holder {
            grant: place.at.index,
            granted_at: place.at.wall,
            delay: place.delay,
            fenced_by: place.fenced_by,
        };
        let token = match self.slots.get_mut(&slot) {
            Some(SlotState::Held(tenure)) => {
                tenure.holders.insert(place.id, holder);
                tenure.token
            }
            Some(SlotState::Delayed(_)) | None => {
                let tenure = Tenure {
                    token: place.token,
                    begun: place.at.index,
                    begun_at: place.at.wall,
                    slot,
                    mode: place.mode,
                    holders: Few::one(place.id, holder),
                    owed: None,
                };
                self.slots.insert(slot, SlotState::Held(tenure));
                place.token
            }
        };
        HeldPart {
            lock: name.clone(),
            slot,
            mode: place.mode,
            token,
            delay: place.delay,
            downgraded_from: None,
            baton_revision: 0,
        }
    }
}
