//! What the reference does with the requests of a session: acquire, release, cancel (SPEC 4 and 6).

use palisade_core::command::{Acquire, LockDelay, Release, Wait};
use palisade_core::ids::{AcquisitionId, Millis, RequestNumber, SessionId, Slot};
use palisade_core::mode::Mode;
use palisade_core::reply::{
    BadArgument, CancelMet, Ended, Grant, GrantedPart, LimitName, NotYet, Refusal, Reply,
};

use super::reference::{Happened, Reference, Request, State};

impl Reference {
    pub(super) fn acquire(&mut self, request: &Acquire) -> Result<Reply, Refusal> {
        let session = self.heard(request.session, None)?;
        session.mark = session.mark.max(request.mark);
        let (mark, highest) = (session.mark, session.highest);
        let number = match request.number {
            Some(number) => number,
            None if highest.0 == u64::MAX => return Err(Refusal::BadArgument(BadArgument::NumberReused)),
            None => RequestNumber(mark.0.max(highest.0 + 1)),
        };
        let id = AcquisitionId { session: request.session, number };
        if let Some(known) = self.requests.iter().find(|r| r.id == id && (r.is_open() || number >= mark)) {
            if known.content.as_ref().is_some_and(|known| content(known) != content(request)) {
                return Err(Refusal::BadArgument(BadArgument::NumberReused));
            }
            return self.repeated(known);
        }
        if number < mark {
            return Err(Refusal::BelowMark { mark });
        }
        well_formed(request, number)?;
        self.room_for_outcome(id.session)?;
        let fate = self.fate(request, id.session);
        if let Some(session) = self.sessions.iter_mut().find(|session| session.id == id.session) {
            session.highest = session.highest.max(number);
        }
        let state = match &fate {
            Ok(()) => State::Waits,
            Err(refusal) => State::Refused(refusal.clone()),
        };
        self.requests.push(Request { id, content: Some(request.clone()), state });
        fate?;
        // A lock that is free goes to the one who has just queued for it.
        let lock = &request.parts[0].lock;
        if self.waiters(lock) == [id] && self.holder(lock).is_none() && self.delay(lock).is_none() {
            self.grant(self.requests.len() - 1);
        } else {
            self.happened.push(Happened::Queued(id));
        }
        self.repeated(&self.requests[self.requests.len() - 1])
    }

    /// The answer to a request that is known.
    fn repeated(&self, known: &Request) -> Result<Reply, Refusal> {
        let lock = known.part().map(|part| &part.lock);
        match &known.state {
            State::Waits => {
                let ahead = lock.map(|lock| self.waiters(lock)).unwrap_or_default();
                let place = ahead.iter().position(|id| *id == known.id).unwrap_or_default() as u32 + 1;
                Ok(Reply::Queued { acquisition: known.id, place })
            }
            State::Holds { token, since, .. } => {
                let parts = known.part().map(|part| GrantedPart {
                    lock: part.lock.clone(),
                    slot: Slot(0),
                    mode: Mode::Exclusive,
                    token: *token,
                    delay: part.delay.millis(),
                    inherited: self.past.inherited(&part.lock),
                });
                let grant_index = self.base.get() + since.0;
                Ok(Reply::Granted(Grant {
                    acquisition: known.id,
                    grant_index,
                    parts: parts.into_iter().collect(),
                    hold_max: None,
                    progress_every: None,
                }))
            }
            State::Ended { how, token } => {
                let superseded = token.and(lock).and_then(|lock| self.shown(lock));
                Err(Refusal::AlreadyEnded { ended: *how, superseded })
            }
            State::Refused(refusal) => Err(refusal.clone()),
        }
    }

    fn room_for_outcome(&self, session: SessionId) -> Result<(), Refusal> {
        let mark = self.session(session).map_or(RequestNumber(0), |session| session.mark);
        let known = self.requests.iter().filter(|r| r.id.session == session && r.id.number >= mark).count();
        let max = self.limits.outcomes_per_session_max;
        if known >= max as usize {
            return Err(Refusal::LimitReached { limit: LimitName::OutcomesPerSession, max: max.into() });
        }
        Ok(())
    }

    /// Whether a new request may wait, if only until the end of this entry.
    fn fate(&self, request: &Acquire, session: SessionId) -> Result<(), Refusal> {
        let lock = &request.parts[0].lock;
        let full = |limit, max| Err(Refusal::LimitReached { limit, max });
        let open = self.requests.iter().filter(|r| r.id.session == session && r.is_open()).count();
        if open >= self.limits.acquisitions_per_session_max as usize {
            return full(LimitName::AcquisitionsPerSession, self.limits.acquisitions_per_session_max.into());
        }
        let locks = self.locks();
        if !locks.contains(lock) {
            let room = (locks.len() as u64) < self.limits.locks_max;
            return if room { Ok(()) } else { full(LimitName::Locks, self.limits.locks_max) };
        }
        let waiting = self.waiters(lock).len() as u32;
        if request.wait == Wait::Try {
            if let Some(holder) = self.shown(lock) {
                return Err(Refusal::Held { holder, waiting });
            }
            if let Some(delay) = self.delay(lock) {
                let began = self.base.get() + delay.began.0;
                return Err(Refusal::InLockDelay { began, delay: delay.delay, ended: delay.ended });
            }
            return Err(Refusal::Queue { waiting });
        }
        if waiting >= self.limits.waiters_per_lock_max {
            return full(LimitName::WaitersPerLock, self.limits.waiters_per_lock_max.into());
        }
        Ok(())
    }

