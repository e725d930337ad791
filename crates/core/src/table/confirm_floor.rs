use super::{LockTable, Step};
use crate::command::ConfirmFloor;
use crate::event::Event;
use crate::ids::{AcquisitionId, LockName, Slot};
use crate::limits::TOKEN_MAX;
use crate::lock::{Delay, SlotState};
use crate::reply::{BadArgument, Refusal, Reply};
use crate::session::AcquisitionState;

impl LockTable {
    /// Fence-ahead: a guard will accept nothing below this floor. When all guards of the delay have said so, the earlier
    /// holder can affect nothing that the lock protects, and the rest of the delay is skipped (SPEC 5).
    ///
    /// That holds for whatever closed the slot: also for the TTL that an operator or a takeover adds, because a holder
    /// that still believes in its lease is shut out all the same. What comes late, twice, or from a guard that the
    /// delay does not name changes nothing.
    pub(super) fn confirm_floor(&mut self, step: &mut Step, confirm: &ConfirmFloor) -> Reply {
        let base = self.header.token_base;
        let lock = self.locks.get_mut(&confirm.lock);
        let Some(SlotState::Delayed(delay)) = lock.and_then(|lock| lock.slots.get_mut(&confirm.slot)) else {
            return Reply::Done;
        };
        if !delay.guards.contains(&confirm.guard) || delay.confirmed.contains(&confirm.guard) {
            return Reply::Done;
        }
        if confirm.floor < base.token(delay.began) || confirm.floor.get() > TOKEN_MAX {
            return Reply::Refused(Refusal::BadArgument(BadArgument::Floor));
        }
        delay.confirmed.insert(confirm.guard.clone());
        let over = match delay.kept_for {
            None => delay.is_confirmed(),
            Some(id) => self.all_confirmed(id),
        };
        let (lock, slot, guard) = (confirm.lock.clone(), confirm.slot, confirm.guard.clone());
        step.events.push(Event::FloorConfirmed { lock, slot, guard });
        if over {
            self.end_delay(step, &confirm.lock, confirm.slot);
        }
        Reply::Done
    }

    /// Slots that are kept for one acquisition open together: all their guards must have confirmed.
    fn all_confirmed(&self, id: AcquisitionId) -> bool {
        let acquisition = self.sessions.get(&id.session).and_then(|s| s.acquisitions.get_whole(id.number));
        let Some(AcquisitionState::Kept { slots }) = acquisition.map(|acquisition| &acquisition.state) else {
            return false;
        };
        slots.iter().all(|(lock, slot)| self.delay(lock, *slot).is_some_and(Delay::is_confirmed))
    }

    /// The delay of a slot that is closed.
    pub(crate) fn delay(&self, lock: &LockName, slot: Slot) -> Option<&Delay> {
        match self.locks.get(lock)?.slots.get(&slot)? {
            SlotState::Delayed(delay) => Some(delay),
            SlotState::Held(_) => None,
        }
    }
}

