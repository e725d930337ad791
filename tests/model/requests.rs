//! What the reference does with requests that have a number: acquire, release, cancel (SPEC 4 and 6).

use palisade_core::command::{Acquire, AcquirePart, LockDelay, Terms, Wait};
use palisade_core::ids::{AcquisitionId, LockName, LockPrefix, LogIndex, Millis, RequestNumber, SessionId};
use palisade_core::lock::DelayRule;
use palisade_core::mode::Mode;
use palisade_core::reply::{BadArgument, Cycle, LimitName, NotYet, Refusal, Reply};

use super::reference::{Capacity, Happened, Reference, Request, State};

impl Reference {
    pub(super) fn acquire(&mut self, request: &Acquire, terms: &Terms) -> Result<Reply, Refusal> {
        let session = self.heard(request.session, None)?;
        session.mark = session.mark.max(request.mark);
        let (mark, highest) = (session.mark, session.highest);
        let number = match request.number {
            Some(number) => number,
            None if highest.0 == u64::MAX => return Err(Refusal::BadArgument(BadArgument::NumberReused)),
            None => RequestNumber(mark.0.max(highest.0 + 1)),
        };
        let id = AcquisitionId { session: request.session, number };
        if let Some(known) = self.known(id) {
            let known = &self.requests[known];
            if known.asked.as_ref().is_some_and(|known| !same(known, (request, terms))) {
                return Err(Refusal::BadArgument(BadArgument::NumberReused));
            }
            return self.repeated(known);
        }
        if number < mark {
            return Err(Refusal::BelowMark { mark });
        }
        self.well_formed(request, terms, number)?;
        self.room_for_outcome(id.session)?;
        let fate = self.fate(request, id);
        self.seen(id);
        let (state, parts) = match &fate {
            Ok(parts) => (State::Waits, parts.clone()),
            Err(refusal) => (State::Refused(refusal.clone()), Vec::new()),
        };
        self.requests.push(self.arrived(id, request, terms, state, parts));
        fate?;
        for part in &request.parts {
            if self.capacity(&part.lock).is_none() {
                let capacity = Capacity { lock: part.lock.clone(), slots: part.capacity, set: false };
                self.capacities.push(capacity);
            }
        }
        let at = self.requests.len() - 1;
        // What is free goes to the one who has just queued for it.
        if self.fits(&self.requests[at]) {
            self.grant(at);
        } else {
            let locks = request.parts.iter().map(|part| part.lock.clone()).collect();
            self.happened.push(Happened::Queued(id, locks));
        }
        self.repeated(&self.requests[at])
    }

    fn arrived(
        &self,
        id: AcquisitionId,
        request: &Acquire,
        terms: &Terms,
        state: State,
        parts: Vec<AcquirePart>,
    ) -> Request {
        Request {
            id,
            asked: Some((request.clone(), terms.clone())),
            parts,
            metadata: terms.metadata.clone(),
            metadata_revision: 0,
            reports: (None, None, 0),
            arrived: self.now,
            grant: LogIndex(0),
            state,
            holds: Vec::new(),
        }
    }

    /// The request of this number, where the cluster still knows it.
    pub(super) fn known(&self, id: AcquisitionId) -> Option<usize> {
        let mark = self.session(id.session)?.mark;
        self.requests.iter().position(|r| r.id == id && (r.is_open() || id.number >= mark))
    }

    pub(super) fn seen(&mut self, id: AcquisitionId) {
        if let Some(session) = self.live(id.session) {
            session.highest = session.highest.max(id.number);
        }
    }

    /// The answer to a request that is known.
    fn repeated(&self, known: &Request) -> Result<Reply, Refusal> {
        match &known.state {
            State::Waits | State::Kept(_) => {
                let place = |part: &AcquirePart| {
                    let ahead = self.waiters(&part.lock);
                    ahead.iter().take_while(|id| **id != known.id).count() as u32 + 1
                };
                let place = match known.state {
                    State::Waits => known.parts.iter().map(place).max().unwrap_or(1),
                    _ => 1,
                };
                Ok(Reply::Queued { acquisition: known.id, place })
            }
            State::Holds => Ok(Reply::Granted(self.told(known))),
            State::Ended { how, at } => {
                let last = known.holds.iter().find(|hold| hold.end.is_some_and(|(_, end)| end == *at));
                let superseded = last.and_then(|hold| self.shown(&hold.lock, hold.slot));
                Err(Refusal::AlreadyEnded { ended: *how, superseded })
            }
            State::Refused(refusal) => Err(refusal.clone()),
        }
    }

    pub(super) fn room_for_outcome(&self, session: SessionId) -> Result<(), Refusal> {
        let mark = self.session(session).map_or(RequestNumber(0), |session| session.mark);
        let known = self.requests.iter().filter(|r| r.id.session == session && r.id.number >= mark).count();
        let max = self.limits.outcomes_per_session_max;
        if known >= max as usize {
            return Err(Refusal::LimitReached { limit: LimitName::OutcomesPerSession, max: max.into() });
        }
        Ok(())
    }

