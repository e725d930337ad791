//! A sample of every command, with every field away from its default, and a table with something of everything.

use palisade_core::command::{
    Acquire, AcquirePart, Cancel, CloseSession, ClusterVersion, Command, EndLockDelay, EndWait, Envelope,
    ExpireSessions, Found, LeaderReady, LockDelay, Member, OpenSession, PublishKey, Release, Replaces, Wait,
};
use palisade_core::history::HistorySizes;
use palisade_core::ids::{
    AcquisitionId, ClientName, ClusterId, ClusterName, GuardName, Incarnation, KeyId, LockName, LogIndex,
    Millis, NodeId, NodeName, OwnerLabel, Principal, RequestNumber, SecretHash, SessionId, Slot, Term,
    WallTime,
};
use palisade_core::limits::Limits;
use palisade_core::lock::SlotState;
use palisade_core::mode::Mode;
use palisade_core::reply::Reply;
use palisade_core::table::LockTable;
use palisade_core::token::{Token, TokenBase};

use super::later;

/// Kinds of command.
pub(super) const KINDS: usize = 28;

/// A new kind has no place here until it has a number, and then a sample.
pub(super) fn kind(envelope: &Envelope) -> usize {
    match envelope.command {
        Command::Found(_) => 0,
        Command::LeaderReady(_) => 1,
        Command::OpenSession(_) => 2,
        Command::CloseSession(_) => 3,
        Command::ExpireSessions(_) => 4,
        Command::Acquire(_) => 5,
        Command::Release(_) => 6,
        Command::Cancel(_) => 7,
        Command::EndLockDelay(_) => 8,
        Command::EndWait(_) => 9,
        Command::PublishKey(_) => 10,
        Command::SetHistory(_) => 11,
        Command::AcquireOnTerms(_) => 12,
        Command::Downgrade(_) => 13,
        Command::HandOver(_) => 14,
        Command::SetMetadata(_) => 15,
        Command::SetBaton(_) => 16,
        Command::ReportProgress(_) => 17,
        Command::EndOverdue(_) => 18,
        Command::KeepSessions(_) => 19,
        Command::Tick(_) => 20,
        Command::BreakLock(_) => 21,
        Command::EndSession(_) => 22,
        Command::SetCapacity(_) => 23,
        Command::SetDelayRule(_) => 24,
        Command::SetLimits(_) => 25,
        Command::ConfirmFloor(_) => 26,
        Command::SetVersion(_) => 27,
    }
}

pub(super) fn id(session: u64, number: u64) -> AcquisitionId {
    AcquisitionId { session: SessionId(session), number: RequestNumber(number) }
}

pub(super) fn lock(name: &str) -> LockName {
    LockName::new(name).expect("a lock name")
}

fn envelope(command: Command) -> Envelope {
    Envelope { wall: WallTime(1_790_000_000_123_456), node: NodeId(0x0102_0304_0506_0708), command }
}

pub(super) fn found() -> Found {
    let member = |node, name: &str| Member { node: NodeId(node), name: NodeName::new(name).expect("a name") };
    Found {
        cluster: ClusterId(*b"cluster-id-bytes"),
        name: ClusterName::new("orders").expect("a name"),
        incarnation: Incarnation(*b"incarnation-16-b"),
        limits: Limits {
            sessions_max: 101,
            locks_max: 102,
            acquisitions_per_session_max: 103,
            waiters_per_lock_max: 104,
            outcomes_per_session_max: 105,
            ended_sessions_max: 106,
            predecessors_max: 107,
            keys_max: 108,
            lock_delay_default: Millis(109),
        },
        token_base: TokenBase::new(1 << 40).expect("a base"),
        version: ClusterVersion(1),
        members: vec![member(1, "one"), member(2, "zwei")],
    }
}

