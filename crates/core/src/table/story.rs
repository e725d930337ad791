//! Setup for the stories that the tests tell: a cluster that is founded and led, and a log that runs on.
//!
//! Every entry is applied to two replicas, which must agree; the invariants must hold after each.

use super::{LockTable, Presented, Verdict};
use crate::command::{
    Acquire, AcquireOnTerms, AcquirePart, Cancel, CloseSession, ClusterVersion, Command, Downgrade,
    EndLockDelay, EndWait, Envelope, ExpireSessions, Found, HandOver, LeaderReady, LockDelay, Member,
    OpenSession, Release, ReportProgress, Terms, Tick, Wait,
};
use crate::event::Event;
use crate::ids::{
    AcquisitionId, ClientName, ClusterId, ClusterName, GuardName, Incarnation, LockName, LogIndex, Millis,
    NodeId, NodeName, OwnerLabel, Principal, RequestNumber, SecretHash, SessionId, Slot, Term, WallTime,
};
use crate::limits::{Limits, MoreLimits};
use crate::lock::SlotState;
use crate::mode::Mode;
use crate::payload::Payload;
use crate::reply::{Applied, Refusal, Reply};
use crate::session::{AcquisitionState, Reports};
use crate::token::{Token, TokenBase};

/// The lock-delay of every acquire of a story that names no other.
pub(crate) const DELAY: Millis = Millis(15_000);

pub(crate) struct Story {
    pub(crate) table: LockTable,
    replica: LockTable,
    /// Of the last entry.
    pub(crate) index: u64,
    /// What the last entry did.
    pub(crate) events: Vec<Event>,
    /// The session that the last entry renewed.
    pub(crate) renewed: Option<SessionId>,
    secrets: u8,
    /// A search of a wait cycle was given up, so that there may be one.
    given_up: bool,
}

pub(crate) fn lock(name: &str) -> LockName {
    LockName::new(name).expect("a lock name")
}

pub(crate) fn secret(byte: u8) -> SecretHash {
    SecretHash([byte; 32])
}

pub(crate) fn id(session: SessionId, number: u64) -> AcquisitionId {
    AcquisitionId { session, number: RequestNumber(number) }
}

/// An exclusive acquire that waits as long as its session lives.
pub(crate) fn ask(session: SessionId, number: u64, name: &str) -> Acquire {
    let part = AcquirePart {
        lock: lock(name),
        mode: Mode::Exclusive,
        capacity: 1,
        permits: 1,
        delay: LockDelay::Named(DELAY),
        fenced_by: Vec::new(),
    };
    let number = Some(RequestNumber(number));
    Acquire { session, number, mark: RequestNumber(0), parts: vec![part], wait: Wait::Session, owner: None }
}

pub(crate) fn payload(text: &str) -> Payload {
    Payload::new(text.as_bytes()).expect("it fits")
}

pub(crate) fn guard(name: &str) -> GuardName {
    GuardName::new(name).expect("a guard name")
}

impl Acquire {
    pub(crate) fn trying(mut self) -> Self {
        self.wait = Wait::Try;
        self
    }

    pub(crate) fn bounded(mut self, bound: u64) -> Self {
        self.wait = Wait::Bounded(Millis(bound));
        self
    }

    pub(crate) fn delay(mut self, delay: LockDelay) -> Self {
        self.parts[0].delay = delay;
        self
    }

    pub(crate) fn marked(mut self, mark: u64) -> Self {
        self.mark = RequestNumber(mark);
        self
    }

    pub(crate) fn unnumbered(mut self) -> Self {
        self.number = None;
        self
    }

    pub(crate) fn shared(self) -> Self {
        self.part(|part| part.mode = Mode::Shared)
    }

    /// So many permits of a lock that has more than one.
    pub(crate) fn semaphore(self, capacity: u32, permits: u32) -> Self {
        self.part(|part| (part.capacity, part.permits) = (capacity, permits))
    }

    /// Of a task.
    pub(crate) fn of(mut self, owner: &str) -> Self {
        self.owner = Some(OwnerLabel::new(owner).expect("an owner label"));
        self
    }

    /// And another lock in the same step.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    pub(crate) fn part(mut self, change: impl FnOnce(&mut AcquirePart)) -> Self {
        change(&mut self.parts[0]);
        self
    }
}

impl Story {
    /// A founded cluster with a leader.
    pub(crate) fn begin() -> Self {
        Self::with_limits(|_| {})
    }

    pub(crate) fn with_limits(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        Self::founded_at(0, TokenBase::default(), limits)
    }

