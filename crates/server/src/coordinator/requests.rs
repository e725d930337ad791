//! A frame of requests: what goes to the log, and what comes back from it.

use std::sync::Arc;

use palisade_core::command::{AcquireOnTerms, CloseSession, Command, OpenSession, Replaces};
use palisade_core::ids::{Millis, SecretHash, SessionId};
use palisade_core::reply::{Reply, TookOver};
use palisade_host::Moment;
use palisade_proto::convert::{self, BadArgument};
use palisade_proto::v1::{self, ClientFrame, Request, request, response};
use palisade_raft::{Decided, Outcome, Proposal, Replica, Room, Sink};

use super::room::takes;
use super::{Attachment, Coordinator, operator};
use crate::error;
use crate::lease::Hold;

/// A request that goes to the log: what its answer needs.
struct Ask {
    tag: u64,
    session: SessionId,
    received: Moment,
    want_sequencer: bool,
    /// A secret that this node drew, for a caller that brought none.
    drawn: Option<[u8; 32]>,
    /// The answer when the command took effect and had nothing else to say.
    done: Option<response::Result>,
}

impl Coordinator {
    /// Takes a frame that came in at `received`. All its requests go to the log in order, in one submit.
    pub(crate) async fn handle(self: &Arc<Self>, to: &Arc<Attachment>, frame: ClientFrame, received: Moment) {
        let mut proposals = frame.renew.map_or_else(Vec::new, |renew| self.renew(to, renew, received));
        proposals.reserve(frame.requests.len());
        for request in frame.requests {
            proposals.extend(self.take(to, request, received));
        }
        if proposals.is_empty() {
            return;
        }
        let Some(replica) = self.replica() else { return };
        // What a stopped replica drops is answered by its sinks.
        let _ = replica.submit(proposals).await;
    }

    /// Takes one request: answers it, starts what answers it later, or makes it a proposal.
    fn take(self: &Arc<Self>, to: &Arc<Attachment>, request: Request, received: Moment) -> Option<Proposal> {
        let session = SessionId(request.session);
        if !to.open(request.tag, session, received) {
            // A copy of an open request: the first one's answer is both's.
            return None;
        }
        let refuse = |error| {
            to.answer(error::response(request.tag, request.session, error));
            None
        };
        if self.serving().is_none() {
            return refuse(error::not_leader());
        }
        if !self.has_quorum() {
            return refuse(error::no_quorum());
        }
        let room = self.replica().map_or(Room::Leases, Replica::room);
        if request.op.as_ref().is_some_and(|op| !takes(room, op)) {
            self.metrics.proposal_failed(&error::overloaded().name);
            return refuse(error::overloaded());
        }
        let tag = request.tag;
        let ask = Ask { tag, session, received, want_sequencer: false, drawn: None, done: None };
        let Some(op) = &request.op else {
            return refuse(error::bad_argument("the request has no operation"));
        };
        self.metrics.request(op_name(op));
        match op {
            request::Op::Open(open) => match self.open_command(to, open) {
                Ok((command, drawn)) => Some(self.propose(to, Ask { drawn, ..ask }, command, None)),
                Err(error) => refuse(error),
            },
            request::Op::Bind(bind) => {
                self.bind(to, tag, session, bind);
                None
            }
            request::Op::Check(check) => {
                self.check(to, tag, check.clone());
                None
            }
            request::Op::GetLock(get) => {
                self.get_lock(to, tag, get);
                None
            }
            request::Op::ListLocks(list) => {
                self.list_locks(to, tag, list);
                None
            }
            request::Op::History(get) => {
                self.get_history(to, tag, get);
                None
            }
            request::Op::Audit(get) => {
                self.get_audit(to, tag, get);
                None
            }
            request::Op::ListSessions(list) => {
                self.list_sessions(to, tag, list);
                None
            }
            request::Op::ConfirmFloor(_)
            | request::Op::BreakLock(_)
            | request::Op::EndSession(_)
            | request::Op::SetCapacity(_)
            | request::Op::SetDelayRule(_)
            | request::Op::SetSettings(_) => match self.operator_command(to, op) {
                Ok(command) => Some(self.propose(to, Ask { done: operator::done(op), ..ask }, command, None)),
                Err(error) => refuse(error),
            },
            request::Op::GetSettings(_) => {
                self.get_settings(to, tag);
                None
            }
            request::Op::ReportRejections(report) => {
                self.report_rejections(to, tag, report);
                None
            }
            request::Op::ListRejections(list) => {
                self.list_rejections(to, tag, list);
                None
            }
            _ if !to.may_speak_for(session) => refuse(error::unauthenticated(
                "this stream may not speak for the session; bind it with its secret first",
            )),
            request::Op::Sequencer(get) => {
                self.get_sequencer(to, tag, session, get);
                None
            }
            request::Op::Close(_) => {
                self.session_command(to, ask, Ok(Command::CloseSession(CloseSession { session })))
            }
            request::Op::Acquire(acquire) => {
                let ask = Ask { want_sequencer: acquire.want_sequencer, ..ask };
                self.session_command(to, ask, self.acquire_command(session, acquire))
            }
            request::Op::Release(release) => {
                let command = convert::lock::release(session, release).map(Command::Release);
                self.session_command(to, ask, command)
            }
            request::Op::Cancel(cancel) => {
                let command = convert::lock::cancel(session, cancel).map(Command::Cancel);
                self.session_command(to, ask, command)
            }
            request::Op::Downgrade(downgrade) => {
                let command = convert::holder::downgrade(session, downgrade).map(Command::Downgrade);
                self.session_command(to, ask, command)
            }
            request::Op::HandOver(hand_over) => {
                let command = convert::holder::hand_over(session, hand_over).map(Command::HandOver);
                self.session_command(to, ask, command)
            }
            request::Op::SetMetadata(set) => {
                let command = convert::holder::set_metadata(session, set).map(Command::SetMetadata);
                self.session_command(to, ask, command)
            }
            request::Op::SetBaton(set) => {
                let command = convert::holder::set_baton(session, set).map(Command::SetBaton);
                self.session_command(to, ask, command)
            }
            request::Op::ReportProgress(report) => {
                let command = convert::holder::report_progress(session, report).map(Command::ReportProgress);
                self.session_command(to, ask, command)
            }
        }
    }

