//! Keepalives: proved by a quorum round that began after their receipt, never by a clock (SPEC 3). Those of long leases go
//! through the log besides, one entry a frame, so that the next leader knows of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use palisade_core::command::{Command, KeepSessions};
use palisade_core::ids::SessionId;
use palisade_core::limits::KEEP_BATCH_MAX;
use palisade_core::reply::Reply;
use palisade_host::Moment;
use palisade_proto::convert;
use palisade_proto::v1;
use palisade_raft::{Outcome, Proposal, Sink};
use parking_lot::Mutex;

use super::{Attachment, Coordinator, Serving};
use crate::error;
use crate::lease::Hold;
use crate::signals::Reported;

/// Sessions of one keepalive.
const SESSIONS_MAX: usize = 65_536;

/// Sessions that wait for one proof, each with what keeps it from expiring meanwhile.
type Holds = Vec<(SessionId, Option<Hold>)>;

/// A keepalive whose answer waits for its round, and for its entries.
struct Renewing {
    coordinator: Arc<Coordinator>,
    to: Arc<Attachment>,
    renew: v1::Renew,
    serving: Serving,
    so_far: Mutex<SoFar>,
}

struct SoFar {
    /// Proofs that are missing.
    missing: usize,
    not_renewed: Vec<SessionId>,
    /// Why not all was proved. Then nothing is answered as renewed.
    refusal: Option<v1::Error>,
}

impl Coordinator {
    /// Renews the sessions of one frame, from its receipt, once a round that begins now has proved that this node
    /// still leads, and in the same term; those with long leases, once their entry is decided.
    pub(super) fn renew(
        self: &Arc<Self>,
        to: &Arc<Attachment>,
        renew: v1::Renew,
        received: Moment,
    ) -> Vec<Proposal> {
        let number = renew.number;
        self.metrics.request("renew");
        let refuse = |error| {
            to.renewed(v1::Renewed { number, ended: Vec::new(), error: Some(error) });
            Vec::new()
        };
        let Some(serving) = self.serving() else { return refuse(error::not_leader()) };
        if !self.has_quorum() {
            return refuse(error::no_quorum());
        }
        if renew.sessions.len() > SESSIONS_MAX {
            let words =
                format!("a renew names at most {SESSIONS_MAX} sessions; {} came", renew.sessions.len());
            return refuse(error::bad_argument(words));
        }
        if !to.begin_renew() {
            return refuse(error::overloaded());
        }
        let (short, long) = self.hold(to, &renew, received);
        let entries = entries(long);
        let so_far = SoFar { missing: 1 + entries.len(), not_renewed: Vec::new(), refusal: None };
        let renewing = Arc::new(Renewing {
            coordinator: self.clone(),
            to: to.clone(),
            renew,
            serving,
            so_far: Mutex::new(so_far),
        });
        let proposals = entries.into_iter().map(|holds| renewing.clone().proposal(holds)).collect();
        self.rounds.join(Box::new(move |proof| {
            let refusal = match proof {
                Err(why) => Some(error::unproved(why)),
                Ok(_) => renewing.deposed(),
            };
            let not_renewed = renewing.coordinator.settle(short, refusal.is_none());
            renewing.proved(not_renewed, refusal);
        }));
        proposals
    }

    /// None of these sessions is marked before it is decided. One that the stream may not speak for, or that is marked
    /// already, is not renewed. Those whose keepalives go through the log are apart.
    fn hold(&self, to: &Attachment, renew: &v1::Renew, received: Moment) -> (Holds, Holds) {
        let mut clock = self.clock.lock();
        let sessions = renew.sessions.iter().map(|id| SessionId(*id));
        let holds = sessions.map(|session| {
            let known = to.may_speak_for(session) && clock.deadline(session).is_some();
            let hold = if known { clock.hold(session, received) } else { None };
            (hold.is_some() && clock.is_kept_in_log(session), (session, hold))
        });
        let (long, short): (Vec<_>, Vec<_>) = holds.partition(|(in_log, _)| *in_log);
        let bare = |holds: Vec<(bool, (SessionId, Option<Hold>))>| holds.into_iter().map(|(_, hold)| hold);
        (bare(short).collect(), bare(long).collect())
    }

    fn settle(&self, holds: Holds, renewed: bool) -> Vec<SessionId> {
        let mut clock = self.clock.lock();
        let mut not_renewed = Vec::new();
        for (session, hold) in holds {
            match hold {
                // It may have been closed meanwhile.
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

/// As many as one entry names.
fn entries(mut holds: Holds) -> Vec<Holds> {
    let mut entries = Vec::new();
    while !holds.is_empty() {
        let rest = holds.split_off(holds.len().min(KEEP_BATCH_MAX));
        entries.push(std::mem::replace(&mut holds, rest));
    }
    entries
}

impl Renewing {
    /// Another term's clock was armed anew; this keepalive is asked again there.
    fn deposed(&self) -> Option<v1::Error> {
        (self.coordinator.serving() != Some(self.serving)).then(error::not_leader)
    }

    fn proposal(self: Arc<Self>, holds: Holds) -> Proposal {
        let sessions = holds.iter().map(|(session, _)| *session).collect();
        let sink = Sink::new(move |outcome| {
            let refusal = match outcome {
                Outcome::Decided(decided) => match decided.reply {
                    Reply::Kept { .. } => self.deposed(),
                    Reply::Refused(why) => Some(convert::refusal::refusal(&why)),
                    _ => Some(error::defect("a keepalive was answered otherwise")),
                },
                Outcome::NotAppended { .. } => Some(error::not_leader()),
                // A keepalive is no request: whoever asks again loses nothing.
                Outcome::Unknown => Some(error::no_quorum()),
            };
            let not_renewed = self.coordinator.settle(holds, refusal.is_none());
            self.proved(not_renewed, refusal);
        });
        Proposal { command: Command::KeepSessions(KeepSessions { sessions }), sink }
    }

    /// One proof is decided; with the last, the keepalive is answered.
    fn proved(&self, not_renewed: Vec<SessionId>, refusal: Option<v1::Error>) {
        let (not_renewed, refusal) = {
            let mut so_far = self.so_far.lock();
            so_far.missing -= 1;
            so_far.not_renewed.extend(not_renewed);
            so_far.refusal = so_far.refusal.take().or(refusal);
            if so_far.missing > 0 {
                return;
            }
            (std::mem::take(&mut so_far.not_renewed), so_far.refusal.take())
        };
        let ended = match refusal {
            Some(_) => Vec::new(),
            None => {
                self.coordinator.reported(&self.renew, &not_renewed);
                self.coordinator.why_not_renewed(&not_renewed)
            }
        };
        self.to.end_renew();
        self.to.renewed(v1::Renewed { number: self.renew.number, ended, error: refusal });
    }
}
