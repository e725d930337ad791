use super::{LockTable, Step};
use crate::command::Release;
use crate::ids::{LockName, Slot};
use crate::reply::{Ended, HolderView, Refusal, Reply};
use crate::session::{HeldPart, OutcomeHow};

impl LockTable {
    /// Frees only what exactly this acquisition holds under exactly this token; all its parts only where all are held
    /// under it. Repeated, it answers how that ended; a late release by a stale holder changes nothing and says who
    /// superseded it (SPEC 4).
    pub(super) fn release(&mut self, step: &mut Step, release: &Release) -> Reply {
        let id = release.acquisition;
        let Some(session) = self.sessions.get(&id.session) else {
            let refusal = match self.no_session(id.session) {
                Refusal::SessionEnded { ended, .. } => {
                    Refusal::SessionEnded { ended, superseded: self.now_holding(release) }
                }
                other => other,
            };
            return Reply::Refused(refusal);
        };
        if let Some(outcome) = session.outcomes.get(&id.number) {
            let how = outcome.how.clone();
            return self.released_before(release, &how);
        }
        let plain = session.acquisitions.plain_part(id.number);
        let held = match (&plain, session.acquisitions.get_whole(id.number)) {
            (Some(part), _) => std::slice::from_ref(part),
            (None, Some(acquisition)) => acquisition.held(),
            (None, None) if id.number <= session.highest && id.number < session.mark => {
                return Reply::Released(Ended::Forgotten);
            }
            (None, None) => &[],
        };
        let named = |part: &&HeldPart| match &release.part {
            None => true,
            Some((lock, slot)) => part.lock == *lock && part.slot == *slot,
        };
        let freed = held.iter().filter(named);
        let none = freed.clone().next().is_none();
        if none
            && !held.is_empty()
            && let Some((lock, slot)) = &release.part
            && let Some(ended) = self.part_before(id, lock, *slot, release.token)
        {
            return self.ended_before(ended, lock, *slot);
        }
        if none || freed.clone().any(|part| part.token != release.token) {
            return Reply::Refused(Refusal::NotHeld { superseded: self.now_holding(release) });
        }
        if freed.clone().count() == held.len() {
            self.end_one(step, id, Ended::Released);
        } else {
            let freed: Vec<HeldPart> = freed.cloned().collect();
            self.end_parts(step, id, &freed, Ended::Released);
        }
        Reply::Released(Ended::Released)
    }

    fn released_before(&self, release: &Release, how: &OutcomeHow) -> Reply {
        let stale = || Reply::Refused(Refusal::NotHeld { superseded: self.now_holding(release) });
        let OutcomeHow::Ended { ended, held } = how else { return stale() };
        let was_held = held.iter().find(|(lock, slot, token)| {
            *token == release.token
                && release.part.as_ref().is_none_or(|part| part.0 == *lock && part.1 == *slot)
        });
        if let Some((lock, slot, _)) = was_held {
            return self.ended_before(*ended, lock, *slot);
        }
        // A part that ended before the last ones.
        let Some((lock, slot)) = &release.part else { return stale() };
        match self.remembered_end(release.acquisition, lock, *slot, release.token) {
            Some(ended) => self.ended_before(ended, lock, *slot),
            None => stale(),
        }
    }

    fn ended_before(&self, ended: Ended, lock: &LockName, slot: Slot) -> Reply {
        match ended {
            Ended::Released | Ended::Cancelled | Ended::Forgotten => Reply::Released(ended),
            _ => Reply::Refused(Refusal::AlreadyEnded { ended, superseded: self.holder_of(lock, slot) }),
        }
    }