    fn acquire_command(&self, session: SessionId, message: &v1::Acquire) -> Result<Command, BadArgument> {
        let acquire = convert::lock::acquire(session, message, self.lock_delay_default())?;
        Ok(match convert::holder::terms(message)? {
            None => Command::Acquire(acquire),
            Some(terms) => Command::AcquireOnTerms(AcquireOnTerms { acquire, terms }),
        })
    }

    fn lock_delay_default(&self) -> Millis {
        let replica = self.replica();
        replica.map_or(Millis(0), |replica| replica.read(|table| table.header().limits.lock_delay_default))
    }

    fn open_command(
        &self,
        to: &Attachment,
        open: &v1::OpenSession,
    ) -> Result<(Command, Option<[u8; 32]>), v1::Error> {
        let asked = convert::session::open_session(open).map_err(v1::Error::from)?;
        let (secret, drawn) = match asked.secret {
            Some(hash) => (hash, None),
            None => {
                let mut secret = [0; 32];
                self.host.entropy.fill(&mut secret);
                (hash_of(&secret), Some(secret))
            }
        };
        let floor = self.config.timing.election_timeout() * 3;
        if u128::from(asked.ttl.0) < floor.as_millis() {
            let words = format!(
                "a TTL of {} ms is below three election timeouts, {} ms",
                asked.ttl.0,
                floor.as_millis()
            );
            return Err(error::bad_argument(words));
        }
        let command = OpenSession {
            secret,
            owner: to.principal.clone(),
            client: asked.client,
            ttl: asked.ttl,
            replaces: asked.replaces.map(|replaced| Replaces {
                session: replaced.session,
                secret: hash_of(&replaced.secret),
                proven_dead: replaced.proven_dead,
            }),
        };
        Ok((Command::OpenSession(command), drawn))
    }

    /// A command of a session. One whose expiry is being decided proposes nothing (SPEC 3).
    fn session_command(
        self: &Arc<Self>,
        to: &Arc<Attachment>,
        ask: Ask,
        command: Result<Command, BadArgument>,
    ) -> Option<Proposal> {
        let error = match command {
            Ok(command) => {
                let hold = match &command {
                    Command::ReportProgress(report) => {
                        self.clock.lock().hold_report(report.acquisition, ask.received)
                    }
                    _ => self.clock.lock().hold(ask.session, ask.received),
                };
                if let Some(hold) = hold {
                    return Some(self.propose(to, ask, command, Some(hold)));
                }
                error::overloaded()
            }
            Err(bad) => bad.into(),
        };
        to.answer(error::response(ask.tag, ask.session.0, error));
        None
    }

