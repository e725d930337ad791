//! Stories of what is done to one of several: a part of an acquisition, a slot of a semaphore, a holder of a shared
//! tenure (SPEC 3, 4, 5).

use crate::command::{
    Acquire, BreakLock, Command, ConfirmFloor, EndLockDelay, EndOverdue, EndSession, OpenSession, Overdue,
    Release, Replaces, SetBaton, SetCapacity, SetMetadata, Terms,
};
use crate::event::Event;
use crate::ids::{AcquisitionId, LogIndex, Millis, Principal, SessionId, Slot};
use crate::lock::Delay;
use crate::mode::Mode;
use crate::reply::{Ended, Refusal, Reply, TakenState, TookOver};
use crate::table::story::{DELAY, Story, ask, guard, id, lock, payload, refusal, token};
use crate::token::Token;

/// The TTL of a story's sessions, and their delay.
const CLOSED: Millis = Millis(10_000 + DELAY.0);

fn both(session: SessionId, number: u64) -> Acquire {
    ask(session, number, "l").and(ask(session, number, "m"))
}

fn break_slot(story: &mut Story, name: &str, slot: u32, token: Token, closed: Option<u64>) -> Reply {
    let (lock, slot, by) = (lock(name), Slot(slot), Principal::anonymous());
    story.apply(Command::BreakLock(BreakLock { lock, slot, token, closed: closed.map(Millis), by }))
}

fn delay<'a>(story: &'a Story, name: &str, slot: u32) -> Option<&'a Delay> {
    story.table.delay(&lock(name), Slot(slot))
}

fn leave(
    story: &mut Story,
    acquisition: AcquisitionId,
    name: &str,
    slot: u32,
    token: Token,
    text: &str,
) -> Reply {
    let (lock, slot, baton) = (lock(name), Slot(slot), payload(text));
    story.apply(Command::SetBaton(SetBaton { acquisition, lock, slot, token, revision: 0, baton }))
}

fn take_over(story: &mut Story, old: SessionId, proven_dead: bool) -> TookOver {
    let secret = story.table.session(old).expect("it lives").secret;
    let replaces = Some(Replaces { session: old, secret, proven_dead });
    let opening = OpenSession { replaces, ..story.opening("again") };
    match story.apply(Command::OpenSession(opening)) {
        Reply::TookOver(took) => took,
        other => panic!("{other:?}"),
    }
}

fn confirm(story: &mut Story, name: &str, by: &str) {
    let floor = Token::new(delay(story, name, 0).expect("it is closed").began.0).expect("a token");
    let (guard, lock, slot, by) = (guard(by), lock(name), Slot(0), Principal::anonymous());
    story.apply(Command::ConfirmFloor(ConfirmFloor { guard, lock, slot, floor, by }));
}

#[test]
fn a_broken_part_is_gone_and_the_others_stay() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let held = token(&story.acquire(both(a, 1)));
    let Reply::Broken { closed: CLOSED, .. } = break_slot(&mut story, "m", 0, held, None) else {
        panic!("it is held")
    };
    assert_eq!(story.holder("l"), Some((a, 1, held)));
    assert!(delay(&story, "m", 0).is_some());
    // A late write to the part that is gone is told so, and the acquisition's own still work.
    let late = refusal(leave(&mut story, id(a, 1), "m", 0, held, "x"));
    assert_eq!(late, Refusal::AlreadyEnded { ended: Ended::Broken, superseded: None });
    assert_eq!(leave(&mut story, id(a, 1), "l", 0, held, "x"), Reply::Written { revision: 1 });
    let set =
        SetMetadata { acquisition: id(a, 1), token: held, revision: 0, metadata: payload("still here") };
    story.apply(Command::SetMetadata(set));
    let (acquisition, metadata) = (id(a, 1), payload("still here"));
    assert_eq!(story.events, [Event::MetadataSet { acquisition, locks: vec![lock("l")], metadata }]);
    break_slot(&mut story, "l", 0, held, Some(0));
    story.holds(b, 1, "l");
    // Of the one that ended first too, once all have ended.
    let late = refusal(leave(&mut story, id(a, 1), "m", 0, held, "x"));
    assert_eq!(late, Refusal::AlreadyEnded { ended: Ended::Broken, superseded: None });
    let late = refusal(story.report(a, 1, held, 0));
    let Refusal::AlreadyEnded { ended: Ended::Broken, superseded: Some(now) } = late else {
        panic!("{late:?}")
    };
    assert_eq!(now.acquisition, id(b, 1));
}