    pub(super) fn release(&mut self, release: &Release) -> Result<Reply, Refusal> {
        let id = release.acquisition;
        let named = release.part.as_ref().filter(|part| part.1 == Slot(0)).map(|part| part.0.clone());
        let session = self.heard(id.session, named.as_ref())?;
        let (mark, highest) = (session.mark, session.highest);
        let others = || {
            let holder = named.as_ref().and_then(|lock| self.shown(lock));
            Refusal::NotHeld { superseded: holder.filter(|holder| holder.acquisition != id) }
        };
        let at = self.requests.iter().position(|r| r.id == id && (r.is_open() || id.number >= mark));
        let Some(at) = at else {
            let passed = id.number < mark && id.number <= highest;
            return if passed { Ok(Reply::Released(Ended::Forgotten)) } else { Err(others()) };
        };
        let request = &self.requests[at];
        let lock = request.part().map(|part| part.lock.clone());
        let is_named = release.part.is_none() || (named.is_some() && named == lock);
        match &request.state {
            State::Holds { token, .. } if is_named && *token == release.token => {
                self.end(at, Ended::Released);
                Ok(Reply::Released(Ended::Released))
            }
            State::Ended { how, token } if is_named && *token == Some(release.token) => match how {
                Ended::Released | Ended::Cancelled => Ok(Reply::Released(*how)),
                _ => {
                    Err(Refusal::AlreadyEnded { ended: *how, superseded: lock.and_then(|l| self.shown(&l)) })
                }
            },
            _ => Err(others()),
        }
    }

    pub(super) fn cancel(&mut self, id: AcquisitionId) -> Result<Reply, Refusal> {
        let mark = self.heard(id.session, None)?.mark;
        let known = self.requests.iter().position(|r| r.id == id && (r.is_open() || id.number >= mark));
        if let Some(at) = known {
            let met = match &self.requests[at].state {
                State::Waits => CancelMet::Waiting,
                State::Holds { .. } => CancelMet::Holding,
                State::Ended { how, .. } => CancelMet::Ended(*how),
                State::Refused(_) => CancelMet::Ended(Ended::Refused),
            };
            self.end(at, Ended::Cancelled);
            return Ok(Reply::Cancelled(met));
        }
        if id.number == RequestNumber(0) {
            return Err(Refusal::BadArgument(BadArgument::NumberZero));
        }
        if id.number < mark {
            return Ok(Reply::Cancelled(CancelMet::Ended(Ended::Forgotten)));
        }
        self.room_for_outcome(id.session)?;
        if let Some(session) = self.sessions.iter_mut().find(|session| session.id == id.session) {
            session.highest = session.highest.max(id.number);
        }
        let state = State::Ended { how: Ended::Cancelled, token: None };
        self.requests.push(Request { id, content: None, state });
        Ok(Reply::Cancelled(CancelMet::NotArrived))
    }
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

fn well_formed(request: &Acquire, number: RequestNumber) -> Result<(), Refusal> {
    let [part] = request.parts.as_slice() else {
        let what = if number.0 == 0 { BadArgument::NumberZero } else { BadArgument::Parts };
        let none = number.0 == 0 || request.parts.is_empty();
        return Err(if none { Refusal::BadArgument(what) } else { Refusal::NotYet(NotYet::SeveralLocks) });
    };
    let wrong = match request.wait {
        _ if number.0 == 0 => Some(BadArgument::NumberZero),
        Wait::Bounded(Millis(0)) => Some(BadArgument::Wait),
        Wait::Bounded(Millis(bound)) if bound > 86_400_000 => Some(BadArgument::Wait),
        _ if part.capacity == 0 || part.capacity > 10_000 => Some(BadArgument::Capacity),
        _ if part.permits == 0 || part.permits > part.capacity => Some(BadArgument::Permits),
        _ if part.delay.millis().0 > 60_000 => Some(BadArgument::LockDelay),
        _ => None,
    };
    if let Some(what) = wrong {
        return Err(Refusal::BadArgument(what));
    }
    if part.mode == Mode::Shared {
        return Err(Refusal::NotYet(NotYet::SharedMode));
    }
    if part.capacity > 1 {
        return Err(Refusal::NotYet(NotYet::Semaphores));
    }
    Ok(())
}
