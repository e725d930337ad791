//! A naive reference of sessions, locks, queues, waits, delays and exactly-once memory.
//!
//! It forgets nothing: every request that ever took effect stays in one list with all that it ever held and how that
//! ended, and what the cluster may still know of it is worked out when it is asked. Left out: keys.

use palisade_core::command::{Acquire, AcquirePart, ClusterVersion, Command, LeaderReady, Terms};
use palisade_core::ids::{
    AcquisitionId, ClientName, GuardName, LockName, LockPrefix, LogIndex, Millis, Principal, RequestNumber,
    SecretHash, SessionId, Slot, WallTime,
};
use palisade_core::limits::{Limits, MoreLimits};
use palisade_core::lock::DelayRule;
use palisade_core::mode::Mode;
use palisade_core::payload::Payload;
use palisade_core::reply::{Ended, HolderView, NotYet, Refusal, Reply, TookOver};
use palisade_core::table::Ticks;
use palisade_core::token::{Token, TokenBase};

use super::past::{PastHolds, PastSlots};

#[derive(Clone)]
pub(super) struct Reference {
    pub(super) limits: Limits,
    pub(super) more: MoreLimits,
    pub(super) base: TokenBase,
    pub(super) version: ClusterVersion,
    pub(super) leader: Option<(LeaderReady, LogIndex)>,
    pub(super) ticks: Ticks,
    pub(super) sessions: Vec<Session>,
    /// Those that are known to have ended, in the order of that.
    pub(super) ended: Vec<SessionId>,
    /// In the order in which they arrived; those that were taken over again in the order of that.
    pub(super) requests: Vec<Request>,
    /// Those that run.
    pub(super) delays: Vec<Delay>,
    /// Of locks in use.
    pub(super) capacities: Vec<Capacity>,
    pub(super) rules: Vec<(LockPrefix, DelayRule)>,
    pub(super) past: PastHolds,
    pub(super) slots: PastSlots,
    pub(super) now: LogIndex,
    pub(super) wall: WallTime,
    pub(super) happened: Vec<Happened>,
    /// Waiters that the table says it ended to break cycles: which of a cycle's waits is not for the reference to say.
    pub(super) deadlocked: Vec<AcquisitionId>,
}

#[derive(Clone)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) secret: SecretHash,
    pub(super) owner: Principal,
    pub(super) client: ClientName,
    pub(super) ttl: Millis,
    pub(super) last_command: LogIndex,
    /// Ticks counted by then.
    pub(super) ticks: u64,
    pub(super) mark: RequestNumber,
    pub(super) highest: RequestNumber,
    pub(super) took_over: Option<TookOver>,
    pub(super) end: Option<Ended>,
}

#[derive(Clone)]
pub(super) struct Request {
    pub(super) id: AcquisitionId,
    /// As it came; none when only a cancel came.
    pub(super) asked: Option<(Acquire, Terms)>,
    /// What it waits for: as it came, with the delays and guards that rules put in.
    pub(super) parts: Vec<AcquirePart>,
    pub(super) metadata: Payload,
    pub(super) metadata_revision: u64,
    /// The first, the last, and the holder's number of it.
    pub(super) reports: (Option<LogIndex>, Option<LogIndex>, u64),
    /// Its place in queues.
    pub(super) arrived: LogIndex,
    /// The entry that gave it its present tenure.
    pub(super) grant: LogIndex,
    pub(super) state: State,
    /// Everything that it ever held, in the order of its parts.
    pub(super) holds: Vec<Hold>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    Waits,
    /// Its slots are closed for a while, and then its own.
    Kept(Vec<(LockName, Slot)>),
    Holds,
    Ended {
        how: Ended,
        at: LogIndex,
    },
    Refused(Refusal),
}

/// One slot that a request held.
#[derive(Clone)]
pub(super) struct Hold {
    pub(super) lock: LockName,
    pub(super) slot: Slot,
    pub(super) mode: Mode,
    pub(super) token: Token,
    pub(super) since: LogIndex,
    pub(super) since_wall: WallTime,
    pub(super) delay: Millis,
    pub(super) guards: Vec<GuardName>,
    pub(super) downgraded_from: Option<Token>,
    pub(super) baton_revision: u64,
    pub(super) end: Option<(Ended, LogIndex)>,
    /// How long the slot must stay closed for its sake.
    pub(super) owed: Option<Millis>,
}

#[derive(Clone)]
pub(super) struct Delay {
    pub(super) lock: LockName,
    pub(super) slot: Slot,
    pub(super) began: LogIndex,
    pub(super) delay: Millis,
    pub(super) ended: Token,
    pub(super) guards: Vec<GuardName>,
    pub(super) confirmed: Vec<GuardName>,
    pub(super) kept_for: Option<AcquisitionId>,
}

#[derive(Clone)]
pub(super) struct Capacity {
    pub(super) lock: LockName,
    pub(super) slots: u32,
    /// By an operator.
    pub(super) set: bool,
}

