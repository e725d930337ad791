use super::{LockTable, Step};
use crate::command::BreakLock;
use crate::event::Event;
use crate::ids::{AcquisitionId, LockName, Millis, Slot};
use crate::limits::CLOSED_MAX;
use crate::lock::SlotState;
use crate::reply::{BadArgument, Ended, Refusal, Reply};
use crate::session::{AcquisitionState, HeldPart};

impl LockTable {
    /// Takes a slot from everyone who holds it under this token. What else they hold stays theirs.
    ///
    /// A holder may believe in its lease for up to its TTL, so the slot is closed for TTL and lock-delay, unless the
    /// operator says otherwise (SPEC 4). Guards that all confirm the floor still open it earlier: they shut the
    /// holder out, whatever it believes.
    pub(super) fn break_lock(&mut self, step: &mut Step, asked: &BreakLock) -> Reply {
        let BreakLock { lock, slot, token, closed, by } = asked;
        if let Err(refusal) = check_closed(*closed) {
            return Reply::Refused(refusal);
        }
        let state = self.locks.get(lock).and_then(|lock| lock.slots.get(slot));
        let tenure = state.and_then(SlotState::tenure).filter(|tenure| tenure.token == *token);
        let Some(tenure) = tenure else {
            return Reply::Refused(Refusal::NotHeld { superseded: self.holder_of(lock, *slot) });
        };
        let holders = self.holder_views(tenure);
        let (lock, slot) = (lock.clone(), *slot);
        step.events.push(Event::Broken { lock: lock.clone(), slot, token: *token, by: by.clone() });
        for holder in &holders {
            self.close_for(holder.acquisition, &lock, slot, *closed);
        }
        if closed.is_some() {
            self.replace_owed(&lock, slot);
        }
        for holder in &holders {
            if let Some(part) = self.held_part(holder.acquisition, &lock, slot) {
                self.end_parts(step, holder.acquisition, &[part], Ended::Broken);
            }
        }
        let state = self.locks.get(&lock).and_then(|lock| lock.slots.get(&slot));
        let closed = match state {
            Some(SlotState::Delayed(delay)) => delay.delay,
            Some(SlotState::Held(_)) | None => Millis(0),
        };
        Reply::Broken { holders, closed }
    }

    /// What an operator takes from a holder is closed for as long as he says; else for as long as the holder may
    /// believe in its lease, and then its own lock-delay.
    pub(super) fn close_for(
        &mut self,
        id: AcquisitionId,
        lock: &LockName,
        slot: Slot,
        closed: Option<Millis>,
    ) {
        let Some(ttl) = self.sessions.get(&id.session).map(|session| session.ttl) else { return };
        if let Some(SlotState::Held(tenure)) = self.locks.get_mut(lock).and_then(|l| l.slots.get_mut(&slot))
            && let Some(holder) = tenure.holders.get_mut(&id)
        {
            holder.delay = closed.unwrap_or(Millis(ttl.0.saturating_add(holder.delay.0)));
        }
    }

    /// An operator who names how long a broken slot is closed speaks for those who had left it too; of which guards must
    /// confirm before that, he said nothing.
    fn replace_owed(&mut self, lock: &LockName, slot: Slot) {
        if let Some(SlotState::Held(tenure)) = self.locks.get_mut(lock).and_then(|l| l.slots.get_mut(&slot)) {
            tenure.owed.iter_mut().for_each(|owed| owed.delay = Millis(0));
        }
    }

    fn held_part(&self, id: AcquisitionId, lock: &LockName, slot: Slot) -> Option<HeldPart> {
        let acquisition = self.acquisition(id)?;
        match &acquisition.state {
            AcquisitionState::Waiting | AcquisitionState::Kept { .. } => None,
            AcquisitionState::Holding { held, .. } => {
                held.iter().find(|part| part.lock == *lock && part.slot == slot).cloned()
            }
        }
    }
}

