//! Stories of a process that restarted and goes on where it stopped (SPEC 3).

use crate::command::{Command, ConfirmFloor, OpenSession, Replaces, Terms};
use crate::event::Event;
use crate::ids::{ClientName, LockName, LogIndex, Millis, Principal, RequestNumber, SessionId, Slot};
use crate::lock::Delay;
use crate::reply::{BadArgument, CancelMet, Ended, Refusal, Reply, TakenAcquisition, TakenState, TookOver};
use crate::session::AcquisitionState;
use crate::table::Verdict;
use crate::table::story::{DELAY, Story, ask, guard, id, lock, payload, refusal, token};
use crate::token::Token;

/// The TTL of a story's sessions, and their delay.
const CLOSED: Millis = Millis(10_000 + DELAY.0);

fn replacing(story: &mut Story, old: SessionId, proven_dead: bool) -> OpenSession {
    let secret = story.table.session(old).expect("it lives").secret;
    let mut opening = story.opening("again");
    opening.replaces = Some(Replaces { session: old, secret, proven_dead });
    opening
}

fn took(reply: Reply) -> TookOver {
    match reply {
        Reply::TookOver(took) => took,
        other => panic!("{other:?}"),
    }
}

fn take_over(story: &mut Story, old: SessionId, proven_dead: bool) -> TookOver {
    let opening = replacing(story, old, proven_dead);
    took(story.apply(Command::OpenSession(opening)))
}

fn kept(was: u64, number: u64, state: TakenState) -> TakenAcquisition {
    TakenAcquisition { was: RequestNumber(was), number: RequestNumber(number), state }
}

fn delay<'a>(story: &'a Story, name: &str) -> &'a Delay {
    story.table.delay(&lock(name), Slot(0)).expect("it is closed")
}

fn confirm(story: &mut Story, name: &str, by: &str) {
    let floor = Token::new(delay(story, name).began.0).expect("a token");
    let (guard, lock, slot, by) = (guard(by), lock(name), Slot(0), Principal::anonymous());
    story.apply(Command::ConfirmFloor(ConfirmFloor { guard, lock, slot, floor, by }));
}

#[test]
fn what_was_held_is_begun_anew_under_new_numbers_and_tokens() {
    let mut story = Story::begin();
    let (old, other) = (story.open("worker"), story.open("b"));
    let first = story.holds(old, 3, "l");
    story.holds(old, 8, "m");
    story.waits(other, 1, "l");
    let took = take_over(&mut story, old, true);
    let new = SessionId(story.index);
    assert_eq!((took.session, took.replaced, took.ttl), (new, old, Millis(10_000)));
    assert_eq!(took.kept, [kept(3, 1, TakenState::Holds), kept(8, 2, TakenState::Holds)]);
    assert_eq!((took.ended, story.renewed), (vec![], Some(new)));
    let now = story.holder("l").expect("it is held");
    assert_eq!((now.0, now.1, now.2.get()), (new, 1, story.index));
    assert_eq!(story.holder("m"), Some((new, 2, now.2)), "one token for all of it");
    let over = Verdict::Over { ended: Ended::TakenOver, superseded_by: Some(now.2), in_lock_delay: false };
    assert_eq!(story.verdict(old, 3, "l", first), over);
    assert_eq!(story.verdict(new, 1, "l", now.2), Verdict::Current);
    assert_eq!(story.table.counts().held, 2);
    assert!(story.events.contains(&Event::Contended { holder: id(new, 1), lock: lock("l") }));
    let inherited = story.table.grant(id(new, 1)).unwrap().parts[0].inherited.clone().expect("itself");
    assert_eq!((inherited.token, inherited.ended), (first, Ended::TakenOver));
    let history: Vec<_> = story.table.history().others().map(|hold| (hold.acquisition, hold.ended)).collect();
    assert_eq!(history, [(id(old, 3), Ended::TakenOver), (id(old, 8), Ended::TakenOver)]);
}

#[test]
fn the_earlier_session_ends_before_anything_goes_on() {
    let mut story = Story::begin();
    let old = story.open("worker");
    let held = story.holds(old, 1, "l");
    take_over(&mut story, old, true);
    let (session, ended, slot) = (SessionId(story.index), Ended::TakenOver, Slot(0));
    let grant = story.table.grant(id(session, 1)).expect("it holds");
    let client = ClientName::new("again").expect("a client name");
    assert_eq!(
        story.events,
        [
            Event::SessionOpened { session, ttl: Millis(10_000), client },
            Event::SessionTakenOver { session: old, by: session },
            Event::HoldEnded { acquisition: id(old, 1), lock: lock("l"), slot, token: held, ended },
            Event::SessionEnded { session: old, ended },
            Event::Granted { grant, waited: false },
        ]
    );
}

