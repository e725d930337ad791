use super::grant::Came;
use super::under_token::UnderToken;
use super::{LockTable, Step};
use crate::command::HandOver;
use crate::event::Event;
use crate::ids::{AcquisitionId, Slot};
use crate::mode::Mode;
use crate::reply::{BadArgument, Ended, Refusal, Reply};
use crate::session::HeldPart;

impl LockTable {
    /// Gives a slot that is held exclusively to the head of the queue, or to the earliest waiter of a named session: one
    /// entry, no gap, no delay, a new token (SPEC 4). Where that one cannot be granted in this very entry, or would wait
    /// in a cycle afterwards, the holder keeps the slot.
    ///
    /// A handover to a named session passes those ahead of it in this queue, in no other. Repeated, it answers that the
    /// hold ended so.
    pub(super) fn hand_over(&mut self, step: &mut Step, asked: &HandOver) -> Reply {
        let HandOver { acquisition: id, lock, slot, token, to } = asked;
        match self.holds_under(&UnderToken { acquisition: *id, token: *token, slot: Some((lock, *slot)) }) {
            Ok(()) => {}
            Err(Refusal::AlreadyEnded { ended: Ended::HandedOver, .. }) => {
                return Reply::Released(Ended::HandedOver);
            }
            Err(refusal) => return Reply::Refused(refusal),
        }
        let named = |part: &&HeldPart| (&part.lock, part.slot) == (lock, *slot);
        let Some(part) = self.held_parts(*id).iter().find(named).cloned() else {
            return Reply::Refused(Refusal::NotHeld { superseded: None });
        };
        if part.mode == Mode::Shared {
            return Reply::Refused(Refusal::BadArgument(BadArgument::Mode));
        }
        let Some(candidate) = self.candidate(asked).filter(|next| self.fits_handed(*next, asked)) else {
            let waiting = self.locks.get(lock).map_or(0, |lock| lock.queue.len());
            return Reply::Refused(Refusal::NobodyToHandTo { to: *to, waiting });
        };
        if let Some(cycle) = self.handover_cycle(step, asked, candidate) {
            return Reply::Refused(Refusal::WouldDeadlock(cycle));
        }
        self.end_parts(step, *id, &[part], Ended::HandedOver);
        let Some(grant) = self.grant_waiter(step, candidate, Came::HandedOver(lock, *slot)) else {
            return Reply::Refused(Refusal::SessionUnknown);
        };
        // It left its other queues as well, and who was behind it there may fit now.
        step.touched.extend(grant.parts.iter().map(|part| part.lock.clone()));
        let given = grant.parts.iter().find(|part| (&part.lock, part.slot) == (lock, *slot));
        let given = given.map(|part| part.token);
        step.events.push(Event::Granted { grant, waited: true });
        match given {
            Some(token) => Reply::HandedOver { to: candidate, token },
            None => Reply::Refused(Refusal::SessionUnknown),
        }
    }

    fn candidate(&self, asked: &HandOver) -> Option<AcquisitionId> {
        let queue = &self.locks.get(&asked.lock)?.queue;
        match asked.to {
            None => queue.head().map(|(_, id)| id),
            Some(to) => queue.iter().map(|(_, id)| id).find(|id| id.session == to),
        }
    }

