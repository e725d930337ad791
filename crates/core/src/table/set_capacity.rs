use super::{LockTable, Step};
use crate::command::SetCapacity;
use crate::event::Event;
use crate::ids::AcquisitionId;
use crate::limits::CAPACITY_MAX;
use crate::reply::{BadArgument, Ended, Refusal, Reply};
use crate::session::OutcomeHow;

impl LockTable {
    /// Sets the capacity of a lock in use, as long as it is in use (SPEC 4). Slots beyond a smaller one are not granted
    /// again; who holds one keeps it until it ends, and its delay runs. A waiter that would be refused now is: one that
    /// wants more permits than there are, and one that named no capacity, or 1, where there is now more, because it
    /// counts on being alone.
    pub(super) fn set_capacity(&mut self, step: &mut Step, set: &SetCapacity) -> Reply {
        if set.capacity == 0 || set.capacity > CAPACITY_MAX {
            return Reply::Refused(Refusal::BadArgument(BadArgument::Capacity));
        }
        let Some(lock) = self.locks.get_mut(&set.lock) else { return Reply::Refused(Refusal::NotInUse) };
        let before = lock.capacity;
        lock.capacity = set.capacity;
        lock.capacity_set = true;
        if before != set.capacity {
            step.events.push(Event::CapacitySet { lock: set.lock.clone(), capacity: set.capacity });
        }
        for (id, refusal) in self.unsuited(set) {
            let how = OutcomeHow::Refused(Box::new(refusal));
            self.end_waiting(step, id, Ended::Refused, how, None);
        }
        if set.capacity < before {
            let waiters: Vec<_> = self.waiters(set).collect();
            waiters.into_iter().for_each(|id| self.break_cycles(step, id));
        }
        step.touched.push(set.lock.clone());
        Reply::Done
    }

    fn waiters(&self, set: &SetCapacity) -> impl Iterator<Item = AcquisitionId> {
        self.locks.get(&set.lock).into_iter().flat_map(|lock| lock.queue.iter()).map(|(_, id)| id)
    }

    fn unsuited(&self, set: &SetCapacity) -> Vec<(AcquisitionId, Refusal)> {
        let Some(lock) = self.locks.get(&set.lock) else { return Vec::new() };
        let refused = self.waiters(set).filter_map(|id| {
            let part = self.whole(id)?.parts.iter().find(|part| part.lock == set.lock)?;
            Some((id, lock.suits(part).err()?))
        });
        refused.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::ids::Slot;
    use crate::mode::Mode;
    use crate::table::story::{Story, ask, id, lock, refusal, token};

    fn set(story: &mut Story, capacity: u32) -> Reply {
        story.apply(Command::SetCapacity(SetCapacity { lock: lock("l"), capacity }))
    }

    fn slots(story: &Story) -> Vec<u32> {
        story.holders("l").into_iter().map(|(slot, ..)| slot).collect()
    }

    #[test]
    fn a_lock_that_is_not_in_use_has_none_and_keeps_none() {
        let mut story = Story::begin();
        let a = story.open("a");
        assert_eq!(set(&mut story, 2), Reply::Refused(Refusal::NotInUse));
        let held = token(&story.acquire(ask(a, 1, "l").semaphore(2, 1)));
        for capacity in [0, CAPACITY_MAX + 1] {
            assert_eq!(refusal(set(&mut story, capacity)), Refusal::BadArgument(BadArgument::Capacity));
        }
        assert_eq!(set(&mut story, 5), Reply::Done);
        assert_eq!(story.events, [Event::CapacitySet { lock: lock("l"), capacity: 5 }]);
        assert_eq!(set(&mut story, 5), Reply::Done);
        assert_eq!(story.events, []);
        story.release(a, 1, "l", held);
        token(&story.acquire(ask(a, 2, "l").semaphore(3, 1)));
    }

    #[test]
    fn it_wins_over_every_named_number_above_1() {
        let mut story = Story::begin();
        let a = story.open("a");
        token(&story.acquire(ask(a, 1, "l").semaphore(2, 1)));
        set(&mut story, 3);
        token(&story.acquire(ask(a, 2, "l").semaphore(2, 1)));
        token(&story.acquire(ask(a, 3, "l").semaphore(9, 1)));
        let differs = Refusal::CapacityDiffers { lock: 3, asked: 1 };
        assert_eq!(refusal(story.acquire(ask(a, 4, "l"))), differs);
        let many = Refusal::TooManyPermits { capacity: 3, permits: 4 };
        assert_eq!(refusal(story.acquire(ask(a, 5, "l").semaphore(9, 4))), many);
        set(&mut story, 1);
        story.acquire(ask(a, 6, "l").semaphore(9, 1));
        story.waits(a, 7, "l");
        assert_eq!(story.table.counts().waiting, 2);
    }

    #[test]
    fn a_larger_one_lets_waiters_in_at_once() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        story.acquire(ask(a, 1, "l").semaphore(2, 2));
        for number in 1..=3 {
            story.acquire(ask(b, number, "l").semaphore(2, 1));
        }
        set(&mut story, 4);
        assert_eq!(story.granted(), [(b, 1), (b, 2)]);
        assert_eq!(slots(&story), [0, 1, 2, 3]);
    }

