//! The grant pass: after everything that an entry ends, what is next in the queues is granted.

use std::collections::{BTreeMap, BTreeSet};

use super::{LockTable, Step};
use crate::event::Event;
use crate::ids::{AcquisitionId, LockName, LogIndex, Slot};
use crate::lock::{Holder, Lock, SlotState, Tenure};
use crate::reply::{Grant, GrantedPart, Inherited};
use crate::session::{Acquisition, AcquisitionState, HeldPart, Reports};

impl LockTable {
    /// Grants the heads of the touched queues, in order of their arrival, as long as they fit. One pass, at the end
    /// of the entry, so that one entry begins at most one tenure of a slot.
    pub(super) fn grant_pass(&mut self, step: &mut Step) {
        let touched = std::mem::take(&mut step.touched);
        let mut heads: BTreeMap<LogIndex, AcquisitionId> = BTreeMap::new();
        for name in &touched {
            heads.extend(self.locks.get(name).and_then(|lock| lock.queue.head()));
        }
        while let Some((_, id)) = heads.pop_first() {
            if !self.fits(id) {
                continue;
            }
            let Some(grant) = self.grant_acquisition(step, id, true) else { continue };
            for part in &grant.parts {
                heads.extend(self.locks.get(&part.lock).and_then(|lock| lock.queue.head()));
            }
        }
        self.forget_idle(touched);
    }

    /// Whether an acquisition is at the head of all its queues and all its locks have room.
    fn fits(&self, id: AcquisitionId) -> bool {
        let Some(acquisition) = self.sessions.get(&id.session).and_then(|s| s.acquisitions.get(&id.number))
        else {
            return false;
        };
        acquisition.parts.iter().all(|part| {
            self.locks.get(&part.lock).is_some_and(|lock| {
                lock.queue.head().is_some_and(|(_, head)| head == id) && lock.free_slot().is_some()
            })
        })
    }

    /// Begins a tenure of each part of an acquisition, and takes it out of its queues. It was checked to fit.
    pub(super) fn grant_acquisition(
        &mut self,
        step: &mut Step,
        id: AcquisitionId,
        waited: bool,
    ) -> Option<Grant> {
        let token = self.header.token_base.token(step.at.index);
        let acquisition = self.sessions.get_mut(&id.session)?.acquisitions.get_mut(&id.number)?;
        let mut held = Vec::with_capacity(acquisition.parts.len());
        for part in &acquisition.parts {
            if self.locks.get(&part.lock).is_none() {
                self.locks.insert(part.lock.clone(), Lock::new(part.capacity));
            }
            let lock = self.locks.get_mut(&part.lock)?;
            if waited {
                lock.queue.remove(acquisition.arrived);
            }
            let slot = lock.free_slot()?;
            let holder = Holder {
                grant: step.at.index,
                granted_at: step.at.wall,
                delay: part.delay.millis(),
                fenced_by: part.fenced_by.clone(),
            };
            let tenure = Tenure {
                token,
                begun: step.at.index,
                begun_at: step.at.wall,
                slot,
                mode: part.mode,
                holders: BTreeMap::from([(id, holder)]),
                owed: None,
            };
            lock.slots.insert(slot, SlotState::Held(tenure));
            self.counts.held += 1;
            held.push(HeldPart {
                lock: part.lock.clone(),
                slot,
                mode: part.mode,
                token,
                delay: part.delay.millis(),
                downgraded_from: None,
                baton_revision: 0,
            });
        }
        acquisition.state =
            AcquisitionState::Holding { grant: step.at.index, held, reports: Reports::default() };
        if waited {
            self.counts.waiting -= 1;
        }
        let acquisition = self.sessions.get(&id.session)?.acquisitions.get(&id.number)?;
        let grant = self.grant_of(id, acquisition);
        step.events.push(Event::Granted { grant: grant.clone(), waited });
        // Those who queued behind its predecessor now queue behind it.
        for part in &grant.parts {
            if self.locks.get(&part.lock).is_some_and(|lock| !lock.queue.is_empty()) {
                step.events.push(Event::Contended { holder: id, lock: part.lock.clone() });
            }
        }
        Some(grant)
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
    fn inherited(&self, lock: &LockName, slot: Slot) -> Option<Box<Inherited>> {
        let memory = self.slot_memories.get(lock, slot)?;
        let last = memory.last.as_ref()?;
        Some(Box::new(Inherited {
            token: last.token,
            client: last.client.clone(),
            ended: last.ended,
            baton: memory.baton.as_ref().map(|baton| baton.left.clone()).unwrap_or_default(),
            baton_token: memory.baton.as_ref().map(|baton| baton.token),
        }))
    }

    fn forget_idle(&mut self, touched: BTreeSet<LockName>) {
        for name in touched {
            if self.locks.get(&name).is_some_and(Lock::is_idle) {
                self.locks.remove(&name);
            }
        }
    }
}
