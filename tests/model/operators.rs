//! What operators and guards ask, in the reference (SPEC 4 and 5).

use palisade_core::command::{
    BreakLock, ConfirmFloor, EndSession, SetCapacity, SetDelayRule, SetLimits, SetVersion,
};
use palisade_core::history::HistorySizes;
use palisade_core::ids::{LockName, Millis};
use palisade_core::limits::HISTORY_MAX;
use palisade_core::reply::{BadArgument, Ended, LimitName, Refusal, Reply};

use super::endings::Closed;
use super::reference::{Happened, Reference, State};

/// The longest TTL and the longest lock-delay.
const CLOSED_MAX: Millis = Millis(86_400_000 + 60_000);

fn closed(named: Option<Millis>) -> Result<Closed, Refusal> {
    match named {
        None => Ok(Closed::LeaseToo),
        Some(time) if time > CLOSED_MAX => Err(Refusal::BadArgument(BadArgument::Closed)),
        Some(time) => Ok(Closed::For(time)),
    }
}

impl Reference {
    pub(super) fn break_lock(&mut self, broken: &BreakLock) -> Result<Reply, Refusal> {
        let closed = closed(broken.closed)?;
        let (lock, slot) = (&broken.lock, broken.slot);
        if self.tenure(lock, slot).is_none_or(|(_, token)| token != broken.token) {
            return Err(Refusal::NotHeld { superseded: self.shown(lock, slot) });
        }
        self.happened.push(Happened::Broken(lock.clone(), slot, broken.token, broken.by.clone()));
        let holders = self.holders(lock, slot);
        let views = holders
            .iter()
            .filter_map(|request| Some(self.view(request, request.holds_slot(lock, slot)?)))
            .collect();
        if let Closed::For(_) = closed {
            // He speaks for those who had left it too.
            let holds = self.requests.iter_mut().flat_map(|request| &mut request.holds);
            for hold in holds.filter(|hold| hold.lock == *lock && hold.token == broken.token) {
                hold.owed = hold.owed.map(|_| Millis(0));
            }
        }
        let holders = self.holders(lock, slot);
        let ids: Vec<_> = holders.iter().map(|request| request.id).collect();
        for id in ids {
            let at = self.requests.iter().position(|request| request.id == id);
            let hold = at.and_then(|at| {
                let is_it = |hold: &super::reference::Hold| {
                    hold.end.is_none() && hold.lock == *lock && hold.slot == slot
                };
                Some((at, self.requests[at].holds.iter().position(is_it)?))
            });
            if let Some((at, hold)) = hold {
                self.end_hold(at, hold, Ended::Broken, closed);
            }
        }
        let closed = self.delay(lock, slot).map_or(Millis(0), |delay| delay.delay);
        Ok(Reply::Broken { holders: views, closed })
    }

    pub(super) fn stop(&mut self, end: &EndSession) -> Result<Reply, Refusal> {
        let closed = closed(end.closed)?;
        if self.session(end.session).is_none() {
            return Err(self.gone(end.session, None));
        }
        let of_it = self.requests.iter().filter(|request| request.id.session == end.session);
        let (held, waited): (Vec<_>, Vec<_>) =
            of_it.filter(|request| request.is_open()).partition(|request| request.state == State::Holds);
        let (held, waited) = (held.len() as u32, waited.len() as u32);
        self.end_session(end.session, Ended::ByOperator, closed);
        Ok(Reply::Stopped { held, waited })
    }

    pub(super) fn set_capacity(&mut self, set: &SetCapacity) -> Result<Reply, Refusal> {
        if set.capacity == 0 || set.capacity > 10_000 {
            return Err(Refusal::BadArgument(BadArgument::Capacity));
        }
        if !self.locks().contains(&set.lock) {
            return Err(Refusal::NotInUse);
        }
        let mut before = 0;
        for capacity in self.capacities.iter_mut().filter(|capacity| capacity.lock == set.lock) {
            before = capacity.slots;
            (capacity.slots, capacity.set) = (set.capacity, true);
        }
        if before != set.capacity {
            self.happened.push(Happened::CapacitySet(set.lock.clone(), set.capacity));
        }
        // A waiter that would be refused now is.
        for at in 0..self.requests.len() {
            let request = &self.requests[at];
            let part = request.parts.iter().find(|part| part.lock == set.lock);
            let unsuited = part.and_then(|part| self.suits(part).err());
            if let Some(refusal) = unsuited.filter(|_| request.state == State::Waits) {
                self.end(at, Ended::Refused, Closed::AsEnded);
                self.requests[at].state = State::Refused(refusal);
            }
        }
        if set.capacity < before {
            self.break_cycles(&set.lock);
        }
        Ok(Reply::Done)
    }

