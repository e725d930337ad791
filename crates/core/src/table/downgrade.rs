use super::grant::Place;
use super::under_token::UnderToken;
use super::{LockTable, Step};
use crate::command::{AcquirePart, Downgrade};
use crate::event::Event;
use crate::ids::Slot;
use crate::lock::SlotState;
use crate::mode::Mode;
use crate::reply::{BadArgument, Ended, Refusal, Reply};
use crate::session::{AcquisitionState, HeldPart};

impl LockTable {
    /// Makes an exclusive hold a shared one, under a new token: those at the head of the queue that ask for shared mode
    /// join it in the same entry, and nobody gets in between (SPEC 4).
    ///
    /// The exclusive tenure ends as released, because its holder gave it up of its own will: so say its history and the
    /// slot's memory. The lock-delay and the guards go on as they were asked. Repeated under the old token it answers the
    /// present grant.
    pub(super) fn downgrade(&mut self, step: &mut Step, asked: &Downgrade) -> Reply {
        let (id, lock) = (asked.acquisition, &asked.lock);
        let known = self.held_parts(id).into_iter().find(|part| {
            part.lock == *lock && (part.token == asked.token || part.downgraded_from == Some(asked.token))
        });
        let (Some(part), Some(acquisition)) = (known, self.acquisition(id)) else {
            let under = UnderToken { acquisition: id, token: asked.token, slot: Some((lock, Slot(0))) };
            let stale = self.holds_under(&under).err();
            return Reply::Refused(stale.unwrap_or(Refusal::NotHeld { superseded: None }));
        };
        if part.downgraded_from == Some(asked.token) {
            return Reply::Downgraded(self.grant_of(id, &acquisition));
        }
        if part.mode == Mode::Shared || !self.may_be_shared(asked) {
            return Reply::Refused(Refusal::BadArgument(BadArgument::Mode));
        }
        self.begin_shared(step, asked, part)
    }

    /// A capacity above 1, in force or asked, knows the exclusive mode only.
    fn may_be_shared(&self, asked: &Downgrade) -> bool {
        let in_force = self.locks.get(&asked.lock).is_some_and(|lock| lock.capacity == 1);
        let of_one = |part: &AcquirePart| part.lock == asked.lock && part.capacity == 1;
        in_force && self.acquisition(asked.acquisition).is_some_and(|asked| asked.parts.iter().any(of_one))
    }

