use super::{LockTable, Step};
use crate::command::ExpireSessions;
use crate::reply::{Ended, Reply};

impl LockTable {
    /// Ends sessions and everything they held or awaited, in one entry.
    ///
    /// Ignored under an earlier clock; and for a session that has sent a command since the leader decided. All end
    /// before anything is granted, so that nothing is granted to a session that this very entry ends, and no slot is
    /// granted twice under one token (SPEC 2).
    pub(super) fn expire_sessions(&mut self, step: &mut Step, expire: &ExpireSessions) -> Reply {
        if !self.in_epoch(expire.epoch) {
            return Reply::Done;
        }
        for (id, last_command) in &expire.sessions {
            let due = self.sessions.get(id).is_some_and(|session| session.last_command == *last_command);
            if due {
                self.end_session(step, *id, Ended::Expired);
            }
        }
        Reply::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, LockDelay};
    use crate::ids::{LogIndex, Millis};
    use crate::reply::Refusal;
    use crate::table::story::{Story, ask, id, lock, refusal};

    #[test]
    fn b01_b04_a_waiter_whose_session_expired_is_not_granted() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.expire(&[b]);
        story.release(a, 1, "l", held);
        assert_eq!(story.granted(), []);
        assert_eq!(story.table.lock_count(), 0);
        let ended = Refusal::SessionEnded { ended: Ended::Expired, superseded: None };
        assert_eq!(refusal(story.acquire(ask(b, 1, "l"))), ended);
        assert_eq!(story.renewed, None);
    }

    #[test]
    fn b05_the_waiter_behind_an_ended_one_alone_is_granted() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.waits(c, 1, "l");
        story.expire(&[b]);
        story.release(a, 1, "l", held);
        assert_eq!(story.granted(), [(c, 1)]);
    }

    #[test]
    fn b02_one_entry_that_ends_holder_and_waiters_grants_the_first_live_one_alone() {
        let mut story = Story::begin();
        let ids: Vec<_> = ["a", "b", "c", "d", "e"].iter().map(|name| story.open(name)).collect();
        let [a, b, c, d, e] = ids[..] else { panic!("five") };
        let zero = LockDelay::Named(Millis(0));
        story.acquire(ask(a, 1, "l").delay(zero));
        for session in [b, c, d, e] {
            story.acquire(ask(session, 1, "l").delay(zero));
        }
        // In any order of the sessions: they all end before anything is granted.
        story.expire(&[a, c, b]);
        assert_eq!(story.granted(), [(d, 1)]);
        assert_eq!(story.holder("l").map(|holder| (holder.0, holder.2.get())), Some((d, story.index)));
        assert_eq!(story.table.counts().waiting, 1);
    }

    #[test]
    fn everything_of_two_expired_sessions_ends_in_one_entry() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        story.holds(a, 1, "l");
        story.holds(b, 1, "m");
        story.waits(a, 2, "m");
        story.waits(b, 2, "l");
        story.waits(c, 1, "l");
        story.waits(c, 2, "m");
        story.expire(&[a, b, a]);
        assert_eq!((story.table.counts().held, story.table.counts().delayed), (0, 2));
        assert_eq!((story.table.counts().waiting, story.table.session_count()), (2, 1));
        let began = story.index;
        story.end_lock_delay(story.epoch(), "l", began);
        story.end_lock_delay(story.epoch(), "m", began);
        assert_eq!(story.table.counts().held, 2);
    }

    #[test]
    fn a_deposed_leader_that_wakes_up_expires_nobody() {
        let mut story = Story::begin();
        let a = story.open("a");
        story.holds(a, 1, "l");
        let stale = ExpireSessions { epoch: story.epoch(), sessions: vec![(a, LogIndex(story.index))] };
        story.leader(2);
        assert_eq!(story.apply(Command::ExpireSessions(stale)), Reply::Done);
        assert!(story.table.session(a).is_some() && story.holder("l").is_some());
    }

    #[test]
    fn b55_a_session_that_has_sent_a_command_since_is_not_expired() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let decided = [(a, LogIndex(a.0)), (b, LogIndex(b.0))];
        story.cancel(a, 1);
        let epoch = story.epoch();
        story.apply(Command::ExpireSessions(ExpireSessions { epoch, sessions: decided.to_vec() }));
        assert!(story.table.session(a).is_some());
        assert!(story.table.session(b).is_none());
        // Not from the future either.
        let ahead = vec![(a, LogIndex(u64::MAX))];
        story.apply(Command::ExpireSessions(ExpireSessions { epoch, sessions: ahead }));
        assert!(story.table.session(a).is_some());
    }

    #[test]
    fn repeated_it_ends_nothing_newer() {
        let mut story = Story::begin();
        let opening = story.opening("a");
        story.apply(Command::OpenSession(opening.clone()));
        let first = crate::ids::SessionId(story.index);
        let expire = ExpireSessions { epoch: story.epoch(), sessions: vec![(first, LogIndex(first.0))] };
        story.apply(Command::ExpireSessions(expire.clone()));
        story.apply(Command::OpenSession(opening));
        let second = crate::ids::SessionId(story.index);
        story.holds(second, 1, "l");
        story.apply(Command::ExpireSessions(expire));
        assert!(story.events.is_empty());
        assert!(story.table.session(second).is_some());
    }

    #[test]
    fn b58_the_same_client_in_a_new_session_waits_for_its_old_ones_delay() {
        let mut story = Story::begin();
        let old = story.open("worker");
        let before = story.holds(old, 1, "l");
        story.expire(&[old]);
        let began = story.index;
        let new = story.open("worker");
        story.waits(new, 1, "l");
        story.end_lock_delay(story.epoch(), "l", began);
        let (session, _, after) = story.holder("l").expect("granted");
        assert!(session == new && after > before);
    }

    #[test]
    fn who_held_before_is_remembered_when_the_lock_is_forgotten() {
        let mut story = Story::with_limits(|limits| limits.predecessors_max = 1);
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        story.expire(&[a]);
        story.end_lock_delay(story.epoch(), "l", story.index);
        let last = story.table.view(&lock("l")).predecessor.expect("remembered");
        assert_eq!((last.acquisition, last.token, last.ended), (id(a, 1), held, Ended::Expired));
        let b = story.open("b");
        story.holds(b, 1, "m");
        story.close(b);
        assert!(story.table.view(&lock("l")).predecessor.is_none(), "the oldest is dropped");
        assert!(story.table.view(&lock("m")).predecessor.is_some());
    }
}
