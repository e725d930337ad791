//! Stories of requests that come twice, late, or under a number that was used before (SPEC 6).

use crate::command::LockDelay;
use crate::ids::{Millis, RequestNumber};
use crate::reply::{BadArgument, CancelMet, Ended, LimitName, Refusal, Reply};
use crate::table::story::{Story, ask, id, refusal, token};

#[test]
fn b49_repeated_while_it_holds_it_is_the_same_grant() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let first = story.acquire(ask(a, 1, "l"));
    story.waits(b, 1, "l");
    assert_eq!(story.acquire(ask(a, 1, "l")), first);
    assert_eq!(story.granted(), []);
    assert_eq!((story.table.counts().held, story.table.counts().waiting), (1, 1));
}

#[test]
fn repeated_while_it_waits_it_keeps_its_place() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    let held = story.holds(a, 1, "l");
    story.waits(b, 1, "l");
    story.waits(c, 1, "l");
    assert_eq!(story.acquire(ask(b, 1, "l")), Reply::Queued { acquisition: id(b, 1), place: 1 });
    assert_eq!(story.acquire(ask(c, 1, "l")), Reply::Queued { acquisition: id(c, 1), place: 2 });
    story.release(a, 1, "l", held);
    assert_eq!(story.granted(), [(b, 1)]);
}

#[test]
fn b26_after_its_end_a_repeat_says_so_and_acquires_nothing() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let held = story.holds(a, 1, "l");
    story.release(a, 1, "l", held);
    let ended = |superseded| Refusal::AlreadyEnded { ended: Ended::Released, superseded };
    assert_eq!(refusal(story.acquire(ask(a, 1, "l"))), ended(None));
    assert!(story.holder("l").is_none());
    story.holds(b, 1, "l");
    let Refusal::AlreadyEnded { superseded: Some(now), .. } = refusal(story.acquire(ask(a, 1, "l"))) else {
        panic!("b holds")
    };
    assert_eq!(now.acquisition, id(b, 1));
}

#[test]
fn a_refused_try_that_comes_again_late_is_refused_again() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let held = story.holds(a, 1, "l");
    let first = story.acquire(ask(b, 1, "l").trying());
    story.release(a, 1, "l", held);
    assert_eq!(story.acquire(ask(b, 1, "l").trying()), first);
    assert!(story.holder("l").is_none());
    // A new number is a new request.
    token(&story.acquire(ask(b, 2, "l").trying()));
}

#[test]
fn a_known_number_with_other_content_is_a_bad_argument() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let reused = Refusal::BadArgument(BadArgument::NumberReused);
    let held = story.holds(a, 1, "l");
    assert_eq!(refusal(story.acquire(ask(a, 1, "m"))), reused);
    assert_eq!(refusal(story.acquire(ask(a, 1, "l").trying())), reused);
    story.waits(b, 1, "l");
    assert_eq!(refusal(story.acquire(ask(b, 1, "l").bounded(5))), reused);
    story.release(a, 1, "l", held);
    assert_eq!(refusal(story.acquire(ask(a, 1, "m"))), reused);
    assert!(story.holder("m").is_none());
}

#[test]
fn a_default_delay_that_changed_meanwhile_is_no_other_content() {
    let mut story = Story::begin();
    let a = story.open("a");
    let first = story.acquire(ask(a, 1, "l").delay(LockDelay::Default(Millis(15_000))));
    assert_eq!(story.acquire(ask(a, 1, "l").delay(LockDelay::Default(Millis(9_000)))), first);
    let named = refusal(story.acquire(ask(a, 1, "l").delay(LockDelay::Named(Millis(15_000)))));
    assert_eq!(named, Refusal::BadArgument(BadArgument::NumberReused));
}

#[test]
fn numbers_need_not_arrive_in_order() {
    let mut story = Story::begin();
    let a = story.open("a");
    story.holds(a, 9, "l");
    story.holds(a, 3, "m");
    story.holds(a, 5, "n");
}