    pub(crate) fn founded_at(index: u64, token_base: TokenBase, limits: Limits) -> Self {
        let mut story = Self::unfounded();
        story.index = index;
        story.apply(Command::Found(Found {
            cluster: ClusterId([1; 16]),
            name: ClusterName::new("story").expect("a cluster name"),
            incarnation: Incarnation([2; 16]),
            limits,
            token_base,
            version: ClusterVersion::CURRENT,
            members: vec![Member { node: NodeId(1), name: NodeName::new("one").expect("a node name") }],
        }));
        story.leader(1);
        story
    }

    /// As if the cluster had been founded by an earlier version.
    pub(crate) fn with_version(&mut self, version: ClusterVersion) {
        self.table.header.version = version;
        self.replica.header.version = version;
    }

    /// How far searches of wait cycles go.
    pub(crate) fn with_searches(&mut self, max: u32) {
        self.table.more_limits.cycle_search_max = max;
        self.replica.more_limits.cycle_search_max = max;
    }

    pub(crate) fn unfounded() -> Self {
        let (table, replica) = (LockTable::new(), LockTable::new());
        Self { table, replica, index: 0, events: Vec::new(), renewed: None, secrets: 0, given_up: false }
    }

    /// Applies the next entry.
    pub(crate) fn apply(&mut self, command: Command) -> Reply {
        self.index += 1;
        let index = LogIndex(self.index);
        let envelope = Envelope { wall: WallTime(1_000_000 + self.index), node: NodeId(1), command };
        let Applied { reply, events, renewed } = self.table.apply(index, &envelope);
        let again = self.replica.apply(index, &envelope);
        assert_eq!(
            (&reply, &events, renewed),
            (&again.reply, &again.events, again.renewed),
            "replicas disagree"
        );
        assert!(self.table == self.replica, "replicas differ after entry {index}");
        assert_eq!(self.table.check_invariants(), Ok(()), "after entry {index}");
        self.given_up |= events.iter().any(|event| matches!(event, Event::CycleSearchGivenUp { .. }));
        if self.table.knows(2) && !self.given_up {
            assert_eq!(self.table.check_wait_cycles(), Ok(()), "after entry {index}");
        }
        (self.events, self.renewed) = (events, renewed);
        reply
    }

    /// A leader of this term puts its clock in force.
    pub(crate) fn leader(&mut self, term: u64) -> LogIndex {
        self.apply(Command::LeaderReady(LeaderReady { term: Term(term), node: NodeId(1), nonce: 7 }));
        self.epoch()
    }

    pub(crate) fn epoch(&self) -> LogIndex {
        self.table.header().lease.expect("a leader").epoch
    }

    pub(crate) fn opening(&mut self, client: &str) -> OpenSession {
        self.secrets += 1;
        OpenSession {
            secret: secret(self.secrets),
            owner: Principal::anonymous(),
            client: ClientName::new(client).expect("a client name"),
            ttl: Millis(10_000),
            replaces: None,
        }
    }