#[test]
fn everything_that_the_earlier_process_sends_is_of_an_ended_session() {
    let mut story = Story::begin();
    let old = story.open("worker");
    let held = story.holds(old, 1, "l");
    story.waits(old, 2, "l");
    let took = take_over(&mut story, old, true);
    let over = |refusal| match refusal {
        Refusal::SessionEnded { ended: Ended::TakenOver, superseded } => superseded,
        other => panic!("{other:?}"),
    };
    let now = over(refusal(story.release(old, 1, "l", held))).expect("the new one holds it");
    assert_eq!(now.acquisition, id(took.session, 1));
    assert_eq!(over(refusal(story.acquire(ask(old, 3, "m")))), None);
    assert_eq!(over(refusal(story.cancel(old, 2))), None);
    over(refusal(story.report(old, 1, held, 0)));
    over(refusal(story.close(old)));
    story.expire(&[old]);
    assert_eq!((story.table.counts().held, story.table.counts().waiting), (1, 1));
}

#[test]
fn its_waiters_keep_their_places_and_bounds() {
    let mut story = Story::begin();
    let (a, old, c) = (story.open("a"), story.open("worker"), story.open("c"));
    let held = story.holds(a, 1, "l");
    story.acquire(ask(old, 5, "l").bounded(500));
    story.waits(c, 1, "l");
    story.waits(old, 6, "l");
    let took = take_over(&mut story, old, false);
    assert_eq!(took.kept, [kept(5, 1, TakenState::Waits), kept(6, 2, TakenState::Waits)]);
    let queue: Vec<_> = story.table.view(&lock("l")).queue.iter().map(|w| w.acquisition).collect();
    assert_eq!(queue, [id(took.session, 1), id(c, 1), id(took.session, 2)]);
    let queued = story.events.iter().filter(|event| matches!(event, Event::Queued { .. })).count();
    assert_eq!(queued, 2, "the leader counts their waits anew");
    // Under its new number it is the same request.
    let again = story.acquire(ask(took.session, 1, "l").bounded(500));
    assert_eq!(again, Reply::Queued { acquisition: id(took.session, 1), place: 1 });
    story.release(a, 1, "l", held);
    assert_eq!(story.granted(), [(took.session, 1)]);
    story.end_wait(story.epoch(), id(took.session, 1));
    assert!(story.holder("l").is_some());
}

#[test]
fn how_open_requests_ended_is_told() {
    let mut story = Story::begin();
    let (old, other) = (story.open("worker"), story.open("b"));
    let held = story.holds(old, 1, "l");
    story.release(old, 1, "l", held);
    story.holds(other, 1, "m");
    story.acquire(ask(old, 2, "m").trying());
    story.cancel(old, 7);
    story.acquire(ask(old, 4, "m").bounded(5));
    story.end_wait(story.epoch(), id(old, 4));
    let took = take_over(&mut story, old, true);
    let ends = [Ended::Released, Ended::Refused, Ended::TimedOut, Ended::Cancelled];
    let ends: Vec<_> = [1, 2, 4, 7].map(RequestNumber).into_iter().zip(ends).collect();
    assert_eq!((took.kept, took.ended), (vec![], ends));
}

#[test]
fn repeated_it_is_told_again_until_the_client_shows_that_it_knows() {
    let mut story = Story::begin();
    let old = story.open("worker");
    story.holds(old, 1, "l");
    let opening = replacing(&mut story, old, true);
    let first = took(story.apply(Command::OpenSession(opening.clone())));
    let held = story.holder("l");
    for _ in 0..2 {
        assert_eq!(took(story.apply(Command::OpenSession(opening.clone()))), first);
        assert_eq!((story.events.len(), story.renewed), (0, Some(first.session)));
    }
    let mut other = opening.clone();
    other.owner = Principal::new("mallory").unwrap();
    assert_eq!(refusal(story.apply(Command::OpenSession(other))), Refusal::SecretTaken);
    story.cancel(first.session, 9);
    let opened = Reply::SessionOpened { session: first.session, ttl: first.ttl };
    assert_eq!(story.apply(Command::OpenSession(opening)), opened);
    assert_eq!(story.holder("l"), held);
}

