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
        session.last_command = step.at.index;
        if let Some(acquisition) = session.acquisitions.get(&id.number) {
            let met = match acquisition.state {
                AcquisitionState::Waiting => CancelMet::Waiting,
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
