//! How the reference ends what waits and holds, and closes slots (SPEC 4 and 5).

use std::collections::BTreeSet;

use palisade_core::command::{EndLockDelay, EndOverdue, EndWait, Overdue, Wait};
use palisade_core::history::EndedHold;
use palisade_core::ids::{GuardName, LockName, Millis, SessionId, Slot};
use palisade_core::lock::Predecessor;
use palisade_core::reply::{Ended, Reply};

use super::reference::{Delay, Happened, Reference, State};

/// How long an end closes its slots.
#[derive(Clone, Copy)]
pub(super) enum Closed {
    /// As the way it ended says.
    AsEnded,
    /// The holder may believe in its lease.
    LeaseToo,
    /// An operator says so.
    For(Millis),
}

/// Whether a slot that ends so is closed for a while.
pub(super) fn closes(how: Ended) -> bool {
    matches!(how, Ended::Expired | Ended::ByOperator | Ended::Broken | Ended::Overdue)
}

impl Reference {
    pub(super) fn end_session(&mut self, id: SessionId, how: Ended, closed: Closed) {
        let mut of_session: Vec<usize> =
            (0..self.requests.len()).filter(|at| self.requests[*at].id.session == id).collect();
        of_session.sort_by_key(|at| self.requests[*at].id.number);
        for at in of_session {
            self.end(at, how, closed);
        }
        if let Some(session) = self.live(id) {
            session.end = Some(how);
        }
        self.ended.push(id);
        self.cut_ended();
        self.happened.push(Happened::SessionEnded(id, how));
    }

    /// Ends a request that waits or holds; of any other, nothing.
    pub(super) fn end(&mut self, at: usize, how: Ended, closed: Closed) {
        let id = self.requests[at].id;
        match self.requests[at].state {
            State::Waits => self.happened.push(Happened::WaitEnded(id, how)),
            State::Kept(_) => {
                // The slots stay closed: the earlier process may still believe in its lease.
                for delay in self.delays.iter_mut().filter(|delay| delay.kept_for == Some(id)) {
                    delay.kept_for = None;
                }
                if how != Ended::TakenOver {
                    self.happened.push(Happened::WaitEnded(id, how));
                    self.open_confirmed();
                }
            }
            State::Holds => {
                for hold in 0..self.requests[at].holds.len() {
                    self.end_hold(at, hold, how, closed);
                }
            }
            State::Ended { .. } | State::Refused(_) => return,
        }
        self.requests[at].state = State::Ended { how, at: self.now };
    }

    /// Ends one held slot of a request; the request with the last one.
    pub(super) fn end_hold(&mut self, at: usize, hold: usize, how: Ended, closed: Closed) {
        let id = self.requests[at].id;
        let (ttl, client) = self
            .sessions
            .iter()
            .find(|session| session.id == id.session)
            .map_or((Millis(0), self.client(id.session)), |session| (session.ttl, session.client.clone()));
        let (now, wall) = (self.now, self.wall);
        let held = &mut self.requests[at].holds[hold];
        if held.end.is_some() {
            return;
        }
        held.end = Some((how, now));
        held.owed = match closed {
            Closed::AsEnded => closes(how).then_some(held.delay),
            Closed::LeaseToo => Some(Millis(ttl.0 + held.delay.0)),
            Closed::For(time) => Some(time),
        };
        let held = held.clone();
        if self.requests[at].held().next().is_none() {
            self.requests[at].state = State::Ended { how, at: now };
        }
        let ended = EndedHold {
            number: 0,
            lock: held.lock.clone(),
            slot: held.slot,
            mode: held.mode,
            acquisition: id,
            client: client.clone(),
            token: held.token,
            grant: held.since,
            granted_at: held.since_wall,
            ended: how,
            end: now,
            ended_at: wall,
        };
        if self.version.0 < 2 {
            self.past.begin_after(now);
        } else {
            self.past.end(ended);
        }
        let last = Predecessor {
            slot: held.slot,
            acquisition: id,
            client,
            token: held.token,
            ended: how,
            end: now,
            ended_at: wall,
        };
        self.slots.held(&held.lock, last);
        self.cut_slots();
        self.happened.push(Happened::HoldEnded(id, held.lock.clone(), held.slot, held.token, how));
        if self.tenure(&held.lock, held.slot).is_none() {
            self.close_slot(&held.lock, held.slot, held.token);
        }
    }

    pub(super) fn cut_ended(&mut self) {
        while self.ended.len() > self.limits.ended_sessions_max as usize {
            self.ended.remove(0);
        }
    }

    pub(super) fn cut_slots(&mut self) {
        self.slots.cut(self.limits.predecessors_max, self.more.baton_bytes_max);
    }