pub(super) fn acquire(session: u64, number: Option<u64>, name: &str, wait: Wait) -> Acquire {
    let part = AcquirePart {
        lock: lock(name),
        mode: Mode::Exclusive,
        capacity: 1,
        permits: 1,
        delay: LockDelay::Named(Millis(7_000)),
        fenced_by: vec![GuardName::new("store").expect("a name")],
    };
    Acquire {
        session: SessionId(session),
        number: number.map(RequestNumber),
        mark: RequestNumber(0),
        parts: vec![part],
        wait,
        owner: Some(OwnerLabel::new("task 1").expect("a label")),
    }
}

pub(super) fn open(secret: u8, client: &str) -> OpenSession {
    OpenSession {
        secret: SecretHash([secret; 32]),
        owner: Principal::anonymous(),
        client: ClientName::new(client).expect("a name"),
        ttl: Millis(10_000),
        replaces: None,
    }
}

/// Every kind of command, some in several shapes.
pub(super) fn commands() -> Vec<(String, Envelope)> {
    let several = Acquire {
        parts: vec![
            AcquirePart { mode: Mode::Shared, delay: LockDelay::Default(Millis(15_000)), ..part("a") },
            AcquirePart { capacity: 9, permits: 3, ..part("b") },
        ],
        mark: RequestNumber(41),
        ..acquire(77, None, "unused", Wait::Bounded(Millis(1_500)))
    };
    let replaces = Replaces { session: SessionId(77), secret: SecretHash([8; 32]), proven_dead: true };
    let expire = ExpireSessions {
        epoch: LogIndex(70),
        sessions: vec![(SessionId(77), LogIndex(80)), (SessionId(78), LogIndex(u64::MAX))],
    };
    let token = Token::new((1 << 53) - 1).expect("a token");
    let release = |part| Release { acquisition: id(77, 42), part, token };
    let key = PublishKey { node: NodeId(1), key: KeyId::new("k1").expect("a name"), public: [9; 32] };
    let samples = [
        ("found", Command::Found(found())),
        (
            "leader_ready",
            Command::LeaderReady(LeaderReady { term: Term(5), node: NodeId(1), nonce: u64::MAX }),
        ),
        ("open_session", Command::OpenSession(open(7, "worker é"))),
        (
            "open_session_replaces",
            Command::OpenSession(OpenSession { replaces: Some(replaces), ..open(9, "") }),
        ),
        ("close_session", Command::CloseSession(CloseSession { session: SessionId(77) })),
        ("expire_sessions", Command::ExpireSessions(expire)),
        ("acquire", Command::Acquire(acquire(77, Some(42), "orders/7", Wait::Session))),
        ("acquire_try", Command::Acquire(acquire(77, Some(43), "orders/7", Wait::Try))),
        ("acquire_several", Command::Acquire(several)),
        ("release", Command::Release(release(None))),
        ("release_part", Command::Release(release(Some((lock("orders/7"), Slot(3)))))),
        ("cancel", Command::Cancel(Cancel { acquisition: id(77, 42) })),
        (
            "end_lock_delay",
            Command::EndLockDelay(EndLockDelay {
                epoch: LogIndex(70),
                lock: lock("orders/7"),
                slot: Slot(3),
                began: LogIndex(90),
            }),
        ),
        ("end_wait", Command::EndWait(EndWait { epoch: LogIndex(70), acquisition: id(77, 42) })),
        ("publish_key", Command::PublishKey(key)),
        ("set_history", Command::SetHistory(HistorySizes { expired_max: 110, others_max: 111 })),
    ];
    let all = samples.into_iter().chain(later::commands());
    all.map(|(name, command)| (name.to_owned(), envelope(command))).collect()
}

pub(super) fn part(name: &str) -> AcquirePart {
    acquire(0, None, name, Wait::Try).parts.remove(0)
}