    pub(crate) fn open(&mut self, client: &str) -> SessionId {
        let opening = self.opening(client);
        match self.apply(Command::OpenSession(opening)) {
            Reply::SessionOpened { session, .. } => session,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn acquire(&mut self, request: Acquire) -> Reply {
        self.apply(Command::Acquire(request))
    }

    /// Acquires what must be free; its token.
    pub(crate) fn holds(&mut self, session: SessionId, number: u64, name: &str) -> Token {
        token(&self.acquire(ask(session, number, name)))
    }

    /// Acquires what must be free, on these terms; its token.
    pub(crate) fn holds_on(&mut self, request: Acquire, terms: Terms) -> Token {
        token(&self.apply(Command::AcquireOnTerms(AcquireOnTerms { acquire: request, terms })))
    }

    pub(crate) fn report(&mut self, session: SessionId, number: u64, token: Token, report: u64) -> Reply {
        let acquisition = id(session, number);
        self.apply(Command::ReportProgress(ReportProgress { acquisition, token, number: report }))
    }

    /// What a holder has reported.
    pub(crate) fn reports(&self, id: AcquisitionId) -> Reports {
        let acquisition = &self
            .table
            .session(id.session)
            .expect("it lives")
            .acquisitions
            .get(id.number)
            .expect("it waits or holds");
        match &acquisition.state {
            AcquisitionState::Holding { reports, .. } => *reports,
            other => panic!("{other:?}"),
        }
    }

    /// As if the cluster had been founded with these.
    pub(crate) fn change_more_limits(&mut self, change: impl Fn(&mut MoreLimits)) {
        change(&mut self.table.more_limits);
        change(&mut self.replica.more_limits);
    }

    /// Acquires what must be taken.
    pub(crate) fn waits(&mut self, session: SessionId, number: u64, name: &str) {
        let reply = self.acquire(ask(session, number, name));
        assert!(matches!(reply, Reply::Queued { .. }), "{reply:?}");
    }

    pub(crate) fn release(&mut self, session: SessionId, number: u64, name: &str, token: Token) -> Reply {
        let part = Some((lock(name), Slot(0)));
        self.apply(Command::Release(Release { acquisition: id(session, number), part, token }))
    }

    pub(crate) fn cancel(&mut self, session: SessionId, number: u64) -> Reply {
        self.apply(Command::Cancel(Cancel { acquisition: id(session, number) }))
    }

    pub(crate) fn close(&mut self, session: SessionId) -> Reply {
        self.apply(Command::CloseSession(CloseSession { session }))
    }

    /// The lease clock in force ends these sessions.
    pub(crate) fn expire(&mut self, sessions: &[SessionId]) {
        let epoch = self.epoch();
        let last =
            |id: &SessionId| self.table.session(*id).map_or(LogIndex(0), |session| session.last_command);
        let sessions = sessions.iter().map(|id| (*id, last(id))).collect();
        self.apply(Command::ExpireSessions(ExpireSessions { epoch, sessions }));
    }

    pub(crate) fn downgrade(&mut self, session: SessionId, number: u64, name: &str, token: Token) -> Reply {
        self.apply(Command::Downgrade(Downgrade {
            acquisition: id(session, number),
            lock: lock(name),
            token,
        }))
    }

    /// Slot 0.
    pub(crate) fn hand_over(
        &mut self,
        (session, number): (SessionId, u64),
        name: &str,
        token: Token,
        to: Option<SessionId>,
    ) -> Reply {
        let acquisition = id(session, number);
        self.apply(Command::HandOver(HandOver { acquisition, lock: lock(name), slot: Slot(0), token, to }))
    }

    pub(crate) fn end_lock_delay(&mut self, epoch: LogIndex, name: &str, began: u64) {
        let end = EndLockDelay { epoch, lock: lock(name), slot: Slot(0), began: LogIndex(began) };
        assert_eq!(self.apply(Command::EndLockDelay(end)), Reply::Done);
    }

    pub(crate) fn end_wait(&mut self, epoch: LogIndex, acquisition: AcquisitionId) {
        assert_eq!(self.apply(Command::EndWait(EndWait { epoch, acquisition })), Reply::Done);
    }

    /// A minute of the leader's passes.
    pub(crate) fn tick(&mut self) {
        let (epoch, previous) = (self.epoch(), self.table.ticks().last);
        self.apply(Command::Tick(Tick { epoch, previous }));
    }

    /// Who holds, and under which token.
    pub(crate) fn holder(&self, name: &str) -> Option<(SessionId, u64, Token)> {
        let tenure = self.table.lock(&lock(name))?.slots.get(&Slot(0))?.tenure()?;
        let holder = tenure.holders.keys().next()?;
        Some((holder.session, holder.number.0, tenure.token))
    }

    /// Who holds which slot of a lock, and under which token.
    pub(crate) fn holders(&self, name: &str) -> Vec<(u32, SessionId, u64, u64)> {
        let Some(lock) = self.table.lock(&lock(name)) else { return Vec::new() };
        let tenures = lock.slots.values().filter_map(SlotState::tenure);
        let holders = tenures.flat_map(|tenure| {
            let of = |id: &AcquisitionId| (tenure.slot.0, id.session, id.number.0, tenure.token.get());
            tenure.holders.keys().map(of).collect::<Vec<_>>()
        });
        holders.collect()
    }

    /// What the last entry granted.
    pub(crate) fn granted(&self) -> Vec<(SessionId, u64)> {
        let granted = self.events.iter().filter_map(|event| match event {
            Event::Granted { grant, .. } => Some((grant.acquisition.session, grant.acquisition.number.0)),
            _ => None,
        });
        granted.collect()
    }

    pub(crate) fn verdict(&self, session: SessionId, number: u64, name: &str, token: Token) -> Verdict {
        self.table.verdict(&Presented {
            lock: lock(name),
            slot: Slot(0),
            mode: Mode::Exclusive,
            token,
            acquisition: id(session, number),
        })
    }
}

/// The token of a grant.
pub(crate) fn token(reply: &Reply) -> Token {
    match reply {
        Reply::Granted(grant) => grant.parts[0].token,
        other => panic!("{other:?}"),
    }
}

/// The refusal of a reply.
pub(crate) fn refusal(reply: Reply) -> Refusal {
    match reply {
        Reply::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}
