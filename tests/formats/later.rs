//! A sample of every command that format version 2 brought, and what they leave in a table.

use palisade_core::command::{
    Acquire, AcquireOnTerms, AcquirePart, BreakLock, ClusterVersion, Command, ConfirmFloor, Downgrade,
    EndOverdue, EndSession, ExpireSessions, HandOver, KeepSessions, OpenSession, Overdue, Release, Replaces,
    ReportProgress, SetBaton, SetCapacity, SetDelayRule, SetLimits, SetMetadata, SetVersion, Terms, Tick,
    Wait,
};
use palisade_core::history::HistorySizes;
use palisade_core::ids::{
    AcquisitionId, GuardName, LockPrefix, LogIndex, Millis, OwnerLabel, Principal, SecretHash, SessionId,
    Slot,
};
use palisade_core::limits::MoreLimits;
use palisade_core::lock::DelayRule;
use palisade_core::mode::Mode;
use palisade_core::payload::Payload;
use palisade_core::token::Token;

use super::samples::{acquire, found, id, lock, open, part};

fn payload(text: &str) -> Payload {
    Payload::new(text.as_bytes()).expect("it is short")
}

fn guard(name: &str) -> GuardName {
    GuardName::new(name).expect("a name")
}

fn operator() -> Principal {
    Principal::new("operator").expect("a name")
}

fn terms() -> Terms {
    let (hold_max, progress_every) = (Some(Millis(600_000)), Some(Millis(5_000)));
    Terms { hold_max, progress_every, metadata: payload("http://one:80/\0") }
}

/// Every kind that came with version 2, some in several shapes.
pub(super) fn commands() -> Vec<(&'static str, Command)> {
    let token = Token::new((1 << 53) - 1).expect("a token");
    let (acquisition, lock, slot) = (id(77, 42), lock("orders/7"), Slot(3));
    let (epoch, grant) = (LogIndex(70), LogIndex(90));
    let asked = acquire(77, Some(42), "orders/7", Wait::Session);
    let overdue = |overdue| Command::EndOverdue(EndOverdue { epoch, acquisition, grant, overdue });
    let prefix = LockPrefix::new("orders/").expect("a prefix");
    let rule = DelayRule { least: Millis(1), most: Millis(60_000), fenced_by: vec![guard("a"), guard("b")] };
    let limits = SetLimits {
        limits: found().limits,
        more: MoreLimits { baton_bytes_max: 112, delay_rules_max: 113, cycle_search_max: 114 },
        history: HistorySizes { expired_max: 115, others_max: 116 },
    };
    vec![
        ("acquire_on_terms", Command::AcquireOnTerms(AcquireOnTerms { acquire: asked, terms: terms() })),
        ("downgrade", Command::Downgrade(Downgrade { acquisition, lock: lock.clone(), token })),
        ("hand_over", Command::HandOver(HandOver { acquisition, lock: lock.clone(), slot, token, to: None })),
        (
            "hand_over_to",
            Command::HandOver(HandOver {
                acquisition,
                lock: lock.clone(),
                slot,
                token,
                to: Some(SessionId(78)),
            }),
        ),
        (
            "set_metadata",
            Command::SetMetadata(SetMetadata { acquisition, token, revision: 5, metadata: payload("é") }),
        ),
        (
            "set_baton",
            Command::SetBaton(SetBaton {
                acquisition,
                lock: lock.clone(),
                slot,
                token,
                revision: 6,
                baton: payload("half done"),
            }),
        ),
        ("report_progress", Command::ReportProgress(ReportProgress { acquisition, token, number: 7 })),
        ("end_overdue", overdue(Overdue::Maximum)),
        ("end_overdue_progress", overdue(Overdue::Progress { report: Some(LogIndex(95)) })),
        (
            "keep_sessions",
            Command::KeepSessions(KeepSessions { sessions: vec![SessionId(77), SessionId(u64::MAX)] }),
        ),
        ("tick", Command::Tick(Tick { epoch, previous: Some(LogIndex(71)) })),
        (
            "break_lock",
            Command::BreakLock(BreakLock {
                lock: lock.clone(),
                slot,
                token,
                closed: Some(Millis(8_000)),
                by: operator(),
            }),
        ),
        (
            "end_session",
            Command::EndSession(EndSession { session: SessionId(77), closed: None, by: operator() }),
        ),
        ("set_capacity", Command::SetCapacity(SetCapacity { lock: lock.clone(), capacity: 9 })),
        ("set_delay_rule", Command::SetDelayRule(SetDelayRule { prefix: prefix.clone(), rule: Some(rule) })),
        ("set_delay_rule_none", Command::SetDelayRule(SetDelayRule { prefix, rule: None })),
        ("set_limits", Command::SetLimits(limits)),
        (
            "confirm_floor",
            Command::ConfirmFloor(ConfirmFloor {
                guard: guard("store"),
                lock,
                slot,
                floor: token,
                by: operator(),
            }),
        ),
        ("set_version", Command::SetVersion(SetVersion { version: ClusterVersion(2) })),
    ]
}