    fn propose(
        self: &Arc<Self>,
        to: &Arc<Attachment>,
        ask: Ask,
        command: Command,
        hold: Option<Hold>,
    ) -> Proposal {
        let coordinator = self.clone();
        let to = to.clone();
        let sink = Sink::new(move |outcome| {
            if let Some(hold) = hold {
                let renewed = matches!(&outcome, Outcome::Decided(decided) if decided.renewed.is_some());
                let mut clock = coordinator.clock.lock();
                if let Outcome::Decided(decided) = &outcome {
                    clock.reported(&hold, decided.index);
                }
                clock.settle(hold, renewed);
            }
            match outcome {
                Outcome::Decided(decided) => coordinator.decided(&to, ask, decided),
                Outcome::NotAppended { .. } => coordinator.undecided(&to, &ask, error::not_leader()),
                Outcome::Unknown => coordinator.undecided(&to, &ask, error::outcome_unknown()),
            }
        });
        Proposal { command, sink }
    }

    fn undecided(&self, to: &Attachment, ask: &Ask, error: v1::Error) {
        self.metrics.proposal_failed(&error.name);
        to.answer(error::response(ask.tag, ask.session.0, error));
    }

    /// Called from the apply loop, right after the entry's events: what is registered here sees every later event.
    fn decided(&self, to: &Arc<Attachment>, ask: Ask, decided: Decided) {
        let Decided { index, reply, renewed } = decided;
        let mut session = ask.session;
        match &reply {
            Reply::SessionOpened { session: opened, .. }
            | Reply::TookOver(TookOver { session: opened, .. }) => {
                session = *opened;
                to.bind(*opened);
                if !to.single {
                    self.waiters.bind(*opened, to);
                }
            }
            Reply::Queued { acquisition, .. } => {
                if to.single {
                    to.waits_for(*acquisition);
                    self.waiters.wait(*acquisition, to);
                }
                if ask.want_sequencer {
                    to.wants_sequencer(*acquisition);
                }
            }
            _ => {}
        }
        let Some(mut result) = convert::session::reply(&reply).or(ask.done) else { return };
        match (&mut result, &reply) {
            (response::Result::Granted(wire), Reply::Granted(grant)) if ask.want_sequencer => {
                if let Some(replica) = self.replica() {
                    wire.sequencers = replica.read(|table| self.sequencers(table, grant.acquisition));
                }
            }
            (response::Result::Opened(opened), _) => {
                opened.secret = ask.drawn.map(|secret| secret.to_vec()).unwrap_or_default();
            }
            _ => {}
        }
        to.answer(v1::Response {
            tag: ask.tag,
            session: session.0,
            index: index.0,
            renewed: renewed.is_some(),
            result: Some(result),
        });
    }
}

/// The hash that stands for a secret in the log.
pub(super) fn hash_of(secret: &[u8]) -> SecretHash {
    use sha2::{Digest, Sha256};
    SecretHash(Sha256::digest(secret).into())
}

fn op_name(op: &request::Op) -> &'static str {
    match op {
        request::Op::Open(_) => "open",
        request::Op::Bind(_) => "bind",
        request::Op::Close(_) => "close",
        request::Op::Acquire(_) => "acquire",
        request::Op::Release(_) => "release",
        request::Op::Cancel(_) => "cancel",
        request::Op::Sequencer(_) => "sequencer",
        request::Op::Check(_) => "check",
        request::Op::GetLock(_) => "get_lock",
        request::Op::ListLocks(_) => "list_locks",
        request::Op::History(_) => "history",
        request::Op::Audit(_) => "audit",
        request::Op::ListSessions(_) => "list_sessions",
        request::Op::Downgrade(_) => "downgrade",
        request::Op::HandOver(_) => "hand_over",
        request::Op::SetMetadata(_) => "set_metadata",
        request::Op::SetBaton(_) => "set_baton",
        request::Op::ReportProgress(_) => "report_progress",
        request::Op::ConfirmFloor(_) => "confirm_floor",
        request::Op::BreakLock(_) => "break_lock",
        request::Op::EndSession(_) => "end_session",
        request::Op::SetCapacity(_) => "set_capacity",
        request::Op::SetDelayRule(_) => "set_delay_rule",
        request::Op::SetSettings(_) => "set_settings",
        request::Op::GetSettings(_) => "get_settings",
        request::Op::ReportRejections(_) => "report_rejections",
        request::Op::ListRejections(_) => "list_rejections",
    }
}