/// What an entry did, in an order of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happened {
    Opened(SessionId),
    SessionEnded(SessionId, Ended),
    TakenOver(SessionId, SessionId),
    Kept(SessionId),
    Queued(AcquisitionId, Vec<LockName>),
    Granted(AcquisitionId, Vec<(LockName, Slot, Mode, Token)>),
    HoldEnded(AcquisitionId, LockName, Slot, Token, Ended),
    WaitEnded(AcquisitionId, Ended),
    DelayStarted(LockName, Slot, Millis),
    DelayEnded(LockName, Slot, LogIndex),
    Metadata(AcquisitionId, Payload),
    Progress(AcquisitionId),
    Ticked,
    Broken(LockName, Slot, Token, Principal),
    CapacitySet(LockName, u32),
    Confirmed(LockName, Slot, GuardName),
    Version(ClusterVersion),
}

impl Request {
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Waits | State::Kept(_) | State::Holds)
    }

    pub(super) fn names(&self, lock: &LockName) -> bool {
        self.parts.iter().any(|part| part.lock == *lock)
    }

    pub(super) fn terms(&self) -> Terms {
        self.asked.as_ref().map(|(_, terms)| terms.clone()).unwrap_or_default()
    }

    /// What it holds now.
    pub(super) fn held(&self) -> impl Iterator<Item = &Hold> {
        self.holds.iter().filter(|hold| hold.end.is_none())
    }

    pub(super) fn holds_slot(&self, lock: &LockName, slot: Slot) -> Option<&Hold> {
        self.held().find(|hold| hold.lock == *lock && hold.slot == slot)
    }
}

impl Reference {
    pub(super) fn new(limits: Limits, base: TokenBase, version: ClusterVersion) -> Self {
        Self {
            limits,
            more: MoreLimits::default(),
            base,
            version,
            leader: None,
            ticks: Ticks::default(),
            sessions: Vec::new(),
            ended: Vec::new(),
            requests: Vec::new(),
            delays: Vec::new(),
            capacities: Vec::new(),
            rules: Vec::new(),
            past: PastHolds::default(),
            slots: PastSlots::default(),
            now: LogIndex(0),
            wall: WallTime(0),
            happened: Vec::new(),
            deadlocked: Vec::new(),
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
        let reply = self.answer(command).unwrap_or_else(Reply::Refused);
        self.grant_all();
        let in_use = self.locks();
        self.capacities.retain(|capacity| in_use.contains(&capacity.lock));
        self.happened.sort();
        (reply, std::mem::take(&mut self.happened))
    }

    fn answer(&mut self, command: &Command) -> Result<Reply, Refusal> {
        if self.version.0 < 2 && command.format() > 1 && !matches!(command, Command::SetVersion(_)) {
            if let Some(session) = command.session() {
                let _ = self.heard(session, None);
            }
            return Err(Refusal::NotYet(NotYet::ThisCommand));
        }
        match command {
            Command::LeaderReady(ready) => Ok(self.leader_ready(ready)),
            Command::OpenSession(open) => self.open(open),
            Command::CloseSession(close) => self.close(close.session),
            Command::ExpireSessions(expire) => Ok(self.expire(expire)),
            Command::KeepSessions(keep) => self.keep(keep),
            Command::Tick(tick) => Ok(self.tick(tick)),
            Command::Acquire(acquire) => self.acquire(acquire, &Terms::default()),
            Command::AcquireOnTerms(asked) => self.acquire(&asked.acquire, &asked.terms),
            Command::Release(release) => self.release(release),
            Command::Cancel(cancel) => self.cancel(cancel.acquisition),
            Command::Downgrade(downgrade) => self.downgrade(downgrade),
            Command::HandOver(hand_over) => self.hand_over(hand_over),
            Command::SetMetadata(set) => self.set_metadata(set),
            Command::SetBaton(set) => self.set_baton(set),
            Command::ReportProgress(report) => self.report(report),
            Command::EndOverdue(end) => Ok(self.end_overdue(end)),
            Command::EndLockDelay(end) => Ok(self.end_lock_delay(end)),
            Command::EndWait(end) => Ok(self.end_wait(end)),
            Command::BreakLock(broken) => self.break_lock(broken),
            Command::EndSession(end) => self.stop(end),
            Command::SetCapacity(set) => self.set_capacity(set),
            Command::SetDelayRule(set) => self.set_rule(set),
            Command::SetLimits(set) => self.set_limits(set),
            Command::SetVersion(set) => self.set_version(set),
            Command::ConfirmFloor(confirm) => self.confirm(confirm),
            Command::SetHistory(sizes) => self.set_history(*sizes),
            // A second founding changes nothing; keys are not modelled.
            Command::Found(_) | Command::PublishKey(_) => Ok(Reply::Done),
        }
    }

    pub(super) fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.iter().find(|session| session.id == id && session.end.is_none())
    }

