//! The cluster of a run: the real lock table, and a lease clock that reads the run's own time.

use std::collections::BTreeMap;

use palisade_core::command::{
    Acquire, AcquirePart, ClusterVersion, Command, Envelope, ExpireSessions, Found, LeaderReady, LockDelay,
    Member, OpenSession, Release, Wait,
};
use palisade_core::event::Event;
use palisade_core::ids::{
    AcquisitionId, ClientName, ClusterId, ClusterName, Incarnation, LockName, LogIndex, Millis, NodeId,
    NodeName, Principal, RequestNumber, SecretHash, SessionId, Term, WallTime,
};
use palisade_core::limits::Limits;
use palisade_core::mode::Mode;
use palisade_core::reply::Reply;
use palisade_core::table::LockTable;
use palisade_core::token::{Token, TokenBase};

/// The lease of every session, ms.
pub(super) const TTL: u64 = 10_000;

pub(super) struct Coordinator {
    table: LockTable,
    index: u64,
    lock: LockName,
    heard: BTreeMap<SessionId, u64>,
    granted: BTreeMap<SessionId, Token>,
}

impl Coordinator {
    pub(super) fn new(cluster: ClusterId, lock: LockName) -> Self {
        let mut coordinator = Self {
            table: LockTable::new(),
            index: 0,
            lock,
            heard: BTreeMap::new(),
            granted: BTreeMap::new(),
        };
        coordinator.apply(Command::Found(Found {
            cluster,
            name: ClusterName::new("runs").expect("a cluster name"),
            incarnation: Incarnation([1; 16]),
            limits: Limits::default(),
            token_base: TokenBase::default(),
            version: ClusterVersion::CURRENT,
            members: vec![Member { node: NodeId(1), name: NodeName::new("one").expect("a node name") }],
        }));
        coordinator.apply(Command::LeaderReady(LeaderReady { term: Term(1), node: NodeId(1), nonce: 1 }));
        coordinator
    }

    /// Opens a session and queues for the lock, as long as the session lives and without a lock-delay: the next holder
    /// follows at once.
    pub(super) fn ask(&mut self, now: u64) -> SessionId {
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&self.index.to_be_bytes());
        let opened = self.apply(Command::OpenSession(OpenSession {
            secret: SecretHash(secret),
            owner: Principal::anonymous(),
            client: ClientName::unnamed(),
            ttl: Millis(TTL),
            replaces: None,
        }));
        let Reply::SessionOpened { session, .. } = opened else {
            panic!("a session was not opened: {opened:?}")
        };
        self.heard.insert(session, now);
        let part = AcquirePart {
            lock: self.lock.clone(),
            mode: Mode::Exclusive,
            capacity: 1,
            permits: 1,
            delay: LockDelay::Named(Millis(0)),
            fenced_by: Vec::new(),
        };
        self.apply(Command::Acquire(Acquire {
            session,
            number: Some(RequestNumber(1)),
            mark: RequestNumber(0),
            parts: vec![part],
            wait: Wait::Session,
            owner: None,
        }));
        session
    }

    pub(super) fn granted(&self, session: SessionId) -> Option<Token> {
        self.granted.get(&session).copied()
    }

    /// A keepalive came in; whether the session is alive.
    pub(super) fn keep_alive(&mut self, session: SessionId, now: u64) -> bool {
        self.heard.get_mut(&session).map(|heard| *heard = now).is_some()
    }

    pub(super) fn release(&mut self, session: SessionId, token: Token) {
        let acquisition = AcquisitionId { session, number: RequestNumber(1) };
        self.apply(Command::Release(Release { acquisition, part: None, token }));
    }

    /// Ends the sessions that were not heard from.
    pub(super) fn expire(&mut self, now: u64) {
        let due = self.heard.iter().filter(|(_, heard)| now > **heard + TTL).map(|(session, _)| *session);
        let due: Vec<SessionId> = due.collect();
        for session in due {
            self.heard.remove(&session);
            let epoch = self.table.header().lease.map_or(LogIndex(0), |lease| lease.epoch);
            let last = self.table.session(session).map_or(LogIndex(0), |session| session.last_command);
            self.apply(Command::ExpireSessions(ExpireSessions { epoch, sessions: vec![(session, last)] }));
        }
    }

    fn apply(&mut self, command: Command) -> Reply {
        self.index += 1;
        let envelope = Envelope { wall: WallTime(self.index), node: NodeId(1), command };
        let applied = self.table.apply(LogIndex(self.index), &envelope);
        for event in applied.events {
            if let Event::Granted { grant, .. } = event
                && let Some(part) = grant.parts.first()
            {
                self.granted.insert(grant.acquisition.session, part.token);
            }
        }
        applied.reply
    }
}
