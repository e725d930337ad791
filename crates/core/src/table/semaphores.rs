//! Stories of locks with more than one slot (SPEC 4).

use super::Verdict;
use crate::command::{Command, Release};
use crate::ids::{LockName, LogIndex, SessionId, Slot};
use crate::reply::{Ended, Refusal, Reply};
use crate::table::story::{Story, ask, id, lock, refusal, token};
use crate::token::Token;

fn release(story: &mut Story, session: SessionId, number: u64, slot: u32, token: Token) -> Reply {
    let part: Option<(LockName, Slot)> = Some((lock("l"), Slot(slot)));
    story.apply(Command::Release(Release { acquisition: id(session, number), part, token }))
}

/// Slots and tokens.
fn taken(story: &Story) -> Vec<(u32, u64)> {
    story.holders("l").into_iter().map(|(slot, _, _, token)| (slot, token)).collect()
}

#[test]
fn each_takes_the_lowest_free_slot_under_a_token_of_its_own() {
    let mut story = Story::begin();
    let a = story.open("a");
    let tokens: Vec<_> =
        (1..=3).map(|number| token(&story.acquire(ask(a, number, "l").semaphore(3, 1)))).collect();
    assert_eq!(taken(&story), [(0, tokens[0].get()), (1, tokens[1].get()), (2, tokens[2].get())]);
    let tried = refusal(story.acquire(ask(a, 4, "l").semaphore(3, 1).trying()));
    assert!(matches!(tried, Refusal::Held { waiting: 0, .. }), "{tried:?}");
    story.acquire(ask(a, 5, "l").semaphore(3, 1));
    release(&mut story, a, 2, 1, tokens[1]);
    assert_eq!(story.granted(), [(a, 5)]);
    assert_eq!(taken(&story)[1], (1, story.index));
    release(&mut story, a, 3, 2, tokens[2]);
    release(&mut story, a, 1, 0, tokens[0]);
    token(&story.acquire(ask(a, 6, "l").semaphore(3, 1)));
    assert_eq!(taken(&story)[0], (0, story.index));
}

#[test]
fn b13_a_permit_that_is_asked_for_again_is_the_same_permit() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let first = story.acquire(ask(a, 1, "l").semaphore(2, 1));
    // The answer was lost on its way, and so was the next one.
    for _ in 0..2 {
        assert_eq!(story.acquire(ask(a, 1, "l").semaphore(2, 1)), first);
    }
    assert_eq!(taken(&story), [(0, token(&first).get())]);
    let second = token(&story.acquire(ask(b, 1, "l").semaphore(2, 1)));
    story.acquire(ask(b, 2, "l").semaphore(2, 1));
    release(&mut story, a, 1, 0, token(&first));
    assert_eq!(story.granted(), [(b, 2)], "no permit is left with nobody");
    assert_eq!(taken(&story), [(0, story.index), (1, second.get())]);
}

#[test]
fn another_capacity_than_the_one_in_use_is_refused_with_both() {
    let mut story = Story::begin();
    let a = story.open("a");
    let held = token(&story.acquire(ask(a, 1, "l").semaphore(3, 1)));
    let differs = |lock, asked| Refusal::CapacityDiffers { lock, asked };
    assert_eq!(refusal(story.acquire(ask(a, 2, "l").semaphore(4, 1))), differs(3, 4));
    assert_eq!(refusal(story.acquire(ask(a, 3, "l"))), differs(3, 1));
    assert_eq!(refusal(story.acquire(ask(a, 4, "l").shared())), differs(3, 1));
    release(&mut story, a, 1, 0, held);
    // A lock that is not in use has none.
    token(&story.acquire(ask(a, 5, "l").semaphore(4, 1)));
}

