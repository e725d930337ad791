//! What holds between any two commands.

use std::collections::BTreeSet;

use crate::ids::{AcquisitionId, LockName, Slot};
use crate::limits::LOCK_DELAY_MAX;
use crate::lock::{Delay, Lock, SlotState, Tenure};
use crate::mode::Mode;
use crate::session::{Acquisition, AcquisitionState, HeldPart};
use crate::table::LockTable;

impl LockTable {
    /// Checks everything that must hold between any two commands; says what does not. For tests and for operators:
    /// its cost is that of reading the whole table.
    pub fn check_invariants(&self) -> Result<(), String> {
        let believed = self.check_sessions()?;
        let known = self.check_locks()?;
        // Each of the first is one of the second.
        if believed != known {
            return Err(format!("{known} places in tenures, {believed} of them known to their holders"));
        }
        self.check_memory()?;
        self.check_bounds()?;
        self.history().check(self.header().applied)
    }

    /// The places in tenures that acquisitions believe to have.
    fn check_sessions(&self) -> Result<usize, String> {
        let (mut waiting, mut places) = (0, 0);
        for (id, session) in self.sessions() {
            if self.ended_session(id).is_some() {
                return Err(format!("session {id} is live and ended"));
            }
            if let Some((number, _)) = session.outcomes.range(..session.mark).next() {
                return Err(format!("session {id} remembers {number}, below its mark {}", session.mark));
            }
            for (number, acquisition) in session.acquisitions.iter() {
                let of = AcquisitionId { session: id, number };
                if session.outcomes.contains_key(&number) {
                    return Err(format!("{of} is open and ended"));
                }
                if number > session.highest {
                    return Err(format!("{of} is above the highest number {}", session.highest));
                }
                match &acquisition.state {
                    AcquisitionState::Waiting => {
                        waiting += 1;
                        self.check_waiter(of, &acquisition)?;
                    }
                    AcquisitionState::Kept { slots } => self.check_kept(of, slots)?,
                    AcquisitionState::Holding { held, .. } => {
                        places += held.len();
                        self.check_holder(of, &acquisition, held)?;
                    }
                }
            }
        }
        if waiting != self.counts().waiting {
            return Err(format!("{waiting} wait, {} are counted", self.counts().waiting));
        }
        Ok(places)
    }

    /// A waiter has one place, its own, in each of its queues, and could be granted some day.
    fn check_waiter(&self, of: AcquisitionId, acquisition: &Acquisition) -> Result<(), String> {
        for part in &acquisition.parts {
            let Some(lock) = self.lock(&part.lock) else {
                return Err(format!("{of} waits for {}, which is not there", part.lock));
            };
            if !lock.queue.iter().any(|at| at == (acquisition.arrived, of)) {
                return Err(format!("{of} waits, and is not in the queue of {}", part.lock));
            }
            if let Err(refusal) = lock.suits(part) {
                return Err(format!("{of} waits for {}: {refusal:?}", part.lock));
            }
        }
        Ok(())
    }

    /// What is kept for an acquisition is closed for it.
    fn check_kept(&self, of: AcquisitionId, slots: &[(LockName, Slot)]) -> Result<(), String> {
        for (name, slot) in slots {
            let state = self.lock(name).and_then(|lock| lock.slots.get(slot));
            let kept = matches!(state, Some(SlotState::Delayed(d)) if d.kept_for == Some(of));
            if !kept {
                return Err(format!("{of} expects slot {slot} of {name}, which does not know it"));
            }
        }
        Ok(())
    }

    /// A holder has a place in the tenure of each slot that it believes to hold.
    fn check_holder(
        &self,
        of: AcquisitionId,
        acquisition: &Acquisition,
        held: &[HeldPart],
    ) -> Result<(), String> {
        if held.is_empty() {
            return Err(format!("{of} holds nothing"));
        }
        let mut seen = BTreeSet::new();
        for part in held {
            if !seen.insert((&part.lock, part.slot)) {
                return Err(format!("{of} holds slot {} of {} twice", part.slot, part.lock));
            }
            if !acquisition.parts.iter().any(|asked| asked.lock == part.lock) {
                return Err(format!("{of} holds {}, and did not ask for it", part.lock));
            }
            let state = self.lock(&part.lock).and_then(|lock| lock.slots.get(&part.slot));
            let held = state.and_then(SlotState::tenure).is_some_and(|tenure| {
                tenure.holders.contains_key(&of) && (tenure.token, tenure.mode) == (part.token, part.mode)
            });
            if !held {
                return Err(format!("{of} believes to hold {}, which does not know it", part.lock));
            }
        }
        Ok(())
    }

