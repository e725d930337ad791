//! How waits end without a grant.

use super::{LockTable, Step};
use crate::event::Event;
use crate::ids::AcquisitionId;
use crate::reply::{Cycle, Ended};
use crate::session::{Acquisition, Outcome, OutcomeHow};

impl LockTable {
    /// Ends the wait of an acquisition of a live session, and remembers what its repeat is told.
    pub(super) fn end_waiting(
        &mut self,
        step: &mut Step,
        id: AcquisitionId,
        ended: Ended,
        how: OutcomeHow,
        cycle: Option<Cycle>,
    ) {
        let Some(session) = self.sessions.get_mut(&id.session) else { return };
        let Some(acquisition) = session.acquisitions.remove(id.number) else { return };
        if id.number >= session.mark {
            session.outcomes.insert(id.number, Outcome { content: Some(acquisition.content), how });
        }
        self.leave_queues(step, id, &acquisition, ended, cycle);
    }

    /// Gives up the place of a waiter in all its queues.
    pub(super) fn leave_queues(
        &mut self,
        step: &mut Step,
        id: AcquisitionId,
        acquisition: &Acquisition,
        ended: Ended,
        cycle: Option<Cycle>,
    ) {
        let mut locks = Vec::with_capacity(acquisition.parts.len());
        for part in &acquisition.parts {
            locks.push(part.lock.clone());
            if let Some(lock) = self.locks.get_mut(&part.lock) {
                lock.queue.remove(acquisition.arrived);
            }
            step.touched.push(part.lock.clone());
        }
        self.counts.waiting -= 1;
        let cycle = cycle.map(Box::new);
        step.events.push(Event::WaitEnded { acquisition: id, locks, ended, cycle });
    }
}