#[test]
fn below_the_mark_only_what_waits_or_holds_is_known() {
    let mut story = Story::begin();
    let a = story.open("a");
    let ended = story.holds(a, 1, "l");
    story.holds(a, 2, "m");
    story.waits(a, 3, "m");
    story.release(a, 1, "l", ended);
    story.acquire(ask(a, 5, "n").marked(5));
    let below = Refusal::BelowMark { mark: RequestNumber(5) };
    assert_eq!(refusal(story.acquire(ask(a, 1, "l"))), below);
    assert_eq!(refusal(story.acquire(ask(a, 4, "o"))), below, "one that never arrived has no effect either");
    assert!(story.holder("l").is_none() && story.holder("o").is_none());
    assert!(matches!(story.acquire(ask(a, 2, "m")), Reply::Granted(_)));
    assert!(matches!(story.acquire(ask(a, 3, "m")), Reply::Queued { .. }));
    assert_eq!(story.release(a, 1, "l", ended), Reply::Released(Ended::Forgotten));
    assert_eq!(story.cancel(a, 4), Reply::Cancelled(CancelMet::Ended(Ended::Forgotten)));
}

#[test]
fn the_mark_never_goes_back() {
    let mut story = Story::begin();
    let a = story.open("a");
    story.acquire(ask(a, 9, "l").marked(9));
    story.acquire(ask(a, 10, "m").marked(2));
    assert_eq!(refusal(story.acquire(ask(a, 3, "n"))), Refusal::BelowMark { mark: RequestNumber(9) });
}

#[test]
fn what_ends_below_the_mark_leaves_no_outcome() {
    let mut story = Story::begin();
    let a = story.open("a");
    let held = story.holds(a, 1, "l");
    story.acquire(ask(a, 5, "m").marked(5));
    story.release(a, 1, "l", held);
    assert_eq!(story.table.session(a).unwrap().outcomes.len(), 0);
    assert_eq!(refusal(story.acquire(ask(a, 1, "l"))), Refusal::BelowMark { mark: RequestNumber(5) });
}

#[test]
fn at_the_limit_of_outcomes_new_requests_are_refused_until_the_mark_moves() {
    let mut story = Story::with_limits(|limits| limits.outcomes_per_session_max = 3);
    let a = story.open("a");
    let first = story.holds(a, 1, "l");
    story.release(a, 1, "l", first);
    story.cancel(a, 2);
    story.holds(a, 3, "l");
    let full = Refusal::LimitReached { limit: LimitName::OutcomesPerSession, max: 3 };
    assert_eq!(refusal(story.acquire(ask(a, 4, "m"))), full);
    assert_eq!(refusal(story.cancel(a, 4)), full);
    // Neither left a trace; what is known is still answered.
    assert!(matches!(story.acquire(ask(a, 3, "l")), Reply::Granted(_)));
    assert_eq!(story.cancel(a, 2), Reply::Cancelled(CancelMet::Ended(Ended::Cancelled)));
    token(&story.acquire(ask(a, 4, "m").marked(3)));
}

#[test]
fn release_and_cancel_of_what_is_known_leave_no_outcome_of_their_own() {
    let mut story = Story::begin();
    let a = story.open("a");
    let held = story.holds(a, 1, "l");
    for _ in 0..3 {
        story.release(a, 1, "l", held);
        story.cancel(a, 1);
    }
    assert_eq!(story.table.session(a).unwrap().outcomes.len(), 1);
}

#[test]
fn a_snapshot_of_the_table_is_not_touched_by_what_follows() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let held = story.holds(a, 1, "l");
    story.waits(b, 1, "l");
    let snapshot = story.table.clone();
    let same = snapshot.clone();
    story.release(a, 1, "l", held);
    story.close(b);
    story.expire(&[a]);
    assert!(snapshot == same && snapshot != story.table);
    assert_eq!((snapshot.session_count(), snapshot.lock_count()), (2, 1));
    assert_eq!((snapshot.counts().held, snapshot.counts().waiting), (1, 1));
    assert_eq!(snapshot.check_invariants(), Ok(()));
}