/// What goes on after the first sample's entries, of which the last one was `index`: a shared tenure that owes a delay
/// and was downgraded to, a semaphore that an operator narrowed, a wait for several locks, terms, metadata, reports
/// and a baton, a slot that is kept for a session that took over, with one guard of two confirmed, rules, limits and
/// ticks.
pub(super) fn entries(base: u64, index: u64) -> Vec<Command> {
    let at = |entry: u64| index + entry;
    let session = |entry| base + at(entry);
    let token = |entry| Token::new(base + at(entry)).expect("a token");
    let one = |mut asked: Acquire, change: &dyn Fn(&mut AcquirePart)| {
        change(&mut asked.parts[0]);
        asked
    };
    let shared =
        |session| one(acquire(session, Some(1), "shared", Wait::Session), &|part| part.mode = Mode::Shared);
    let permits = |number| {
        let asked = acquire(session(1), Some(number), "permits", Wait::Session);
        let slots = |part: &mut AcquirePart| (part.capacity, part.permits) = (4, 2);
        Command::Acquire(one(asked, &slots))
    };
    let kept = one(acquire(session(3), Some(8), "kept", Wait::Session), &|part| {
        part.fenced_by = vec![guard("a"), guard("b")];
    });
    let several = Acquire {
        parts: vec![part("shared"), part("kept")],
        ..acquire(session(1), Some(7), "unused", Wait::Bounded(Millis(9_000)))
    };
    let of_first = |number| AcquisitionId { session: SessionId(session(1)), ..id(0, number) };
    let replaces =
        Replaces { session: SessionId(session(3)), secret: SecretHash([23; 32]), proven_dead: false };
    let rule = DelayRule { least: Millis(2), most: Millis(50_000), fenced_by: vec![guard("ruled")] };
    let limits = SetLimits {
        limits: palisade_core::limits::Limits { sessions_max: 55, ..found().limits },
        more: MoreLimits { baton_bytes_max: 4_097, delay_rules_max: 56, cycle_search_max: 57 },
        history: HistorySizes { expired_max: 58, others_max: 59 },
    };
    vec![
        Command::OpenSession(open(21, "first")), // 1
        Command::OpenSession(open(22, "second")),
        Command::OpenSession(open(23, "before")), // 3
        Command::AcquireOnTerms(AcquireOnTerms {
            acquire: Acquire {
                owner: Some(OwnerLabel::new("task 2").expect("a label")),
                ..acquire(session(1), Some(1), "shared", Wait::Session)
            },
            terms: terms(),
        }), // 4
        Command::Acquire(shared(session(2))),
        Command::Downgrade(Downgrade { acquisition: of_first(1), lock: lock("shared"), token: token(4) }), // 6
        Command::ExpireSessions(ExpireSessions {
            epoch: LogIndex(2),
            sessions: vec![(SessionId(session(2)), LogIndex(at(5)))],
        }),
        permits(5), // 8
        permits(6),
        Command::Release(Release {
            acquisition: of_first(5),
            part: Some((lock("permits"), Slot(0))),
            token: token(8),
        }),
        Command::SetCapacity(SetCapacity { lock: lock("permits"), capacity: 3 }),
        Command::SetMetadata(SetMetadata {
            acquisition: of_first(1),
            token: token(6),
            revision: 4,
            metadata: payload("http://two:80/"),
        }),
        Command::SetBaton(SetBaton {
            acquisition: of_first(5),
            lock: lock("permits"),
            slot: Slot(1),
            token: token(8),
            revision: 3,
            baton: payload("half done"),
        }),
        Command::ReportProgress(ReportProgress { acquisition: of_first(1), token: token(6), number: 2 }),
        Command::Acquire(kept), // 15
        Command::Acquire(several),
        Command::OpenSession(OpenSession { replaces: Some(replaces), ..open(24, "after") }), // 17
        Command::ConfirmFloor(ConfirmFloor {
            guard: guard("a"),
            lock: lock("kept"),
            slot: Slot(0),
            floor: token(17),
            by: operator(),
        }),
        Command::SetDelayRule(SetDelayRule {
            prefix: LockPrefix::new("orders/").expect("a prefix"),
            rule: Some(rule),
        }),
        Command::SetLimits(limits),
        Command::Tick(Tick { epoch: LogIndex(2), previous: None }),
    ]
}
