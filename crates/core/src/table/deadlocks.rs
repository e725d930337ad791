//! Stories of owners that wait for each other (SPEC 4).

use crate::command::{ClusterVersion, Command, EndLockDelay, SetCapacity};
use crate::event::Event;
use crate::ids::{AcquisitionId, LogIndex, Slot};
use crate::reply::{Cycle, Ended, Refusal, Reply};
use crate::table::story::{Story, ask, id, lock, refusal};

/// Owner, client, acquisition and lock of each step.
fn steps(cycle: &Cycle) -> Vec<(&str, &str, AcquisitionId, &str)> {
    let told = cycle
        .steps
        .iter()
        .map(|step| (step.owner.as_str(), step.client.as_str(), step.acquisition, step.lock.as_str()));
    told.collect()
}

fn queued(reply: Reply) {
    assert!(matches!(reply, Reply::Queued { .. }), "{reply:?}");
}

fn deadlock(reply: Reply) -> Cycle {
    match reply {
        Reply::Refused(Refusal::WouldDeadlock(cycle)) => cycle,
        other => panic!("{other:?}"),
    }
}

fn gave_up(story: &Story) -> bool {
    story.events.iter().any(|event| matches!(event, Event::CycleSearchGivenUp { .. }))
}

#[test]
fn the_request_that_closes_a_cycle_is_refused_with_all_names() {
    let mut story = Story::begin();
    let (a, b) = (story.open("host-a"), story.open("host-b"));
    story.acquire(ask(a, 1, "l").of("indexer"));
    story.acquire(ask(b, 1, "m").of("mailer"));
    queued(story.acquire(ask(a, 2, "m").of("indexer")));
    let closing = || ask(b, 2, "l").of("mailer");
    let cycle = deadlock(story.acquire(closing()));
    let told = [("mailer", "host-b", id(b, 2), "l"), ("indexer", "host-a", id(a, 2), "m")];
    assert_eq!(steps(&cycle), told);
    assert_eq!(story.table.counts().waiting, 1);
    // Remembered: a copy that comes late is refused as well, when nothing is in its way any more.
    story.cancel(a, 2);
    story.cancel(a, 1);
    assert_eq!(deadlock(story.acquire(closing())), cycle);
    assert_eq!(story.renewed, Some(b));
}

#[test]
fn a_try_waits_for_nobody() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    story.acquire(ask(a, 1, "l").of("x"));
    story.acquire(ask(b, 1, "m").of("y"));
    queued(story.acquire(ask(a, 2, "m").of("x")));
    let tried = refusal(story.acquire(ask(b, 2, "l").of("y").trying()));
    assert!(matches!(tried, Refusal::Held { .. }), "{tried:?}");
    deadlock(story.acquire(ask(b, 3, "l").of("y").bounded(100)));
}

#[test]
fn without_a_label_it_takes_no_part_and_a_label_is_of_its_session() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    story.acquire(ask(a, 1, "l").of("main"));
    story.acquire(ask(b, 1, "m"));
    queued(story.acquire(ask(a, 2, "m").of("main")));
    queued(story.acquire(ask(b, 2, "l")));
    // Another process's task of the same name.
    queued(story.acquire(ask(b, 3, "l").of("main")));
    // Two tasks of one session.
    story.acquire(ask(a, 4, "n").of("other"));
    queued(story.acquire(ask(a, 5, "n").of("main")));
    deadlock(story.acquire(ask(a, 6, "l").of("other")));
}

#[test]
fn version_1_looks_for_none() {
    let mut story = Story::begin();
    let a = story.open("a");
    story.with_version(ClusterVersion(1));
    story.acquire(ask(a, 1, "l").of("x"));
    queued(story.acquire(ask(a, 2, "l").of("x")));
}

#[test]
fn who_asks_for_what_it_holds_or_for_more_of_it_waits_for_itself() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    story.acquire(ask(a, 1, "l").of("x"));
    let cycle = deadlock(story.acquire(ask(a, 2, "l").of("x")));
    assert_eq!(steps(&cycle), [("x", "a", id(a, 2), "l")]);
    // There is no upgrade.
    story.acquire(ask(a, 3, "m").shared().of("x"));
    story.acquire(ask(b, 1, "m").shared().of("y"));
    deadlock(story.acquire(ask(a, 4, "m").of("x")));
    queued(story.acquire(ask(b, 2, "l").of("y")));
}

#[test]
fn a_waiter_waits_for_every_incompatible_one_ahead_of_it() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    story.holds(c, 1, "l");
    queued(story.acquire(ask(a, 1, "l").of("x")));
    story.acquire(ask(b, 1, "k").of("y"));
    // In between are one without a label and a reader.
    story.waits(c, 2, "l");
    queued(story.acquire(ask(c, 3, "l").shared().of("z")));
    queued(story.acquire(ask(b, 2, "l").of("y")));
    let cycle = deadlock(story.acquire(ask(a, 2, "k").of("x")));
    assert_eq!(steps(&cycle), [("x", "a", id(a, 2), "k"), ("y", "b", id(b, 2), "l")]);
}

#[test]
fn readers_do_not_wait_for_readers() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    let held = story.holds(c, 1, "l");
    queued(story.acquire(ask(a, 1, "l").shared().of("x")));
    story.acquire(ask(b, 1, "k").of("y"));
    queued(story.acquire(ask(b, 2, "l").shared().of("y")));
    queued(story.acquire(ask(a, 2, "k").of("x")));
    story.release(c, 1, "l", held);
    assert_eq!(story.granted(), [(a, 1), (b, 2)]);
}

