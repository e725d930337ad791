//! Stories of what an acquire may ask: arguments, limits, and the ends of the number lines (SPEC 12).

use crate::command::{AcquireOnTerms, ClusterVersion, Command, LockDelay, Terms};
use crate::ids::{GuardName, LogIndex, Millis, RequestNumber, SessionId};
use crate::limits::{
    CAPACITY_MAX, DEADLINE_MAX, DEADLINE_MIN, GUARDS_MAX, LOCK_DELAY_MAX, Limits, PARTS_MAX, WAIT_MAX,
};
use crate::mode::Mode;
use crate::reply::{BadArgument, LimitName, NotYet, Refusal, Reply};
use crate::table::story::{Story, ask, id, refusal, token};
use crate::token::TokenBase;

#[test]
fn b68_tokens_are_whole_numbers_up_to_the_largest() {
    for edge in [1_u64 << 31, 1 << 32, (1 << 53) - 100] {
        let mut story = Story::founded_at(edge - 7, TokenBase::default(), Limits::default());
        let (a, b) = (story.open("a"), story.open("b"));
        let first = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        for _ in 0..8 {
            story.open("c");
        }
        story.release(a, 1, "l", first);
        let second = story.holder("l").expect("b holds").2;
        assert!(first.get() < edge && edge < second.get() && first < second);
    }
}

#[test]
fn numbers_run_to_the_largest_and_no_further() {
    let mut story = Story::begin();
    let a = story.open("a");
    let held = story.holds(a, u64::MAX, "l");
    assert_eq!(token(&story.acquire(ask(a, u64::MAX, "l"))), held);
    // Not the grant of another task of this session.
    let refused = refusal(story.acquire(ask(a, 1, "l").unnumbered()));
    assert_eq!(refused, Refusal::BadArgument(BadArgument::NumberReused));
    let refused = refusal(story.acquire(ask(a, 1, "m").marked(u64::MAX)));
    assert_eq!(refused, Refusal::BelowMark { mark: RequestNumber(u64::MAX) });
    story.release(a, u64::MAX, "l", held);
    assert!(story.holder("l").is_none());
}

#[test]
fn what_is_out_of_bounds_is_refused_and_not_remembered() {
    let mut story = Story::begin();
    let a = story.open("a");
    let guards = vec![GuardName::new("g").unwrap(); GUARDS_MAX + 1];
    let mut nothing = ask(a, 1, "l");
    nothing.parts.clear();
    let mut twice = ask(a, 1, "l");
    twice.parts.push(twice.parts[0].clone());
    let mut many = ask(a, 1, "l");
    many.parts = vec![many.parts[0].clone(); PARTS_MAX + 1];
    let cases = [
        (ask(a, 0, "l"), BadArgument::NumberZero),
        (nothing, BadArgument::Parts),
        (many, BadArgument::Parts),
        (twice, BadArgument::LockTwice),
        (ask(a, 1, "l").bounded(0), BadArgument::Wait),
        (ask(a, 1, "l").bounded(WAIT_MAX.0 + 1), BadArgument::Wait),
        (ask(a, 1, "l").part(|part| part.capacity = 0), BadArgument::Capacity),
        (ask(a, 1, "l").part(|part| part.capacity = CAPACITY_MAX + 1), BadArgument::Capacity),
        (ask(a, 1, "l").part(|part| part.permits = 0), BadArgument::Permits),
        (ask(a, 1, "l").part(|part| part.permits = 2), BadArgument::Permits),
        (ask(a, 1, "l").delay(LockDelay::Named(Millis(LOCK_DELAY_MAX.0 + 1))), BadArgument::LockDelay),
        (ask(a, 1, "l").part(|part| part.fenced_by = guards), BadArgument::Guards),
        (ask(a, 1, "l").semaphore(2, 1).shared(), BadArgument::Mode),
    ];
    for (request, what) in cases {
        assert_eq!(refusal(story.acquire(request)), Refusal::BadArgument(what));
        assert_eq!(story.renewed, Some(a), "its session is alive");
    }
    story.holds(a, 1, "l");
}

