use std::sync::Arc;

use super::LockTable;
use crate::command::SetLimits;
use crate::limits::{LOCK_DELAY_MAX, Limits, MoreLimits, PAYLOAD_BYTES_MAX};
use crate::reply::{BadArgument, Refusal, Reply};

impl LockTable {
    /// Sets the bounds that apply enforces. One below what exists refuses what is new and ends nothing; the bounded
    /// memories alone drop at once what is too much, the oldest first.
    pub(super) fn set_limits(&mut self, set: &SetLimits) -> Reply {
        if !sensible(&set.limits, &set.more) {
            return Reply::Refused(Refusal::BadArgument(BadArgument::Limits));
        }
        if let refused @ Reply::Refused(_) = self.set_history(set.history) {
            return refused;
        }
        self.header.limits = set.limits.clone();
        self.more_limits = set.more.clone();
        Arc::make_mut(&mut self.ended).shrink(set.limits.ended_sessions_max);
        let bounds = self.memory_bounds();
        self.slot_memories.shrink(bounds);
        Reply::Done
    }
}

fn sensible(limits: &Limits, more: &MoreLimits) -> bool {
    let counts = [
        limits.sessions_max,
        limits.locks_max,
        limits.acquisitions_per_session_max.into(),
        limits.waiters_per_lock_max.into(),
        limits.outcomes_per_session_max.into(),
        limits.ended_sessions_max.into(),
        limits.predecessors_max.into(),
        limits.keys_max.into(),
        more.delay_rules_max.into(),
        more.cycle_search_max.into(),
    ];
    counts.iter().all(|count| *count > 0)
        && limits.lock_delay_default <= LOCK_DELAY_MAX
        // One baton that is allowed must fit.
        && more.baton_bytes_max >= PAYLOAD_BYTES_MAX as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::history::HistorySizes;
    use crate::ids::{Millis, Slot};
    use crate::limits::HISTORY_MAX;
    use crate::reply::LimitName;
    use crate::table::story::{Story, ask, lock, refusal};

    fn set(story: &mut Story, change: impl FnOnce(&mut Limits, &mut MoreLimits)) -> Reply {
        set_with(story, HistorySizes::default(), change)
    }

    fn set_with(
        story: &mut Story,
        history: HistorySizes,
        change: impl FnOnce(&mut Limits, &mut MoreLimits),
    ) -> Reply {
        let (mut limits, mut more) = (story.table.header().limits.clone(), story.table.more_limits().clone());
        change(&mut limits, &mut more);
        story.apply(Command::SetLimits(SetLimits { limits, more, history }))
    }

    #[test]
    fn nonsense_is_refused_and_changes_nothing() {
        let mut story = Story::begin();
        let nonsense: [fn(&mut Limits, &mut MoreLimits); 12] = [
            |limits, _| limits.sessions_max = 0,
            |limits, _| limits.locks_max = 0,
            |limits, _| limits.acquisitions_per_session_max = 0,
            |limits, _| limits.waiters_per_lock_max = 0,
            |limits, _| limits.outcomes_per_session_max = 0,
            |limits, _| limits.ended_sessions_max = 0,
            |limits, _| limits.predecessors_max = 0,
            |limits, _| limits.keys_max = 0,
            |limits, _| limits.lock_delay_default = Millis(LOCK_DELAY_MAX.0 + 1),
            |_, more| more.baton_bytes_max = PAYLOAD_BYTES_MAX as u64 - 1,
            |_, more| more.delay_rules_max = 0,
            |_, more| more.cycle_search_max = 0,
        ];
        for change in nonsense {
            assert_eq!(refusal(set(&mut story, change)), Refusal::BadArgument(BadArgument::Limits));
        }
        assert_eq!(story.table.header().limits, Limits::default());
        assert_eq!(*story.table.more_limits(), MoreLimits::default());
        assert_eq!(set(&mut story, |limits, _| limits.lock_delay_default = Millis(0)), Reply::Done);
    }

    #[test]
    fn below_what_exists_they_refuse_what_is_new_and_end_nothing() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        story.holds(a, 1, "l");
        story.holds(a, 2, "m");
        let held = story.holds(a, 3, "n");
        story.release(a, 3, "n", held);
        story.waits(b, 1, "l");
        story.waits(c, 1, "l");
        let reply = set(&mut story, |limits, _| {
            limits.sessions_max = 1;
            limits.locks_max = 1;
            limits.waiters_per_lock_max = 1;
            limits.outcomes_per_session_max = 1;
        });
        assert_eq!(reply, Reply::Done);
        let counts = story.table.counts();
        assert_eq!((story.table.session_count(), counts.held, counts.waiting), (3, 2, 2));
        let opening = story.opening("d");
        let full = Refusal::LimitReached { limit: LimitName::Sessions, max: 1 };
        assert_eq!(refusal(story.apply(Command::OpenSession(opening))), full);
        let full = Refusal::LimitReached { limit: LimitName::OutcomesPerSession, max: 1 };
        assert_eq!(refusal(story.acquire(ask(a, 4, "o"))), full);
        assert!(matches!(story.acquire(ask(a, 1, "l")), Reply::Granted(_)));
    }

    #[test]
    fn the_bounded_memories_shrink_at_once() {
        let mut story = Story::begin();
        let sessions = ["a", "b", "c"].map(|name| story.open(name));
        for (session, name) in sessions.iter().zip(["l", "m", "n"]) {
            story.holds(*session, 1, name);
            story.close(*session);
        }
        set(&mut story, |limits, _| {
            limits.ended_sessions_max = 2;
            limits.predecessors_max = 1;
        });
        assert!(story.table.ended_session(sessions[0]).is_none());
        assert!(story.table.ended_session(sessions[1]).is_some());
        assert!(story.table.slot_memory(&lock("m"), Slot(0)).is_none());
        assert!(story.table.slot_memory(&lock("n"), Slot(0)).is_some());
        assert_eq!(story.table.history().others().count(), 3);
        set_with(&mut story, HistorySizes { expired_max: 5, others_max: 1 }, |_, _| {});
        assert_eq!(story.table.history().others().count(), 1);
    }

    #[test]
    fn too_long_a_history_changes_no_limit_either() {
        let mut story = Story::begin();
        let history = HistorySizes { expired_max: HISTORY_MAX + 1, others_max: 1 };
        let reply = set_with(&mut story, history, |limits, _| limits.sessions_max = 5);
        assert_eq!(refusal(reply), Refusal::BadArgument(BadArgument::HistorySize));
        assert_eq!(story.table.header().limits, Limits::default());
        assert_eq!(story.table.history().sizes(), HistorySizes::default());
    }
}
