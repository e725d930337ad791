//! How many commands a second the lock table applies: one thread, no disk, no network.
//!
//! `cargo bench --bench apply`. Each line is the median of several runs, beside the slowest and the fastest, with the
//! program's allocator. Nothing is asserted about speed; every reply is.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use palisade_core::command::{
    Acquire, AcquirePart, ClusterVersion, Command, Envelope, Found, LeaderReady, LockDelay, Member,
    OpenSession, Release, Wait,
};
use palisade_core::event::Event;
use palisade_core::ids::{
    AcquisitionId, ClientName, ClusterId, ClusterName, Incarnation, LockName, LogIndex, Millis, NodeId,
    NodeName, Principal, RequestNumber, SecretHash, SessionId, Term, WallTime,
};
use palisade_core::limits::Limits;
use palisade_core::mode::Mode;
use palisade_core::reply::{Applied, Reply};
use palisade_core::table::LockTable;
use palisade_core::token::{Token, TokenBase};
use palisade_raft::codec::log::{decode_command, encode_command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs of which the median is shown.
const RUNS: usize = 7;
/// Commands of one run.
const COMMANDS: u64 = 100_000;
/// Sessions that take turns.
const SESSIONS: usize = 64;
/// Locks that one session of the background holds.
const HELD_PER_SESSION: u64 = 10_000;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    println!("{:<52} {:>13} {:>27}", "apply, one thread", "commands/s", "slowest – fastest run");
    for existing in [1, 10_000, 1_000_000] {
        let mut bench = Bench::new(existing)?;
        report(&format!("acquire and release, {existing} locks held"), || bench.own_locks())?;
        report(&format!("read, acquire and release, {existing} locks held"), || bench.read_and_apply())?;
        report(&format!("hand-off to a waiter, {existing} locks held"), || bench.hand_off())?;
    }
    Ok(())
}

fn report(name: &str, mut run: impl FnMut() -> Result<Duration, Failure>) -> Result<(), Failure> {
    run()?;
    let mut rates = (0..RUNS)
        .map(|_| Ok(COMMANDS as f64 / run()?.as_secs_f64()))
        .collect::<Result<Vec<f64>, Failure>>()?;
    rates.sort_by(f64::total_cmp);
    let (slowest, median, fastest) = (rates[0], rates[RUNS / 2], rates[RUNS - 1]);
    println!("{name:<52} {median:>13.0} {slowest:>12.0} – {fastest:>12.0}");
    Ok(())
}

/// A founded table, and what its clients know.
struct Bench {
    table: LockTable,
    index: u64,
    sessions: Vec<SessionId>,
    /// The last number that each session used.
    numbers: Vec<u64>,
    opened: u64,
}

impl Bench {
    fn new(existing: u64) -> Result<Self, Failure> {
        let mut bench = Self {
            table: LockTable::new(),
            index: 0,
            sessions: Vec::new(),
            numbers: vec![0; SESSIONS],
            opened: 0,
        };
        bench.apply(Command::Found(Found {
            cluster: ClusterId([1; 16]),
            name: ClusterName::new("bench")?,
            incarnation: Incarnation([2; 16]),
            limits: Limits::default(),
            token_base: TokenBase::default(),
            version: ClusterVersion::CURRENT,
            members: vec![Member { node: NodeId(1), name: NodeName::new("n1")? }],
        }));
        bench.apply(Command::LeaderReady(LeaderReady { term: Term(1), node: NodeId(1), nonce: 1 }));
        let mut holder = None;
        for at in 0..existing {
            if at % HELD_PER_SESSION == 0 {
                holder = Some(bench.open()?);
            }
            let holder = holder.ok_or("no holder")?;
            let lock = LockName::new(&format!("held/{at}"))?;
            granted(&bench.apply(acquire(holder, at % HELD_PER_SESSION + 1, lock)))?;
        }
        bench.sessions = (0..SESSIONS).map(|_| bench.open()).collect::<Result<_, _>>()?;
        Ok(bench)
    }

    fn apply(&mut self, command: Command) -> Applied {
        self.index += 1;
        let envelope = Envelope { wall: WallTime(self.index), node: NodeId(1), command };
        self.table.apply(LogIndex(self.index), black_box(&envelope))
    }

