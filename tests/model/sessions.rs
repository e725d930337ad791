//! How sessions begin, are heard from, and end, in the reference (SPEC 3).

use palisade_core::command::{ExpireSessions, KeepSessions, OpenSession, Replaces, Tick};
use palisade_core::ids::{AcquisitionId, LockName, Millis, RequestNumber, SessionId, Slot};
use palisade_core::mode::Mode;
use palisade_core::reply::{
    BadArgument, Ended, LimitName, NotYet, Refusal, Reply, TakenAcquisition, TakenState, TookOver,
};

use super::endings::Closed;
use super::reference::{Delay, Happened, Reference, Request, Session, State};

impl Reference {
    pub(super) fn open(&mut self, open: &OpenSession) -> Result<Reply, Refusal> {
        if open.replaces.is_some() && self.version.0 < 2 {
            return Err(Refusal::NotYet(NotYet::TakingOver));
        }
        if open.replaces.as_ref().is_some_and(|replaces| replaces.secret == open.secret) {
            return Err(Refusal::SecretTaken);
        }
        let (now, ticks) = (self.now, self.ticks.count);
        if let Some(known) = self.sessions.iter_mut().find(|s| s.secret == open.secret && s.end.is_none()) {
            if known.owner != open.owner {
                return Err(Refusal::SecretTaken);
            }
            (known.last_command, known.ticks) = (now, ticks);
            let again = known.took_over.as_ref().filter(|took_over| {
                open.replaces.as_ref().is_some_and(|replaces| replaces.session == took_over.replaced)
            });
            return Ok(match again {
                Some(took_over) => Reply::TookOver(took_over.clone()),
                None => Reply::SessionOpened { session: known.id, ttl: known.ttl },
            });
        }
        if open.ttl.0 < 2_000 || open.ttl.0 > 86_400_000 {
            return Err(Refusal::BadArgument(BadArgument::Ttl));
        }
        if let Some(replaces) = &open.replaces {
            return self.take_over(open, replaces);
        }
        let (live, max) =
            (self.sessions.iter().filter(|s| s.end.is_none()).count(), self.limits.sessions_max);
        if live as u64 >= max {
            return Err(Refusal::LimitReached { limit: LimitName::Sessions, max });
        }
        let session = self.begin_session(open);
        Ok(Reply::SessionOpened { session, ttl: open.ttl })
    }

    fn begin_session(&mut self, open: &OpenSession) -> SessionId {
        let id = self.new_session();
        self.sessions.push(Session {
            id,
            secret: open.secret,
            owner: open.owner.clone(),
            client: open.client.clone(),
            ttl: open.ttl,
            last_command: self.now,
            ticks: self.ticks.count,
            mark: RequestNumber(0),
            highest: RequestNumber(0),
            took_over: None,
            end: None,
        });
        self.happened.push(Happened::Opened(id));
        id
    }

    fn take_over(&mut self, open: &OpenSession, replaces: &Replaces) -> Result<Reply, Refusal> {
        let Some(old) = self.session(replaces.session) else {
            return Err(self.gone(replaces.session, None));
        };
        if old.secret != replaces.secret {
            return Err(Refusal::SecretWrong);
        }
        if old.owner != open.owner {
            return Err(Refusal::SecretTaken);
        }
        let (old, ttl, mark) = (old.id, old.ttl, old.mark);
        let mut of_old: Vec<usize> =
            (0..self.requests.len()).filter(|at| self.requests[*at].id.session == old).collect();
        of_old.sort_by_key(|at| self.requests[*at].id.number);
        let open_before: Vec<_> = of_old.iter().map(|at| self.requests[*at].state.clone()).collect();
        let kept_slots: Vec<_> = of_old.iter().map(|at| self.slots_to_keep(*at)).collect();
        self.happened.push(Happened::TakenOver(old, self.new_session()));
        self.end_session(old, Ended::TakenOver, Closed::AsEnded);
        let new = self.begin_session(open);
        let mut took_over =
            TookOver { session: new, ttl: open.ttl, replaced: old, kept: Vec::new(), ended: Vec::new() };
        for ((at, before), slots) in of_old.into_iter().zip(open_before).zip(kept_slots) {
            let was = self.requests[at].id.number;
            let number = RequestNumber(took_over.kept.len() as u64 + 1);
            let lease = (!replaces.proven_dead).then_some(ttl);
            let state = match before {
                State::Waits => self.wait_on(at, AcquisitionId { session: new, number }),
                State::Holds | State::Kept(_) if !slots.is_empty() => {
                    let again = matches!(before, State::Kept(_));
                    let id = AcquisitionId { session: new, number };
                    if again { self.keep_on(at, id, slots) } else { self.hold_on(at, id, slots, lease) }
                }
                State::Holds | State::Kept(_) => {
                    took_over.ended.push((was, Ended::TakenOver));
                    continue;
                }
                State::Ended { how, .. } if was >= mark => {
                    took_over.ended.push((was, how));
                    continue;
                }
                State::Refused(_) if was >= mark => {
                    took_over.ended.push((was, Ended::Refused));
                    continue;
                }
                State::Ended { .. } | State::Refused(_) => continue,
            };
            took_over.kept.push(TakenAcquisition { was, number, state });
            if let Some(session) = self.live(new) {
                session.highest = number;
            }
        }
        if let Some(session) = self.live(new) {
            session.took_over = Some(took_over.clone());
        }
        Ok(Reply::TookOver(took_over))
    }

