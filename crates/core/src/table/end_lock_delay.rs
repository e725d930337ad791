use super::{LockTable, Step};
use crate::command::EndLockDelay;
use crate::event::Event;
use crate::lock::SlotState;
use crate::reply::Reply;

impl LockTable {
    /// Opens a slot again. Ignored under an earlier clock, and when this delay is over already.
    pub(super) fn end_lock_delay(&mut self, step: &mut Step, end: &EndLockDelay) -> Reply {
        if !self.in_epoch(end.epoch) {
            return Reply::Done;
        }
        let Some(lock) = self.locks.get_mut(&end.lock) else { return Reply::Done };
        let same = match lock.slots.get(&end.slot) {
            Some(SlotState::Delayed(delay)) => delay.began == end.began,
            Some(SlotState::Held(_)) | None => false,
        };
        if same {
            lock.slots.remove(&end.slot);
            self.counts.delayed -= 1;
            step.touched.insert(end.lock.clone());
            step.events.push(Event::DelayEnded { lock: end.lock.clone(), slot: end.slot, began: end.began });
        }
        Reply::Done
    }
}