    fn begin_shared(&mut self, step: &mut Step, asked: &Downgrade, part: HeldPart) -> Reply {
        let id = asked.acquisition;
        let unknown = Reply::Refused(Refusal::SessionUnknown);
        let Some(session) = self.sessions.get(&id.session) else { return unknown };
        let client = session.client.clone();
        let Some(SlotState::Held(tenure)) =
            self.locks.get(&part.lock).and_then(|lock| lock.slots.get(&part.slot))
        else {
            return unknown;
        };
        let Some(holder) = tenure.holders.get(&id) else { return unknown };
        let place = Place {
            id,
            mode: Mode::Shared,
            token: self.header.token_base.token(step.at.index),
            at: step.at,
            delay: holder.delay,
            fenced_by: holder.fenced_by.clone(),
        };
        self.end_holding(step, id, &part, &client, Ended::Released);
        let Some(lock) = self.locks.get_mut(&part.lock) else { return unknown };
        let mut shared = lock.hold(&part.lock, part.slot, place);
        shared.downgraded_from = Some(part.token);
        self.counts.held += 1;
        if !lock.queue.is_empty() {
            step.contended.push((id, part.lock.clone()));
        }
        if let Some(acquisition) = self.acquisition_mut(id)
            && let AcquisitionState::Holding { grant, held, .. } = &mut acquisition.state
        {
            *grant = step.at.index;
            held.iter_mut().filter(|held| **held == part).for_each(|held| *held = shared.clone());
        }
        let Some(grant) = self.grant(id) else { return unknown };
        step.events.push(Event::Granted { grant: grant.clone(), waited: false });
        Reply::Downgraded(grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::LockDelay;
    use crate::ids::{Millis, SessionId};
    use crate::table::story::{Story, ask, id, lock, refusal, token};
    use crate::table::{Presented, Verdict};
    use crate::token::Token;

    fn shared_now(reply: &Reply) -> Token {
        match reply {
            Reply::Downgraded(grant) => {
                assert_eq!(grant.parts[0].mode, Mode::Shared);
                grant.parts[0].token
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn b86_a_writer_that_was_queued_before_waits_for_the_downgraded_reader() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let write = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.acquire(ask(c, 1, "l").shared());
        let read = shared_now(&story.downgrade(a, 1, "l", write));
        assert_eq!((read.get(), story.granted()), (story.index, vec![(a, 1)]));
        assert_eq!(story.events.last(), Some(&Event::Contended { holder: id(a, 1), lock: lock("l") }));
        story.release(a, 1, "l", read);
        assert_eq!(story.granted(), [(b, 1)]);
    }

    #[test]
    fn readers_at_the_head_join_in_the_same_entry_under_the_new_token() {
        let mut story = Story::begin();
        let (a, b, c, d) = (story.open("a"), story.open("b"), story.open("c"), story.open("d"));
        let write = story.holds(a, 1, "l");
        story.acquire(ask(b, 1, "l").shared());
        story.acquire(ask(c, 1, "l").shared());
        story.waits(d, 1, "l");
        let read = shared_now(&story.downgrade(a, 1, "l", write));
        assert!(read > write);
        let now = read.get();
        assert_eq!(story.holders("l"), [(0, a, 1, now), (0, b, 1, now), (0, c, 1, now)]);
        let ended = Event::HoldEnded {
            acquisition: id(a, 1),
            lock: lock("l"),
            slot: Slot(0),
            token: write,
            ended: Ended::Released,
        };
        assert_eq!(story.events[0], ended);
        let past: Vec<_> = story.table.history().others().map(|hold| (hold.token, hold.ended)).collect();
        assert_eq!(past, [(write, Ended::Released)]);
        assert_eq!(story.table.counts().held, 1);
    }

    #[test]
    fn repeated_under_the_old_token_it_answers_the_present_grant() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let write = story.holds(a, 1, "l");
        let first = story.downgrade(a, 1, "l", write);
        let read = shared_now(&first);
        story.acquire(ask(b, 1, "l").shared());
        assert_eq!(story.downgrade(a, 1, "l", write), first);
        assert_eq!(story.holders("l").len(), 2);
        let shared = Refusal::BadArgument(BadArgument::Mode);
        assert_eq!(refusal(story.downgrade(a, 1, "l", read)), shared);
        // The old token frees nothing.
        assert!(matches!(refusal(story.release(a, 1, "l", write)), Refusal::NotHeld { .. }));
        story.release(a, 1, "l", read);
        let Refusal::NotHeld { superseded: Some(now) } = refusal(story.downgrade(a, 1, "l", write)) else {
            panic!("it ended")
        };
        assert_eq!(now.acquisition, id(b, 1));
        let ended = refusal(story.downgrade(a, 1, "l", read));
        assert!(matches!(ended, Refusal::AlreadyEnded { ended: Ended::Released, .. }), "{ended:?}");
    }

    #[test]
    fn the_exclusive_token_is_over_and_never_current_again() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let write = story.holds(a, 1, "l");
        let read = shared_now(&story.downgrade(a, 1, "l", write));
        let over = Verdict::Over { ended: Ended::Released, superseded_by: Some(read), in_lock_delay: false };
        assert_eq!(story.verdict(a, 1, "l", write), over);
        // Also when the slot remembers another's end.
        story.acquire(ask(b, 1, "l").shared());
        story.cancel(b, 1);
        assert_eq!(story.verdict(a, 1, "l", write), over);
        let now = Presented {
            lock: lock("l"),
            slot: Slot(0),
            mode: Mode::Shared,
            token: read,
            acquisition: id(a, 1),
        };
        assert_eq!(story.table.verdict(&now), Verdict::Current);
    }

    #[test]
    fn its_delay_goes_on_as_it_was_asked() {
        let mut story = Story::begin();
        let a = story.open("a");
        let write = token(&story.acquire(ask(a, 1, "l").delay(LockDelay::Named(Millis(7)))));
        story.downgrade(a, 1, "l", write);
        story.expire(&[a]);
        let began = story
            .events
            .iter()
            .any(|event| matches!(event, Event::DelayStarted { delay, .. } if *delay == Millis(7)));
        assert!(began, "{:?}", story.events);
    }

    #[test]
    fn a_stale_holder_changes_nothing_and_hears_who_superseded_it() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let write = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        let wrong = Token::new(1).unwrap();
        assert_eq!(refusal(story.downgrade(a, 1, "l", wrong)), Refusal::NotHeld { superseded: None });
        let Refusal::NotHeld { superseded: Some(now) } = refusal(story.downgrade(b, 1, "l", write)) else {
            panic!("it waits")
        };
        assert_eq!(now.acquisition, id(a, 1));
        story.expire(&[a]);
        story.end_lock_delay(story.epoch(), "l", story.index);
        let refused = refusal(story.downgrade(a, 1, "l", write));
        let Refusal::SessionEnded { ended: Ended::Expired, superseded: Some(now) } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(now.acquisition, id(b, 1));
        assert_eq!(refusal(story.downgrade(SessionId(99), 1, "l", write)), Refusal::SessionUnknown);
    }

    #[test]
    fn a_semaphore_knows_the_exclusive_mode_only() {
        let mut story = Story::begin();
        let a = story.open("a");
        story.acquire(ask(a, 1, "l").semaphore(3, 1));
        let held = token(&story.acquire(ask(a, 2, "l").semaphore(3, 1)));
        assert_eq!(refusal(story.downgrade(a, 2, "l", held)), Refusal::BadArgument(BadArgument::Mode));
        assert_eq!(story.holders("l").len(), 2);
    }

    #[test]
    fn of_several_locks_one_is_downgraded() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let write = token(&story.acquire(ask(a, 1, "l").and(ask(a, 1, "m"))));
        let read = story.downgrade(a, 1, "m", write);
        let Reply::Downgraded(grant) = read else { panic!("{read:?}") };
        let parts: Vec<_> = grant.parts.iter().map(|part| (part.mode, part.token.get())).collect();
        assert_eq!(parts, [(Mode::Exclusive, write.get()), (Mode::Shared, story.index)]);
        assert_eq!(grant.grant_index, story.index);
        token(&story.acquire(ask(b, 1, "m").shared().trying()));
        story.release(a, 1, "l", write);
        assert_eq!(story.holders("m").len(), 2);
    }
}
