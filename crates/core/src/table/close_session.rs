use super::{LockTable, Step};
use crate::ids::SessionId;
use crate::reply::{Ended, Refusal, Reply};

impl LockTable {
    /// Ends a session and frees what it held at once. Repeated, it says so again.
    pub(super) fn close_session(&mut self, step: &mut Step, session: SessionId) -> Reply {
        if self.sessions.get(&session).is_some() {
            self.end_session(step, session, Ended::Closed);
            return Reply::SessionClosed;
        }
        match self.no_session(session) {
            Refusal::SessionEnded { ended: Ended::Closed, .. } => Reply::SessionClosed,
            refusal => Reply::Refused(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::story::{Story, ask, refusal};

    #[test]
    fn b56_a_closed_session_frees_what_it_held_at_once() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        assert_eq!(story.close(a), Reply::SessionClosed);
        assert_eq!(story.granted(), [(b, 1)]);
        assert_eq!(story.renewed, None);
        assert_eq!(story.table.counts().delayed, 0);
    }

    #[test]
    fn its_waiters_leave_the_queues_with_it() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.waits(c, 1, "l");
        story.waits(b, 2, "l");
        story.close(b);
        story.release(a, 1, "l", held);
        assert_eq!(story.granted(), [(c, 1)]);
        story.close(c);
        assert_eq!(story.table.lock_count(), 0);
    }

    #[test]
    fn a_session_that_holds_and_waits_for_one_lock_is_not_granted_it_by_its_own_close() {
        let mut story = Story::begin();
        let a = story.open("a");
        story.holds(a, 1, "l");
        story.waits(a, 2, "l");
        story.close(a);
        assert_eq!(story.granted(), []);
        assert_eq!(story.table.lock_count(), 0);
    }

    #[test]
    fn repeated_it_says_so_again_and_asks_nothing_of_others() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        story.close(a);
        assert_eq!(story.close(a), Reply::SessionClosed);
        assert!(story.events.is_empty());
        story.expire(&[b]);
        assert_eq!(
            refusal(story.close(b)),
            Refusal::SessionEnded { ended: Ended::Expired, superseded: None }
        );
        assert_eq!(refusal(story.close(SessionId(99))), Refusal::SessionUnknown);
    }

    #[test]
    fn how_sessions_ended_is_remembered_for_the_last_of_them() {
        let mut story = Story::with_limits(|limits| limits.ended_sessions_max = 2);
        let ids: Vec<_> = (0..3).map(|_| story.open("a")).collect();
        for id in &ids {
            story.close(*id);
        }
        assert_eq!(refusal(story.acquire(ask(ids[0], 1, "l"))), Refusal::SessionUnknown);
        assert_eq!(story.close(ids[1]), Reply::SessionClosed);
        assert_eq!(story.close(ids[2]), Reply::SessionClosed);
    }
}
