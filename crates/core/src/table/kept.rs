//! Slots that are closed for a while and then go on as what they were, ahead of the queue: what a restarted process took
//! over from one that may still believe in its lease (SPEC 3). Those of one acquisition open together.

use std::collections::BTreeSet;

use super::grant::Place;
use super::{LockTable, Step};
use crate::event::Event;
use crate::ids::{AcquisitionId, GuardName, LockName, Millis, Slot};
use crate::lock::{Delay, SlotState};
use crate::mode::Mode;
use crate::session::{Acquisition, AcquisitionState, HeldPart, Reports};

impl LockTable {
    /// Closes slots that ended in this entry, for the acquisition that goes on with them.
    pub(super) fn keep_closed(
        &mut self,
        step: &mut Step,
        id: AcquisitionId,
        held: &[HeldPart],
        closed: Millis,
    ) {
        for part in held {
            let (_, guards) = self.asked_of(id, &part.lock);
            let delay = Delay {
                began: step.at.index,
                began_at: step.at.wall,
                ended: part.token,
                delay: closed,
                guards,
                confirmed: BTreeSet::new(),
                kept_for: Some(id),
            };
            let (lock, slot) = (part.lock.clone(), part.slot);
            if let Some(lock) = self.locks.get_mut(&lock) {
                lock.slots.insert(slot, SlotState::Delayed(Box::new(delay)));
                self.counts.delayed += 1;
            }
            step.events.push(Event::DelayStarted { lock, slot, began: step.at.index, delay: closed });
        }
        let slots = held.iter().map(|part| (part.lock.clone(), part.slot)).collect();
        if let Some(acquisition) = self.acquisition_mut(id) {
            acquisition.state = AcquisitionState::Kept { slots };
        }
    }

    /// Closed slots are kept for another acquisition from now on, and open no sooner; how long they are closed.
    pub(super) fn keep_for(&mut self, id: AcquisitionId, slots: Vec<(LockName, Slot)>) -> Millis {
        let mut closed = Millis(0);
        for (name, slot) in &slots {
            if let Some(SlotState::Delayed(delay)) =
                self.locks.get_mut(name).and_then(|lock| lock.slots.get_mut(slot))
            {
                delay.kept_for = Some(id);
                closed = closed.max(delay.delay);
            }
        }
        if let Some(acquisition) = self.acquisition_mut(id) {
            acquisition.state = AcquisitionState::Kept { slots };
        }
        closed
    }

    /// Nobody expects these slots any more: their delays go on as plain ones.
    pub(super) fn keep_no_longer(&mut self, step: &mut Step, slots: &[(LockName, Slot)]) {
        for (name, slot) in slots {
            let Some(SlotState::Delayed(delay)) =
                self.locks.get_mut(name).and_then(|lock| lock.slots.get_mut(slot))
            else {
                continue;
            };
            delay.kept_for = None;
            // Its own guards had confirmed, and it waited for those of the others.
            if delay.is_confirmed() {
                self.end_delay(step, name, *slot);
            }
        }
    }

    /// Opens all slots that are kept for an acquisition, for that acquisition.
    pub(super) fn open_kept(&mut self, step: &mut Step, id: AcquisitionId) {
        let Some(AcquisitionState::Kept { slots }) =
            self.acquisition_mut(id).map(|acquisition| acquisition.state.clone())
        else {
            return;
        };
        for (lock, slot) in &slots {
            self.open_slot(step, lock, *slot);
        }
        self.hold_anew(step, id, &slots, true);
    }

    /// Begins a tenure in each of these free slots, whatever the queues.
    pub(super) fn hold_anew(
        &mut self,
        step: &mut Step,
        id: AcquisitionId,
        slots: &[(LockName, Slot)],
        waited: bool,
    ) {
        let token = self.header.token_base.token(step.at.index);
        let mut held = Vec::with_capacity(slots.len());
        for (name, slot) in slots {
            let (delay, fenced_by) = self.asked_of(id, name);
            let Some(lock) = self.locks.get_mut(name) else { continue };
            let (mode, at) = (Mode::Exclusive, step.at);
            held.push(lock.hold(name, *slot, Place { id, mode, token, at, delay, fenced_by }));
            self.counts.held += 1;
            if !lock.queue.is_empty() {
                step.contended.push((id, name.clone()));
            }
        }
        let Some(mut acquisition) = self.take_out(id) else { return };
        acquisition.state =
            AcquisitionState::Holding { grant: step.at.index, held, reports: Reports::default() };
        let grant = self.grant_of(id, &acquisition);
        self.put_back(id, acquisition);
        step.events.push(Event::Granted { grant, waited });
    }

    /// The delay and the guards that an acquisition named for a lock, as they were settled when it arrived.
    fn asked_of(&self, id: AcquisitionId, lock: &LockName) -> (Millis, Vec<GuardName>) {
        let acquisition = self.acquisition(id);
        let part = acquisition.as_ref().and_then(|a| a.parts.iter().find(|part| part.lock == *lock));
        part.map(|part| (part.delay.millis(), part.fenced_by.clone())).unwrap_or_default()
    }

    pub(super) fn acquisition_mut(&mut self, id: AcquisitionId) -> Option<&mut Acquisition> {
        self.sessions.get_mut(&id.session)?.acquisitions.get_mut(id.number)
    }

    /// Takes an acquisition out of its session, to be changed together with its locks.
    pub(super) fn take_out(&mut self, id: AcquisitionId) -> Option<Acquisition> {
        self.sessions.get_mut(&id.session)?.acquisitions.remove(id.number)
    }

    /// Puts an acquisition into its session.
    pub(super) fn put_back(&mut self, id: AcquisitionId, acquisition: Acquisition) {
        if let Some(session) = self.sessions.get_mut(&id.session) {
            session.acquisitions.insert(id.number, acquisition);
        }
    }
}
