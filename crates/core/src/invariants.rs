//! What holds between any two commands.

use std::collections::BTreeSet;

use crate::ids::AcquisitionId;
use crate::lock::SlotState;
use crate::session::AcquisitionState;
use crate::table::LockTable;

impl LockTable {
    /// Checks everything that must hold between any two commands; says what does not. For tests and for operators:
    /// its cost is that of reading the whole table.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_sessions()?;
        self.check_locks()?;
        self.check_memory()?;
        self.history().check(self.header().applied)
    }

    fn check_sessions(&self) -> Result<(), String> {
        let limits = &self.header().limits;
        let mut waiting = 0;
        for (id, session) in self.sessions() {
            if self.ended_session(id).is_some() {
                return Err(format!("session {id} is live and ended"));
            }
            if session.remembered() > limits.outcomes_per_session_max as usize {
                return Err(format!("session {id} remembers more than the limit"));
            }
            if let Some((number, _)) = session.outcomes.range(..session.mark).next() {
                return Err(format!("session {id} remembers {number}, below its mark {}", session.mark));
            }
            for (number, acquisition) in &session.acquisitions {
                let of = AcquisitionId { session: id, number: *number };
                if session.outcomes.contains_key(number) {
                    return Err(format!("{of} is open and ended"));
                }
                if *number > session.highest {
                    return Err(format!("{of} is above the highest number {}", session.highest));
                }
                match &acquisition.state {
                    AcquisitionState::Waiting => {
                        waiting += 1;
                        for part in &acquisition.parts {
                            let queue = self.lock(&part.lock).map(|lock| &lock.queue);
                            if !queue.is_some_and(|q| q.iter().any(|at| at == (acquisition.arrived, of))) {
                                return Err(format!("{of} waits, and is not in the queue of {}", part.lock));
                            }
                        }
                    }
                    AcquisitionState::Kept { slots } => {
                        for (name, slot) in slots {
                            let state = self.lock(name).and_then(|lock| lock.slots.get(slot));
                            let kept = matches!(state, Some(SlotState::Delayed(d)) if d.kept_for == Some(of));
                            if !kept {
                                return Err(format!(
                                    "{of} expects slot {slot} of {name}, which does not know it"
                                ));
                            }
                        }
                    }
                    AcquisitionState::Holding { held, .. } if held.is_empty() => {
                        return Err(format!("{of} holds nothing"));
                    }
                    AcquisitionState::Holding { held, .. } => {
                        for part in held {
                            let state = self.lock(&part.lock).and_then(|lock| lock.slots.get(&part.slot));
                            let held = state.and_then(SlotState::tenure).is_some_and(|tenure| {
                                tenure.holders.contains_key(&of) && tenure.token == part.token
                            });
                            if !held {
                                return Err(format!(
                                    "{of} believes to hold {}, which does not know it",
                                    part.lock
                                ));
                            }
                        }
                    }
                }
            }
        }
        if waiting != self.counts().waiting {
            return Err(format!("{waiting} wait, {} are counted", self.counts().waiting));
        }
        Ok(())
    }

    fn check_locks(&self) -> Result<(), String> {
        let header = self.header();
        let (mut held, mut delayed) = (0, 0);
        for (name, lock) in self.locks() {
            if lock.is_idle() {
                return Err(format!("{name} is idle, and not forgotten"));
            }
            let mut seen = BTreeSet::new();
            for (arrived, id) in lock.queue.iter() {
                let acquisition = self.session(id.session).and_then(|s| s.acquisitions.get(&id.number));
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
            if lock.free_slot().is_some()
                && let Some((_, head)) = lock.queue.head()
            {
                let single = self
                    .session(head.session)
                    .and_then(|s| s.acquisitions.get(&head.number))
                    .is_some_and(|a| a.parts.len() == 1);
                if single {
                    return Err(format!("{name} has room, and {head} waits at its head"));
                }
            }
            for (slot, state) in &lock.slots {
                if slot.0 >= lock.capacity {
                    return Err(format!("{name} has slot {slot}, and a capacity of {}", lock.capacity));
                }
                match state {
                    SlotState::Delayed(delay) => {
                        delayed += 1;
                        if delay.delay.0 == 0 {
                            return Err(format!("{name} is in a delay of nothing"));
                        }
                    }
                    SlotState::Held(tenure) => {
                        held += 1;
                        if tenure.token != header.token_base.token(tenure.begun) {
                            return Err(format!("token {} of {name} is not its entry's", tenure.token));
                        }
                        if tenure.holders.is_empty() || tenure.slot != *slot {
                            return Err(format!("the tenure of {name} has no holder, or another slot"));
                        }
                        for (id, holder) in &tenure.holders {
                            if self.session(id.session).is_none() {
                                return Err(format!("{id} holds {name}, and its session is not live"));
                            }
                            if holder.grant < tenure.begun {
                                return Err(format!("{id} was granted {name} before its tenure began"));
                            }
                            if self.grant(*id).is_none() {
                                return Err(format!("{id} holds {name}, and does not know it"));
                            }
                        }
                    }
                }
            }
        }
        let counts = self.counts();
        if (held, delayed) != (counts.held, counts.delayed) {
            return Err(format!("{held} held and {delayed} delayed, {counts:?} are counted"));
        }
        Ok(())
    }
}
