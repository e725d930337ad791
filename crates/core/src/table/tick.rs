use super::{LockTable, Step};
use crate::command::Tick;
use crate::event::Event;
use crate::ids::SessionId;
use crate::reply::Reply;

impl LockTable {
    /// A minute of the leader's has passed. Each tick names the one before it, so that a repeated one counts once
    /// (SPEC 3).
    pub(super) fn tick(&mut self, step: &mut Step, tick: &Tick) -> Reply {
        if !self.in_epoch(tick.epoch) || tick.previous != self.ticks.last {
            return Reply::Done;
        }
        self.ticks.count += 1;
        self.ticks.last = Some(step.at.index);
        step.events.push(Event::Ticked);
        Reply::Done
    }

    /// Minutes that leaders counted since the last entry of a session: its last command, or keepalive in the log. The
    /// first of them may have been about to pass, so a new leader takes all but that one off a long lease.
    pub fn ticks_since(&self, session: SessionId) -> u64 {
        self.sessions.get(&session).map_or(0, |session| self.ticks.count.saturating_sub(session.ticks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::ids::LogIndex;
    use crate::table::Ticks;
    use crate::table::story::Story;

    fn tick(story: &mut Story, epoch: LogIndex, previous: Option<LogIndex>) -> bool {
        story.apply(Command::Tick(Tick { epoch, previous }));
        !story.events.is_empty()
    }

    #[test]
    fn a_minute_counts_once_however_often_it_is_told() {
        let mut story = Story::begin();
        let epoch = story.epoch();
        assert!(tick(&mut story, epoch, None));
        assert_eq!(story.events, [Event::Ticked]);
        let first = Some(LogIndex(story.index));
        assert!(!tick(&mut story, epoch, None));
        assert!(tick(&mut story, epoch, first));
        assert!(!tick(&mut story, epoch, first));
        assert_eq!(story.table.ticks().count, 2);
    }

    #[test]
    fn b34_b35_each_leader_counts_its_own_and_all_of_them_add_up() {
        let mut story = Story::begin();
        let a = story.open("a");
        for term in 2..6 {
            let old = story.epoch();
            let last = story.table.ticks().last;
            let epoch = story.leader(term);
            assert_eq!(story.table.ticks().last, None);
            assert!(!tick(&mut story, old, last), "an earlier clock counts nothing");
            assert!(!tick(&mut story, epoch, Some(LogIndex(1))));
            story.leader(term);
            assert!(tick(&mut story, epoch, None));
            let last = Some(LogIndex(story.index));
            story.leader(term);
            assert_eq!(story.table.ticks().last, last, "the same leader, told again");
            assert!(tick(&mut story, epoch, last));
        }
        assert_eq!((story.table.ticks().count, story.table.ticks_since(a)), (8, 8));
        let none = Ticks { count: 8, last: None };
        story.leader(9);
        assert_eq!(story.table.ticks(), none);
    }
}
