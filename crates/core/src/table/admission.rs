//! Whether a new request can be granted at once, queues, or is refused.

use super::acquire::Asked;
use super::{LockTable, Step};
use crate::command::{Acquire, AcquirePart, Terms, Wait};
use crate::ids::{AcquisitionId, Millis, RequestNumber};
use crate::limits::{
    CAPACITY_MAX, DEADLINE_MAX, DEADLINE_MIN, GUARDS_MAX, LOCK_DELAY_MAX, PARTS_MAX, WAIT_MAX,
};
use crate::lock::{Lock, SlotState};
use crate::mode::Mode;
use crate::reply::{BadArgument, LimitName, NotYet, Refusal};
use crate::session::Session;

/// What becomes of a new request that is not refused.
pub(super) enum Admission {
    Grant,
    Queue,
}

impl LockTable {
    pub(super) fn remembers_one_more(&self, session: &Session) -> Result<(), Refusal> {
        let max = self.header.limits.outcomes_per_session_max;
        // Few have so many at all that it must be counted which of them are remembered.
        let all = session.outcomes.len() + session.acquisitions.len();
        if all >= max as usize && session.remembered() >= max as usize {
            return Err(Refusal::LimitReached { limit: LimitName::OutcomesPerSession, max: max.into() });
        }
        Ok(())
    }

    /// Granted at once only where all its parts fit what is held and nobody queues, so that neither a try nor a shared
    /// request overtakes a waiter.
    pub(super) fn admit(
        &self,
        step: &mut Step,
        session: &Session,
        request: &Acquire,
        id: AcquisitionId,
    ) -> Result<Admission, Refusal> {
        let limits = &self.header.limits;
        let max = limits.acquisitions_per_session_max;
        if session.acquisitions.len() >= max as usize {
            return Err(Refusal::LimitReached { limit: LimitName::AcquisitionsPerSession, max: max.into() });
        }
        self.delays_allowed(&request.parts)?;
        let (mut begun, mut full) = (0, false);
        let mut taken = None;
        for part in &request.parts {
            let Some(lock) = self.locks.get(&part.lock) else {
                begun += 1;
                if self.locks.len() as u64 + begun > limits.locks_max {
                    return Err(Refusal::LimitReached { limit: LimitName::Locks, max: limits.locks_max });
                }
                continue;
            };
            lock.suits(part)?;
            full |= lock.queue.len() >= limits.waiters_per_lock_max;
            if taken.is_none() && !(lock.queue.is_empty() && lock.has_room(part.mode, part.permits)) {
                taken = Some((lock, part));
            }
        }
        let Some((lock, part)) = taken else { return Ok(Admission::Grant) };
        if request.wait == Wait::Try {
            return Err(self.why_not_now(lock, part));
        }
        if full {
            let max = limits.waiters_per_lock_max.into();
            return Err(Refusal::LimitReached { limit: LimitName::WaitersPerLock, max });
        }
        match self.request_cycle(step, request, id) {
            Some(cycle) => Err(Refusal::WouldDeadlock(cycle)),
            None => Ok(Admission::Queue),
        }
    }

    fn why_not_now(&self, lock: &Lock, part: &AcquirePart) -> Refusal {
        let waiting = lock.queue.len();
        if lock.has_room(part.mode, part.permits) {
            return Refusal::Queue { waiting };
        }
        for state in lock.slots.values() {
            match state {
                SlotState::Held(tenure) => {
                    if let Some(holder) = self.tenure_holder(tenure) {
                        return Refusal::Held { holder: Box::new(holder), waiting };
                    }
                }
                SlotState::Delayed(delay) => {
                    return Refusal::InLockDelay {
                        began: self.header.token_base.at(delay.began),
                        delay: delay.delay,
                        ended: delay.ended,
                    };
                }
            }
        }
        Refusal::Queue { waiting }
    }

    /// What no state of the table could make right.
    pub(super) fn well_formed(&self, asked: &Asked<'_>, number: RequestNumber) -> Result<(), Refusal> {
        let bad = |what| Err(Refusal::BadArgument(what));
        let request = asked.request;
        if number == RequestNumber(0) {
            return bad(BadArgument::NumberZero);
        }
        if request.parts.is_empty() || request.parts.len() > PARTS_MAX {
            return bad(BadArgument::Parts);
        }
        if let Wait::Bounded(bound) = request.wait
            && (bound.0 == 0 || bound > WAIT_MAX)
        {
            return bad(BadArgument::Wait);
        }
        if !deadlines_in_bounds(asked.terms) {
            return bad(BadArgument::Deadline);
        }
        let whole_table = self.knows(2);
        for (at, part) in request.parts.iter().enumerate() {
            if request.parts[..at].iter().any(|earlier| earlier.lock == part.lock) {
                return bad(BadArgument::LockTwice);
            }
            if part.capacity == 0 || part.capacity > CAPACITY_MAX {
                return bad(BadArgument::Capacity);
            }
            if part.permits == 0 || part.permits > part.capacity {
                return bad(BadArgument::Permits);
            }
            if part.delay.millis() > LOCK_DELAY_MAX {
                return bad(BadArgument::LockDelay);
            }
            if part.fenced_by.len() > GUARDS_MAX {
                return bad(BadArgument::Guards);
            }
            if whole_table {
                if part.mode == Mode::Shared && part.capacity > 1 {
                    return bad(BadArgument::Mode);
                }
                continue;
            }
            // The formats of version 1 have a place for what follows; it refuses it.
            if part.mode == Mode::Shared {
                return Err(Refusal::NotYet(NotYet::SharedMode));
            }
            if part.capacity > 1 {
                return Err(Refusal::NotYet(NotYet::Semaphores));
            }
        }
        if request.parts.len() > 1 && !whole_table {
            return Err(Refusal::NotYet(NotYet::SeveralLocks));
        }
        Ok(())
    }
}

impl Lock {
    /// Whether a request names the capacity in use, and no more permits than that. What an operator set wins over every
    /// named number above 1.
    pub(crate) fn suits(&self, part: &AcquirePart) -> Result<(), Refusal> {
        let overruled = self.capacity_set && part.capacity > 1;
        if self.capacity != part.capacity && !overruled {
            return Err(Refusal::CapacityDiffers { lock: self.capacity, asked: part.capacity });
        }
        if part.permits > self.capacity {
            return Err(Refusal::TooManyPermits { capacity: self.capacity, permits: part.permits });
        }
        Ok(())
    }
}

fn deadlines_in_bounds(terms: &Terms) -> bool {
    let named = [terms.hold_max, terms.progress_every];
    named.into_iter().flatten().all(|deadline: Millis| (DEADLINE_MIN..=DEADLINE_MAX).contains(&deadline))
}