    fn open(&mut self) -> Result<SessionId, Failure> {
        self.opened += 1;
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&self.opened.to_be_bytes());
        let open = OpenSession {
            secret: SecretHash(secret),
            owner: Principal::anonymous(),
            client: ClientName::new("bench")?,
            ttl: Millis(10_000),
            replaces: None,
        };
        match self.apply(Command::OpenSession(open)).reply {
            Reply::SessionOpened { session, .. } => Ok(session),
            other => Err(format!("no session: {other:?}").into()),
        }
    }

    /// Each session takes and frees a lock of its own, in turn.
    fn own_locks(&mut self) -> Result<Duration, Failure> {
        let locks =
            (0..SESSIONS).map(|at| LockName::new(&format!("own/{at}"))).collect::<Result<Vec<_>, _>>()?;
        let began = Instant::now();
        for turn in 0..COMMANDS / 2 {
            let at = turn as usize % SESSIONS;
            let number = self.next_number(at);
            let token = granted(&self.apply(acquire(self.sessions[at], number, locks[at].clone())))?;
            released(&self.apply(release(self.sessions[at], number, token)))?;
        }
        Ok(began.elapsed())
    }

    /// The same out of the bytes of the log, as a node reads them.
    fn read_and_apply(&mut self) -> Result<Duration, Failure> {
        let mut log = Vec::with_capacity(COMMANDS as usize);
        for turn in 0..COMMANDS / 2 {
            let at = turn as usize % SESSIONS;
            let number = self.next_number(at);
            let lock = LockName::new(&format!("own/{at}"))?;
            let token = Token::new(self.index + 2 * turn + 1).ok_or("no token")?;
            for command in
                [acquire(self.sessions[at], number, lock), release(self.sessions[at], number, token)]
            {
                log.push(encode_command(&Envelope { wall: WallTime(turn), node: NodeId(1), command }));
            }
        }
        let began = Instant::now();
        for (turn, bytes) in log.iter().enumerate() {
            self.index += 1;
            let applied = self.table.apply(LogIndex(self.index), &decode_command(bytes)?);
            match turn % 2 {
                0 => _ = granted(&applied)?,
                _ => released(&applied)?,
            }
        }
        Ok(began.elapsed())
    }

    /// All sessions queue for one lock; each release passes it on, and who released queues again.
    fn hand_off(&mut self) -> Result<Duration, Failure> {
        let lock = LockName::new("shared")?;
        let mut queue = VecDeque::new();
        let mut token = None;
        for at in 0..SESSIONS {
            let number = self.next_number(at);
            let applied = self.apply(acquire(self.sessions[at], number, lock.clone()));
            token = token.or(granted(&applied).ok());
            queue.push_back((at, number));
        }
        let mut token = token.ok_or("nobody holds")?;
        let began = Instant::now();
        for _ in 0..COMMANDS / 2 {
            let (at, number) = queue.pop_front().ok_or("nobody waits")?;
            let applied = self.apply(release(self.sessions[at], number, token));
            released(&applied)?;
            token = passed_on(&applied, token)?;
            let number = self.next_number(at);
            black_box(self.apply(acquire(self.sessions[at], number, lock.clone())));
            queue.push_back((at, number));
        }
        let took = began.elapsed();
        // Holder first, so that each release passes the lock on to the next one of the queue.
        for (at, number) in queue {
            let applied = self.apply(release(self.sessions[at], number, token));
            token = passed_on(&applied, token).unwrap_or(token);
        }
        Ok(took)
    }

    fn next_number(&mut self, at: usize) -> u64 {
        self.numbers[at] += 1;
        self.numbers[at]
    }
}

fn acquire(session: SessionId, number: u64, lock: LockName) -> Command {
    let part = AcquirePart {
        lock,
        mode: Mode::Exclusive,
        capacity: 1,
        permits: 1,
        delay: LockDelay::Default(Millis(15_000)),
        fenced_by: Vec::new(),
    };
    Command::Acquire(Acquire {
        session,
        number: Some(RequestNumber(number)),
        // As clients do: whatever was released is not repeated.
        mark: RequestNumber(number),
        parts: vec![part],
        wait: Wait::Session,
        owner: None,
    })
}

fn release(session: SessionId, number: u64, token: Token) -> Command {
    let acquisition = AcquisitionId { session, number: RequestNumber(number) };
    Command::Release(Release { acquisition, part: None, token })
}

fn granted(applied: &Applied) -> Result<Token, Failure> {
    match &applied.reply {
        Reply::Granted(grant) => Ok(grant.parts.first().ok_or("a grant of nothing")?.token),
        other => Err(format!("not granted: {other:?}").into()),
    }
}

fn released(applied: &Applied) -> Result<(), Failure> {
    match &applied.reply {
        Reply::Released(_) => Ok(()),
        other => Err(format!("not released: {other:?}").into()),
    }
}

/// The token of the waiter that a release let in; it is above the one before.
fn passed_on(applied: &Applied, before: Token) -> Result<Token, Failure> {
    let granted = applied.events.iter().find_map(|event| match event {
        Event::Granted { grant, waited: true } => grant.parts.first().map(|part| part.token),
        _ => None,
    });
    match granted {
        Some(token) if token > before => Ok(token),
        other => Err(format!("after {before:?} came {other:?}").into()),
    }
}
