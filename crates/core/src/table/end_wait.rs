use super::{LockTable, Step};
use crate::command::{EndWait, Wait};
use crate::reply::{Ended, Reply};
use crate::session::AcquisitionState;

impl LockTable {
    /// Ends a bounded wait. Ignored under an earlier clock, and when the acquisition no longer waits.
    pub(super) fn end_wait(&mut self, step: &mut Step, end: &EndWait) -> Reply {
        if !self.in_epoch(end.epoch) {
            return Reply::Done;
        }
        let id = end.acquisition;
        let waiting = self.sessions.get(&id.session).and_then(|s| s.acquisitions.get(&id.number));
        let due = waiting.is_some_and(|acquisition| {
            acquisition.state == AcquisitionState::Waiting && matches!(acquisition.wait, Wait::Bounded(_))
        });
        if due {
            self.end_one(step, id, Ended::TimedOut);
        }
        Reply::Done
    }
}