impl Delay {
    /// Whether all its guards have confirmed. Where none is named, none can.
    pub(crate) fn is_confirmed(&self) -> bool {
        !self.guards.is_empty() && self.guards.iter().all(|guard| self.confirmed.contains(guard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{BreakLock, Command};
    use crate::ids::{LogIndex, Millis, Principal};
    use crate::table::story::{Story, ask, guard, id, lock, refusal};
    use crate::token::{Token, TokenBase};

    fn confirm(story: &mut Story, name: &str, by: &str, floor: u64) -> Reply {
        story.apply(Command::ConfirmFloor(ConfirmFloor {
            guard: guard(by),
            lock: lock(name),
            slot: Slot(0),
            floor: Token::new(floor).unwrap(),
            by: Principal::anonymous(),
        }))
    }

    /// A holder with these guards expired, a waiter is next; the entry at which the delay began.
    fn closed(story: &mut Story, guards: &[&str]) -> u64 {
        let (a, b) = (story.open("a"), story.open("b"));
        let fenced_by = guards.iter().map(|name| guard(name)).collect();
        story.acquire(ask(a, 1, "l").part(|part| part.fenced_by = fenced_by));
        story.waits(b, 1, "l");
        story.expire(&[a]);
        story.index
    }

    #[test]
    fn when_the_last_of_its_guards_has_confirmed_the_delay_ends_at_once() {
        let mut story = Story::begin();
        let began = closed(&mut story, &["db", "store"]);
        assert_eq!(confirm(&mut story, "l", "db", began), Reply::Done);
        let (l, slot) = (lock("l"), Slot(0));
        assert_eq!(story.events, [Event::FloorConfirmed { lock: l.clone(), slot, guard: guard("db") }]);
        assert_eq!(story.table.delay(&l, slot).unwrap().confirmed.len(), 1);
        assert_eq!(confirm(&mut story, "l", "store", began + 100), Reply::Done);
        assert_eq!(
            story.events[..2],
            [
                Event::FloorConfirmed { lock: l.clone(), slot, guard: guard("store") },
                Event::DelayEnded { lock: l, slot, began: LogIndex(began) }
            ]
        );
        assert_eq!(story.granted().len(), 1);
        assert_eq!(story.holder("l").map(|holder| holder.2.get()), Some(story.index));
        assert_eq!(story.table.counts().delayed, 0);
    }

    #[test]
    fn who_is_not_named_who_repeats_and_who_comes_late_changes_nothing() {
        let mut story = Story::begin();
        let began = closed(&mut story, &["db", "store"]);
        confirm(&mut story, "l", "db", began);
        for (name, by) in [("l", "other"), ("l", "db"), ("m", "store")] {
            assert_eq!(confirm(&mut story, name, by, began), Reply::Done);
            assert!(story.events.is_empty());
        }
        assert_eq!(confirm(&mut story, "l", "db", 1), Reply::Done, "it has confirmed");
        story.end_lock_delay(story.epoch(), "l", began);
        assert_eq!(confirm(&mut story, "l", "store", began), Reply::Done);
        assert!(story.events.is_empty() && story.holder("l").is_some());
    }

    #[test]
    fn without_guards_nothing_is_skipped() {
        let mut story = Story::begin();
        let began = closed(&mut story, &[]);
        assert_eq!(confirm(&mut story, "l", "db", began), Reply::Done);
        assert_eq!(story.table.counts().delayed, 1);
    }

    #[test]
    fn a_floor_below_the_one_that_the_delay_asks_for_is_refused() {
        let base = 1_000_000;
        let limits = crate::limits::Limits::default();
        let mut story = Story::founded_at(0, TokenBase::new(base).unwrap(), limits);
        let began = closed(&mut story, &["db"]);
        for low in [1, began, base + began - 1] {
            let bad = Refusal::BadArgument(BadArgument::Floor);
            assert_eq!(refusal(confirm(&mut story, "l", "db", low)), bad);
        }
        assert_eq!(story.table.counts().delayed, 1);
        confirm(&mut story, "l", "db", base + began);
        assert_eq!(story.table.counts().delayed, 0);
    }

    #[test]
    fn a_confirmation_is_of_one_delay_and_not_of_the_next() {
        let mut story = Story::begin();
        let began = closed(&mut story, &["db", "store"]);
        confirm(&mut story, "l", "db", began);
        story.end_lock_delay(story.epoch(), "l", began);
        let (b, number, held) = story.holder("l").expect("b holds");
        story.release(b, number, "l", held);
        let next = closed(&mut story, &["db"]);
        assert_eq!(refusal(confirm(&mut story, "l", "db", began)), Refusal::BadArgument(BadArgument::Floor));
        confirm(&mut story, "l", "db", next);
        assert!(story.holder("l").is_some());
    }

    #[test]
    fn what_an_operator_closed_opens_with_its_guards_too() {
        let mut story = Story::begin();
        let a = story.open("a");
        let request = ask(a, 1, "l").part(|part| part.fenced_by = vec![guard("db")]);
        story.acquire(request);
        let token = story.holder("l").expect("a holds").2;
        let by = Principal::anonymous();
        let closed = Some(Millis(60_000));
        story.apply(Command::BreakLock(BreakLock { lock: lock("l"), slot: Slot(0), token, closed, by }));
        let began = story.index;
        confirm(&mut story, "l", "db", began);
        let b = story.open("b");
        story.holds(b, 1, "l");
        assert_eq!(story.holder("l").map(|holder| id(holder.0, holder.1)), Some(id(b, 1)));
    }
}
