//! Commands to requests, and requests to frames.

use palisade_core::ids::{AcquisitionId, RequestNumber, SessionId};
use palisade_core::reply::Ended;
use palisade_proto::v1;
use palisade_proto::v1::request::Op as Message;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::outgoing::{Op, ReadOp, SequencerOp};
use super::record::{Caller, Closing, Opening, RenewWaiter, Stage};
use super::{BATCH_MAX, Command, Driver};
use crate::client::Left;
use crate::error::{AcquireError, CallError, LostReason, ReleaseError};
use crate::guard::Released;
use crate::session::why_gone;

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
            Command::Open { client, reply } => {
                let mut secret = [0; 32];
                self.host.entropy.fill(&mut secret);
                let secret_hash = Sha256::digest(secret).to_vec();
                let key = self.next_opening;
                self.next_opening += 1;
                let opening = Opening { secret, secret_hash, first_sent: None, client, reply, give_up };
                self.openings.insert(key, opening);
                self.outgoing.push(Op::Open { key });
            }
            Command::Acquire { session, spec, reply } => {
                self.ask(Caller { session, reply }, spec, give_up);
            }
            Command::Release { session, number, reply } => {
                if self.sessions.contains_key(&session.id().0) {
                    self.release(session.id(), number, Some(reply), give_up);
                } else {
                    let _ = reply.send(Err(ReleaseError::SessionLost(why_gone(&session))));
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
            Command::Sequencer { held, reply } => {
                self.outgoing.push(Op::Sequencer(Box::new(SequencerOp {
                    held,
                    reply: Some(reply),
                    give_up,
                })));
            }
            Command::Read { op, reply } => {
                self.outgoing.push(Op::Read(Box::new(ReadOp { op, reply: Some(reply), give_up })));
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

    fn ask(&mut self, caller: Caller, spec: crate::lock::AcquireSpec, give_up: Instant) {
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

    fn release(
        &mut self,
        id: SessionId,
        number: RequestNumber,
        reply: Option<oneshot::Sender<Result<Released, ReleaseError>>>,
        give_up: Instant,
    ) {
        let acquisition =
            self.sessions.get_mut(&id.0).and_then(|record| record.acquisitions.get_mut(&number.0));
        if let Some(acquisition) = acquisition
            && let Stage::Holding { held } = &acquisition.stage
        {
            let (slot, token) = (held.slot.0, held.token.get());
            acquisition.stage = Stage::Releasing { slot, token, reply, give_up };
            self.outgoing.push(Op::Release { session: id.0, number: number.0 });
            return;
        }
        // It was found lost before: the guard says why.
        if let Some(reply) = reply {
            let _ = reply.send(Err(ReleaseError::NotHeld { ended: None, superseded_by: None }));
        }
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
                Left::Guard(AcquisitionId { session, number }) => {
                    self.release(session, number, None, give_up)
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
                Stage::Holding { .. } | Stage::Releasing { .. } => false,
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
            Op::Open { key } => self.prepare_open(*key, sent),
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
            Op::Read(read) => match &read.reply {
                Some(reply) if !reply.is_closed() => Prepared::Send { session: 0, message: read.op.clone() },
                Some(_) | None => Prepared::Skip,
            },
            Op::Sequencer(ask) => {
                let id = ask.held.acquisition;
                let message = v1::GetSequencer {
                    acquisition: Some(wire_id(id)),
                    lock: ask.held.lock.as_str().to_owned(),
                    slot: ask.held.slot.0,
                };
                self.bound(id.session.0, Message::Sequencer(message))
            }
            Op::Close { session } => self.bound(*session, Message::Close(v1::CloseSession {})),
            Op::Cancel { session, number } => {
                self.bound(*session, Message::Cancel(v1::Cancel { number: *number }))
            }
            Op::Acquire { session, number } => self.prepare_acquire(*session, *number),
            Op::Release { session, number } => self.prepare_release(*session, *number),
        }
    }

    fn bound(&self, session: u64, message: Message) -> Prepared {
        match self.sessions.get(&session) {
            Some(record) if record.bound => Prepared::Send { session, message },
            Some(_) => Prepared::NotBound { session },
            None => Prepared::Skip,
        }
    }

    fn prepare_open(&mut self, key: u64, sent: palisade_host::Moment) -> Prepared {
        let Some(opening) = self.openings.get_mut(&key) else { return Prepared::Skip };
        if opening.reply.is_closed() && opening.first_sent.is_none() {
            self.openings.remove(&key);
            return Prepared::Skip;
        }
        opening.first_sent.get_or_insert(sent);
        let open = v1::OpenSession {
            ttl_ms: u64::try_from(self.settings.ttl.as_millis()).unwrap_or(u64::MAX),
            client: self.settings.name.as_str().to_owned(),
            secret_hash: opening.secret_hash.clone(),
            replaces: None,
        };
        Prepared::Send { session: 0, message: Message::Open(open) }
    }

    fn prepare_acquire(&mut self, session: u64, number: u64) -> Prepared {
        let Some(record) = self.sessions.get_mut(&session) else { return Prepared::Skip };
        let mark = record.mark_for(number);
        let bound = record.bound;
        let Some(acquisition) = record.acquisitions.get_mut(&number) else { return Prepared::Skip };
        match acquisition.stage {
            Stage::Releasing { .. } => Prepared::Skip,
            Stage::Asking { .. } | Stage::Waiting { .. } | Stage::Holding { .. } if bound => {
                acquisition.copies = acquisition.copies.saturating_add(1);
                Prepared::Send { session, message: Message::Acquire(acquisition.spec.message(number, mark)) }
            }
            Stage::Asking { .. } | Stage::Waiting { .. } | Stage::Holding { .. } => {
                Prepared::NotBound { session }
            }
        }
    }

    fn prepare_release(&self, session: u64, number: u64) -> Prepared {
        let acquisition = self.sessions.get(&session).and_then(|record| record.acquisitions.get(&number));
        let lock = acquisition.map(|acquisition| acquisition.spec.lock.as_str().to_owned());
        match acquisition.map(|acquisition| &acquisition.stage) {
            Some(Stage::Releasing { slot, token, .. }) => {
                // The lock is named, so that a release that comes too late hears who holds it now.
                let release = v1::Release {
                    acquisition: Some(v1::AcquisitionId { session, number }),
                    lock: lock.unwrap_or_default(),
                    slot: *slot,
                    token: *token,
                };
                self.bound(session, Message::Release(release))
            }
            Some(Stage::Asking { .. } | Stage::Waiting { .. } | Stage::Holding { .. }) | None => {
                Prepared::Skip
            }
        }
    }

    /// Tells a caller whose session has gone meanwhile.
    fn skip(&self, op: Op) {
        if let Op::Sequencer(mut ask) = op
            && let Some(reply) = ask.reply.take()
        {
            let reason = why_gone(&ask.held.session.shared);
            let _ = reply.send(Err(CallError::SessionLost(reason)));
        }
    }
}

fn wire_id(id: AcquisitionId) -> v1::AcquisitionId {
    v1::AcquisitionId { session: id.session.0, number: id.number.0 }
}
