//! A naive reference of sessions, exclusive locks, queues, waits, delays and exactly-once memory.
//!
//! It forgets nothing: every request that ever took effect stays in one list with how it ended, and what the cluster
//! may still know of it is worked out when it is asked. Left out: keys, and everything that cluster version 1 refuses.

use palisade_core::command::{
    Acquire, Command, EndLockDelay, EndWait, ExpireSessions, LeaderReady, OpenSession, Wait,
};
use palisade_core::history::EndedHold;
use palisade_core::ids::{
    AcquisitionId, ClientName, LockName, LogIndex, Millis, Principal, RequestNumber, SecretHash, SessionId,
    Slot, WallTime,
};
use palisade_core::limits::{HISTORY_MAX, Limits};
use palisade_core::mode::Mode;
use palisade_core::reply::{BadArgument, Ended, HolderView, LimitName, NotYet, Refusal, Reply};
use palisade_core::table::Presented;
use palisade_core::token::{Token, TokenBase};

use super::past::PastHolds;

pub(super) struct Reference {
    pub(super) limits: Limits,
    pub(super) base: TokenBase,
    pub(super) leader: Option<(LeaderReady, LogIndex)>,
    pub(super) sessions: Vec<Session>,
    /// In the order in which they ended.
    pub(super) ended: Vec<SessionId>,
    /// In the order in which they arrived.
    pub(super) requests: Vec<Request>,
    /// Those that run.
    pub(super) delays: Vec<Delay>,
    pub(super) past: PastHolds,
    now: LogIndex,
    wall: WallTime,
    pub(super) happened: Vec<Happened>,
}

pub(super) struct Session {
    pub(super) id: SessionId,
    secret: SecretHash,
    owner: Principal,
    client: ClientName,
    ttl: Millis,
    pub(super) last_command: LogIndex,
    pub(super) mark: RequestNumber,
    pub(super) highest: RequestNumber,
    pub(super) end: Option<Ended>,
}

pub(super) struct Request {
    pub(super) id: AcquisitionId,
    /// None when only a cancel came.
    pub(super) content: Option<Acquire>,
    pub(super) state: State,
}

#[derive(Clone, PartialEq)]
pub(super) enum State {
    Waits,
    Holds { token: Token, since: LogIndex, since_wall: WallTime },
    Ended { how: Ended, token: Option<Token> },
    Refused(Refusal),
}

pub(super) struct Delay {
    pub(super) lock: LockName,
    pub(super) began: LogIndex,
    pub(super) delay: Millis,
    pub(super) ended: Token,
}

/// What an entry did, in an order of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happened {
    Opened(SessionId),
    SessionEnded(SessionId, Ended),
    Queued(AcquisitionId),
    Granted(AcquisitionId, LockName, Token),
    HoldEnded(AcquisitionId, LockName, Token, Ended),
    WaitEnded(AcquisitionId, Ended),
    DelayStarted(LockName, Millis),
    DelayEnded(LockName, LogIndex),
}

/// What is so of a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Truth {
    Current,
    Over(Ended),
    Never,
}

impl Request {
    pub(super) fn part(&self) -> Option<&palisade_core::command::AcquirePart> {
        self.content.as_ref().map(|content| &content.parts[0])
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Waits | State::Holds { .. })
    }

    pub(super) fn names(&self, lock: &LockName) -> bool {
        self.part().is_some_and(|part| part.lock == *lock)
    }
}

impl Reference {
    pub(super) fn new(limits: Limits, base: TokenBase) -> Self {
        Self {
            limits,
            base,
            leader: None,
            sessions: Vec::new(),
            ended: Vec::new(),
            requests: Vec::new(),
            delays: Vec::new(),
            past: PastHolds::default(),
            now: LogIndex(0),
            wall: WallTime(0),
            happened: Vec::new(),
        }
    }

    /// The reply, and what happened, sorted.
    pub(super) fn apply(
        &mut self,
        now: LogIndex,
        wall: WallTime,
        command: &Command,
    ) -> (Reply, Vec<Happened>) {
        (self.now, self.wall) = (now, wall);
        let reply = match command {
            Command::LeaderReady(ready) => self.leader_ready(ready),
            Command::OpenSession(open) => self.open(open),
            Command::CloseSession(close) => self.close(close.session),
            Command::ExpireSessions(expire) => self.expire(expire),
            Command::Acquire(acquire) => self.acquire(acquire).unwrap_or_else(Reply::Refused),
            Command::Release(release) => self.release(release).unwrap_or_else(Reply::Refused),
            Command::Cancel(cancel) => self.cancel(cancel.acquisition).unwrap_or_else(Reply::Refused),
            Command::EndLockDelay(end) => self.end_lock_delay(end),
            Command::EndWait(end) => self.end_wait(end),
            Command::SetHistory(sizes) => {
                if sizes.expired_max.max(sizes.others_max) > HISTORY_MAX {
                    Reply::Refused(Refusal::BadArgument(BadArgument::HistorySize))
                } else {
                    self.past.resize(*sizes);
                    Reply::Done
                }
            }
            // A second founding changes nothing; keys are not modelled.
            Command::Found(_) | Command::PublishKey(_) => Reply::Done,
            _ => Reply::Refused(Refusal::NotYet(NotYet::ThisCommand)),
        };
        self.grant_all();
        self.happened.sort();
        (reply, std::mem::take(&mut self.happened))
    }