#[test]
fn all_holders_of_a_shared_tenure_are_broken_and_the_longest_lease_and_delay_count() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let long = OpenSession { ttl: Millis(70_000), ..story.opening("c") };
    story.apply(Command::OpenSession(long));
    let c = SessionId(story.index);
    let held = token(&story.acquire(ask(a, 1, "l").shared()));
    story.acquire(ask(b, 1, "l").shared().and(ask(b, 1, "m")));
    story.acquire(ask(c, 1, "l").shared());
    let reply = break_slot(&mut story, "l", 0, held, None);
    let Reply::Broken { holders, closed } = reply else { panic!("{reply:?}") };
    let who: Vec<_> = holders.iter().map(|holder| holder.acquisition).collect();
    assert_eq!((who, closed), (vec![id(a, 1), id(b, 1), id(c, 1)], Millis(70_000 + DELAY.0)));
    let ends = story.events.iter().filter(|event| matches!(event, Event::HoldEnded { .. })).count();
    assert_eq!((ends, story.holder("m").map(|holder| holder.0)), (3, Some(b)));
}

#[test]
fn an_operator_who_names_a_time_speaks_for_a_shared_holder_that_had_expired_too() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let held = token(&story.acquire(ask(a, 1, "l").shared()));
    story.acquire(ask(b, 1, "l").shared());
    story.expire(&[a]);
    assert!(delay(&story, "l", 0).is_none(), "b holds");
    break_slot(&mut story, "l", 0, held, Some(0));
    assert_eq!((story.table.lock_count(), story.table.counts().delayed), (0, 0));
}

#[test]
fn a_shared_holder_that_an_operator_ended_leaves_its_lease_and_delay_to_the_tenure() {
    let mut story = Story::begin();
    let (a, b) = (story.open("a"), story.open("b"));
    let held = token(&story.acquire(ask(a, 1, "l").shared()));
    story.acquire(ask(b, 1, "l").shared());
    story.apply(Command::EndSession(EndSession { session: a, closed: None, by: Principal::anonymous() }));
    assert!(delay(&story, "l", 0).is_none());
    story.release(b, 1, "l", held);
    assert_eq!(delay(&story, "l", 0).map(|delay| delay.delay), Some(CLOSED));
}

#[test]
fn batons_and_breaks_go_by_slot() {
    let mut story = Story::begin();
    let a = story.open("a");
    let Reply::Granted(grant) = story.acquire(ask(a, 1, "l").semaphore(3, 2)) else { panic!("it is free") };
    let held = grant.parts[0].token;
    leave(&mut story, id(a, 1), "l", 0, held, "zero");
    leave(&mut story, id(a, 1), "l", 1, held, "one");
    let never = refusal(leave(&mut story, id(a, 1), "l", 2, held, "two"));
    assert_eq!(never, Refusal::NotHeld { superseded: None });
    break_slot(&mut story, "l", 0, held, Some(0));
    let b = story.open("b");
    let Reply::Granted(next) = story.acquire(ask(b, 1, "l").semaphore(3, 1)) else { panic!("one is free") };
    assert_eq!(
        (next.parts[0].slot, &next.parts[0].inherited.as_ref().unwrap().baton),
        (Slot(0), &payload("zero"))
    );
    assert_eq!(story.table.grant(id(a, 1)).unwrap().parts.len(), 1);
    let view = story.table.view(&lock("l"));
    let batons: Vec<_> = view.batons.iter().map(|(slot, baton)| (slot.0, baton.left.clone())).collect();
    assert_eq!(batons, [(0, payload("zero")), (1, payload("one"))]);
}

#[test]
fn what_is_overdue_ends_with_all_its_parts() {
    let mut story = Story::begin();
    let a = story.open("a");
    let terms = Terms { hold_max: Some(Millis(1_000)), ..Terms::default() };
    let held = story.holds_on(both(a, 1), terms);
    let (epoch, acquisition, overdue) = (story.epoch(), id(a, 1), Overdue::Maximum);
    let grant = LogIndex(held.get());
    story.apply(Command::EndOverdue(EndOverdue { epoch, acquisition, grant, overdue }));
    assert_eq!((story.table.counts().held, story.table.counts().delayed), (0, 2));
}

#[test]
fn what_is_kept_for_one_acquisition_is_closed_as_long_and_opens_together() {
    let mut story = Story::begin();
    let (old, other) = (story.open("worker"), story.open("b"));
    let short = ask(old, 1, "m").part(|part| part.delay = crate::command::LockDelay::Named(Millis(0)));
    story.acquire(ask(old, 1, "l").and(short));
    story.waits(other, 1, "l");
    story.waits(other, 2, "m");
    let took = take_over(&mut story, old, false);
    let began = story.index;
    assert_eq!(took.kept[0].state, TakenState::Closed { closed: CLOSED });
    for name in ["l", "m"] {
        assert_eq!(delay(&story, name, 0).map(|delay| (delay.began.0, delay.delay)), Some((began, CLOSED)));
    }
    story.end_lock_delay(story.epoch(), "m", began);
    assert_eq!(story.granted(), [(took.session, 1)]);
    let grant = story.table.grant(id(took.session, 1)).expect("it holds");
    let parts: Vec<_> = grant.parts.iter().map(|part| (part.token.get(), part.delay)).collect();
    assert_eq!(parts, [(story.index, DELAY), (story.index, Millis(0))]);
    let ended = story.events.iter().filter(|event| matches!(event, Event::DelayEnded { .. })).count();
    assert_eq!(ended, 2);
    story.end_lock_delay(story.epoch(), "l", began);
    assert!(story.events.is_empty(), "the end of the other delay is past");
}

