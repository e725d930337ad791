use super::under_token::{UnderToken, risen};
use super::{LockTable, Step};
use crate::command::ReportProgress;
use crate::event::Event;
use crate::reply::{Refusal, Reply};
use crate::session::AcquisitionState;

impl LockTable {
    /// The holder gets on with its work: its deadlines count from its reports (SPEC 4). A copy of an earlier report
    /// counts for nothing.
    pub(super) fn report_progress(&mut self, step: &mut Step, report: &ReportProgress) -> Reply {
        let id = report.acquisition;
        let under = UnderToken { acquisition: id, token: report.token, slot: None };
        if let Err(refusal) = self.holds_under(&under) {
            return Reply::Refused(refusal);
        }
        let Some(acquisition) = self.acquisition_mut(id) else {
            return Reply::Refused(Refusal::NotHeld { superseded: None });
        };
        if let AcquisitionState::Holding { reports, .. } = &mut acquisition.state
            && let Some(number) = risen(reports.number, report.number)
        {
            reports.number = number;
            reports.first.get_or_insert(step.at.index);
            reports.last = Some(step.at.index);
            step.events.push(Event::ProgressReported { acquisition: id });
        }
        Reply::Reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{LogIndex, SessionId};
    use crate::reply::Ended;
    use crate::session::Reports;
    use crate::table::story::{Story, id, refusal};
    use crate::token::Token;

    fn reports(story: &Story, session: SessionId) -> Reports {
        story.reports(id(session, 1))
    }

    #[test]
    fn the_first_and_the_last_are_known_by_their_entries() {
        let mut story = Story::begin();
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        assert_eq!(reports(&story, a), Reports::default());
        assert_eq!(story.report(a, 1, held, 0), Reply::Reported);
        assert_eq!(story.events, [Event::ProgressReported { acquisition: id(a, 1) }]);
        assert_eq!(story.renewed, Some(a));
        let first = Some(LogIndex(story.index));
        assert_eq!(reports(&story, a), Reports { first, last: first, number: 1 });
        story.report(a, 1, held, 9);
        let last = Some(LogIndex(story.index));
        assert_eq!(reports(&story, a), Reports { first, last, number: 9 });
    }

    #[test]
    fn a_copy_that_comes_late_or_twice_counts_for_nothing() {
        let mut story = Story::begin();
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        story.report(a, 1, held, 4);
        let before = reports(&story, a);
        for number in [4, 3, 1] {
            assert_eq!(story.report(a, 1, held, number), Reply::Reported);
            assert!(story.events.is_empty());
        }
        assert_eq!(reports(&story, a), before);
        story.report(a, 1, held, u64::MAX);
        assert_eq!(story.report(a, 1, held, 0), Reply::Reported, "no number is left");
        assert!(story.events.is_empty());
    }

    #[test]
    fn who_does_not_hold_has_nothing_to_report() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        for (session, token) in [(b, held), (a, Token::new(1).unwrap())] {
            let stale = Refusal::NotHeld { superseded: None };
            assert_eq!(refusal(story.report(session, 1, token, 0)), stale);
        }
        story.cancel(a, 1);
        let late = refusal(story.report(a, 1, held, 0));
        assert!(matches!(late, Refusal::AlreadyEnded { ended: Ended::Cancelled, superseded: Some(_) }));
    }
}
