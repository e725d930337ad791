//! Whether an acquisition holds a slot, in this mode, under this token: what `CheckSequencer` asks.

use super::LockTable;
use crate::ids::{AcquisitionId, LockName, Slot};
use crate::lock::SlotState;
use crate::mode::Mode;
use crate::reply::Ended;
use crate::session::{AcquisitionState, OutcomeHow};
use crate::token::Token;

/// What somebody claims to hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Presented {
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// How.
    pub mode: Mode,
    /// Under which token.
    pub token: Token,
    /// Which acquisition.
    pub acquisition: AcquisitionId,
}

/// What this state says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Current,
    /// It does not, and never will again.
    Over {
        /// How it ended.
        ended: Ended,
        /// The token of the tenure that holds the slot now, where there is one.
        superseded_by: Option<Token>,
        /// Whether the slot is in lock-delay.
        in_lock_delay: bool,
    },
    /// The session is live and knows nothing of it, or the token is none that could have been granted yet.
    NeverGranted,
}

impl LockTable {
    /// The verdict of this state. A verdict other than `Current` never becomes false, as long as this state has
    /// applied the grant.
    pub fn verdict(&self, presented: &Presented) -> Verdict {
        let state = self.locks.get(&presented.lock).and_then(|lock| lock.slots.get(&presented.slot));
        if let Some(SlotState::Held(tenure)) = state
            && tenure.token == presented.token
        {
            let holds = tenure.mode == presented.mode && tenure.holders.contains_key(&presented.acquisition);
            if holds {
                return Verdict::Current;
            }
        }
        let superseded_by = match state {
            Some(SlotState::Held(tenure)) if tenure.token > presented.token => Some(tenure.token),
            _ => None,
        };
        let in_lock_delay = matches!(state, Some(SlotState::Delayed(_)));
        match self.how_it_ended(presented) {
            Some(ended) => Verdict::Over { ended, superseded_by, in_lock_delay },
            None => Verdict::NeverGranted,
        }
    }

    /// None when nothing like it can have been granted.
    fn how_it_ended(&self, presented: &Presented) -> Option<Ended> {
        let id = presented.acquisition;
        if presented.token > self.header.token_base.token(self.header.applied) {
            return None;
        }
        let Some(session) = self.sessions.get(&id.session) else {
            // What the session did not hold at its end had ended before it, nobody knows how.
            let with_session = self
                .ended
                .get(id.session)
                .filter(|session| session.held.contains(&(id.number, presented.token)));
            let remembered = self.end_of(presented).or(with_session.map(|session| session.ended));
            return Some(remembered.unwrap_or(Ended::Forgotten));
        };
        if session.acquisitions.contains(id.number) {
            // Alive, but not so: part of it may have ended, or the claim is of another token or mode.
            return self.part_before(id, &presented.lock, presented.slot, presented.token);
        }
        match session.outcomes.get(&id.number) {
            Some(outcome) => match &outcome.how {
                OutcomeHow::Ended { ended, held } => {
                    let was = (&presented.lock, presented.slot, presented.token);
                    let last = held.iter().any(|(lock, slot, token)| (lock, *slot, *token) == was);
                    if last { Some(*ended) } else { self.end_before(held, presented) }
                }
                OutcomeHow::Refused(_) => None,
            },
            None if id.number < session.mark => Some(self.end_of(presented).unwrap_or(Ended::Forgotten)),
            None => None,
        }
    }

    /// How a part ended before the last ones of its acquisition. Its slot may remember it; else it is forgotten, as far as
    /// anybody can tell of one that held something.
    fn end_before(&self, last: &[(LockName, Slot, Token)], presented: &Presented) -> Option<Ended> {
        self.end_of(presented).or((!last.is_empty()).then_some(Ended::Forgotten))
    }

    fn end_of(&self, presented: &Presented) -> Option<Ended> {
        self.remembered_end(presented.acquisition, &presented.lock, presented.slot, presented.token)
    }

    /// How an acquisition's hold of a slot ended, as long as nobody's that came after it did.
    pub(super) fn remembered_end(
        &self,
        id: AcquisitionId,
        lock: &LockName,
        slot: Slot,
        token: Token,
    ) -> Option<Ended> {
        let last = self.slot_memories.get(lock, slot)?.last.as_ref()?;
        (last.acquisition == id && last.token == token).then_some(last.ended)
    }