    #[test]
    fn slots_beyond_a_smaller_one_are_not_granted_again() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let first = token(&story.acquire(ask(a, 1, "l").semaphore(3, 2)));
        story.acquire(ask(b, 1, "l").semaphore(3, 1));
        set(&mut story, 1);
        assert_eq!(slots(&story), [0, 1, 2], "who holds one keeps it");
        story.expire(&[b]);
        assert_eq!(story.table.counts().delayed, 1, "its delay runs");
        story.acquire(ask(c, 1, "l").semaphore(3, 1));
        let named = |slot| Some((lock("l"), Slot(slot)));
        let release = |slot| {
            let part = named(slot);
            Command::Release(crate::command::Release { acquisition: id(a, 1), part, token: first })
        };
        story.apply(release(1));
        assert_eq!(story.granted(), []);
        story.apply(release(0));
        assert_eq!(story.granted(), [(c, 1)]);
        assert_eq!(slots(&story), [0]);
        // Growing again leaves closed what is in its delay.
        set(&mut story, 3);
        token(&story.acquire(ask(a, 2, "l").semaphore(3, 1)));
        assert_eq!(slots(&story), [0, 1]);
        assert!(matches!(
            refusal(story.acquire(ask(a, 3, "l").semaphore(3, 1).trying())),
            Refusal::Held { .. }
        ));
    }

    #[test]
    fn a_waiter_that_could_never_be_granted_is_refused() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = token(&story.acquire(ask(a, 1, "l").semaphore(3, 1)));
        let wants = ask(b, 1, "l").semaphore(3, 3).and(ask(b, 1, "m"));
        story.acquire(wants.clone());
        story.acquire(ask(b, 2, "l").semaphore(3, 2));
        story.waits(b, 3, "m");
        set(&mut story, 2);
        assert_eq!(story.granted(), [(b, 3)], "it left all its queues");
        let refused = Refusal::TooManyPermits { capacity: 2, permits: 3 };
        assert_eq!(refusal(story.acquire(wants)), refused);
        story.release(a, 1, "l", held);
        assert_eq!(story.granted(), [(b, 2)]);
    }

    #[test]
    fn who_counts_on_being_alone_does_not_become_one_of_several() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let read = token(&story.acquire(ask(a, 1, "l").shared()));
        story.waits(b, 1, "l");
        story.acquire(ask(b, 2, "l").shared());
        set(&mut story, 2);
        let differs = Refusal::CapacityDiffers { lock: 2, asked: 1 };
        assert_eq!(refusal(story.acquire(ask(b, 1, "l"))), differs);
        assert_eq!(refusal(story.acquire(ask(b, 2, "l").shared())), differs);
        assert_eq!(story.table.counts().waiting, 0);
        // The reader that is in stays; nobody joins it, and beside it there is one more slot.
        token(&story.acquire(ask(b, 3, "l").semaphore(2, 1)));
        assert_eq!(slots(&story), [0, 1]);
        set(&mut story, 1);
        let joined = story.acquire(ask(b, 4, "l").shared());
        assert_eq!(token(&joined), read);
        assert_eq!(story.table.grant(id(b, 4)).unwrap().parts[0].mode, Mode::Shared);
    }
}
