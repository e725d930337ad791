use super::{LockTable, Step};
use crate::command::EndLockDelay;
use crate::event::Event;
use crate::ids::{LockName, Slot};
use crate::reply::Reply;

impl LockTable {
    /// Opens a slot again. Ignored under an earlier clock, and when this delay is over already.
    pub(super) fn end_lock_delay(&mut self, step: &mut Step, end: &EndLockDelay) -> Reply {
        if !self.in_epoch(end.epoch) {
            return Reply::Done;
        }
        if self.delay(&end.lock, end.slot).is_some_and(|delay| delay.began == end.began) {
            self.end_delay(step, &end.lock, end.slot);
        }
        Reply::Done
    }

    /// Opens a closed slot: for the acquisition that it is kept for, with all that is kept for it, or for the queue.
    pub(super) fn end_delay(&mut self, step: &mut Step, name: &LockName, slot: Slot) {
        match self.delay(name, slot).and_then(|delay| delay.kept_for) {
            Some(id) => self.open_kept(step, id),
            None => self.open_slot(step, name, slot),
        }
    }

    /// Opens a closed slot.
    pub(super) fn open_slot(&mut self, step: &mut Step, name: &LockName, slot: Slot) {
        let Some(began) = self.delay(name, slot).map(|delay| delay.began) else { return };
        let Some(lock) = self.locks.get_mut(name) else { return };
        lock.slots.remove(&slot);
        self.counts.delayed -= 1;
        step.touched.push(name.clone());
        step.events.push(Event::DelayEnded { lock: name.clone(), slot, began });
    }
}

#[cfg(test)]
mod tests {
    use crate::command::LockDelay;
    use crate::event::Event;
    use crate::ids::{LogIndex, Millis, Slot};
    use crate::lock::SlotState;
    use crate::table::story::{DELAY, Story, ask, lock};

    #[test]
    fn an_expired_holders_lock_stays_closed_and_then_goes_to_the_head() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let ended = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.waits(c, 1, "l");
        story.expire(&[a]);
        let began = story.index;
        assert_eq!(story.granted(), []);
        let Some(SlotState::Delayed(delay)) = story.table.lock(&lock("l")).unwrap().slots.get(&Slot(0))
        else {
            panic!("it is closed")
        };
        assert_eq!((delay.began, delay.delay, delay.ended), (LogIndex(began), DELAY, ended));
        story.end_lock_delay(story.epoch(), "l", began);
        assert_eq!(story.granted(), [(b, 1)]);
        assert_eq!(
            story.events[0],
            Event::DelayEnded { lock: lock("l"), slot: Slot(0), began: LogIndex(began) }
        );
        assert_eq!(
            story.events[2],
            Event::Contended { holder: crate::table::story::id(b, 1), lock: lock("l") }
        );
        assert_eq!(story.holder("l").unwrap().2.get(), story.index);
    }

    #[test]
    fn b52_an_explicit_zero_is_zero() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        story.acquire(ask(a, 1, "l").delay(LockDelay::Named(Millis(0))));
        story.waits(b, 1, "l");
        story.expire(&[a]);
        assert_eq!(story.granted(), [(b, 1)]);
        assert_eq!(story.table.counts().delayed, 0);
    }

    #[test]
    fn b104_the_holders_own_delay_counts_and_not_the_waiters() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        story.acquire(ask(a, 1, "l").delay(LockDelay::Named(Millis(60_000))));
        story.acquire(ask(b, 1, "l").delay(LockDelay::Named(Millis(1))));
        story.expire(&[a]);
        let started = story.events.iter().find_map(|event| match event {
            Event::DelayStarted { delay, .. } => Some(*delay),
            _ => None,
        });
        assert_eq!(started, Some(Millis(60_000)));
    }

    #[test]
    fn without_waiters_the_lock_is_forgotten_with_the_delay() {
        let mut story = Story::begin();
        let a = story.open("a");
        story.holds(a, 1, "l");
        story.expire(&[a]);
        assert_eq!((story.table.lock_count(), story.table.counts().delayed), (1, 1));
        story.end_lock_delay(story.epoch(), "l", story.index);
        assert_eq!((story.table.lock_count(), story.table.counts().delayed), (0, 0));
    }

    #[test]
    fn b65_an_end_of_another_delay_of_an_earlier_clock_or_of_a_held_lock_changes_nothing() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        story.holds(a, 1, "l");
        story.expire(&[a]);
        let (old, first) = (story.epoch(), story.index);
        let epoch = story.leader(2);
        story.end_lock_delay(old, "l", first);
        story.end_lock_delay(epoch, "l", first - 1);
        story.end_lock_delay(epoch, "m", first);
        assert_eq!(story.table.counts().delayed, 1);
        story.end_lock_delay(epoch, "l", first);
        story.holds(b, 1, "l");
        story.end_lock_delay(epoch, "l", first);
        assert!(story.holder("l").is_some());
        story.expire(&[b]);
        story.end_lock_delay(epoch, "l", first);
        assert_eq!(story.table.counts().delayed, 1, "the second delay is not the first");
    }
}