/// An operator closes no slot for longer than `CLOSED_MAX`.
pub(super) fn check_closed(closed: Option<Millis>) -> Result<(), Refusal> {
    match closed {
        Some(closed) if closed > CLOSED_MAX => Err(Refusal::BadArgument(BadArgument::Closed)),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{AcquirePart, Command, LockDelay};
    use crate::ids::Principal;
    use crate::table::story::{DELAY, Story, ask, guard, id, lock, refusal, token};
    use crate::token::Token;

    fn breaking(name: &str, token: Token, closed: Option<u64>) -> Command {
        let by = Principal::new("root").unwrap();
        Command::BreakLock(BreakLock {
            lock: lock(name),
            slot: Slot(0),
            token,
            closed: closed.map(Millis),
            by,
        })
    }

    /// The TTL of a story's sessions, and their delay.
    const CLOSED: Millis = Millis(10_000 + DELAY.0);

    #[test]
    fn its_holder_loses_it_and_it_is_closed_for_ttl_and_lock_delay() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        let Reply::Broken { holders, closed } = story.apply(breaking("l", held, None)) else {
            panic!("it is held")
        };
        assert_eq!((holders.len(), holders[0].acquisition, closed), (1, id(a, 1), CLOSED));
        let by = Principal::new("root").unwrap();
        let (slot, ended) = (Slot(0), Ended::Broken);
        assert_eq!(
            story.events[..2],
            [
                Event::Broken { lock: lock("l"), slot, token: held, by },
                Event::HoldEnded { acquisition: id(a, 1), lock: lock("l"), slot, token: held, ended }
            ]
        );
        assert!(matches!(story.events[2], Event::DelayStarted { delay: CLOSED, .. }));
        assert_eq!((story.granted(), story.renewed), (vec![], None));
        assert!(story.table.session(a).is_some());
        let began = story.index;
        let late = refusal(story.release(a, 1, "l", held));
        assert_eq!(late, Refusal::AlreadyEnded { ended, superseded: None });
        story.end_lock_delay(story.epoch(), "l", began);
        assert_eq!(story.granted(), [(b, 1)]);
        let last = story.table.history().expired().next().expect("remembered");
        assert_eq!((last.token, last.ended), (held, ended));
    }

    #[test]
    fn the_operator_may_say_otherwise_and_an_explicit_zero_is_zero() {
        for (closed, delayed) in [(0, 0), (1, 1), (CLOSED_MAX.0, 1)] {
            let mut story = Story::begin();
            let (a, b) = (story.open("a"), story.open("b"));
            let held = story.holds(a, 1, "l");
            story.waits(b, 1, "l");
            let reply = story.apply(breaking("l", held, Some(closed)));
            assert!(matches!(reply, Reply::Broken { closed: Millis(now), .. } if now == closed));
            assert_eq!(story.table.counts().delayed, delayed);
            assert_eq!(story.holder("l").is_some_and(|holder| holder.0 == b), closed == 0);
        }
        let mut story = Story::begin();
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        let bad = Refusal::BadArgument(BadArgument::Closed);
        assert_eq!(refusal(story.apply(breaking("l", held, Some(CLOSED_MAX.0 + 1)))), bad);
        assert!(story.holder("l").is_some());
    }

    #[test]
    fn a_holder_without_a_delay_may_still_believe_in_its_lease() {
        let mut story = Story::begin();
        let a = story.open("a");
        story.acquire(ask(a, 1, "l").delay(LockDelay::Named(Millis(0))));
        let held = story.holder("l").expect("a holds").2;
        let reply = story.apply(breaking("l", held, None));
        assert!(matches!(reply, Reply::Broken { closed: Millis(10_000), .. }));
    }

    #[test]
    fn a_successor_is_not_broken_instead() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let old = story.holds(a, 1, "l");
        story.release(a, 1, "l", old);
        let new = story.holds(b, 1, "l");
        let Refusal::NotHeld { superseded: Some(now) } = refusal(story.apply(breaking("l", old, None)))
        else {
            panic!("b holds")
        };
        assert_eq!((now.acquisition, now.token), (id(b, 1), new));
        assert_eq!(story.holder("l"), Some((b, 1, new)));
        story.apply(breaking("l", new, None));
        for (name, token) in [("l", new), ("m", new)] {
            let nobody = Refusal::NotHeld { superseded: None };
            assert_eq!(refusal(story.apply(breaking(name, token, None))), nobody);
        }
        assert_eq!(story.table.counts().delayed, 1);
    }

    #[test]
    fn the_operators_word_replaces_a_delay_that_a_reader_owes_but_not_its_guards() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = token(&story.acquire(ask(a, 1, "l").shared()));
        let guarded = |part: &mut AcquirePart| part.fenced_by = vec![guard("store")];
        story.acquire(ask(b, 1, "l").shared().part(guarded));
        story.expire(&[a]);
        story.apply(breaking("l", held, Some(7)));
        // The first one named no guard, so that nobody knows whether it is shut out.
        let delay = story.table.delay(&lock("l"), Slot(0)).expect("it is closed");
        assert_eq!((delay.delay, delay.guards.len()), (Millis(7), 0));
    }
}