    /// Whether a waiter could be granted if it got this slot: the head of all its other queues, with room there.
    fn fits_handed(&self, candidate: AcquisitionId, asked: &HandOver) -> bool {
        let Some(acquisition) = self.whole(candidate) else { return false };
        acquisition.parts.iter().all(|part| {
            let Some(lock) = self.locks.get(&part.lock) else { return false };
            if part.lock == asked.lock {
                return asked.slot < Slot(lock.capacity) && lock.free_slots() + 1 >= part.permits;
            }
            lock.queue.head().is_some_and(|(_, head)| head == candidate)
                && lock.has_room(part.mode, part.permits)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Acquire, Command};
    use crate::ids::SessionId;
    use crate::table::story::{Story, ask, id, lock, refusal, token};
    use crate::token::Token;

    #[test]
    fn the_head_of_the_queue_gets_it_in_one_entry_without_a_delay() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.waits(c, 1, "l");
        let now = Token::new(story.index + 1).unwrap();
        let given = Reply::HandedOver { to: id(b, 1), token: now };
        assert_eq!(story.hand_over((a, 1), "l", held, None), given);
        assert_eq!(story.holder("l"), Some((b, 1, now)));
        assert_eq!((story.table.counts().held, story.table.counts().waiting), (1, 1));
        let ended = Event::HoldEnded {
            acquisition: id(a, 1),
            lock: lock("l"),
            slot: Slot(0),
            token: held,
            ended: Ended::HandedOver,
        };
        assert_eq!(story.events[0], ended);
        assert_eq!(story.events[2], Event::Contended { holder: id(b, 1), lock: lock("l") });
        // A repeat finds it ended so, whoever holds it by then.
        assert_eq!(story.hand_over((a, 1), "l", held, None), Reply::Released(Ended::HandedOver));
        story.release(b, 1, "l", now);
        assert_eq!(story.hand_over((a, 1), "l", held, None), Reply::Released(Ended::HandedOver));
        assert_eq!(story.holder("l").map(|holder| holder.0), Some(c));
        let late = refusal(story.release(a, 1, "l", held));
        assert!(matches!(late, Refusal::AlreadyEnded { ended: Ended::HandedOver, .. }), "{late:?}");
    }

    #[test]
    fn a_reader_at_the_head_gets_it_with_those_behind_it() {
        let mut story = Story::begin();
        let (a, b, c, d) = (story.open("a"), story.open("b"), story.open("c"), story.open("d"));
        let held = story.holds(a, 1, "l");
        story.acquire(ask(b, 1, "l").shared());
        story.acquire(ask(c, 1, "l").shared());
        story.waits(d, 1, "l");
        story.hand_over((a, 1), "l", held, None);
        let now = story.index;
        assert_eq!(story.holders("l"), [(0, b, 1, now), (0, c, 1, now)]);
        let read = Token::new(now).unwrap();
        let shared = Refusal::BadArgument(BadArgument::Mode);
        assert_eq!(refusal(story.hand_over((b, 1), "l", read, None)), shared, "only an exclusive tenure");
    }

    #[test]
    fn a_named_session_passes_those_ahead_of_it() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.waits(c, 2, "l");
        story.waits(c, 1, "l");
        story.hand_over((a, 1), "l", held, Some(c));
        let (session, number, now) = story.holder("l").unwrap();
        assert_eq!((session, number), (c, 2), "its earliest waiter");
        story.release(c, 2, "l", now);
        assert_eq!(story.granted(), [(b, 1)]);
    }