    fn now_holding(&self, release: &Release) -> Option<Box<HolderView>> {
        let (lock, slot): &(LockName, Slot) = release.part.as_ref()?;
        let holder = self.holder_of(lock, *slot)?;
        (holder.acquisition != release.acquisition).then_some(holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::ids::SessionId;
    use crate::table::story::{Story, ask, id, lock, refusal, token};
    use crate::token::Token;

    #[test]
    fn a_released_lock_is_free_at_once_and_goes_to_the_head() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.waits(c, 1, "l");
        assert_eq!(story.release(a, 1, "l", held), Reply::Released(Ended::Released));
        assert_eq!(story.granted(), [(b, 1)]);
        assert_eq!(story.holder("l").map(|holder| holder.2.get()), Some(story.index));
    }

    #[test]
    fn b20_a_retried_unlock_does_not_free_the_next_grant() {
        let mut story = Story::begin();
        let a = story.open("a");
        let first = story.holds(a, 1, "l");
        story.release(a, 1, "l", first);
        let second = story.holds(a, 2, "l");
        assert_eq!(story.release(a, 1, "l", first), Reply::Released(Ended::Released));
        assert_eq!(story.holder("l"), Some((a, 2, second)));
        // Nor does the old token under the new number, or the new token under the old.
        assert!(matches!(refusal(story.release(a, 2, "l", first)), Refusal::NotHeld { .. }));
        assert!(matches!(refusal(story.release(a, 1, "l", second)), Refusal::NotHeld { .. }));
        assert_eq!(story.holder("l"), Some((a, 2, second)));
    }

    #[test]
    fn b88_a_late_release_changes_nothing_and_says_who_superseded_it() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let old = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.expire(&[a]);
        let began = story.index;
        let in_delay = Refusal::SessionEnded { ended: Ended::Expired, superseded: None };
        assert_eq!(refusal(story.release(a, 1, "l", old)), in_delay);
        assert_eq!(story.table.counts().delayed, 1, "a late release does not shorten the delay");
        story.end_lock_delay(story.epoch(), "l", began);
        let refused = refusal(story.release(a, 1, "l", old));
        let Refusal::SessionEnded { ended: Ended::Expired, superseded: Some(now) } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((now.acquisition, now.client.as_str()), (id(b, 1), "b"));
        assert_eq!(story.holder("l").map(|holder| holder.0), Some(b));
        assert_eq!(story.renewed, None);
    }

    #[test]
    fn b62_a_late_release_of_a_forgotten_lock_does_not_touch_its_next_life() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let old = story.holds(a, 1, "l");
        story.expire(&[a]);
        story.end_lock_delay(story.epoch(), "l", story.index);
        let between = story.holds(b, 1, "l");
        story.release(b, 1, "l", between);
        let last = story.holds(c, 1, "l");
        story.release(a, 1, "l", old);
        assert_eq!(story.holder("l"), Some((c, 1, last)));
        assert!(old < between && between < last);
    }

    #[test]
    fn another_session_cannot_release_even_with_the_right_token() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        let Refusal::NotHeld { superseded: Some(now) } = refusal(story.release(b, 1, "l", held)) else {
            panic!("a holds")
        };
        assert_eq!(now.acquisition, id(a, 1));
        assert_eq!(story.holder("l"), Some((a, 1, held)));
        assert_eq!(refusal(story.release(SessionId(99), 1, "l", held)), Refusal::SessionUnknown);
    }

    #[test]
    fn a_part_that_is_not_held_frees_nothing() {
        let mut story = Story::begin();
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        assert!(matches!(refusal(story.release(a, 1, "m", held)), Refusal::NotHeld { .. }));
        let elsewhere = Release { acquisition: id(a, 1), part: Some((lock("l"), Slot(1))), token: held };
        assert!(matches!(refusal(story.apply(Command::Release(elsewhere))), Refusal::NotHeld { .. }));
        assert!(story.holder("l").is_some());
    }

    #[test]
    fn a_waiter_has_nothing_to_release() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        assert!(matches!(refusal(story.release(b, 1, "l", held)), Refusal::NotHeld { .. }));
        assert_eq!(story.table.counts().waiting, 1);
    }

    #[test]
    fn without_a_part_all_is_released() {
        let mut story = Story::begin();
        let a = story.open("a");
        let held = token(&story.acquire(ask(a, 1, "l")));
        let all = Release { acquisition: id(a, 1), part: None, token: held };
        assert_eq!(story.apply(Command::Release(all.clone())), Reply::Released(Ended::Released));
        assert_eq!(story.apply(Command::Release(all)), Reply::Released(Ended::Released));
        assert!(story.holder("l").is_none());
    }

    #[test]
    fn of_a_cancelled_acquisition_it_says_that_it_was_cancelled() {
        let mut story = Story::begin();
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        story.cancel(a, 1);
        assert_eq!(story.release(a, 1, "l", held), Reply::Released(Ended::Cancelled));
        let other = Token::new(1).unwrap();
        assert!(matches!(refusal(story.release(a, 1, "l", other)), Refusal::NotHeld { .. }));
        assert!(matches!(refusal(story.release(a, 2, "l", held)), Refusal::NotHeld { .. }), "never arrived");
    }
}
