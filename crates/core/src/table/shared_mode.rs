//! Stories of shared mode: one tenure with a changing set of holders, and writers that do not starve (SPEC 4 and 5).

use super::{LockTable, Verdict};
use crate::command::LockDelay;
use crate::event::Event;
use crate::ids::{GuardName, Millis, Slot};
use crate::lock::{Delay, SlotState};
use crate::mode::Mode;
use crate::reply::{Ended, Refusal, Reply};
use crate::table::Presented;
use crate::table::story::{DELAY, Story, ask, id, lock, refusal, token};

fn delay<'a>(table: &'a LockTable, name: &str) -> &'a Delay {
    match table.lock(&lock(name)).and_then(|lock| lock.slots.get(&Slot(0))) {
        Some(SlotState::Delayed(delay)) => delay,
        other => panic!("{other:?}"),
    }
}

#[test]
fn shared_holders_carry_one_token_and_each_its_own_grant_index() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    let first = token(&story.acquire(ask(a, 1, "l").shared()));
    let Reply::Granted(second) = story.acquire(ask(b, 1, "l").shared()) else { panic!("it is shared") };
    assert_eq!((second.parts[0].token, second.parts[0].mode), (first, Mode::Shared));
    assert_eq!((second.grant_index, story.table.counts().held), (story.index, 1));
    // Two acquisitions of one session share as any others do.
    assert_eq!(token(&story.acquire(ask(b, 2, "l").shared().trying())), first);
    story.waits(c, 1, "l");
    assert_eq!(story.events.iter().filter(|event| matches!(event, Event::Contended { .. })).count(), 3);
    assert_eq!(story.acquire(ask(b, 1, "l").shared()), Reply::Granted(second), "repeated");
    for (session, number) in [(a, 1), (b, 1), (b, 2)] {
        assert_eq!(story.granted(), []);
        story.release(session, number, "l", first);
    }
    assert_eq!(story.granted(), [(c, 1)]);
    assert!(story.holder("l").is_some_and(|holder| holder.2 > first));
}

#[test]
fn b05_an_exclusive_request_waits_for_all_readers_and_is_alone() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    let read = token(&story.acquire(ask(a, 1, "l").shared()));
    story.waits(b, 1, "l");
    story.waits(c, 1, "l");
    story.expire(&[b]);
    story.release(a, 1, "l", read);
    assert_eq!(story.granted(), [(c, 1)]);
    assert_eq!(story.holders("l").len(), 1);
}

#[test]
fn a_reader_behind_a_waiting_writer_waits_too() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    let read = token(&story.acquire(ask(a, 1, "l").shared()));
    story.waits(b, 1, "l");
    // Nothing but the queue is in its way.
    assert_eq!(refusal(story.acquire(ask(c, 1, "l").shared().trying())), Refusal::Queue { waiting: 1 });
    let tried = refusal(story.acquire(ask(c, 2, "l").trying()));
    assert!(matches!(tried, Refusal::Held { waiting: 1, .. }), "{tried:?}");
    assert_eq!(story.acquire(ask(c, 3, "l").shared()), Reply::Queued { acquisition: id(c, 3), place: 2 });
    story.release(a, 1, "l", read);
    assert_eq!(story.granted(), [(b, 1)]);
}

#[test]
fn readers_at_the_head_join_in_one_entry_up_to_the_next_writer() {
    let mut story = Story::begin();
    let sessions: Vec<_> = (0..5).map(|_| story.open("s")).collect();
    let held = story.holds(sessions[0], 1, "l");
    story.acquire(ask(sessions[1], 1, "l").shared());
    story.acquire(ask(sessions[2], 1, "l").shared());
    story.waits(sessions[3], 1, "l");
    story.acquire(ask(sessions[4], 1, "l").shared());
    story.release(sessions[0], 1, "l", held);
    assert_eq!(story.granted(), [(sessions[1], 1), (sessions[2], 1)]);
    let now = story.index;
    let holders = [(0, sessions[1], 1, now), (0, sessions[2], 1, now)];
    assert_eq!(story.holders("l"), holders);
    // Each is told that a writer waits, and none of the one that joined it.
    let contended = story.events.iter().filter(|event| matches!(event, Event::Contended { .. }));
    assert_eq!(contended.count(), 2);
    // The writer gives up: who waited behind it joins the tenure that goes on.
    story.cancel(sessions[3], 1);
    assert_eq!(story.granted(), [(sessions[4], 1)]);
    assert_eq!(story.holders("l")[2], (0, sessions[4], 1, now));
    assert!(!story.events.iter().any(|event| matches!(event, Event::Contended { .. })));
}