    #[test]
    fn nobody_there_leaves_it_with_its_holder() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let held = story.holds(a, 1, "l");
        let nobody = |to, waiting| Refusal::NobodyToHandTo { to, waiting };
        assert_eq!(refusal(story.hand_over((a, 1), "l", held, None)), nobody(None, 0));
        story.waits(b, 1, "l");
        assert_eq!(refusal(story.hand_over((a, 1), "l", held, Some(c))), nobody(Some(c), 1));
        assert_eq!(story.holder("l"), Some((a, 1, held)));
        assert_eq!(story.renewed, Some(a));
    }

    fn both(session: SessionId, number: u64) -> Acquire {
        ask(session, number, "l").and(ask(session, number, "m"))
    }

    #[test]
    fn one_who_waits_for_several_locks_gets_it_only_with_all_of_them() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let held = story.holds(a, 1, "l");
        let other = story.holds(c, 1, "m");
        story.acquire(both(b, 1));
        let nobody = Refusal::NobodyToHandTo { to: None, waiting: 1 };
        assert_eq!(refusal(story.hand_over((a, 1), "l", held, None)), nobody);
        story.release(c, 1, "m", other);
        story.hand_over((a, 1), "l", held, None);
        let now = story.index;
        assert_eq!((story.holders("l"), story.holders("m")), (vec![(0, b, 1, now)], vec![(0, b, 1, now)]));
    }

    #[test]
    fn a_jump_over_one_queue_is_none_over_another() {
        let mut story = Story::begin();
        let (a, b, c, d) = (story.open("a"), story.open("b"), story.open("c"), story.open("d"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        let blocker = story.holds(a, 2, "n");
        story.acquire(ask(d, 1, "m").and(ask(d, 1, "n")));
        story.acquire(both(c, 1));
        let nobody = Refusal::NobodyToHandTo { to: Some(c), waiting: 2 };
        assert_eq!(refusal(story.hand_over((a, 1), "l", held, Some(c))), nobody, "d is ahead at m");
        story.cancel(d, 1);
        story.hand_over((a, 1), "l", held, Some(c));
        assert_eq!(story.granted(), [(c, 1)]);
        story.release(a, 2, "n", blocker);
    }

    #[test]
    fn of_several_parts_one_is_handed_over() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = token(&story.acquire(both(a, 1)));
        story.waits(b, 1, "m");
        story.hand_over((a, 1), "m", held, None);
        assert_eq!(story.holder("l"), Some((a, 1, held)));
        assert_eq!(story.holder("m").map(|holder| holder.0), Some(b));
        assert_eq!(story.hand_over((a, 1), "m", held, None), Reply::Released(Ended::HandedOver));
    }

    #[test]
    fn of_a_semaphore_that_very_slot_is_given() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = token(&story.acquire(ask(a, 1, "l").semaphore(4, 3)));
        let last = token(&story.acquire(ask(a, 2, "l").semaphore(4, 1)));
        story.acquire(ask(b, 1, "l").semaphore(4, 2));
        let give = |number, slot, token| {
            let acquisition = id(a, number);
            Command::HandOver(HandOver { acquisition, lock: lock("l"), slot: Slot(slot), token, to: None })
        };
        let nobody = Refusal::NobodyToHandTo { to: None, waiting: 1 };
        assert_eq!(refusal(story.apply(give(2, 3, last))), nobody, "two are wanted");
        story.release(a, 1, "l", held);
        let given = story.apply(give(2, 3, last));
        assert_eq!(given, Reply::HandedOver { to: id(b, 1), token: Token::new(story.index).unwrap() });
        let slots: Vec<_> =
            story.table.grant(id(b, 1)).unwrap().parts.iter().map(|part| part.slot.0).collect();
        assert_eq!(slots, [0, 3]);
        // A slot beyond a capacity that shrank is not granted again.
        story.acquire(ask(a, 3, "l").semaphore(4, 1));
        let set = crate::command::SetCapacity { lock: lock("l"), capacity: 2 };
        story.apply(Command::SetCapacity(set));
        let beyond = HandOver {
            acquisition: id(b, 1),
            lock: lock("l"),
            slot: Slot(3),
            token: Token::new(story.table.grant(id(b, 1)).unwrap().grant_index).unwrap(),
            to: None,
        };
        let waits = story.acquire(ask(a, 4, "l").semaphore(4, 2));
        assert!(matches!(waits, Reply::Queued { .. }), "{waits:?}");
        let refused = refusal(story.apply(Command::HandOver(beyond)));
        assert!(matches!(refused, Refusal::NobodyToHandTo { .. }), "{refused:?}");
    }

    #[test]
    fn a_stale_holder_gives_nothing_away() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        let wrong = Token::new(1).unwrap();
        assert!(matches!(refusal(story.hand_over((a, 1), "l", wrong, None)), Refusal::NotHeld { .. }));
        assert!(matches!(refusal(story.hand_over((b, 1), "l", held, None)), Refusal::NotHeld { .. }));
        story.release(a, 1, "l", held);
        story.waits(c, 1, "l");
        let ended = refusal(story.hand_over((a, 1), "l", held, None));
        let Refusal::AlreadyEnded { ended: Ended::Released, superseded: Some(now) } = ended else {
            panic!("{ended:?}")
        };
        assert_eq!(now.acquisition, id(b, 1));
        story.close(a);
        let closed = refusal(story.hand_over((a, 1), "l", held, None));
        assert!(matches!(closed, Refusal::SessionEnded { ended: Ended::Closed, .. }), "{closed:?}");
        assert_eq!(story.holder("l").map(|holder| holder.0), Some(b));
    }

    #[test]
    fn those_behind_the_new_holder_in_its_other_queues_are_granted_with_it() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let held = story.holds(a, 1, "l");
        story.acquire(ask(b, 1, "l").and(ask(b, 1, "m").semaphore(2, 1)));
        story.acquire(ask(c, 1, "m").semaphore(2, 1));
        story.hand_over((a, 1), "l", held, None);
        assert_eq!(story.granted(), [(b, 1), (c, 1)]);
    }
}