/// Something of everything that a table can know.
pub(super) fn table() -> LockTable {
    let (mut table, mut index) = first();
    for command in later::entries(1 << 40, index) {
        index += 1;
        let applied = table.apply(LogIndex(index), &envelope(command));
        let refused = matches!(applied.reply, Reply::Refused(_));
        assert!(!refused, "entry {index} of the sample: {:?}", applied.reply);
    }
    let kept = table.locks().flat_map(|(_, lock)| lock.slots.values()).any(|slot| match slot {
        SlotState::Delayed(delay) => delay.kept_for.is_some() && delay.confirmed.len() == 1,
        SlotState::Held(_) => false,
    });
    assert!(kept, "a slot is kept");
    assert!(table.locks().any(|(_, lock)| lock.capacity_set && lock.slots.len() == 3));
    assert!(table.sessions().any(|(_, session)| session.took_over.is_some()));
    assert_eq!((table.delay_rules().len(), table.ticks().count), (1, 1));
    table
}

/// Founded and led; with sessions live, closed and expired; locks held, awaited and in lock-delay; and outcomes of
/// requests that were granted, refused, cancelled and timed out.
fn first() -> (LockTable, u64) {
    let mut table = LockTable::new();
    let mut index = 0;
    let mut apply = |command| {
        index += 1;
        table.apply(LogIndex(index), &envelope(command));
    };
    apply(Command::Found(Found { version: ClusterVersion(2), ..found() }));
    apply(Command::LeaderReady(LeaderReady { term: Term(5), node: NodeId(1), nonce: 11 }));
    for (number, client) in (1..).zip(["holder", "waiter", "closed", "expired"]) {
        apply(Command::OpenSession(open(number, client)));
    }
    let base = 1 << 40;
    let [holder, waiter, closed, expired] = [base + 3, base + 4, base + 5, base + 6];
    let token = |index: u64| Token::new(base + index).expect("a token");
    apply(Command::Acquire(acquire(holder, Some(1), "held", Wait::Session))); // 7
    apply(Command::Acquire(acquire(holder, Some(2), "released", Wait::Session))); // 8
    apply(Command::Release(Release { acquisition: id(holder, 2), part: None, token: token(8) }));
    apply(Command::Acquire(acquire(waiter, Some(1), "held", Wait::Bounded(Millis(60_000)))));
    // Of another task: one that waited for itself would be refused.
    let owner = Some(OwnerLabel::new("task 2").expect("a label"));
    let second = acquire(waiter, Some(2), "held", Wait::Bounded(Millis(1)));
    apply(Command::Acquire(Acquire { owner, ..second }));
    apply(Command::EndWait(EndWait { epoch: LogIndex(2), acquisition: id(waiter, 2) }));
    apply(Command::Acquire(acquire(waiter, Some(3), "held", Wait::Try)));
    apply(Command::Cancel(Cancel { acquisition: id(waiter, 9) }));
    apply(Command::Acquire(acquire(closed, Some(1), "closed", Wait::Session)));
    apply(Command::CloseSession(CloseSession { session: SessionId(closed) }));
    apply(Command::Acquire(acquire(expired, Some(1), "delayed", Wait::Session))); // 17
    let sessions = vec![(SessionId(expired), LogIndex(17))];
    apply(Command::ExpireSessions(ExpireSessions { epoch: LogIndex(2), sessions }));
    apply(Command::Acquire(acquire(waiter, Some(4), "delayed", Wait::Session)));
    for (node, key) in [(1, "first"), (1, "second"), (3, "other")] {
        let key = KeyId::new(key).expect("a name");
        apply(Command::PublishKey(PublishKey { node: NodeId(node), key, public: [node as u8; 32] }));
    }
    let counts = table.counts();
    assert_eq!(
        (counts.held, counts.waiting, counts.delayed),
        (1, 2, 1),
        "the sample has something of everything"
    );
    assert!(
        table.ended_session(SessionId(closed)).is_some() && table.ended_session(SessionId(expired)).is_some()
    );
    assert_eq!((table.session_count(), table.keys().len()), (2, 3));
    (table, index)
}