#[test]
fn the_longest_delay_of_those_that_did_not_release_begins_with_the_last_holders_end() {
    let mut story = Story::begin();
    let (a, b, c, d) = (story.open("a"), story.open("b"), story.open("c"), story.open("d"));
    let with = |millis| LockDelay::Named(Millis(millis));
    let read = token(&story.acquire(ask(a, 1, "l").shared().delay(with(7_000))));
    story.acquire(ask(b, 1, "l").shared().delay(with(9_000)));
    story.acquire(ask(c, 1, "l").shared().delay(with(60_000)));
    story.expire(&[a, b]);
    assert_eq!(story.table.counts().delayed, 0, "the tenure goes on");
    // And others may still join it.
    story.acquire(ask(d, 1, "l").shared().trying());
    story.release(c, 1, "l", read);
    story.waits(c, 2, "l");
    story.release(d, 1, "l", read);
    let began = story.index;
    let now = delay(&story.table, "l");
    assert_eq!((now.delay, now.ended, now.began.0), (Millis(9_000), read, began));
    story.end_lock_delay(story.epoch(), "l", began);
    assert_eq!(story.granted(), [(c, 2)]);
}

#[test]
fn readers_that_all_release_close_or_cancel_leave_no_delay() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    let read = token(&story.acquire(ask(a, 1, "l").shared()));
    story.acquire(ask(b, 1, "l").shared());
    story.acquire(ask(c, 1, "l").shared());
    story.release(a, 1, "l", read);
    story.cancel(b, 1);
    story.close(c);
    assert_eq!((story.table.lock_count(), story.table.counts().delayed), (0, 0));
}

#[test]
fn guards_may_end_the_delay_only_if_all_that_left_it_named_some() {
    let guard = |name: &str| GuardName::new(name).unwrap();
    let named = |names: &[&str]| names.iter().map(|name| guard(name)).collect::<Vec<_>>();
    for (first, second, both) in
        [(named(&["x", "y"]), named(&["z", "y"]), named(&["x", "y", "z"])), (named(&["x"]), vec![], vec![])]
    {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        story.acquire(ask(a, 1, "l").shared().part(|part| part.fenced_by = first));
        story.acquire(ask(b, 1, "l").shared().part(|part| part.fenced_by = second));
        let read = token(&story.acquire(ask(c, 1, "l").shared()));
        story.expire(&[a]);
        story.release(c, 1, "l", read);
        story.expire(&[b]);
        assert_eq!(delay(&story.table, "l").guards, both);
    }
}

#[test]
fn a_single_reader_that_expired_is_over_while_its_token_is_not() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let read = token(&story.acquire(ask(a, 1, "l").shared()));
    story.acquire(ask(b, 1, "l").shared());
    story.expire(&[a]);
    let claim = |session| Presented {
        lock: lock("l"),
        slot: Slot(0),
        mode: Mode::Shared,
        token: read,
        acquisition: id(session, 1),
    };
    let over = Verdict::Over { ended: Ended::Expired, superseded_by: None, in_lock_delay: false };
    assert_eq!(story.table.verdict(&claim(a)), over);
    assert_eq!(story.table.verdict(&claim(b)), Verdict::Current);
    let exclusive = Presented { mode: Mode::Exclusive, ..claim(b) };
    assert_eq!(story.table.verdict(&exclusive), Verdict::NeverGranted);
    let began = story.events.iter().any(|event| matches!(event, Event::DelayStarted { .. }));
    assert!(!began);
    story.expire(&[b]);
    assert_eq!(delay(&story.table, "l").delay, DELAY);
}