    pub(super) fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.iter().find(|session| session.id == id && session.end.is_none())
    }

    pub(super) fn holder(&self, lock: &LockName) -> Option<&Request> {
        self.requests
            .iter()
            .find(|request| request.names(lock) && matches!(request.state, State::Holds { .. }))
    }

    pub(super) fn waiters(&self, lock: &LockName) -> Vec<AcquisitionId> {
        let waiters = self.requests.iter().filter(|r| r.names(lock) && r.state == State::Waits);
        waiters.map(|request| request.id).collect()
    }

    pub(super) fn delay(&self, lock: &LockName) -> Option<&Delay> {
        self.delays.iter().find(|delay| delay.lock == *lock)
    }

    /// Names that are held, awaited or in lock-delay.
    pub(super) fn locks(&self) -> Vec<LockName> {
        let open = self.requests.iter().filter(|request| request.is_open()).filter_map(Request::part);
        let mut names: Vec<_> = open.map(|part| part.lock.clone()).collect();
        names.extend(self.delays.iter().map(|delay| delay.lock.clone()));
        names.sort();
        names.dedup();
        names
    }

    pub(super) fn truth(&self, claim: &Presented) -> Truth {
        let request = self.requests.iter().find(|request| request.id == claim.acquisition);
        let Some(request) = request.filter(|r| r.names(&claim.lock)) else { return Truth::Never };
        if claim.mode != Mode::Exclusive || claim.slot != Slot(0) {
            return Truth::Never;
        }
        match &request.state {
            State::Holds { token, .. } if *token == claim.token => Truth::Current,
            State::Ended { how, token: Some(token) } if *token == claim.token => Truth::Over(*how),
            _ => Truth::Never,
        }
    }

    /// Whether the cluster must know in full what became of this number.
    pub(super) fn is_remembered(&self, id: AcquisitionId) -> bool {
        let open = self.requests.iter().any(|request| request.id == id && request.is_open());
        open || self.session(id.session).is_some_and(|session| id.number >= session.mark)
    }

    fn leader_ready(&mut self, ready: &LeaderReady) -> Reply {
        match &self.leader {
            Some((known, _)) if known == ready || ready.term < known.term => {}
            _ => self.leader = Some((ready.clone(), self.now)),
        }
        Reply::Done
    }

    fn in_force(&self, epoch: LogIndex) -> bool {
        self.leader.as_ref().is_some_and(|(_, began)| *began == epoch)
    }

    fn open(&mut self, open: &OpenSession) -> Reply {
        let now = self.now;
        if let Some(known) = self.sessions.iter_mut().find(|s| s.secret == open.secret && s.end.is_none()) {
            if known.owner != open.owner {
                return Reply::Refused(Refusal::SecretTaken);
            }
            known.last_command = now;
            return Reply::SessionOpened { session: known.id, ttl: known.ttl };
        }
        if open.ttl.0 < 2_000 || open.ttl.0 > 86_400_000 {
            return Reply::Refused(Refusal::BadArgument(BadArgument::Ttl));
        }
        let (live, max) =
            (self.sessions.iter().filter(|s| s.end.is_none()).count(), self.limits.sessions_max);
        if live as u64 >= max {
            return Reply::Refused(Refusal::LimitReached { limit: LimitName::Sessions, max });
        }
        let id = SessionId(self.base.get() + now.0);
        self.sessions.push(Session {
            id,
            secret: open.secret,
            owner: open.owner.clone(),
            client: open.client.clone(),
            ttl: open.ttl,
            last_command: now,
            mark: RequestNumber(0),
            highest: RequestNumber(0),
            end: None,
        });
        self.happened.push(Happened::Opened(id));
        Reply::SessionOpened { session: id, ttl: open.ttl }
    }

    fn close(&mut self, id: SessionId) -> Reply {
        if self.session(id).is_some() {
            self.end_session(id, Ended::Closed);
            return Reply::SessionClosed;
        }
        match self.gone(id, None) {
            Refusal::SessionEnded { ended: Ended::Closed, .. } => Reply::SessionClosed,
            refusal => Reply::Refused(refusal),
        }
    }

    fn expire(&mut self, expire: &ExpireSessions) -> Reply {
        if self.in_force(expire.epoch) {
            for (id, last) in &expire.sessions {
                if self.session(*id).is_some_and(|session| session.last_command == *last) {
                    self.end_session(*id, Ended::Expired);
                }
            }
        }
        Reply::Done
    }

    fn end_session(&mut self, id: SessionId, how: Ended) {
        for session in self.sessions.iter_mut().filter(|session| session.id == id) {
            session.end = Some(how);
        }
        self.ended.push(id);
        self.happened.push(Happened::SessionEnded(id, how));
        let mut of_session: Vec<usize> =
            (0..self.requests.len()).filter(|at| self.requests[*at].id.session == id).collect();
        of_session.sort_by_key(|at| self.requests[*at].id.number);
        for at in of_session {
            self.end(at, how);
        }
    }

    /// Ends a request that waits or holds; of any other, nothing.
    pub(super) fn end(&mut self, at: usize, how: Ended) {
        let request = &mut self.requests[at];
        let Some(part) = request.content.as_ref().map(|content| content.parts[0].clone()) else { return };
        match request.state {
            State::Waits => {
                request.state = State::Ended { how, token: None };
                self.happened.push(Happened::WaitEnded(request.id, how));
            }
            State::Holds { token, since, since_wall } => {
                let session = self.sessions.iter().find(|session| session.id == request.id.session);
                let ended = EndedHold {
                    number: 0,
                    lock: part.lock.clone(),
                    slot: Slot(0),
                    mode: Mode::Exclusive,
                    acquisition: request.id,
                    client: session.map_or_else(ClientName::unnamed, |session| session.client.clone()),
                    token,
                    grant: since,
                    granted_at: since_wall,
                    ended: how,
                    end: self.now,
                    ended_at: self.wall,
                };
                self.past.end(ended, self.limits.predecessors_max);
                request.state = State::Ended { how, token: Some(token) };
                self.happened.push(Happened::HoldEnded(request.id, part.lock.clone(), token, how));
                let delay = part.delay.millis();
                if how == Ended::Expired && delay > Millis(0) {
                    self.happened.push(Happened::DelayStarted(part.lock.clone(), delay));
                    self.delays.push(Delay { lock: part.lock, began: self.now, delay, ended: token });
                }
            }
            State::Ended { .. } | State::Refused(_) => {}
        }
    }

    fn end_lock_delay(&mut self, end: &EndLockDelay) -> Reply {
        let ends = |delay: &Delay| delay.lock == end.lock && delay.began == end.began && end.slot == Slot(0);
        if self.in_force(end.epoch) && self.delays.iter().any(ends) {
            self.delays.retain(|delay| !ends(delay));
            self.happened.push(Happened::DelayEnded(end.lock.clone(), end.began));
        }
        Reply::Done
    }

    fn end_wait(&mut self, end: &EndWait) -> Reply {
        let bounded = |request: &Request| {
            let wait = request.content.as_ref().map(|content| content.wait);
            request.id == end.acquisition
                && request.state == State::Waits
                && matches!(wait, Some(Wait::Bounded(_)))
        };
        if self.in_force(end.epoch)
            && let Some(at) = self.requests.iter().position(bounded)
        {
            self.end(at, Ended::TimedOut);
        }
        Reply::Done
    }

    /// The refusal for a session that is not live.
    fn gone(&self, id: SessionId, named: Option<&LockName>) -> Refusal {
        let known = self.limits.ended_sessions_max as usize;
        let end = self.sessions.iter().find(|session| session.id == id).and_then(|session| session.end);
        let remembered = self.ended.iter().rev().take(known).any(|ended| *ended == id);
        match end.filter(|_| remembered) {
            Some(ended) => {
                Refusal::SessionEnded { ended, superseded: named.and_then(|lock| self.shown(lock)) }
            }
            None => Refusal::SessionUnknown,
        }
    }

    /// A command of a session: it must be live, and has now been heard from.
    pub(super) fn heard(&mut self, id: SessionId, named: Option<&LockName>) -> Result<&mut Session, Refusal> {
        let now = self.now;
        if self.session(id).is_none() {
            return Err(self.gone(id, named));
        }
        let session = self.sessions.iter_mut().find(|session| session.id == id);
        let session = session.ok_or(Refusal::SessionUnknown)?;
        session.last_command = now;
        Ok(session)
    }

    pub(super) fn shown(&self, lock: &LockName) -> Option<Box<HolderView>> {
        let holder = self.holder(lock)?;
        let State::Holds { token, since, since_wall } = holder.state else { return None };
        Some(Box::new(HolderView {
            acquisition: holder.id,
            client: self.session(holder.id.session)?.client.clone(),
            mode: Mode::Exclusive,
            token,
            grant_index: self.base.get() + since.0,
            granted_at: since_wall,
        }))
    }

    pub(super) fn grant(&mut self, at: usize) {
        let token = self.base.token(self.now);
        let request = &mut self.requests[at];
        request.state = State::Holds { token, since: self.now, since_wall: self.wall };
        let lock = request.part().map(|part| part.lock.clone());
        self.happened.extend(lock.map(|lock| Happened::Granted(self.requests[at].id, lock, token)));
    }

    /// Every lock that is neither held nor closed goes to the first of its queue.
    fn grant_all(&mut self) {
        for lock in self.locks() {
            if self.holder(&lock).is_some() || self.delay(&lock).is_some() {
                continue;
            }
            if let Some(at) = self.requests.iter().position(|r| r.names(&lock) && r.state == State::Waits) {
                self.grant(at);
            }
        }
    }
}