    /// Whether a new request may wait, if only until the end of this entry; its parts as the rules make them.
    fn fate(&self, request: &Acquire, id: AcquisitionId) -> Result<Vec<AcquirePart>, Refusal> {
        let full = |limit, max: u64| Err(Refusal::LimitReached { limit, max });
        let open = self.requests.iter().filter(|r| r.id.session == id.session && r.is_open()).count();
        let max = self.limits.acquisitions_per_session_max;
        if open >= max as usize {
            return full(LimitName::AcquisitionsPerSession, max.into());
        }
        let parts = request.parts.iter().map(|part| self.ruled(part)).collect::<Result<Vec<_>, _>>()?;
        let locks = self.locks();
        let mut new = 0;
        for part in &parts {
            match self.capacity(&part.lock) {
                None => {
                    new += 1;
                    if locks.len() as u64 + new > self.limits.locks_max {
                        return full(LimitName::Locks, self.limits.locks_max);
                    }
                }
                Some(_) => self.suits(part)?,
            }
        }
        let fits = |part: &AcquirePart| self.waiters(&part.lock).is_empty() && self.room(part).is_some();
        if let Some(part) = parts.iter().find(|part| !fits(part)) {
            if request.wait == Wait::Try {
                return Err(self.why_not(part));
            }
            let max = self.limits.waiters_per_lock_max;
            if parts.iter().any(|part| self.waiters(&part.lock).len() as u32 >= max) {
                return full(LimitName::WaitersPerLock, max.into());
            }
            if let Some(owner) = &request.owner
                && self.version.0 >= 2
            {
                let mut after = self.clone();
                after.requests.push(self.arrived(
                    id,
                    request,
                    &Terms::default(),
                    State::Waits,
                    parts.clone(),
                ));
                if after.is_in_cycle(&(id.session, owner.clone())) {
                    return Err(Refusal::WouldDeadlock(Cycle { steps: Vec::new() }));
                }
            }
        }
        Ok(parts)
    }

    /// Whether a part names the capacity in use, and no more permits than that.
    pub(super) fn suits(&self, part: &AcquirePart) -> Result<(), Refusal> {
        match self.capacity(&part.lock) {
            Some(lock) if lock.slots != part.capacity && !(lock.set && part.capacity > 1) => {
                Err(Refusal::CapacityDiffers { lock: lock.slots, asked: part.capacity })
            }
            Some(lock) if lock.slots < part.permits => {
                Err(Refusal::TooManyPermits { capacity: lock.slots, permits: part.permits })
            }
            _ => Ok(()),
        }
    }

    /// The rule of the longest prefix.
    pub(super) fn rule(&self, lock: &LockName) -> Option<&(LockPrefix, DelayRule)> {
        let fit = self.rules.iter().filter(|(prefix, _)| lock.as_str().starts_with(prefix.as_str()));
        fit.max_by_key(|(prefix, _)| prefix.as_str().len())
    }

    /// A part with the delay and the guards that the rule of its prefix gives it.
    fn ruled(&self, part: &AcquirePart) -> Result<AcquirePart, Refusal> {
        let mut part = part.clone();
        if let Some((prefix, rule)) = self.rule(&part.lock) {
            match part.delay {
                LockDelay::Named(delay) if delay < rule.least || delay > rule.most => {
                    let (least, most) = (rule.least, rule.most);
                    return Err(Refusal::DelayOutOfBounds { prefix: prefix.clone(), least, most });
                }
                LockDelay::Named(_) => {}
                LockDelay::Default(delay) => {
                    part.delay = LockDelay::Default(delay.clamp(rule.least, rule.most));
                }
            }
            if part.fenced_by.is_empty() {
                part.fenced_by.clone_from(&rule.fenced_by);
            }
        }
        Ok(part)
    }

    fn well_formed(&self, request: &Acquire, terms: &Terms, number: RequestNumber) -> Result<(), Refusal> {
        let bad = |what| Err(Refusal::BadArgument(what));
        if number.0 == 0 {
            return bad(BadArgument::NumberZero);
        }
        if request.parts.is_empty() || request.parts.len() > 64 {
            return bad(BadArgument::Parts);
        }
        if let Wait::Bounded(Millis(bound)) = request.wait
            && (bound == 0 || bound > 86_400_000)
        {
            return bad(BadArgument::Wait);
        }
        for deadline in terms.hold_max.iter().chain(&terms.progress_every) {
            if deadline.0 < 1_000 || deadline.0 > 30 * 86_400_000 {
                return bad(BadArgument::Deadline);
            }
        }
        for (at, part) in request.parts.iter().enumerate() {
            let wrong = if request.parts[..at].iter().any(|earlier| earlier.lock == part.lock) {
                Some(BadArgument::LockTwice)
            } else if part.capacity == 0 || part.capacity > 10_000 {
                Some(BadArgument::Capacity)
            } else if part.permits == 0 || part.permits > part.capacity {
                Some(BadArgument::Permits)
            } else if part.delay.millis().0 > 60_000 {
                Some(BadArgument::LockDelay)
            } else if part.fenced_by.len() > 16 {
                Some(BadArgument::Guards)
            } else {
                None
            };
            if let Some(what) = wrong {
                return bad(what);
            }
            match (part.mode, part.capacity) {
                (Mode::Shared, _) if self.version.0 < 2 => return Err(Refusal::NotYet(NotYet::SharedMode)),
                (_, 2..) if self.version.0 < 2 => return Err(Refusal::NotYet(NotYet::Semaphores)),
                (Mode::Shared, 2..) => return bad(BadArgument::Mode),
                _ => {}
            }
        }
        if request.parts.len() > 1 && self.version.0 < 2 {
            return Err(Refusal::NotYet(NotYet::SeveralLocks));
        }
        Ok(())
    }
}

/// Whether two copies of a request ask the same.
fn same(known: &(Acquire, Terms), again: (&Acquire, &Terms)) -> bool {
    content(&known.0) == content(again.0) && known.1 == *again.1
}

/// What must be the same in every copy of a request.
fn content(request: &Acquire) -> Acquire {
    let mut content = Acquire { number: None, mark: RequestNumber(0), ..request.clone() };
    for part in &mut content.parts {
        if let LockDelay::Default(_) = part.delay {
            part.delay = LockDelay::Default(Millis(0));
        }
    }
    content
}