#[test]
fn what_is_kept_opens_early_only_when_the_guards_of_all_of_it_confirmed() {
    let fenced = |request: Acquire, name: &str| request.part(|part| part.fenced_by = vec![guard(name)]);
    for gives_up in [false, true] {
        let mut story = Story::begin();
        let (old, other) = (story.open("worker"), story.open("b"));
        story.acquire(fenced(ask(old, 1, "l"), "db").and(fenced(ask(old, 1, "m"), "store")));
        story.waits(other, 1, "l");
        let new = take_over(&mut story, old, false).session;
        confirm(&mut story, "l", "db");
        assert_eq!(story.granted(), []);
        if gives_up {
            story.cancel(new, 1);
            assert_eq!(story.granted(), [(other, 1)], "its own guards had confirmed");
            assert!(delay(&story, "m", 0).is_some(), "those of the other had not");
        } else {
            confirm(&mut story, "m", "store");
            assert_eq!(story.granted(), [(new, 1)]);
        }
    }
}

#[test]
fn shared_holdings_end_and_exclusive_ones_of_the_same_acquisition_go_on() {
    let mut story = Story::begin();
    let (old, other) = (story.open("worker"), story.open("b"));
    story.acquire(ask(old, 1, "l").shared());
    story.acquire(ask(old, 2, "m").and(ask(old, 2, "n").shared()));
    story.waits(other, 1, "l");
    story.waits(other, 2, "n");
    let took = take_over(&mut story, old, true);
    let kept: Vec<_> = took.kept.iter().map(|kept| (kept.was.0, kept.number.0)).collect();
    assert_eq!(kept, [(2, 1)]);
    assert_eq!(took.ended, [(id(old, 1).number, Ended::TakenOver)]);
    let grant = story.table.grant(id(took.session, 1)).expect("it holds");
    let parts: Vec<_> = grant.parts.iter().map(|part| (part.lock.as_str(), part.mode)).collect();
    assert_eq!(parts, [("m", Mode::Exclusive)]);
    assert_eq!(story.granted(), [(took.session, 1), (other, 1), (other, 2)]);
    assert_eq!(story.table.counts().delayed, 0);
    story.release(took.session, 1, "m", grant.parts[0].token);
    assert_eq!(story.holders("m"), []);
}

#[test]
fn a_waiter_for_several_locks_keeps_all_its_places_and_a_released_part_does_not_come_back() {
    let mut story = Story::begin();
    let (old, a, b) = (story.open("worker"), story.open("a"), story.open("b"));
    let held = token(&story.acquire(ask(old, 1, "k").semaphore(3, 2).and(ask(old, 1, "o"))));
    story.release(old, 1, "k", held);
    let on_l = story.holds(a, 1, "l");
    story.acquire(both(old, 2));
    story.waits(b, 1, "m");
    let new = take_over(&mut story, old, true).session;
    let slots: Vec<_> = story.holders("k").iter().map(|(slot, session, ..)| (*slot, *session)).collect();
    assert_eq!((slots, story.holders("o").len()), (vec![(1, new)], 1));
    story.release(a, 1, "l", on_l);
    assert_eq!(story.granted(), [(new, 2)]);
    assert_eq!(story.holders("m").len(), 1);
}

#[test]
fn a_slot_that_is_kept_stays_the_sessions_also_beyond_a_smaller_capacity() {
    for proven_dead in [true, false] {
        let mut story = Story::begin();
        let (a, old) = (story.open("a"), story.open("worker"));
        story.acquire(ask(a, 1, "l").semaphore(3, 1));
        story.acquire(ask(old, 1, "l").semaphore(3, 2));
        story.apply(Command::SetCapacity(SetCapacity { lock: lock("l"), capacity: 1 }));
        let new = take_over(&mut story, old, proven_dead).session;
        if !proven_dead {
            let began = LogIndex(story.index);
            let end = EndLockDelay { epoch: story.epoch(), lock: lock("l"), slot: Slot(2), began };
            story.apply(Command::EndLockDelay(end));
        }
        let slots: Vec<_> = story.holders("l").iter().map(|(slot, session, ..)| (*slot, *session)).collect();
        assert_eq!(slots, [(0, a), (1, new), (2, new)]);
        let Some((.., token)) = story.holders("l").pop() else { panic!("it holds") };
        let all = Release { acquisition: id(new, 1), part: None, token: Token::new(token).expect("a token") };
        story.apply(Command::Release(all));
        assert_eq!(story.holders("l").len(), 1);
    }
}