#[test]
fn what_has_a_place_in_the_format_only_is_refused_by_version_1() {
    let mut story = Story::begin();
    story.with_version(ClusterVersion(1));
    let a = story.open("a");
    let shared = ask(a, 1, "l").part(|part| part.mode = Mode::Shared);
    let semaphore = ask(a, 1, "l").part(|part| part.capacity = 2);
    let mut several = ask(a, 1, "l");
    several.parts.extend(ask(a, 1, "m").parts);
    for (request, what) in
        [(shared, NotYet::SharedMode), (semaphore, NotYet::Semaphores), (several, NotYet::SeveralLocks)]
    {
        assert_eq!(refusal(story.acquire(request)), Refusal::NotYet(what));
    }
    let on_terms = AcquireOnTerms { acquire: ask(a, 1, "l"), terms: Terms::default() };
    let refused = refusal(story.apply(Command::AcquireOnTerms(on_terms)));
    assert_eq!(refused, Refusal::NotYet(NotYet::ThisCommand));
}

#[test]
fn deadlines_are_at_least_a_second_and_at_most_thirty_days() {
    let mut story = Story::begin();
    let a = story.open("a");
    let on_terms = |number, hold_max, progress_every| {
        let terms = Terms { hold_max, progress_every, ..Terms::default() };
        Command::AcquireOnTerms(AcquireOnTerms { acquire: ask(a, number, "l"), terms })
    };
    for outside in [Millis(0), Millis(DEADLINE_MIN.0 - 1), Millis(DEADLINE_MAX.0 + 1)] {
        for command in [on_terms(1, Some(outside), None), on_terms(1, None, Some(outside))] {
            assert_eq!(refusal(story.apply(command)), Refusal::BadArgument(BadArgument::Deadline));
        }
    }
    let Reply::Granted(grant) = story.apply(on_terms(1, Some(DEADLINE_MAX), Some(DEADLINE_MIN))) else {
        panic!("it is free")
    };
    assert_eq!((grant.hold_max, grant.progress_every), (Some(DEADLINE_MAX), Some(DEADLINE_MIN)));
    // The terms are of the content: the same request on others is another.
    assert_eq!(story.apply(on_terms(1, Some(DEADLINE_MAX), Some(DEADLINE_MIN))), Reply::Granted(grant));
    let reused = Refusal::BadArgument(BadArgument::NumberReused);
    assert_eq!(refusal(story.apply(on_terms(1, Some(DEADLINE_MAX), None))), reused);
    assert_eq!(refusal(story.acquire(ask(a, 1, "l"))), reused);
}

#[test]
fn at_its_limits_one_more_is_refused() {
    let mut story = Story::with_limits(|limits| {
        limits.locks_max = 2;
        limits.waiters_per_lock_max = 1;
        limits.acquisitions_per_session_max = 3;
    });
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    story.holds(a, 1, "l");
    story.holds(a, 2, "m");
    let limit = |limit, max| Refusal::LimitReached { limit, max };
    assert_eq!(refusal(story.acquire(ask(a, 3, "n"))), limit(LimitName::Locks, 2));
    story.waits(b, 1, "l");
    assert_eq!(refusal(story.acquire(ask(c, 1, "l"))), limit(LimitName::WaitersPerLock, 1));
    story.waits(a, 4, "m");
    assert_eq!(refusal(story.acquire(ask(a, 5, "l"))), limit(LimitName::AcquisitionsPerSession, 3));
    // What is full for new ones still knows the old.
    assert_eq!(story.acquire(ask(b, 1, "l")), Reply::Queued { acquisition: id(b, 1), place: 1 });
}

#[test]
fn b116_a_session_that_never_was_asks_in_vain() {
    let mut story = Story::begin();
    assert_eq!(refusal(story.acquire(ask(SessionId(999), 1, "l"))), Refusal::SessionUnknown);
    assert_eq!((story.renewed, story.table.lock_count()), (None, 0));
}

#[test]
fn before_the_founding_nothing_is_granted() {
    let mut story = Story::unfounded();
    assert_eq!(refusal(story.acquire(ask(SessionId(1), 1, "l"))), Refusal::NotFounded);
    assert_eq!(story.table.header().applied, LogIndex(1));
}