    /// The places in the tenures of all slots.
    fn check_locks(&self) -> Result<usize, String> {
        let (mut held, mut delayed, mut places) = (0, 0, 0);
        for (name, lock) in self.locks() {
            if lock.is_idle() {
                return Err(format!("{name} is idle, and not forgotten"));
            }
            self.check_queue(name, lock)?;
            for (slot, state) in &lock.slots {
                if slot.0 >= lock.capacity && !lock.capacity_set {
                    return Err(format!("{name} has slot {slot}, and a capacity of {}", lock.capacity));
                }
                match state {
                    SlotState::Delayed(delay) => {
                        delayed += 1;
                        self.check_delay(name, *slot, delay)?;
                    }
                    SlotState::Held(tenure) => {
                        held += 1;
                        places += tenure.holders.len();
                        self.check_tenure(name, lock, *slot, tenure)?;
                    }
                }
            }
        }
        let counts = self.counts();
        if (held, delayed) != (counts.held, counts.delayed) {
            return Err(format!("{held} held and {delayed} delayed, {counts:?} are counted"));
        }
        Ok(places)
    }

    /// Who is in a queue waits; who is at the head of all its queues and fits is in none.
    fn check_queue(&self, name: &LockName, lock: &Lock) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for (arrived, id) in lock.queue.iter() {
            let acquisition = self.session(id.session).and_then(|s| s.acquisitions.get(id.number));
            let waits = acquisition.is_some_and(|a| {
                a.state == AcquisitionState::Waiting
                    && a.arrived == arrived
                    && a.parts.iter().any(|part| part.lock == *name)
            });
            if !waits {
                return Err(format!("{id} is in the queue of {name}, and does not wait for it"));
            }
            if !seen.insert(id) {
                return Err(format!("{id} has two places in the queue of {name}"));
            }
        }
        match lock.queue.head() {
            Some((_, head)) if self.fits(head) => {
                Err(format!("{head} waits at the head of {name} and of its other queues, and it fits"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn check_tenure(&self, name: &LockName, lock: &Lock, slot: Slot, tenure: &Tenure) -> Result<(), String> {
        if tenure.token != self.header().token_base.token(tenure.begun) {
            return Err(format!("token {} of {name} is not its entry's", tenure.token));
        }
        if tenure.holders.is_empty() || tenure.slot != slot {
            return Err(format!("the tenure of {name} has no holder, or another slot"));
        }
        if tenure.mode == Mode::Exclusive && (tenure.holders.len() > 1 || tenure.owed.is_some()) {
            return Err(format!("an exclusive tenure of {name} has, or had, a second holder"));
        }
        if tenure.mode == Mode::Shared && lock.capacity > 1 && !lock.capacity_set {
            return Err(format!("{name} is shared, with a capacity of {}", lock.capacity));
        }
        for (id, holder) in &tenure.holders {
            if holder.grant < tenure.begun {
                return Err(format!("{id} was granted {name} before its tenure began"));
            }
        }
        Ok(())
    }

    fn check_delay(&self, name: &LockName, slot: Slot, delay: &Delay) -> Result<(), String> {
        if delay.delay.0 == 0 {
            return Err(format!("{name} is in a delay of nothing"));
        }
        if !delay.confirmed.iter().all(|guard| delay.guards.contains(guard)) {
            return Err(format!("a guard that is not named confirmed slot {slot} of {name}"));
        }
        let Some(id) = delay.kept_for else {
            return match delay.is_confirmed() {
                true => Err(format!("slot {slot} of {name} is closed, and all its guards confirmed")),
                false => Ok(()),
            };
        };
        let acquisition = self.session(id.session).and_then(|s| s.acquisitions.get(id.number));
        let Some(AcquisitionState::Kept { slots }) =
            acquisition.as_deref().map(|acquisition| &acquisition.state)
        else {
            return Err(format!("slot {slot} of {name} is kept for {id}, which does not expect it"));
        };
        let delays = slots.iter().map(|(lock, slot)| self.delay(lock, *slot));
        let together = delays.clone().all(|other| other.is_some_and(|other| other.delay == delay.delay));
        if !slots.contains(&(name.clone(), slot)) || !together {
            return Err(format!("slot {slot} of {name} is not kept for {id} with its others"));
        }
        if delays.flatten().all(Delay::is_confirmed) {
            return Err(format!("{id} expects slots whose guards all confirmed"));
        }
        Ok(())
    }

    fn check_bounds(&self) -> Result<(), String> {
        let ticks = self.ticks();
        for (id, session) in self.sessions() {
            if session.ticks > ticks.count || session.last_command > self.header().applied {
                return Err(format!("session {id} is ahead of the clock"));
            }
            if session.took_over.as_ref().is_some_and(|took| took.session != id) {
                return Err(format!("session {id} tells of what another took over"));
            }
        }
        if ticks.last.is_some_and(|last| self.header().lease.is_none_or(|lease| last <= lease.epoch)) {
            return Err(format!("{ticks:?} are not of the present leader"));
        }
        for (prefix, rule) in self.delay_rules() {
            if rule.least > rule.most || rule.most > LOCK_DELAY_MAX {
                return Err(format!("the rule of {prefix} is none: {rule:?}"));
            }
        }
        Ok(())
    }
}