    /// How a part ended of an acquisition that goes on holding others: forgotten, when all that is known is that this
    /// lock had more. None when nothing shows that it ever held the slot under this token.
    pub(super) fn part_before(
        &self,
        id: AcquisitionId,
        lock: &LockName,
        slot: Slot,
        token: Token,
    ) -> Option<Ended> {
        if let Some(ended) = self.remembered_end(id, lock, slot, token) {
            return Some(ended);
        }
        let acquisition = self.acquisition(id)?;
        let AcquisitionState::Holding { grant, held, .. } = &acquisition.state else { return None };
        let asked = acquisition.parts.iter().find(|part| part.lock == *lock)?;
        let still = held.iter().filter(|part| part.lock == *lock);
        if let Some(part) = still.clone().find(|part| part.slot == slot) {
            return (part.downgraded_from == Some(token)).then_some(Ended::Released);
        }
        let ended = (still.count() as u64) < u64::from(asked.permits);
        (ended && token <= self.header.token_base.token(*grant)).then_some(Ended::Forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{RequestNumber, SessionId};
    use crate::table::story::{Story, ask, id, lock};

    fn over(ended: Ended, superseded_by: Option<Token>, in_lock_delay: bool) -> Verdict {
        Verdict::Over { ended, superseded_by, in_lock_delay }
    }

    #[test]
    fn while_it_holds_and_in_no_other_way_it_is_current() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let token = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        let right =
            Presented { lock: lock("l"), slot: Slot(0), mode: Mode::Exclusive, token, acquisition: id(a, 1) };
        assert_eq!(story.table.verdict(&right), Verdict::Current);
        let before = Token::new(token.get() - 1).unwrap();
        let wrong = [
            Presented { lock: lock("m"), ..right.clone() },
            Presented { slot: Slot(1), ..right.clone() },
            Presented { mode: Mode::Shared, ..right.clone() },
            Presented { token: before, ..right.clone() },
            Presented { acquisition: id(a, 2), ..right.clone() },
            Presented { acquisition: id(b, 1), ..right.clone() },
        ];
        for claim in wrong {
            assert_eq!(story.table.verdict(&claim), Verdict::NeverGranted, "{claim:?}");
        }
    }

    #[test]
    fn b37_from_the_moment_of_expiry_on_it_is_over() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let old = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.expire(&[a]);
        let began = story.index;
        assert_eq!(story.verdict(a, 1, "l", old), over(Ended::Expired, None, true));
        story.end_lock_delay(story.epoch(), "l", began);
        let new = story.holder("l").unwrap().2;
        assert_eq!(story.verdict(a, 1, "l", old), over(Ended::Expired, Some(new), false));
        assert_eq!(story.verdict(b, 1, "l", new), Verdict::Current);
        story.release(b, 1, "l", new);
        assert_eq!(story.verdict(b, 1, "l", new), over(Ended::Released, None, false));
        assert_eq!(story.verdict(a, 1, "l", old), over(Ended::Expired, None, false));
    }

    #[test]
    fn a_release_is_told_as_one_also_when_the_session_expired_afterwards() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let first = story.holds(a, 1, "l");
        story.release(a, 1, "l", first);
        let second = story.holds(b, 1, "l");
        story.release(b, 1, "l", second);
        let third = story.holds(a, 2, "m");
        story.expire(&[a]);
        assert_eq!(story.verdict(a, 1, "l", first), over(Ended::Forgotten, None, false));
        assert_eq!(story.verdict(a, 2, "m", third), over(Ended::Expired, None, true));
    }

    #[test]
    fn below_the_mark_the_details_may_be_forgotten_and_never_the_end() {
        let mut story = Story::begin();
        let a = story.open("a");
        let first = story.holds(a, 1, "l");
        story.cancel(a, 1);
        let second = story.holds(a, 2, "l");
        story.acquire(ask(a, 5, "m").marked(5));
        assert_eq!(story.verdict(a, 1, "l", first), over(Ended::Cancelled, Some(second), false));
        story.release(a, 2, "l", second);
        assert_eq!(story.verdict(a, 1, "l", first), over(Ended::Forgotten, None, false));
        assert_eq!(story.verdict(a, 2, "l", second), over(Ended::Released, None, false));
    }

    #[test]
    fn what_was_refused_cancelled_early_or_is_yet_to_come_was_never_granted() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        story.acquire(ask(b, 1, "l").trying());
        story.cancel(b, 2);
        story.acquire(ask(b, 3, "l").bounded(5));
        story.end_wait(story.epoch(), id(b, 3));
        for number in 1..=4 {
            assert_eq!(story.verdict(b, number, "l", held), Verdict::NeverGranted);
        }
        let ahead = Token::new(story.index + 1).unwrap();
        assert_eq!(story.verdict(a, 1, "l", ahead), Verdict::NeverGranted);
        assert_eq!(story.verdict(SessionId(u64::MAX), u64::MAX, "l", ahead), Verdict::NeverGranted);
    }

    #[test]
    fn of_a_session_that_fell_out_of_memory_only_the_end_is_known() {
        let mut story = Story::with_limits(|limits| {
            limits.ended_sessions_max = 0;
            limits.predecessors_max = 0;
        });
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        story.close(a);
        assert_eq!(story.verdict(a, 1, "l", held), over(Ended::Forgotten, None, false));
    }

    #[test]
    fn what_an_ended_session_held_is_remembered_up_to_a_bound() {
        let mut story = Story::with_limits(|limits| limits.predecessors_max = 0);
        let a = story.open("a");
        let held: Vec<_> = (1..=20).map(|number| story.holds(a, number, &format!("l{number}"))).collect();
        story.close(a);
        let remembered = &story.table.ended_session(a).unwrap().held;
        assert_eq!(remembered.len(), crate::limits::ENDED_HELD_MAX);
        assert_eq!(remembered[0], (RequestNumber(1), held[0]));
        assert_eq!(story.verdict(a, 1, "l1", held[0]), over(Ended::Closed, None, false));
        assert_eq!(story.verdict(a, 20, "l20", held[19]), over(Ended::Forgotten, None, false));
    }
}
