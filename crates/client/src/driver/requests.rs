//! Commands to requests, and requests to frames.

use palisade_core::ids::SessionId;
use palisade_core::reply::Ended;
use palisade_proto::v1;
use palisade_proto::v1::request::Op as Message;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::outgoing::{AskOp, Op};
use super::record::{Caller, Closing, Opening, RenewWaiter, Stage};
use super::{BATCH_MAX, Change, Command, Driver};
use crate::client::Left;
use crate::error::{AcquireError, CallError, LostReason};
use crate::session::why_gone;
use crate::spec::AcquireSpec;

/// What becomes of a request that is about to be sent.
enum Prepared {
    Send {
        session: u64,
        message: Message,
    },
    /// The stream may not speak for its session yet.
    NotBound {
        session: u64,
    },
    /// Nobody wants it any more.
    Skip,
}

impl Driver {
    pub(super) fn command(&mut self, command: Command, now: Instant) {
        let give_up = now + self.settings.request_timeout;
        match command {
            Command::Open { client, secret, replaces, purpose, reply } => {
                self.open(purpose, Opening { secret, replaces, first_sent: None, client, reply, give_up });
            }
            Command::Adopt { session, number, lock, reply } => {
                self.adopt(Caller { session, reply }, number, lock);
            }
            Command::Acquire { session, spec, reply } => {
                self.ask(Caller { session, reply }, spec, give_up);
            }
            Command::Change { acquisition, session, place, change } => {
                if self.sessions.contains_key(&session.id().0) {
                    self.change(acquisition, place, change, give_up);
                } else {
                    change.session_lost(why_gone(&session));
                }
            }
            Command::Close { session, reply } => {
                if self.sessions.contains_key(&session.id().0) {
                    self.close(session.id(), Some(reply), give_up);
                } else {
                    let _ = reply.send(Ok(()));
                }
            }
            Command::Renew { session, reply } => match self.sessions.get_mut(&session.id().0) {
                Some(record) => {
                    let number = self.next_renewal;
                    record.renew_waiters.push(RenewWaiter { number, give_up, reply });
                    self.renew_wanted = true;
                }
                None => {
                    let _ = reply.send(Err(CallError::SessionLost(why_gone(&session))));
                }
            },
            Command::Ask { session, message, reply } => {
                let ask = AskOp { session, message, first_sent: None, reply: Some(reply), give_up };
                self.outgoing.push(Op::Ask(Box::new(ask)));
            }
            Command::Shutdown { reply } => {
                self.shutdowns.push(reply);
                self.end_by(give_up);
                let ids: Vec<SessionId> = self.sessions.values().map(|record| record.shared.id()).collect();
                for id in ids {
                    self.close(id, None, give_up);
                }
            }
        }
    }

    fn ask(&mut self, caller: Caller, spec: AcquireSpec, give_up: Instant) {
        if caller.reply.is_closed() {
            return;
        }
        let id = caller.session.shared.id();
        let refused = match self.sessions.get_mut(&id.0) {
            Some(record) if record.closing.is_none() => {
                let number = record.ask(spec, caller, give_up);
                self.outgoing.push(Op::Acquire { session: id.0, number });
                return;
            }
            // A closed session asks for nothing.
            Some(_) => LostReason::Ended(Ended::Closed),
            None => why_gone(&caller.session.shared),
        };
        let _ = caller.reply.send(Err(AcquireError::SessionLost(refused)));
    }

    fn close(
        &mut self,
        id: SessionId,
        reply: Option<oneshot::Sender<Result<(), CallError>>>,
        give_up: Instant,
    ) {
        let Some(record) = self.sessions.get_mut(&id.0) else { return };
        match &mut record.closing {
            Some(closing) => {
                if reply.is_some() {
                    *closing = Closing { reply, give_up };
                }
            }
            None => {
                record.closing = Some(Closing { reply, give_up });
                self.outgoing.push(Op::Close { session: id.0 });
            }
        }
    }

    /// Ends on the cluster what somebody dropped here.
    pub(super) fn collect_left(&mut self) {
        let give_up = Instant::now() + self.settings.request_timeout;
        let mut waits = Vec::new();
        for left in self.left.take() {
            match left {
                Left::Guard(acquisition, place) => {
                    self.change(acquisition, Some(place), Change::Release { reply: None }, give_up);
                }
                Left::Kept(session) => {
                    self.cancel_where(session.0, |stage| matches!(stage, Stage::Kept { .. }));
                }
                Left::Session(session) => self.close(session, None, give_up),
                Left::Wait(session) => waits.push(session),
            }
        }
        waits.sort_unstable();
        waits.dedup();
        for session in waits {
            self.cancel_where(session.0, |stage| match stage {
                Stage::Asking { caller, .. } | Stage::Waiting { caller, .. } => caller.reply.is_closed(),
                Stage::Holding(_) | Stage::Kept { .. } => false,
            });
        }
    }

