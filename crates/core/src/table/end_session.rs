use super::break_lock::check_closed;
use super::{LockTable, Step};
use crate::command::EndSession;
use crate::ids::AcquisitionId;
use crate::reply::{Ended, Reply};
use crate::session::AcquisitionState;

impl LockTable {
    /// An operator ends a session, as expiry would. Its holder may believe in its lease for up to its TTL, so each slot
    /// is closed for TTL and lock-delay, unless the operator says otherwise (SPEC 4).
    pub(super) fn stop_session(&mut self, step: &mut Step, asked: &EndSession) -> Reply {
        if let Err(refusal) = check_closed(asked.closed) {
            return Reply::Refused(refusal);
        }
        let id = asked.session;
        let Some(session) = self.sessions.get(&id) else {
            return Reply::Refused(self.no_session(id));
        };
        let (mut held, mut waited, mut slots) = (0, 0, Vec::new());
        for (number, acquisition) in session.acquisitions.iter() {
            match &acquisition.state {
                AcquisitionState::Waiting | AcquisitionState::Kept { .. } => waited += 1,
                AcquisitionState::Holding { held: parts, .. } => {
                    held += 1;
                    let of = AcquisitionId { session: id, number };
                    slots.extend(parts.iter().map(|part| (of, part.lock.clone(), part.slot)));
                }
            }
        }
        for (of, lock, slot) in slots {
            self.close_for(of, &lock, slot, asked.closed);
        }
        self.end_session(step, id, Ended::ByOperator);
        Reply::Stopped { held, waited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::event::Event;
    use crate::ids::{LockName, Millis, Principal, SessionId};
    use crate::limits::CLOSED_MAX;
    use crate::reply::{BadArgument, Refusal};
    use crate::table::story::{DELAY, Story, lock, refusal};

    fn ending(session: SessionId, closed: Option<u64>) -> Command {
        let by = Principal::anonymous();
        Command::EndSession(EndSession { session, closed: closed.map(Millis), by })
    }

    fn closed(story: &Story) -> Vec<(LockName, Millis)> {
        let started = story.events.iter().filter_map(|event| match event {
            Event::DelayStarted { lock, delay, .. } => Some((lock.clone(), *delay)),
            _ => None,
        });
        started.collect()
    }

    #[test]
    fn all_that_it_held_is_closed_for_its_ttl_and_their_delays_and_it_waits_no_more() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        story.holds(a, 2, "m");
        story.holds(b, 1, "n");
        story.waits(a, 3, "n");
        story.waits(b, 2, "l");
        assert_eq!(story.apply(ending(a, None)), Reply::Stopped { held: 2, waited: 1 });
        let long = Millis(10_000 + DELAY.0);
        assert_eq!(closed(&story), [(lock("l"), long), (lock("m"), long)]);
        assert_eq!(story.events.last(), Some(&Event::SessionEnded { session: a, ended: Ended::ByOperator }));
        assert_eq!((story.table.counts().waiting, story.granted().len(), story.renewed), (1, 0, None));
        let ended = Refusal::SessionEnded { ended: Ended::ByOperator, superseded: None };
        assert_eq!(refusal(story.apply(ending(a, None))), ended);
        assert_eq!(refusal(story.release(a, 1, "l", held)), ended);
        assert_eq!(story.table.history().expired().count(), 2);
    }

    #[test]
    fn the_operator_may_say_otherwise() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        story.holds(a, 1, "l");
        story.holds(b, 1, "m");
        story.waits(c, 1, "l");
        let bad = Refusal::BadArgument(BadArgument::Closed);
        assert_eq!(refusal(story.apply(ending(a, Some(CLOSED_MAX.0 + 1)))), bad);
        assert_eq!(story.apply(ending(a, Some(0))), Reply::Stopped { held: 1, waited: 0 });
        assert_eq!(story.granted(), [(c, 1)]);
        story.apply(ending(b, Some(7)));
        assert_eq!(closed(&story), [(lock("m"), Millis(7))]);
        assert_eq!(refusal(story.apply(ending(SessionId(99), None))), Refusal::SessionUnknown);
    }
}
