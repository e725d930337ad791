use super::{LockTable, Step};
use crate::command::{EndWait, Wait};
use crate::reply::{Ended, Reply};
use crate::session::AcquisitionState;

impl LockTable {
    /// Ends a bounded wait. Ignored under an earlier clock, and when the acquisition no longer waits.
    pub(super) fn end_wait(&mut self, step: &mut Step, end: &EndWait) -> Reply {
        if !self.in_epoch(end.epoch) {
            return Reply::Done;
        }
        let id = end.acquisition;
        let waiting = self.sessions.get(&id.session).and_then(|s| s.acquisitions.get_whole(id.number));
        let due = waiting.is_some_and(|acquisition| {
            acquisition.state == AcquisitionState::Waiting && matches!(acquisition.wait, Wait::Bounded(_))
        });
        if due {
            self.end_one(step, id, Ended::TimedOut);
        }
        Reply::Done
    }
}

#[cfg(test)]
mod tests {
    use crate::ids::{LogIndex, SessionId};
    use crate::reply::{Ended, Refusal};
    use crate::table::story::{Story, ask, id, refusal, token};

    #[test]
    fn a_bounded_wait_ends_and_its_place_is_given_up() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let held = story.holds(a, 1, "l");
        story.acquire(ask(b, 1, "l").bounded(500));
        story.waits(c, 1, "l");
        story.end_wait(story.epoch(), id(b, 1));
        let ended = Refusal::AlreadyEnded { ended: Ended::TimedOut, superseded: None };
        assert_eq!(refusal(story.acquire(ask(b, 1, "l").bounded(500))), ended);
        story.release(a, 1, "l", held);
        assert_eq!(story.granted(), [(c, 1)]);
    }

    #[test]
    fn b14_a_wait_without_a_bound_ends_with_its_session_only() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.end_wait(story.epoch(), id(b, 1));
        assert_eq!(story.table.counts().waiting, 1);
        story.release(a, 1, "l", held);
        assert_eq!(story.granted(), [(b, 1)]);
    }

    #[test]
    fn a_grant_that_came_first_is_kept() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        story.acquire(ask(b, 1, "l").bounded(500));
        story.release(a, 1, "l", held);
        story.end_wait(story.epoch(), id(b, 1));
        token(&story.acquire(ask(b, 1, "l").bounded(500)));
    }

    #[test]
    fn an_earlier_clock_ends_no_wait() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        story.holds(a, 1, "l");
        story.acquire(ask(b, 1, "l").bounded(500));
        let old = story.epoch();
        let epoch = story.leader(2);
        for stale in [old, LogIndex(0), LogIndex(u64::MAX)] {
            story.end_wait(stale, id(b, 1));
        }
        assert_eq!(story.table.counts().waiting, 1);
        story.end_wait(epoch, id(SessionId(9), 9));
        story.end_wait(epoch, id(b, 1));
        story.end_wait(epoch, id(b, 1));
        assert_eq!(story.table.counts().waiting, 0);
    }
}