    fn new_session(&self) -> SessionId {
        SessionId(self.base.at(self.now))
    }

    /// What a request holds exclusively, or expects.
    fn slots_to_keep(&self, at: usize) -> Vec<(LockName, Slot)> {
        match &self.requests[at].state {
            State::Kept(slots) => slots.clone(),
            _ => {
                let held = self.requests[at].held().filter(|hold| hold.mode == Mode::Exclusive);
                held.map(|hold| (hold.lock.clone(), hold.slot)).collect()
            }
        }
    }

    /// The same request, of another session.
    fn again(&mut self, at: usize, id: AcquisitionId, state: State) -> usize {
        let old = &self.requests[at];
        let new = Request {
            id,
            asked: old.asked.clone(),
            parts: old.parts.clone(),
            metadata: old.metadata.clone(),
            metadata_revision: 0,
            reports: (None, None, 0),
            arrived: old.arrived,
            grant: self.now,
            state,
            holds: Vec::new(),
        };
        self.requests.push(new);
        self.requests.len() - 1
    }

    fn wait_on(&mut self, at: usize, id: AcquisitionId) -> TakenState {
        let new = self.again(at, id, State::Waits);
        let locks = self.requests[new].parts.iter().map(|part| part.lock.clone()).collect();
        self.happened.push(Happened::Queued(id, locks));
        TakenState::Waits
    }

    /// What was held is begun anew, at once, or when the earlier process cannot believe in its lease any more.
    fn hold_on(
        &mut self,
        at: usize,
        id: AcquisitionId,
        slots: Vec<(LockName, Slot)>,
        lease: Option<Millis>,
    ) -> TakenState {
        let new = self.again(at, id, State::Kept(slots.clone()));
        let parts = &mut self.requests[new].parts;
        for part in parts.iter_mut() {
            part.permits = slots.iter().filter(|(lock, _)| *lock == part.lock).count() as u32;
        }
        parts.retain(|part| part.permits > 0);
        let Some(lease) = lease else {
            self.begin_kept(new, &slots);
            return TakenState::Holds;
        };
        let parts = self.requests[new].parts.clone();
        let longest = parts.iter().map(|part| part.delay.millis().0).max().unwrap_or(0);
        let closed = Millis(lease.0 + longest);
        for (lock, slot) in slots {
            let was = self.requests[at].holds.iter().rfind(|hold| hold.lock == lock && hold.slot == slot);
            let Some(ended) = was.map(|hold| hold.token) else { continue };
            let part = parts.iter().find(|part| part.lock == lock);
            self.happened.push(Happened::DelayStarted(lock.clone(), slot, closed));
            self.delays.push(Delay {
                guards: part.map(|part| part.fenced_by.clone()).unwrap_or_default(),
                lock,
                slot,
                began: self.now,
                delay: closed,
                ended,
                confirmed: Vec::new(),
                kept_for: Some(id),
            });
        }
        TakenState::Closed { closed }
    }

    /// What is closed for a request stays closed, for another session's now.
    fn keep_on(&mut self, at: usize, id: AcquisitionId, slots: Vec<(LockName, Slot)>) -> TakenState {
        self.again(at, id, State::Kept(slots.clone()));
        let mut closed = Millis(0);
        for delay in &mut self.delays {
            if slots.contains(&(delay.lock.clone(), delay.slot)) {
                delay.kept_for = Some(id);
                closed = closed.max(delay.delay);
            }
        }
        TakenState::Closed { closed }
    }

    pub(super) fn close(&mut self, id: SessionId) -> Result<Reply, Refusal> {
        if self.session(id).is_some() {
            self.end_session(id, Ended::Closed, Closed::AsEnded);
            return Ok(Reply::SessionClosed);
        }
        match self.gone(id, None) {
            Refusal::SessionEnded { ended: Ended::Closed, .. } => Ok(Reply::SessionClosed),
            refusal => Err(refusal),
        }
    }

    pub(super) fn expire(&mut self, expire: &ExpireSessions) -> Reply {
        if self.in_force(expire.epoch) {
            for (id, last) in &expire.sessions {
                if self.session(*id).is_some_and(|session| session.last_command == *last) {
                    self.end_session(*id, Ended::Expired, Closed::AsEnded);
                }
            }
        }
        Reply::Done
    }

    pub(super) fn keep(&mut self, keep: &KeepSessions) -> Result<Reply, Refusal> {
        if keep.sessions.len() > 4_096 {
            return Err(Refusal::BadArgument(BadArgument::Sessions));
        }
        let (now, ticks) = (self.now, self.ticks.count);
        let mut ended = Vec::new();
        for id in &keep.sessions {
            if let Some(session) = self.live(*id) {
                (session.last_command, session.ticks) = (now, ticks);
                self.happened.push(Happened::Kept(*id));
            } else {
                let how = match self.gone(*id, None) {
                    Refusal::SessionEnded { ended, .. } => Some(ended),
                    _ => None,
                };
                ended.push((*id, how));
            }
        }
        Ok(Reply::Kept { ended })
    }

    pub(super) fn tick(&mut self, tick: &Tick) -> Reply {
        if self.in_force(tick.epoch) && tick.previous == self.ticks.last {
            self.ticks.count += 1;
            self.ticks.last = Some(self.now);
            self.happened.push(Happened::Ticked);
        }
        Reply::Done
    }
}
