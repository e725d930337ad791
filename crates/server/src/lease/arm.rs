//! What begins to be counted.

use std::time::Duration;

use palisade_core::command::Wait;
use palisade_core::ids::{AcquisitionId, LockName, LogIndex, Millis, SessionId, Slot};
use palisade_core::limits::LONG_LEASE;
use palisade_core::lock::SlotState;
use palisade_core::session::AcquisitionState;
use palisade_core::table::LockTable;
use palisade_host::Moment;

use super::LeaseClock;
use super::ticks::MINUTE;
use super::timers::{Held, Lease, Span};

impl LeaseClock {
    /// Everything in full, but for long leases: the minutes that leaders counted since a session's last entry are gone
    /// of them, all but the first, which may have been about to pass (SPEC 3).
    pub(super) fn arm_all(&mut self, now: Moment, table: &LockTable) {
        for (id, session) in table.sessions() {
            let left = match session.ttl {
                ttl if ttl > LONG_LEASE => {
                    let minutes = table.ticks_since(id).saturating_sub(1);
                    Millis(ttl.0.saturating_sub(minutes.saturating_mul(MINUTE.0)))
                }
                ttl => ttl,
            };
            self.arm_session(id, now, session.ttl, left, session.last_command);
            // A plain hold has no time of its own.
            let whole =
                session.acquisitions.iter_whole().filter_map(|(number, whole)| Some((number, whole?)));
            for (number, acquisition) in whole {
                let id = AcquisitionId { session: id, number };
                match (&acquisition.state, acquisition.wait) {
                    (AcquisitionState::Waiting, Wait::Bounded(bound)) => self.arm_wait(id, now, bound),
                    (AcquisitionState::Holding { .. }, _) => self.count_holder(now, id, table),
                    (AcquisitionState::Waiting | AcquisitionState::Kept { .. }, _) => {}
                }
            }
        }
        // Most locks are held, and of those there may be a million: none is looked at after the last delay.
        let slots = table.locks().flat_map(|(name, lock)| lock.slots.iter().map(move |slot| (name, slot)));
        let delayed = slots.filter_map(|(name, (slot, state))| match state {
            SlotState::Delayed(delay) => Some((name, *slot, delay)),
            SlotState::Held(_) => None,
        });
        let count = usize::try_from(table.counts().delayed).unwrap_or(usize::MAX);
        for (name, slot, delay) in delayed.take(count) {
            self.arm_delay(name, slot, now, delay.began, delay.delay);
        }
    }

    /// A lease of `ttl`, of which `left` is left.
    pub(super) fn arm_session(
        &mut self,
        id: SessionId,
        now: Moment,
        ttl: Millis,
        left: Millis,
        last_command: LogIndex,
    ) {
        let mut span = Span::new(now, self.stretched(ttl));
        span.deadline = now + self.stretched(left);
        let place = span.deadline;
        self.timers
            .insert_session(id, Lease { span, last_command, held: Held::default(), marked: None, place });
    }

    pub(super) fn arm_delay(
        &mut self,
        lock: &LockName,
        slot: Slot,
        now: Moment,
        began: LogIndex,
        delay: Millis,
    ) {
        self.timers.insert_delay(lock, slot, began, now + self.stretched(delay));
    }

    pub(super) fn arm_wait(&mut self, acquisition: AcquisitionId, now: Moment, bound: Millis) {
        self.timers.insert_wait(acquisition, now + Duration::from_millis(bound.0));
    }

    /// By the drift bound, so that a slow clock elsewhere has had the time, too.
    pub(super) fn stretched(&self, time: Millis) -> Duration {
        let time = Duration::from_millis(time.0);
        time + time / 1_000 * self.config.drift_per_mille
    }
}