#[test]
fn several_permits_are_granted_together_under_one_token() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    let one = token(&story.acquire(ask(a, 1, "l").semaphore(4, 1)));
    let Reply::Granted(three) = story.acquire(ask(b, 1, "l").semaphore(4, 3)) else {
        panic!("they are free")
    };
    let slots: Vec<_> = three.parts.iter().map(|part| (part.slot.0, part.token.get())).collect();
    assert_eq!(slots, [(1, story.index), (2, story.index), (3, story.index)]);
    assert_eq!(story.table.counts().held, 4);
    // Two do not fit, and who asks for one does not pass them.
    story.acquire(ask(c, 1, "l").semaphore(4, 2));
    release(&mut story, a, 1, 0, one);
    assert_eq!(story.granted(), []);
    story.acquire(ask(c, 2, "l").semaphore(4, 1));
    let tried = refusal(story.acquire(ask(c, 3, "l").semaphore(4, 1).trying()));
    assert_eq!(tried, Refusal::Queue { waiting: 2 });
    release(&mut story, b, 1, 2, three.parts[0].token);
    assert_eq!(story.granted(), [(c, 1)]);
    let now = story.index;
    let three = three.parts[0].token.get();
    assert_eq!(taken(&story), [(0, now), (1, three), (2, now), (3, three)]);
}

#[test]
fn each_slot_is_released_and_told_of_by_itself() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let held = token(&story.acquire(ask(a, 1, "l").semaphore(3, 3)));
    assert_eq!(release(&mut story, a, 1, 1, held), Reply::Released(Ended::Released));
    assert_eq!(release(&mut story, a, 1, 1, held), Reply::Released(Ended::Released), "repeated");
    let other = token(&story.acquire(ask(b, 1, "l").semaphore(3, 1)));
    assert_eq!(story.holders("l")[1], (1, b, 1, other.get()));
    assert_eq!(release(&mut story, a, 1, 1, held), Reply::Released(Ended::Released));
    release(&mut story, b, 1, 1, other);
    // Whose end is the last that the slot knows of is another's now.
    assert_eq!(release(&mut story, a, 1, 1, held), Reply::Released(Ended::Forgotten));
    assert!(matches!(refusal(release(&mut story, a, 1, 1, other)), Refusal::NotHeld { .. }));
    assert_eq!(taken(&story), [(0, held.get()), (2, held.get())]);
    let claim = |slot| super::Presented {
        lock: lock("l"),
        slot: Slot(slot),
        mode: crate::mode::Mode::Exclusive,
        token: held,
        acquisition: id(a, 1),
    };
    let forgotten = Verdict::Over { ended: Ended::Forgotten, superseded_by: None, in_lock_delay: false };
    assert_eq!(story.table.verdict(&claim(1)), forgotten);
    assert_eq!(story.table.verdict(&claim(2)), Verdict::Current);
    let all = Release { acquisition: id(a, 1), part: None, token: held };
    assert_eq!(story.apply(Command::Release(all)), Reply::Released(Ended::Released));
    assert_eq!(release(&mut story, a, 1, 2, held), Reply::Released(Ended::Released));
    assert_eq!(story.table.lock_count(), 0);
}

#[test]
fn each_slot_has_its_own_delay() {
    let mut story = Story::begin();
    let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
    story.acquire(ask(a, 1, "l").semaphore(3, 2));
    let other = token(&story.acquire(ask(b, 1, "l").semaphore(3, 1)));
    story.expire(&[a]);
    let began = LogIndex(story.index);
    assert_eq!((story.table.counts().held, story.table.counts().delayed), (1, 2));
    story.acquire(ask(c, 1, "l").semaphore(3, 1));
    story.acquire(ask(c, 2, "l").semaphore(3, 1));
    release(&mut story, b, 1, 2, other);
    assert_eq!(story.granted(), [(c, 1)]);
    let end = crate::command::EndLockDelay { epoch: story.epoch(), lock: lock("l"), slot: Slot(1), began };
    story.apply(Command::EndLockDelay(end));
    assert_eq!(story.granted(), [(c, 2)]);
    assert_eq!(story.holders("l").iter().map(|holder| holder.0).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_semaphore_of_the_largest_capacity_is_filled_at_once() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let max = crate::limits::CAPACITY_MAX;
    let held = token(&story.acquire(ask(a, 1, "l").semaphore(max, max - 1)));
    token(&story.acquire(ask(b, 1, "l").semaphore(max, 1)));
    story.acquire(ask(b, 2, "l").semaphore(max, 2));
    release(&mut story, a, 1, 7, held);
    assert_eq!(story.granted(), []);
    release(&mut story, a, 1, 5, held);
    assert_eq!(story.granted(), [(b, 2)]);
    let slots: Vec<_> = story.holders("l").iter().filter(|held| held.1 == b).map(|held| held.0).collect();
    assert_eq!(slots, [5, 7, max - 1]);
}
