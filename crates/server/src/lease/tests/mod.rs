//! The lease clock's rules as stories, over a real table.

use std::time::Duration;

use palisade_core::command::{
    Acquire, AcquirePart, Cancel, ClusterVersion, Command, Envelope, Found, LeaderReady, LockDelay,
    OpenSession, Wait,
};
use palisade_core::ids::{
    AcquisitionId, ClientName, ClusterId, ClusterName, Incarnation, LockName, LogIndex, Millis, NodeId,
    Principal, RequestNumber, SecretHash, SessionId, Term, WallTime,
};
use palisade_core::limits::Limits;
use palisade_core::mode::Mode;
use palisade_core::reply::{Applied, EntryAt, Reply};
use palisade_core::table::LockTable;
use palisade_core::token::TokenBase;
use palisade_host::Moment;

use super::{LeaseClock, LeaseConfig};

mod deadlines;
mod leading;
mod long_leases;
mod sessions;

const TTL: Duration = Duration::from_secs(10);
/// The TTL with the drift bound.
const LEASE: Duration = Duration::from_millis(10_100);
const MILLISECOND: Duration = Duration::from_millis(1);

/// A leader: its table, its clock, and the time.
struct Leader {
    table: LockTable,
    clock: LeaseClock,
    now: Moment,
    secrets: u8,
}

impl Leader {
    /// Founded, and leading since this moment.
    fn ready() -> Self {
        let table = LockTable::new();
        let clock = LeaseClock::new(LeaseConfig::default());
        let mut leader = Self { table, clock, now: Moment::from_nanos(1_000_000_000), secrets: 0 };
        leader.apply(Command::Found(Found {
            cluster: ClusterId([1; 16]),
            name: ClusterName::new("test").expect("a name"),
            incarnation: Incarnation([2; 16]),
            limits: Limits::default(),
            token_base: TokenBase::default(),
            version: ClusterVersion::CURRENT,
            members: Vec::new(),
        }));
        leader.lead(1);
        leader
    }

    fn lead(&mut self, term: u64) {
        self.apply(Command::LeaderReady(LeaderReady { term: Term(term), node: NodeId(1), nonce: term }));
        let epoch = self.table.header().applied;
        self.clock.lead(self.now, epoch, &self.table);
    }

    fn apply(&mut self, command: Command) -> Applied {
        let index = LogIndex(self.table.header().applied.0 + 1);
        let envelope = Envelope { wall: WallTime(1), node: NodeId(1), command };
        let applied = self.table.apply(index, &envelope);
        let at = EntryAt { index, wall: envelope.wall, node: envelope.node };
        self.clock.applied(self.now, at, &applied, &self.table);
        applied
    }

    /// Opens a session with this TTL.
    fn open_with(&mut self, ttl: Duration) -> SessionId {
        self.secrets += 1;
        let ttl = Millis(u64::try_from(ttl.as_millis()).expect("short"));
        match self.apply(open(self.secrets, ttl)).reply {
            Reply::SessionOpened { session, .. } => session,
            other => panic!("{other:?}"),
        }
    }

    fn open(&mut self) -> SessionId {
        self.open_with(TTL)
    }

    /// A command that the session sent and that was decided at once.
    fn command(&mut self, session: SessionId, number: u64) {
        let hold = self.clock.hold(session, self.now).expect("not marked");
        let applied = self.apply(cancel(session, number));
        self.clock.settle(hold, applied.renewed == Some(session));
    }

    fn acquire(&mut self, session: SessionId, number: u64, wait: Wait, delay: u64) -> Reply {
        let part = AcquirePart {
            lock: lock(),
            mode: Mode::Exclusive,
            capacity: 1,
            permits: 1,
            delay: LockDelay::Named(Millis(delay)),
            fenced_by: Vec::new(),
        };
        let number = Some(RequestNumber(number));
        let acquire =
            Acquire { session, number, mark: RequestNumber(0), parts: vec![part], wait, owner: None };
        self.apply(Command::Acquire(acquire)).reply
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// What is due of sessions, delays, waits and holders. A tick that is due with it is decided at once.
    fn due(&mut self) -> Vec<Command> {
        let (ticks, due): (Vec<_>, Vec<_>) =
            self.clock.due(self.now).into_iter().partition(|command| matches!(command, Command::Tick(_)));
        for tick in &ticks {
            self.apply(tick.clone());
            self.clock.decided(self.now, tick);
        }
        due
    }

    /// Proposes what is due, and has it applied.
    fn decide(&mut self) -> usize {
        let commands = self.due();
        for command in &commands {
            self.apply(command.clone());
            self.clock.decided(self.now, command);
        }
        commands.len()
    }
}

fn lock() -> LockName {
    LockName::new("orders/7").expect("a name")
}

fn open(secret: u8, ttl: Millis) -> Command {
    Command::OpenSession(OpenSession {
        secret: SecretHash([secret; 32]),
        owner: Principal::anonymous(),
        client: ClientName::unnamed(),
        ttl,
        replaces: None,
    })
}

fn cancel(session: SessionId, number: u64) -> Command {
    Command::Cancel(Cancel { acquisition: AcquisitionId { session, number: RequestNumber(number) } })
}

/// The sessions that these commands expire.
fn expired(commands: &[Command]) -> Vec<SessionId> {
    let expiries = commands.iter().filter_map(|command| match command {
        Command::ExpireSessions(expire) => Some(expire),
        _ => None,
    });
    expiries.flat_map(|expire| &expire.sessions).map(|(session, _)| *session).collect()
}