#[test]
fn only_who_knows_its_secret_takes_over_a_session_that_lives() {
    let mut story = Story::begin();
    let (old, ended) = (story.open("worker"), story.open("b"));
    story.holds(old, 1, "l");
    let wrong = replacing(&mut story, ended, true);
    story.close(ended);
    let cases = [
        (ended, Refusal::SessionEnded { ended: Ended::Closed, superseded: None }),
        (SessionId(999), Refusal::SessionUnknown),
        (old, Refusal::SecretWrong),
    ];
    for (session, expected) in cases {
        let mut opening = wrong.clone();
        opening.replaces.as_mut().expect("it replaces").session = session;
        assert_eq!(refusal(story.apply(Command::OpenSession(opening))), expected);
    }
    let right = replacing(&mut story, old, true);
    let mut other = right.clone();
    other.owner = Principal::new("mallory").unwrap();
    assert_eq!(refusal(story.apply(Command::OpenSession(other))), Refusal::SecretTaken);
    let mut itself = right.clone();
    itself.secret = right.replaces.as_ref().expect("it replaces").secret;
    assert_eq!(refusal(story.apply(Command::OpenSession(itself))), Refusal::SecretTaken);
    let mut short = right.clone();
    short.ttl = Millis(1);
    let bad = Refusal::BadArgument(BadArgument::Ttl);
    assert_eq!(refusal(story.apply(Command::OpenSession(short))), bad);
    assert_eq!(story.holder("l").map(|holder| holder.0), Some(old));
    took(story.apply(Command::OpenSession(right)));
}

#[test]
fn a_full_table_does_not_stand_in_the_way() {
    let mut story = Story::with_limits(|limits| limits.sessions_max = 1);
    let old = story.open("worker");
    let took = take_over(&mut story, old, true);
    assert_eq!((story.table.session_count(), story.table.session(took.session).is_some()), (1, true));
}

#[test]
fn a_secret_that_has_opened_a_session_finds_that_one_and_takes_nothing_over() {
    let mut story = Story::begin();
    let (old, opening) = (story.open("worker"), story.opening("b"));
    story.apply(Command::OpenSession(opening.clone()));
    let found = SessionId(story.index);
    let replacing = OpenSession { secret: opening.secret, ..replacing(&mut story, old, true) };
    let reply = story.apply(Command::OpenSession(replacing));
    assert_eq!(reply, Reply::SessionOpened { session: found, ttl: opening.ttl });
    assert!(story.table.session(old).is_some());
}

#[test]
fn metadata_and_terms_go_over_and_deadlines_start_over() {
    let mut story = Story::begin();
    let old = story.open("worker");
    let terms = Terms { hold_max: Some(Millis(60_000)), progress_every: None, metadata: payload("10.0.0.7") };
    let held = story.holds_on(ask(old, 1, "l"), terms.clone());
    story.report(old, 1, held, 41);
    let took = take_over(&mut story, old, true);
    let acquisition = &story.table.session(took.session).unwrap().acquisitions.get(RequestNumber(1)).unwrap();
    assert_eq!(acquisition.terms, terms);
    assert_eq!(story.reports(id(took.session, 1)), Default::default());
    let held = story.holder("l").unwrap().2;
    story.report(took.session, 1, held, 1);
    assert_eq!(story.reports(id(took.session, 1)).number, 1, "its own numbers begin anew");
}