    /// After the last holder of a tenure: closed for the longest time that any of them is owed.
    fn close_slot(&mut self, lock: &LockName, slot: Slot, token: palisade_core::token::Token) {
        let holds = self.requests.iter().flat_map(|request| &request.holds);
        let of_tenure = holds.filter(|hold| hold.lock == *lock && hold.slot == slot && hold.token == token);
        let owed: Vec<_> = of_tenure.filter_map(|hold| hold.owed.map(|time| (time, &hold.guards))).collect();
        let Some(delay) = owed.iter().map(|(time, _)| *time).max().filter(|time| *time > Millis(0)) else {
            return;
        };
        // Who named no guards is not known to be safe.
        let named: BTreeSet<GuardName> = owed.iter().flat_map(|(_, guards)| guards.iter().cloned()).collect();
        let guards = if owed.iter().any(|(_, guards)| guards.is_empty()) { BTreeSet::new() } else { named };
        self.happened.push(Happened::DelayStarted(lock.clone(), slot, delay));
        self.delays.push(Delay {
            lock: lock.clone(),
            slot,
            began: self.now,
            delay,
            ended: token,
            guards: guards.into_iter().collect(),
            confirmed: Vec::new(),
            kept_for: None,
        });
    }

    pub(super) fn end_lock_delay(&mut self, end: &EndLockDelay) -> Reply {
        if self.in_force(end.epoch)
            && self.delay(&end.lock, end.slot).is_some_and(|delay| delay.began == end.began)
        {
            self.end_delay(&end.lock, end.slot);
        }
        Reply::Done
    }

    /// A closed slot is open again; one that is kept for a request becomes its own, with all its others.
    pub(super) fn end_delay(&mut self, lock: &LockName, slot: Slot) {
        let Some(id) = self.delay(lock, slot).and_then(|delay| delay.kept_for) else {
            return self.open_slot(lock, slot);
        };
        let at = self.requests.iter().position(|request| request.id == id);
        if let Some(at) = at
            && let State::Kept(slots) = self.requests[at].state.clone()
        {
            for (lock, slot) in &slots {
                self.open_slot(lock, *slot);
            }
            self.begin_kept(at, &slots);
        }
    }

    fn open_slot(&mut self, lock: &LockName, slot: Slot) {
        let Some(began) = self.delay(lock, slot).map(|delay| delay.began) else { return };
        self.delays.retain(|delay| (&delay.lock, delay.slot) != (lock, slot));
        self.happened.push(Happened::DelayEnded(lock.clone(), slot, began));
    }

    /// Holds the slots that were kept for it.
    pub(super) fn begin_kept(&mut self, at: usize, slots: &[(LockName, Slot)]) {
        let token = self.base.token(self.now);
        for (lock, slot) in slots {
            let part = self.requests[at].parts.iter().find(|part| part.lock == *lock).cloned();
            if let Some(part) = part {
                self.begin(at, &part, *slot, token);
            }
        }
        self.granted(at);
    }

    /// Opens what all its guards have confirmed: kept slots wait for each other.
    pub(super) fn open_confirmed(&mut self) {
        let confirmed = |delay: &Delay| {
            !delay.guards.is_empty() && delay.guards.iter().all(|guard| delay.confirmed.contains(guard))
        };
        let with_all = |delay: &&Delay| {
            let mut of_it = self.delays.iter().filter(|other| other.kept_for == delay.kept_for);
            confirmed(delay) && (delay.kept_for.is_none() || of_it.all(confirmed))
        };
        let open: Vec<_> =
            self.delays.iter().filter(with_all).map(|delay| (delay.lock.clone(), delay.slot)).collect();
        for (lock, slot) in open {
            self.end_delay(&lock, slot);
        }
    }

    pub(super) fn end_wait(&mut self, end: &EndWait) -> Reply {
        let due = self.requests.iter().position(|request| {
            let wait = request.asked.as_ref().map(|(asked, _)| asked.wait);
            request.id == end.acquisition
                && request.state == State::Waits
                && matches!(wait, Some(Wait::Bounded(_)))
        });
        if let Some(at) = due.filter(|_| self.in_force(end.epoch)) {
            self.end(at, Ended::TimedOut, Closed::AsEnded);
        }
        Reply::Done
    }

    pub(super) fn end_overdue(&mut self, end: &EndOverdue) -> Reply {
        let due = self.requests.iter().position(|request| {
            let terms = request.terms();
            let passed = match end.overdue {
                Overdue::Maximum => terms.hold_max.is_some(),
                // Before any report the maximum stands in for an interval that was not named.
                Overdue::Progress { report } => {
                    let first = report.is_none() && terms.hold_max.is_some();
                    (terms.progress_every.is_some() || first) && request.reports.1 == report
                }
            };
            let same = request.id == end.acquisition && request.grant == end.grant;
            same && request.state == State::Holds && passed
        });
        if let Some(at) = due.filter(|_| self.in_force(end.epoch)) {
            self.end(at, Ended::Overdue, Closed::AsEnded);
        }
        Reply::Done
    }
}
