use super::{LockTable, Step};
use crate::command::{EndOverdue, Overdue};
use crate::reply::{Ended, Reply};
use crate::session::AcquisitionState;

impl LockTable {
    /// Ends a holder whose own deadline passed: the acquisition with its lock-delay, not the session (SPEC 4).
    ///
    /// Ignored under an earlier clock, when it holds under a later grant or not at all, and for the progress interval
    /// also when it has reported since the leader decided.
    pub(super) fn end_overdue(&mut self, step: &mut Step, end: &EndOverdue) -> Reply {
        if !self.in_epoch(end.epoch) {
            return Reply::Done;
        }
        let id = end.acquisition;
        let acquisition = self.sessions.get(&id.session).and_then(|s| s.acquisitions.get_whole(id.number));
        let due = acquisition.is_some_and(|acquisition| match &acquisition.state {
            AcquisitionState::Waiting | AcquisitionState::Kept { .. } => false,
            AcquisitionState::Holding { grant, reports, .. } => {
                *grant == end.grant
                    && match end.overdue {
                        Overdue::Maximum => acquisition.terms.hold_max.is_some(),
                        // Before any report the maximum stands in for an interval that was not named.
                        Overdue::Progress { report } => {
                            let terms = &acquisition.terms;
                            let first = report.is_none() && terms.hold_max.is_some();
                            (terms.progress_every.is_some() || first) && reports.last == report
                        }
                    }
            }
        });
        if due {
            self.end_one(step, id, Ended::Overdue);
        }
        Reply::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, Terms};
    use crate::event::Event;
    use crate::ids::{LogIndex, Millis, SessionId, Slot};
    use crate::reply::Refusal;
    use crate::table::story::{DELAY, Story, ask, id, lock, refusal};
    use crate::token::Token;

    /// A holder with both deadlines.
    fn holder(story: &mut Story) -> (SessionId, Token) {
        let a = story.open("a");
        let terms =
            Terms { hold_max: Some(Millis(60_000)), progress_every: Some(Millis(5_000)), ..Terms::default() };
        (a, story.holds_on(ask(a, 1, "l"), terms))
    }

    fn overdue(story: &Story, session: SessionId, token: Token, overdue: Overdue) -> Command {
        Command::EndOverdue(EndOverdue {
            epoch: story.epoch(),
            acquisition: id(session, 1),
            grant: LogIndex(token.get()),
            overdue,
        })
    }

    fn progress(report: Option<LogIndex>) -> Overdue {
        Overdue::Progress { report }
    }

    #[test]
    fn the_acquisition_ends_with_its_lock_delay_and_the_session_lives() {
        for which in [Overdue::Maximum, progress(None)] {
            let mut story = Story::begin();
            let (a, held) = holder(&mut story);
            let b = story.open("b");
            story.waits(b, 1, "l");
            story.apply(overdue(&story, a, held, which));
            let ended = Ended::Overdue;
            assert_eq!(
                story.events[0],
                Event::HoldEnded {
                    acquisition: id(a, 1),
                    lock: lock("l"),
                    slot: Slot(0),
                    token: held,
                    ended
                }
            );
            let began = story.index;
            assert!(matches!(story.events[1], Event::DelayStarted { delay: DELAY, .. }));
            assert_eq!(story.granted(), []);
            let late = refusal(story.release(a, 1, "l", held));
            assert_eq!(late, Refusal::AlreadyEnded { ended, superseded: None });
            assert_eq!(story.renewed, Some(a));
            story.end_lock_delay(story.epoch(), "l", began);
            assert_eq!(story.granted(), [(b, 1)]);
            let last = story.table.history().expired().next().expect("remembered");
            assert_eq!((last.token, last.ended), (held, ended));
        }
    }

    #[test]
    fn a_report_since_makes_the_interval_past_but_not_the_maximum() {
        let mut story = Story::begin();
        let (a, held) = holder(&mut story);
        story.report(a, 1, held, 0);
        let first = Some(LogIndex(story.index));
        story.apply(overdue(&story, a, held, progress(None)));
        story.report(a, 1, held, 0);
        story.apply(overdue(&story, a, held, progress(first)));
        assert!(story.holder("l").is_some());
        story.apply(overdue(&story, a, held, Overdue::Maximum));
        assert!(story.holder("l").is_none());
    }

    #[test]
    fn a_holder_that_named_a_maximum_alone_is_overdue_without_a_first_report() {
        let mut story = Story::begin();
        let a = story.open("a");
        let terms = Terms { hold_max: Some(Millis(60_000)), ..Terms::default() };
        let held = story.holds_on(ask(a, 1, "l"), terms.clone());
        let unreported = overdue(&story, a, held, progress(None));
        story.report(a, 1, held, 0);
        let report = Some(LogIndex(story.index));
        story.apply(unreported);
        story.apply(overdue(&story, a, held, progress(report)));
        assert!(story.holder("l").is_some(), "it reported, and named no interval");
        let b = story.open("b");
        let held = story.holds_on(ask(b, 1, "m"), terms);
        story.apply(overdue(&story, b, held, progress(None)));
        assert!(story.holder("m").is_none());
    }

    #[test]
    fn a_copy_of_a_report_does_not_put_the_interval_off() {
        let mut story = Story::begin();
        let (a, held) = holder(&mut story);
        story.report(a, 1, held, 1);
        let report = Some(LogIndex(story.index));
        story.report(a, 1, held, 1);
        story.apply(overdue(&story, a, held, progress(report)));
        assert!(story.holder("l").is_none());
    }

    #[test]
    fn an_earlier_clock_another_grant_and_a_repeat_end_nothing() {
        let mut story = Story::begin();
        let (a, held) = holder(&mut story);
        let stale = overdue(&story, a, held, Overdue::Maximum);
        story.leader(2);
        story.apply(stale);
        let before = Token::new(held.get() - 1).unwrap();
        story.apply(overdue(&story, a, before, Overdue::Maximum));
        story.apply(overdue(&story, SessionId(77), held, Overdue::Maximum));
        assert!(story.holder("l").is_some());
        let due = overdue(&story, a, held, Overdue::Maximum);
        story.apply(due.clone());
        let began = story.index;
        story.apply(due.clone());
        assert!(story.events.is_empty());
        story.end_lock_delay(story.epoch(), "l", began);
        story.holds(a, 2, "l");
        story.apply(due);
        assert!(story.holder("l").is_some(), "the next acquisition has no deadline");
    }

    #[test]
    fn deadlines_are_off_unless_named() {
        let mut story = Story::begin();
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        for which in [Overdue::Maximum, progress(None)] {
            story.apply(overdue(&story, a, held, which));
        }
        assert!(story.holder("l").is_some());
        let b = story.open("b");
        story.waits(b, 1, "l");
        story.apply(overdue(&story, b, held, Overdue::Maximum));
        assert_eq!(story.table.counts().waiting, 1, "a waiter has no deadline");
    }
}
