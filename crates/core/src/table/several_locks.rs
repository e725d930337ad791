//! Stories of several locks at once: all or none, one place in every queue, nobody starves (SPEC 4).

use super::Verdict;
use crate::command::{Command, LockDelay, Release};
use crate::event::Event;
use crate::ids::{Millis, SessionId};
use crate::limits::Limits;
use crate::reply::{Ended, LimitName, Refusal, Reply};
use crate::table::story::{Story, ask, id, lock, refusal, token};

fn both(session: SessionId, number: u64) -> crate::command::Acquire {
    ask(session, number, "l").and(ask(session, number, "m"))
}

#[test]
fn all_are_granted_under_one_token_and_end_each_by_itself() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let Reply::Granted(grant) = story.acquire(both(a, 1)) else { panic!("they are free") };
    let parts: Vec<_> = grant.parts.iter().map(|part| (part.lock.as_str(), part.token.get())).collect();
    assert_eq!(parts, [("l", story.index), ("m", story.index)]);
    let held = grant.parts[0].token;
    story.waits(b, 1, "m");
    assert_eq!(story.release(a, 1, "m", held), Reply::Released(Ended::Released));
    assert_eq!(story.granted(), [(b, 1)]);
    assert_eq!(story.holder("l"), Some((a, 1, held)));
    assert_eq!(story.acquire(both(a, 1)), Reply::Granted(story.table.grant(id(a, 1)).unwrap()));
    assert_eq!(story.release(a, 1, "m", held), Reply::Released(Ended::Released), "repeated");
    story.expire(&[a]);
    assert_eq!(story.table.counts().delayed, 1, "of what it still held");
}

#[test]
fn it_holds_nothing_while_it_waits_and_those_behind_wait_also_for_what_is_idle() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    let held = story.holds(a, 1, "m");
    assert_eq!(story.acquire(both(b, 1)), Reply::Queued { acquisition: id(b, 1), place: 1 });
    assert!(story.events.contains(&Event::Contended { holder: id(a, 1), lock: lock("m") }));
    assert_eq!(story.holders("l"), []);
    assert_eq!(refusal(story.acquire(ask(c, 1, "l").trying())), Refusal::Queue { waiting: 1 });
    story.waits(c, 2, "l");
    assert_eq!(story.acquire(both(c, 3)), Reply::Queued { acquisition: id(c, 3), place: 3 });
    story.release(a, 1, "m", held);
    assert_eq!(story.granted(), [(b, 1)]);
    let token = story.holder("l").unwrap().2;
    // One by one, in order.
    story.release(b, 1, "m", token);
    assert_eq!(story.granted(), []);
    story.release(b, 1, "l", token);
    assert_eq!(story.granted(), [(c, 2)]);
    story.cancel(c, 2);
    assert_eq!(story.granted(), [(c, 3)]);
}

#[test]
fn a_stream_of_single_requests_does_not_starve_it() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let (mut on_l, mut on_m) = (story.holds(a, 1, "l"), story.holds(a, 2, "m"));
    story.acquire(both(b, 1));
    for number in 1..=10 {
        story.waits(a, 10 * number, "l");
        story.waits(a, 10 * number + 1, "m");
    }
    story.release(a, 1, "l", on_l);
    assert_eq!(story.granted(), []);
    story.release(a, 2, "m", on_m);
    assert_eq!(story.granted(), [(b, 1)]);
    story.cancel(b, 1);
    assert_eq!(story.granted(), [(a, 10), (a, 11)]);
    (on_l, on_m) = (story.holder("l").unwrap().2, story.holder("m").unwrap().2);
    assert_eq!(on_l, on_m, "two tenures of two locks may begin in one entry");
}

#[test]
fn who_leaves_one_queue_makes_room_in_all_of_them() {
    let mut story = Story::begin();
    let (a, b, c, d) = (story.open("a"), story.open("b"), story.open("c"), story.open("d"));
    let held = story.holds(a, 1, "m");
    story.acquire(both(b, 1));
    story.acquire(ask(c, 1, "l").and(ask(c, 1, "n")));
    story.waits(d, 1, "n");
    assert_eq!(story.holders("n"), []);
    // The head of l ends; the next one is at the head of n too; the one behind it there waits on.
    story.cancel(b, 1);
    assert_eq!(story.granted(), [(c, 1)]);
    story.cancel(c, 1);
    assert_eq!(story.granted(), [(d, 1)]);
    story.cancel(d, 1);
    story.release(a, 1, "m", held);
    assert_eq!((story.table.lock_count(), story.table.counts().waiting), (0, 0));
}