    /// Ends what nobody waits for any more; returns the acquisitions. What was never sent needs no cancel.
    pub(super) fn cancel_where(
        &mut self,
        session: u64,
        mut given_up: impl FnMut(&Stage) -> bool,
    ) -> Vec<super::record::Acquisition> {
        let Some(record) = self.sessions.get_mut(&session) else { return Vec::new() };
        let numbers: Vec<u64> = record
            .acquisitions
            .iter()
            .filter(|(_, acquisition)| given_up(&acquisition.stage))
            .map(|(number, _)| *number)
            .collect();
        let mut ended = Vec::with_capacity(numbers.len());
        for number in numbers {
            let Some(acquisition) = record.acquisitions.remove(&number) else { continue };
            if acquisition.copies > 0 {
                record.cancelling.insert(number);
                self.outgoing.push(Op::Cancel { session, number });
            } else {
                record.decided(number);
            }
            ended.push(acquisition);
        }
        ended
    }

    /// The next frame: everything that may go, and the keepalives that are due.
    pub(super) fn frame(&mut self) -> Option<v1::ClientFrame> {
        let sent = self.host.clock.now();
        let mut requests = Vec::new();
        while requests.len() < BATCH_MAX {
            let Some(op) = self.outgoing.next() else { break };
            match self.prepare(&op, sent) {
                Prepared::Send { session, message } => {
                    let tag = self.outgoing.sent(op, sent);
                    requests.push(v1::Request { tag, session, op: Some(message) });
                }
                Prepared::NotBound { session } => {
                    if let Some(record) = self.sessions.get_mut(&session) {
                        record.held_back.push(op);
                    }
                }
                Prepared::Skip => self.skip(op),
            }
        }
        let renew = if self.renew_wanted { self.renewal(sent) } else { None };
        // A node that has another view of the leader by now drops the frame, and says so with its own.
        let generation = self.generation.unwrap_or_default();
        (!requests.is_empty() || renew.is_some()).then_some(v1::ClientFrame { requests, renew, generation })
    }

    fn prepare(&mut self, op: &Op, sent: palisade_host::Moment) -> Prepared {
        match op {
            Op::Open { key, .. } => match self.open_message(*key, sent) {
                Some(message) => Prepared::Send { session: 0, message },
                None => Prepared::Skip,
            },
            Op::Bind { session } => match self.sessions.get(session) {
                Some(record) => {
                    let bind = v1::Bind { secret: record.secret.to_vec() };
                    Prepared::Send { session: *session, message: Message::Bind(bind) }
                }
                None => Prepared::Skip,
            },
            Op::CloseUnwanted { session } => {
                Prepared::Send { session: *session, message: Message::Close(v1::CloseSession {}) }
            }
            Op::Ask(ask) => match (&ask.reply, &ask.session) {
                (Some(reply), None) if !reply.is_closed() => {
                    Prepared::Send { session: 0, message: ask.message.clone() }
                }
                (Some(reply), Some(session)) if !reply.is_closed() => {
                    self.bound(session.id().0, ask.message.clone())
                }
                (Some(_) | None, _) => Prepared::Skip,
            },
            Op::Close { session } => self.bound(*session, Message::Close(v1::CloseSession {})),
            Op::Cancel { session, number } => {
                self.bound(*session, Message::Cancel(v1::Cancel { number: *number }))
            }
            Op::Acquire { session, number } => self.prepare_acquire(*session, *number),
            Op::Change { session, number, place } => match self.change_message(*session, *number, *place) {
                Some(message) => self.bound(*session, message),
                None => Prepared::Skip,
            },
        }
    }

    fn bound(&self, session: u64, message: Message) -> Prepared {
        match self.sessions.get(&session) {
            Some(record) if record.bound => Prepared::Send { session, message },
            Some(_) => Prepared::NotBound { session },
            None => Prepared::Skip,
        }
    }

    fn prepare_acquire(&mut self, session: u64, number: u64) -> Prepared {
        let Some(record) = self.sessions.get_mut(&session) else { return Prepared::Skip };
        let mark = record.mark_for(number);
        let bound = record.bound;
        let Some(acquisition) = record.acquisitions.get_mut(&number) else { return Prepared::Skip };
        match &acquisition.stage {
            Stage::Kept { .. } => Prepared::Skip,
            Stage::Holding(holding) if !holding.is_held() => Prepared::Skip,
            Stage::Asking { .. } | Stage::Waiting { .. } | Stage::Holding(_) if bound => {
                acquisition.copies = acquisition.copies.saturating_add(1);
                Prepared::Send { session, message: Message::Acquire(acquisition.spec.message(number, mark)) }
            }
            Stage::Asking { .. } | Stage::Waiting { .. } | Stage::Holding(_) => {
                Prepared::NotBound { session }
            }
        }
    }

    /// Tells a caller whose session has gone meanwhile.
    fn skip(&self, op: Op) {
        if let Op::Ask(mut ask) = op
            && let Some(session) = &ask.session
            && let Some(reply) = ask.reply.take()
        {
            let _ = reply.send(Err(CallError::SessionLost(why_gone(session))));
        }
    }
}
