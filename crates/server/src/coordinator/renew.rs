//! Keepalives: proved by a quorum round that began after their receipt, never by a clock (SPEC 3).

use std::collections::BTreeSet;
use std::sync::Arc;

use palisade_core::ids::SessionId;
use palisade_host::Moment;
use palisade_proto::convert;
use palisade_proto::v1;

use super::{Attachment, Coordinator};
use crate::error;
use crate::lease::Hold;
use crate::signals::Reported;

/// Sessions of one keepalive.
const SESSIONS_MAX: usize = 65_536;

impl Coordinator {
    /// Renews the sessions of one frame, from its receipt, once a round that begins now has proved that this node
    /// still leads, and in the same term.
    pub(super) fn renew(self: &Arc<Self>, to: &Arc<Attachment>, renew: v1::Renew, received: Moment) {
        let number = renew.number;
        self.metrics.request("renew");
        let refused = move |error| v1::Renewed { number, ended: Vec::new(), error: Some(error) };
        let Some(serving) = self.serving() else { return to.renewed(refused(error::not_leader())) };
        if !self.has_quorum() {
            return to.renewed(refused(error::no_quorum()));
        }
        if renew.sessions.len() > SESSIONS_MAX {
            let words =
                format!("a renew names at most {SESSIONS_MAX} sessions; {} came", renew.sessions.len());
            return to.renewed(refused(error::bad_argument(words)));
        }
        if !to.begin_renew() {
            return to.renewed(refused(error::overloaded()));
        }
        let holds = self.hold(to, &renew, received);
        let coordinator = self.clone();
        let to = to.clone();
        self.rounds.clone().join(Box::new(move |proof| {
            let refusal = match proof {
                Err(why) => Some(error::unproved(why)),
                // Another term's clock was armed in full; this keepalive is asked again there.
                Ok(_) if coordinator.serving() != Some(serving) => Some(error::not_leader()),
                Ok(_) => None,
            };
            let not_renewed = coordinator.settle(holds, refusal.is_none());
            if refusal.is_none() {
                coordinator.reported(&renew, &not_renewed);
            }
            to.end_renew();
            to.renewed(match refusal {
                Some(error) => refused(error),
                None => v1::Renewed { number, ended: coordinator.why_not_renewed(&not_renewed), error: None },
            });
        }));
    }

    /// None of these sessions is marked before the round is decided. One that the stream may not speak for, or that
    /// is marked already, is not renewed.
    fn hold(&self, to: &Attachment, renew: &v1::Renew, received: Moment) -> Vec<(SessionId, Option<Hold>)> {
        let mut clock = self.clock.lock();
        let sessions = renew.sessions.iter().map(|id| SessionId(*id));
        let holds = sessions.map(|session| {
            let known = to.may_speak_for(session) && clock.deadline(session).is_some();
            (session, if known { clock.hold(session, received) } else { None })
        });
        holds.collect()
    }

    fn settle(&self, holds: Vec<(SessionId, Option<Hold>)>, renewed: bool) -> Vec<SessionId> {
        let mut clock = self.clock.lock();
        let mut not_renewed = Vec::new();
        for (session, hold) in holds {
            match hold {
                // It may have been closed while the round ran.
                Some(_) if clock.deadline(session).is_none() => not_renewed.push(session),
                Some(hold) => clock.settle(hold, renewed),
                None => not_renewed.push(session),
            }
        }
        not_renewed
    }

    /// What the client told of its process, for the sessions that were renewed. A report may name as many sessions as a
    /// keepalive: apply waits meanwhile, so each is looked up, not searched for.
    fn reported(&self, renew: &v1::Renew, not_renewed: &[SessionId]) {
        let (Some(report), Some(replica)) = (&renew.report, self.replica()) else { return };
        let working: BTreeSet<u64> = report.working.iter().copied().take(renew.sessions.len()).collect();
        let not_renewed: BTreeSet<SessionId> = not_renewed.iter().copied().collect();
        let left = |at: usize| (report.left_ms.len() == renew.sessions.len()).then(|| report.left_ms[at]);
        let now = self.host.clock.now();
        // Under the table, so that none is told of after its end was heard.
        replica.read(|table| {
            let sessions = renew.sessions.iter().map(|id| SessionId(*id)).enumerate();
            let renewed = sessions.filter(|(_, session)| !not_renewed.contains(session));
            let live = renewed.filter_map(|(at, session)| {
                let ttl = table.session(session)?.ttl;
                let working = working.contains(&session.0);
                Some(Reported { session, ttl, working, left_ms: left(at) })
            });
            self.signals.report(now, report, live, &self.metrics);
        });
    }

    fn why_not_renewed(&self, sessions: &[SessionId]) -> Vec<v1::EndedSession> {
        let Some(replica) = self.replica().filter(|_| !sessions.is_empty()) else { return Vec::new() };
        replica.read(|table| {
            let ended = sessions.iter().map(|session| {
                let how = table
                    .ended_session(*session)
                    .map_or(v1::Ended::Unspecified, |e| convert::words::ended(e.ended));
                v1::EndedSession { session: session.0, ended: how.into() }
            });
            ended.collect()
        })
    }
}
