use super::{LockTable, Step};
use crate::command::KeepSessions;
use crate::event::Event;
use crate::ids::SessionId;
use crate::limits::KEEP_BATCH_MAX;
use crate::reply::{BadArgument, Ended, Refusal, Reply};

impl LockTable {
    /// Keepalives of sessions with long leases. What renews them is the proved answer, as with any keepalive; in the
    /// log they make an expiry past that was decided before, and tell the next leader how long ago this was (SPEC 3).
    pub(super) fn keep_sessions(&mut self, step: &mut Step, keep: &KeepSessions) -> Reply {
        if keep.sessions.len() > KEEP_BATCH_MAX {
            return Reply::Refused(Refusal::BadArgument(BadArgument::Sessions));
        }
        let mut ended = Vec::new();
        for id in &keep.sessions {
            let Some(session) = self.sessions.get_mut(id) else {
                ended.push((*id, self.how_session_ended(*id)));
                continue;
            };
            session.last_command = step.at.index;
            session.ticks = self.ticks.count;
            step.events.push(Event::SessionKept { session: *id });
        }
        Reply::Kept { ended }
    }

    fn how_session_ended(&self, session: SessionId) -> Option<Ended> {
        self.ended.get(session).map(|session| session.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, ExpireSessions};
    use crate::ids::LogIndex;
    use crate::table::story::{Story, refusal};

    fn keep(story: &mut Story, sessions: &[SessionId]) -> Reply {
        story.apply(Command::KeepSessions(KeepSessions { sessions: sessions.to_vec() }))
    }

    #[test]
    fn those_that_live_are_kept_and_of_the_others_it_says_how_they_ended() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        story.close(b);
        let never = SessionId(999);
        let ended = vec![(b, Some(Ended::Closed)), (never, None)];
        assert_eq!(keep(&mut story, &[a, b, never, c]), Reply::Kept { ended });
        let kept = [a, c].map(|session| Event::SessionKept { session });
        assert_eq!((&story.events[..], story.renewed), (&kept[..], None));
        assert_eq!(story.table.session(a).unwrap().last_command, LogIndex(story.index));
    }

    #[test]
    fn it_makes_an_expiry_past_that_was_decided_before_it() {
        let mut story = Story::begin();
        let a = story.open("a");
        let epoch = story.epoch();
        let decided = ExpireSessions { epoch, sessions: vec![(a, LogIndex(a.0))] };
        keep(&mut story, &[a]);
        story.apply(Command::ExpireSessions(decided));
        assert!(story.table.session(a).is_some());
        story.expire(&[a]);
        assert!(story.table.session(a).is_none());
    }

    #[test]
    fn the_next_leader_counts_the_minutes_since() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        story.tick();
        story.tick();
        keep(&mut story, &[a]);
        story.tick();
        assert_eq!((story.table.ticks_since(a), story.table.ticks_since(b)), (1, 3));
        story.holds(b, 1, "l");
        assert_eq!(story.table.ticks_since(b), 0, "a command counts as well");
        assert_eq!(story.table.ticks_since(SessionId(999)), 0);
    }

    #[test]
    fn one_entry_names_so_many_and_no_more() {
        let mut story = Story::begin();
        let a = story.open("a");
        let many = vec![a; KEEP_BATCH_MAX + 1];
        assert_eq!(refusal(keep(&mut story, &many)), Refusal::BadArgument(BadArgument::Sessions));
        assert_eq!(keep(&mut story, &many[1..]), Reply::Kept { ended: vec![] });
    }
}