#[test]
fn a_chain_of_heads_is_granted_in_one_entry() {
    let mut story = Story::begin();
    let (a, b, c, d) = (story.open("a"), story.open("b"), story.open("c"), story.open("d"));
    let held = story.holds(a, 1, "l");
    story.acquire(ask(b, 1, "l").shared().and(ask(b, 1, "m").shared()));
    story.acquire(ask(c, 1, "m").shared().and(ask(c, 1, "n")));
    story.acquire(ask(d, 1, "l").shared().and(ask(d, 1, "o")));
    story.release(a, 1, "l", held);
    // Of l only b was at the head; c became one by its grant, and so did d.
    assert_eq!(story.granted(), [(b, 1), (c, 1), (d, 1)]);
    assert_eq!(story.holders("m").len(), 2);
}

#[test]
fn it_joins_what_is_shared_and_begins_what_is_not() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let read = token(&story.acquire(ask(a, 1, "l").shared()));
    let Reply::Granted(grant) = story.acquire(ask(b, 1, "l").shared().and(ask(b, 1, "m"))) else {
        panic!("it fits")
    };
    let tokens: Vec<_> = grant.parts.iter().map(|part| part.token.get()).collect();
    assert_eq!(tokens, [read.get(), story.index]);
    // All parts at once only where all are under the named token.
    let all = Release { acquisition: id(b, 1), part: None, token: read };
    assert!(matches!(refusal(story.apply(Command::Release(all))), Refusal::NotHeld { .. }));
    story.release(b, 1, "l", read);
    assert_eq!(story.release(b, 1, "m", grant.parts[1].token), Reply::Released(Ended::Released));
    assert_eq!(story.release(b, 1, "l", read), Reply::Released(Ended::Released), "of the last part but one");
}

#[test]
fn each_part_has_its_own_delay() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let undelayed = ask(a, 1, "m").delay(LockDelay::Named(Millis(0)));
    story.acquire(ask(a, 1, "l").and(undelayed));
    story.waits(b, 1, "l");
    story.waits(b, 2, "m");
    story.expire(&[a]);
    let began = story.index;
    assert_eq!(story.granted(), [(b, 2)]);
    story.end_lock_delay(story.epoch(), "l", began);
    assert_eq!(story.granted(), [(b, 1)]);
}

#[test]
fn it_is_refused_whole_by_what_refuses_one_of_its_parts() {
    let mut story = Story::founded_at(
        0,
        Default::default(),
        Limits { locks_max: 3, waiters_per_lock_max: 1, ..Limits::default() },
    );
    let (a, b) = (story.open("a"), story.open("b"));
    story.acquire(ask(a, 1, "l").semaphore(2, 2));
    let limit = |limit, max| Refusal::LimitReached { limit, max };
    let four = ask(b, 1, "m").and(ask(b, 1, "n")).and(ask(b, 1, "o"));
    assert_eq!(refusal(story.acquire(four)), limit(LimitName::Locks, 3));
    // What no patience helps against is told before what it does.
    let taken = ask(b, 2, "l").semaphore(2, 1).and(ask(b, 2, "l2")).and(ask(b, 2, "l3").trying());
    assert!(matches!(refusal(story.acquire(taken.trying())), Refusal::Held { .. }));
    story.holds(a, 2, "m");
    let differs = ask(b, 3, "m").and(ask(b, 3, "l")).trying();
    assert_eq!(refusal(story.acquire(differs)), Refusal::CapacityDiffers { lock: 2, asked: 1 });
    story.waits(a, 3, "m");
    let full = ask(b, 4, "l").semaphore(2, 1).and(ask(b, 4, "m"));
    assert_eq!(refusal(story.acquire(full)), limit(LimitName::WaitersPerLock, 1));
    assert_eq!(story.table.counts().waiting, 1);
}

#[test]
fn with_its_session_it_leaves_all_its_queues() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    story.holds(a, 1, "m");
    story.acquire(both(b, 1));
    story.waits(c, 1, "l");
    story.expire(&[b]);
    assert_eq!(story.granted(), [(c, 1)]);
}

#[test]
fn how_a_part_ended_long_before_the_last_one_is_forgotten_and_never_denied() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let held = token(&story.acquire(both(a, 1)));
    story.release(a, 1, "l", held);
    let next = story.holds(b, 1, "l");
    story.release(b, 1, "l", next);
    story.release(a, 1, "m", held);
    let forgotten = Verdict::Over { ended: Ended::Forgotten, superseded_by: None, in_lock_delay: false };
    assert_eq!(story.verdict(a, 1, "l", held), forgotten);
    let released = Verdict::Over { ended: Ended::Released, superseded_by: None, in_lock_delay: false };
    assert_eq!(story.verdict(a, 1, "m", held), released);
}

#[test]
fn a_part_that_was_released_did_not_expire_with_its_session() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let held = token(&story.acquire(both(a, 1)));
    story.release(a, 1, "l", held);
    let next = story.holds(b, 1, "l");
    story.release(b, 1, "l", next);
    story.expire(&[a]);
    let over = |ended, in_lock_delay| Verdict::Over { ended, superseded_by: None, in_lock_delay };
    assert_eq!(story.verdict(a, 1, "l", held), over(Ended::Forgotten, false));
    assert_eq!(story.verdict(a, 1, "m", held), over(Ended::Expired, true));
}