#[test]
fn a_path_through_a_semaphore_needs_the_holders_of_all_its_slots() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    story.acquire(ask(a, 1, "l").semaphore(2, 1).of("x"));
    story.acquire(ask(b, 1, "l").semaphore(2, 1).of("y"));
    story.acquire(ask(c, 1, "m").of("z"));
    queued(story.acquire(ask(a, 2, "m").of("x")));
    // y can still release its slot.
    queued(story.acquire(ask(c, 2, "l").semaphore(2, 1).of("z")));
    let cycle = deadlock(story.acquire(ask(b, 2, "m").of("y")));
    assert_eq!(steps(&cycle)[0], ("y", "b", id(b, 2), "m"));
    assert_eq!(steps(&cycle)[1], ("z", "c", id(c, 2), "l"));
    // Nor is it stuck where a slot is closed, or held without a label: those open.
    story.expire(&[b]);
    let began = story.index;
    queued(story.acquire(ask(a, 3, "l").semaphore(2, 1)));
    story.cancel(c, 2);
    let end = EndLockDelay { epoch: story.epoch(), lock: lock("l"), slot: Slot(1), began: LogIndex(began) };
    queued(story.acquire(ask(c, 3, "l").semaphore(2, 1).of("z")));
    story.apply(Command::EndLockDelay(end));
    assert_eq!(story.granted(), [(a, 3)]);
    queued(story.acquire(ask(c, 4, "l").semaphore(2, 1).of("w")));
}

#[test]
fn several_locks_at_once_wait_for_each_of_them() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    story.acquire(ask(a, 1, "l").of("x"));
    story.acquire(ask(b, 1, "n").of("y"));
    story.holds(c, 1, "m");
    queued(story.acquire(ask(a, 2, "m").and(ask(a, 2, "n")).of("x")));
    deadlock(story.acquire(ask(b, 2, "o").and(ask(b, 2, "l")).of("y")));
    assert!(story.table.lock(&lock("o")).is_none());
    // Whoever is behind it waits for it, also where the lock is idle.
    let d = story.open("d");
    queued(story.acquire(ask(d, 3, "p").of("w").and(ask(d, 3, "m"))));
    deadlock(story.acquire(ask(a, 3, "p").of("x")));
}

#[test]
fn a_handover_that_would_close_one_is_refused() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    let held = story.holds(a, 1, "l");
    story.acquire(ask(b, 1, "m").of("y"));
    queued(story.acquire(ask(b, 2, "l").of("y")));
    queued(story.acquire(ask(c, 1, "l").of("z")));
    queued(story.acquire(ask(c, 2, "m").of("z")));
    let cycle = deadlock(story.hand_over((a, 1), "l", held, Some(c)));
    assert_eq!(steps(&cycle), [("z", "c", id(c, 2), "m"), ("y", "b", id(b, 2), "l")]);
    assert_eq!(story.holder("l"), Some((a, 1, held)));
    // To the head it closes none.
    let given = story.hand_over((a, 1), "l", held, None);
    assert!(matches!(given, Reply::HandedOver { to, .. } if to == id(b, 2)), "{given:?}");
}

#[test]
fn beyond_its_bound_a_request_just_waits_and_is_told_of() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    story.acquire(ask(a, 1, "l").of("x"));
    story.acquire(ask(b, 1, "m").of("y"));
    queued(story.acquire(ask(a, 2, "m").of("x")));
    let held = story.holds(c, 1, "n");
    queued(story.acquire(ask(a, 3, "n").of("x")));
    story.waits(c, 2, "n");
    story.with_searches(2);
    queued(story.acquire(ask(b, 2, "l").of("y")));
    assert!(gave_up(&story));
    // A grant that finds the cycle later ends the youngest in it.
    story.with_searches(100);
    story.release(c, 1, "n", held);
    assert_eq!(story.granted(), [(a, 3)]);
    let ended = story.events.iter().find_map(|event| match event {
        Event::WaitEnded { acquisition, ended: Ended::Deadlocked, cycle: Some(cycle), .. } => {
            Some((*acquisition, cycle.steps.len()))
        }
        _ => None,
    });
    assert_eq!(ended, Some((id(b, 2), 2)));
    let repeat = refusal(story.acquire(ask(b, 2, "l").of("y")));
    let Refusal::AlreadyEnded { ended: Ended::Deadlocked, superseded: None } = repeat else {
        panic!("{repeat:?}")
    };
    assert_eq!(story.table.check_wait_cycles(), Ok(()));
    story.cancel(b, 1);
    assert_eq!(story.granted(), [(a, 2)]);
}

#[test]
fn owners_that_hold_nothing_cost_no_search() {
    let mut story = Story::begin();
    let a = story.open("a");
    story.with_searches(0);
    story.acquire(ask(a, 1, "l").of("x"));
    for _ in 0..20 {
        let other = story.open("b");
        queued(story.acquire(ask(other, 1, "l").of("y")));
        assert!(!gave_up(&story));
    }
}

#[test]
fn a_smaller_capacity_that_closes_one_ends_the_youngest_in_it() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    story.acquire(ask(a, 1, "l").semaphore(2, 1).of("x"));
    story.acquire(ask(c, 1, "l").semaphore(2, 1));
    story.acquire(ask(b, 1, "m").of("y"));
    queued(story.acquire(ask(a, 2, "m").of("x")));
    queued(story.acquire(ask(b, 2, "l").semaphore(2, 1).of("y")));
    let set = SetCapacity { lock: lock("l"), capacity: 1 };
    assert_eq!(story.apply(Command::SetCapacity(set)), Reply::Done);
    let deadlocked = story.events.iter().any(|event| {
        matches!(event, Event::WaitEnded { acquisition, ended: Ended::Deadlocked, .. } if *acquisition == id(b, 2))
    });
    assert!(deadlocked, "{:?}", story.events);
    assert_eq!(story.table.counts().waiting, 1);
}