#[test]
fn unless_the_earlier_process_is_proven_dead_its_slots_are_closed_for_its_lease_and_their_delay() {
    let mut story = Story::begin();
    let (old, other) = (story.open("worker"), story.open("b"));
    let before = story.holds(old, 4, "l");
    story.waits(other, 1, "l");
    let took = take_over(&mut story, old, false);
    let new = took.session;
    assert_eq!(took.kept, [kept(4, 1, TakenState::Closed { closed: CLOSED })]);
    let began = story.index;
    let now = delay(&story, "l");
    assert_eq!((now.began.0, now.delay, now.ended, now.kept_for), (began, CLOSED, before, Some(id(new, 1))));
    assert!(matches!(story.events.last(), Some(Event::DelayStarted { delay: CLOSED, .. })));
    let counts = story.table.counts();
    assert_eq!((counts.held, counts.delayed, counts.waiting), (0, 1, 1));
    assert_eq!(story.granted(), []);
    let asked_again = story.acquire(ask(new, 1, "l"));
    assert!(matches!(asked_again, Reply::Queued { .. }), "it has nothing yet: {asked_again:?}");
    let late = refusal(story.release(new, 1, "l", before));
    assert!(matches!(late, Refusal::NotHeld { .. }));
    // Its new tenure begins with the entry that ends this, ahead of the queue.
    story.end_lock_delay(story.epoch(), "l", began);
    assert_eq!(story.granted(), [(new, 1)]);
    let ended = Event::DelayEnded { lock: lock("l"), slot: Slot(0), began: LogIndex(began) };
    assert_eq!(story.events[0], ended);
    assert!(story.events.contains(&Event::Contended { holder: id(new, 1), lock: lock("l") }));
    let (_, _, held) = story.holder("l").expect("it holds");
    assert_eq!(held.get(), story.index);
    assert_eq!(token(&story.acquire(ask(new, 1, "l"))), held);
    story.release(new, 1, "l", held);
    assert_eq!(story.granted(), [(other, 1)]);
}

#[test]
fn a_delay_that_nobody_expects_any_more_is_a_plain_one() {
    let ends: [fn(&mut Story, SessionId); 3] = [
        |story, new| {
            assert_eq!(story.cancel(new, 1), Reply::Cancelled(CancelMet::Waiting));
            assert_eq!(story.cancel(new, 1), Reply::Cancelled(CancelMet::Ended(Ended::Cancelled)));
        },
        |story, new| assert_eq!(story.close(new), Reply::SessionClosed),
        |story, new| story.expire(&[new]),
    ];
    for end in ends {
        let mut story = Story::begin();
        let (old, other) = (story.open("worker"), story.open("b"));
        story.holds(old, 1, "l");
        story.waits(other, 1, "l");
        let new = take_over(&mut story, old, false).session;
        let began = story.index;
        end(&mut story, new);
        let now = delay(&story, "l");
        assert_eq!((now.began.0, now.delay, now.kept_for), (began, CLOSED, None));
        story.end_lock_delay(story.epoch(), "l", began);
        assert_eq!(story.granted(), [(other, 1)]);
    }
}

#[test]
fn taken_over_once_more_it_stays_closed_as_long_and_goes_to_the_last() {
    for proven_dead in [true, false] {
        let mut story = Story::begin();
        let first = story.open("worker");
        story.holds(first, 1, "l");
        let second = take_over(&mut story, first, false).session;
        let began = story.index;
        let took = take_over(&mut story, second, proven_dead);
        assert_eq!(took.kept, [kept(1, 1, TakenState::Closed { closed: CLOSED })]);
        let now = delay(&story, "l");
        assert_eq!((now.began.0, now.kept_for), (began, Some(id(took.session, 1))));
        story.end_lock_delay(story.epoch(), "l", began);
        assert_eq!(story.granted(), [(took.session, 1)]);
    }
}

#[test]
fn guards_that_confirm_open_it_for_the_one_that_took_over() {
    let mut story = Story::begin();
    let (old, other) = (story.open("worker"), story.open("b"));
    story.acquire(ask(old, 1, "l").part(|part| part.fenced_by = vec![guard("db"), guard("store")]));
    story.waits(other, 1, "l");
    let new = take_over(&mut story, old, false).session;
    confirm(&mut story, "l", "db");
    assert_eq!(story.granted(), []);
    confirm(&mut story, "l", "store");
    assert_eq!(story.granted(), [(new, 1)]);
    let tenure = story.table.lock(&lock("l")).unwrap().slots[&Slot(0)].tenure().unwrap().clone();
    let holder = &tenure.holders[&id(new, 1)];
    assert_eq!((holder.delay, holder.fenced_by.len()), (DELAY, 2), "as it was asked at first");
}

#[test]
fn a_lock_that_is_kept_is_not_forgotten() {
    let mut story = Story::begin();
    let old = story.open("worker");
    story.holds(old, 1, "l");
    let new = take_over(&mut story, old, false).session;
    let session = story.table.session(new).expect("it lives");
    let slots: Vec<(LockName, Slot)> = vec![(lock("l"), Slot(0))];
    assert_eq!(session.acquisitions.get(RequestNumber(1)).unwrap().state, AcquisitionState::Kept { slots });
    assert_eq!(story.table.lock_count(), 1);
}