    pub(super) fn live(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.id == id && session.end.is_none())
    }

    /// By their ids.
    pub(super) fn holders(&self, lock: &LockName, slot: Slot) -> Vec<&Request> {
        let mut holders: Vec<_> =
            self.requests.iter().filter(|request| request.holds_slot(lock, slot).is_some()).collect();
        holders.sort_by_key(|request| request.id);
        holders
    }

    /// Mode and token of those who hold it.
    pub(super) fn tenure(&self, lock: &LockName, slot: Slot) -> Option<(Mode, Token)> {
        let holder = self.requests.iter().find_map(|request| request.holds_slot(lock, slot));
        holder.map(|hold| (hold.mode, hold.token))
    }

    /// By their places.
    pub(super) fn waiters(&self, lock: &LockName) -> Vec<AcquisitionId> {
        let mut waiters: Vec<_> =
            self.requests.iter().filter(|r| r.names(lock) && r.state == State::Waits).collect();
        waiters.sort_by_key(|request| request.arrived);
        waiters.iter().map(|request| request.id).collect()
    }

    pub(super) fn delay(&self, lock: &LockName, slot: Slot) -> Option<&Delay> {
        self.delays.iter().find(|delay| delay.lock == *lock && delay.slot == slot)
    }

    pub(super) fn capacity(&self, lock: &LockName) -> Option<&Capacity> {
        self.capacities.iter().find(|capacity| capacity.lock == *lock)
    }

    /// Slots that are held or closed.
    pub(super) fn busy(&self, lock: &LockName) -> Vec<Slot> {
        let held = self.requests.iter().flat_map(Request::held).filter(|hold| hold.lock == *lock);
        let closed = self.delays.iter().filter(|delay| delay.lock == *lock);
        let mut slots: Vec<_> = held.map(|hold| hold.slot).chain(closed.map(|delay| delay.slot)).collect();
        slots.sort();
        slots.dedup();
        slots
    }

    /// Names that are held, awaited or in lock-delay.
    pub(super) fn locks(&self) -> Vec<LockName> {
        let held = self.requests.iter().flat_map(Request::held).map(|hold| &hold.lock);
        let waiting = self.requests.iter().filter(|request| request.state == State::Waits);
        let awaited = waiting.flat_map(|request| request.parts.iter().map(|part| &part.lock));
        let closed = self.delays.iter().map(|delay| &delay.lock);
        let mut names: Vec<_> = held.chain(awaited).chain(closed).cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    fn leader_ready(&mut self, ready: &LeaderReady) -> Reply {
        match &self.leader {
            Some((known, _)) if known == ready || ready.term < known.term => {}
            _ => {
                self.leader = Some((ready.clone(), self.now));
                self.ticks.last = None;
            }
        }
        Reply::Done
    }

    pub(super) fn in_force(&self, epoch: LogIndex) -> bool {
        self.leader.as_ref().is_some_and(|(_, began)| *began == epoch)
    }

    /// The refusal for a session that is not live.
    pub(super) fn gone(&self, id: SessionId, named: Option<&(LockName, Slot)>) -> Refusal {
        let end = self.sessions.iter().find(|session| session.id == id).and_then(|session| session.end);
        let remembered = self.ended.contains(&id);
        match end.filter(|_| remembered) {
            Some(ended) => {
                let superseded = named.and_then(|(lock, slot)| self.shown(lock, *slot));
                Refusal::SessionEnded { ended, superseded }
            }
            None => Refusal::SessionUnknown,
        }
    }

    /// A command of a session: it must be live, and has now been heard from.
    pub(super) fn heard(
        &mut self,
        id: SessionId,
        named: Option<&(LockName, Slot)>,
    ) -> Result<&mut Session, Refusal> {
        if self.session(id).is_none() {
            return Err(self.gone(id, named));
        }
        let (now, ticks) = (self.now, self.ticks.count);
        let session = self.live(id).ok_or(Refusal::SessionUnknown)?;
        (session.last_command, session.ticks) = (now, ticks);
        // Who asks something else knows what it took over.
        session.took_over = None;
        Ok(session)
    }

    pub(super) fn client(&self, id: SessionId) -> ClientName {
        let session = self.sessions.iter().find(|session| session.id == id);
        session.map_or_else(ClientName::unnamed, |session| session.client.clone())
    }

    pub(super) fn view(&self, request: &Request, hold: &Hold) -> HolderView {
        HolderView {
            acquisition: request.id,
            client: self.client(request.id.session),
            mode: hold.mode,
            token: hold.token,
            grant_index: self.base.at(hold.since),
            granted_at: hold.since_wall,
        }
    }

    /// The first holder of a slot.
    pub(super) fn shown(&self, lock: &LockName, slot: Slot) -> Option<Box<HolderView>> {
        let holder = *self.holders(lock, slot).first()?;
        Some(Box::new(self.view(holder, holder.holds_slot(lock, slot)?)))
    }
}
