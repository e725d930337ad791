use super::{LockTable, Step};
use crate::ids::{AcquisitionId, RequestNumber};
use crate::reply::{BadArgument, CancelMet, Ended, LimitName, Refusal, Reply};
use crate::session::{AcquisitionState, Outcome, OutcomeHow};

impl LockTable {
    /// Ends an acquisition in whatever state, so that nothing is granted to a caller who has left (SPEC 4).
    pub(super) fn cancel(&mut self, step: &mut Step, id: AcquisitionId) -> Reply {
        let max = self.header.limits.outcomes_per_session_max;
        let Some(session) = self.sessions.get_mut(&id.session) else {
            return Reply::Refused(self.no_session(id.session));
        };
        if let Some(acquisition) = session.acquisitions.get(id.number) {
            let met = match acquisition.state {
                AcquisitionState::Waiting | AcquisitionState::Kept { .. } => CancelMet::Waiting,
                AcquisitionState::Holding { .. } => CancelMet::Holding,
            };
            self.end_one(step, id, Ended::Cancelled);
            return Reply::Cancelled(met);
        }
        if let Some(outcome) = session.outcomes.get(&id.number) {
            return Reply::Cancelled(CancelMet::Ended(match &outcome.how {
                OutcomeHow::Ended { ended, .. } => *ended,
                OutcomeHow::Refused(_) => Ended::Refused,
            }));
        }
        if id.number == RequestNumber(0) {
            return Reply::Refused(Refusal::BadArgument(BadArgument::NumberZero));
        }
        if id.number < session.mark {
            return Reply::Cancelled(CancelMet::Ended(Ended::Forgotten));
        }
        if session.remembered() >= max as usize {
            return Reply::Refused(Refusal::LimitReached {
                limit: LimitName::OutcomesPerSession,
                max: max.into(),
            });
        }
        session.highest = session.highest.max(id.number);
        let how = OutcomeHow::Ended { ended: Ended::Cancelled, held: Vec::new() };
        session.outcomes.insert(id.number, Outcome { content: None, how });
        Reply::Cancelled(CancelMet::NotArrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::ids::SessionId;
    use crate::table::story::{Story, ask, id, lock, refusal};

    #[test]
    fn b08_a_waiter_that_gave_up_is_never_granted() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        assert_eq!(story.cancel(b, 1), Reply::Cancelled(CancelMet::Waiting));
        assert_eq!(
            story.events,
            [Event::WaitEnded {
                acquisition: id(b, 1),
                locks: vec![lock("l")],
                ended: Ended::Cancelled,
                cycle: None
            }]
        );
        story.release(a, 1, "l", held);
        assert!(story.holder("l").is_none());
        assert_eq!(story.table.lock_count(), 0);
    }

    #[test]
    fn b08_a_cancel_that_lost_the_race_to_the_grant_releases_it_without_a_delay() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.waits(c, 1, "l");
        story.release(a, 1, "l", held);
        assert_eq!(story.cancel(b, 1), Reply::Cancelled(CancelMet::Holding));
        assert_eq!(story.granted(), [(c, 1)]);
    }

    #[test]
    fn a_number_that_had_not_arrived_is_ended_for_ever() {
        let mut story = Story::begin();
        let a = story.open("a");
        assert_eq!(story.cancel(a, 4), Reply::Cancelled(CancelMet::NotArrived));
        let ended = Refusal::AlreadyEnded { ended: Ended::Cancelled, superseded: None };
        assert_eq!(refusal(story.acquire(ask(a, 4, "l"))), ended);
        assert!(story.holder("l").is_none());
        assert_eq!(story.cancel(a, 4), Reply::Cancelled(CancelMet::Ended(Ended::Cancelled)));
    }

    #[test]
    fn of_what_is_over_it_says_how() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        story.acquire(ask(b, 1, "l").trying());
        story.release(a, 1, "l", held);
        assert_eq!(story.cancel(a, 1), Reply::Cancelled(CancelMet::Ended(Ended::Released)));
        assert_eq!(story.cancel(b, 1), Reply::Cancelled(CancelMet::Ended(Ended::Refused)));
        story.holds(a, 2, "l");
        story.cancel(a, 2);
        assert_eq!(story.cancel(a, 2), Reply::Cancelled(CancelMet::Ended(Ended::Cancelled)));
    }

    #[test]
    fn below_the_mark_it_still_ends_what_holds() {
        let mut story = Story::begin();
        let a = story.open("a");
        story.holds(a, 1, "l");
        story.acquire(ask(a, 5, "m").marked(5));
        assert_eq!(story.cancel(a, 1), Reply::Cancelled(CancelMet::Holding));
        assert!(story.holder("l").is_none());
    }

    #[test]
    fn zero_is_no_number_and_a_session_that_ended_has_nothing_to_cancel() {
        let mut story = Story::begin();
        let a = story.open("a");
        assert_eq!(refusal(story.cancel(a, 0)), Refusal::BadArgument(BadArgument::NumberZero));
        story.close(a);
        let ended = Refusal::SessionEnded { ended: Ended::Closed, superseded: None };
        assert_eq!(refusal(story.cancel(a, 1)), ended);
        assert_eq!(refusal(story.cancel(SessionId(77), 1)), Refusal::SessionUnknown);
    }
}