    /// Ends waiters that fewer slots have brought into cycles, until none is in one.
    fn break_cycles(&mut self, lock: &LockName) {
        for id in std::mem::take(&mut self.deadlocked) {
            let at = self.requests.iter().position(|r| r.id == id && r.state == State::Waits);
            let in_cycle =
                |at: &usize| self.requests[*at].owner().is_some_and(|owner| self.is_in_cycle(&owner));
            if let Some(at) = at.filter(in_cycle) {
                self.end(at, Ended::Deadlocked, Closed::AsEnded);
            }
        }
        for at in 0..self.requests.len() {
            let waits = self.requests[at].state == State::Waits && self.requests[at].names(lock);
            let owner = self.requests[at].owner().filter(|_| waits);
            if owner.is_some_and(|owner| self.is_in_cycle(&owner)) {
                // It should have ended.
                self.end(at, Ended::Deadlocked, Closed::AsEnded);
            }
        }
    }

    pub(super) fn set_rule(&mut self, set: &SetDelayRule) -> Result<Reply, Refusal> {
        let known = self.rules.iter().position(|(prefix, _)| *prefix == set.prefix);
        let Some(rule) = &set.rule else {
            if let Some(known) = known {
                self.rules.remove(known);
            }
            return Ok(Reply::Done);
        };
        if rule.least > rule.most || rule.most > Millis(60_000) {
            return Err(Refusal::BadArgument(BadArgument::DelayRule));
        }
        if rule.fenced_by.len() > 16 {
            return Err(Refusal::BadArgument(BadArgument::Guards));
        }
        match known {
            Some(known) => self.rules[known].1 = rule.clone(),
            None if self.rules.len() >= self.more.delay_rules_max as usize => {
                let max = self.more.delay_rules_max.into();
                return Err(Refusal::LimitReached { limit: LimitName::DelayRules, max });
            }
            None => self.rules.push((set.prefix.clone(), rule.clone())),
        }
        Ok(Reply::Done)
    }

    pub(super) fn set_limits(&mut self, set: &SetLimits) -> Result<Reply, Refusal> {
        let (limits, more) = (&set.limits, &set.more);
        let counts = [
            limits.sessions_max,
            limits.locks_max,
            limits.acquisitions_per_session_max.into(),
            limits.waiters_per_lock_max.into(),
            limits.outcomes_per_session_max.into(),
            limits.ended_sessions_max.into(),
            limits.predecessors_max.into(),
            limits.keys_max.into(),
            more.delay_rules_max.into(),
            more.cycle_search_max.into(),
        ];
        if counts.contains(&0) || limits.lock_delay_default > Millis(60_000) || more.baton_bytes_max < 4_096 {
            return Err(Refusal::BadArgument(BadArgument::Limits));
        }
        self.set_history(set.history)?;
        (self.limits, self.more) = (limits.clone(), more.clone());
        self.cut_ended();
        self.cut_slots();
        Ok(Reply::Done)
    }

    pub(super) fn set_version(&mut self, set: &SetVersion) -> Result<Reply, Refusal> {
        let newest = 2;
        if set.version < self.version || set.version.0 > newest {
            return Err(Refusal::Version { present: self.version.0, newest });
        }
        if set.version > self.version {
            self.version = set.version;
            self.happened.push(Happened::Version(set.version));
        }
        Ok(Reply::Done)
    }

    pub(super) fn confirm(&mut self, confirm: &ConfirmFloor) -> Result<Reply, Refusal> {
        let base = self.base;
        let asked = self
            .delays
            .iter_mut()
            .find(|delay| (&delay.lock, delay.slot) == (&confirm.lock, confirm.slot))
            .filter(|delay| delay.guards.contains(&confirm.guard))
            .filter(|delay| !delay.confirmed.contains(&confirm.guard));
        let Some(delay) = asked else { return Ok(Reply::Done) };
        if confirm.floor < base.token(delay.began) {
            return Err(Refusal::BadArgument(BadArgument::Floor));
        }
        delay.confirmed.push(confirm.guard.clone());
        self.happened.push(Happened::Confirmed(confirm.lock.clone(), confirm.slot, confirm.guard.clone()));
        self.open_confirmed();
        Ok(Reply::Done)
    }

    pub(super) fn set_history(&mut self, sizes: HistorySizes) -> Result<Reply, Refusal> {
        if sizes.expired_max.max(sizes.others_max) > HISTORY_MAX {
            return Err(Refusal::BadArgument(BadArgument::HistorySize));
        }
        self.past.resize(sizes);
        Ok(Reply::Done)
    }
}
