//! What comes back: answers to requests, and what happens to sessions without their asking.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use palisade_core::ids::SessionId;
use palisade_core::reply::Ended;
use palisade_proto::convert::words;
use palisade_proto::v1;
use palisade_proto::v1::response::Result as Answer;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Driver;
use super::outgoing::Op;
use super::record::{Acquisition, Caller, SessionRecord, Stage};
use crate::error::{AcquireError, LostReason, OpenError, ReleaseError};
use crate::guard::{Held, LockGuard, Released};
use crate::lock::WaitFor;
use crate::session::{SessionHandle, SessionShared, SessionState};
use crate::wire::{self, Meaning};

impl Driver {
    pub(super) fn frame_in(&mut self, frame: v1::ServerFrame) {
        if let Some(leader) = &frame.leader {
            self.leader_is(leader);
        }
        if let Some(renewed) = frame.renewed {
            self.renewed(renewed);
        }
        let now = Instant::now();
        for item in frame.items {
            match item.item {
                Some(v1::item::Item::Response(response)) => self.response(response, now),
                Some(v1::item::Item::Event(event)) => self.event(event),
                None => {}
            }
        }
    }

    fn response(&mut self, response: v1::Response, now: Instant) {
        // An answer to a copy that was given up: the newer copy has its own.
        let Some(in_flight) = self.outgoing.answered(response.tag) else { return };
        let op = in_flight.op;
        if response.renewed
            && let Some(record) = session_of(&op).and_then(|session| self.sessions.get_mut(&session))
        {
            record.count(in_flight.sent, self.host.clock.now(), now);
            record.postpone(in_flight.sent);
        }
        let answer = match response.result {
            Some(Answer::Error(error)) => match wire::meaning(&error) {
                Meaning::Repeat { after } => {
                    self.last_trouble = format!("{}: {}", error.name, error.message);
                    self.outgoing.park(op, after, now);
                    return;
                }
                Meaning::NotBound => return self.not_bound(op, error),
                Meaning::SessionOver(reason) if session_of(&op).is_some() => {
                    return self.session_over(op, reason, error);
                }
                Meaning::SessionOver(_) | Meaning::Final => Err(error),
            },
            Some(answer) => Ok(answer),
            None => Err(v1::Error { name: "UNEXPECTED".to_owned(), ..v1::Error::default() }),
        };
        self.outgoing.decided();
        self.route.works();
        self.answer(op, answer, now);
    }

    fn not_bound(&mut self, op: Op, error: v1::Error) {
        match op {
            Op::Bind { session } => self.lose(session, LostReason::SecretRefused),
            Op::CloseUnwanted { .. } => {}
            Op::Open { .. } | Op::Read(_) => self.answer(op, Err(error), Instant::now()),
            other => {
                if let Some(session) = session_of(&other) {
                    self.bind_again(session, other);
                }
            }
        }
    }

    fn session_over(&mut self, op: Op, reason: LostReason, error: v1::Error) {
        // A release that came too late is answered by who came after it, not by the end of the session alone.
        if let Op::Release { session, number } = op
            && error.holder.is_some()
        {
            self.released(session, number, Err(error));
        }
        if let Some(session) = session_of(&op) {
            self.lose(session, reason);
        }
        if let Op::Sequencer(mut ask) = op
            && let Some(reply) = ask.reply.take()
        {
            let _ = reply.send(Err(crate::error::CallError::SessionLost(reason)));
        }
    }

    fn answer(&mut self, op: Op, answer: Result<Answer, v1::Error>, now: Instant) {
        match op {
            Op::Open { key } => self.opened(key, answer),
            Op::Bind { session } => match answer {
                Ok(Answer::Bound(bound)) => self.bound_to(session, bound.acquisitions),
                Ok(_) => {}
                Err(error) => {
                    self.last_trouble = format!("{}: {}", error.name, error.message);
                    self.outgoing.park(Op::Bind { session }, None, now);
                }
            },
            Op::Close { session } => match answer {
                Ok(_) => self.lose(session, LostReason::Ended(Ended::Closed)),
                Err(_) => self.outgoing.park(Op::Close { session }, None, now),
            },
            Op::CloseUnwanted { .. } => {}
            Op::Acquire { session, number } => match answer {
                Ok(Answer::Granted(grant)) => self.granted(session, number, grant),
                Ok(Answer::Queued(_)) => self.queued(session, number),
                Ok(_) => {}
                Err(error) => self.refused(session, number, error),
            },
            Op::Release { session, number } => self.released(session, number, answer),
            Op::Cancel { session, number } => self.cancelled(session, number, answer, now),
            Op::Sequencer(mut ask) => {
                if let Some(reply) = ask.reply.take() {
                    let _ = reply.send(match answer {
                        Ok(Answer::Sequencer(answer)) => Ok(answer.sequencer),
                        Ok(_) => Err(wire::unexpected()),
                        Err(error) => Err(wire::call_error(error)),
                    });
                }
            }
            Op::Read(mut read) => {
                if let Some(reply) = read.reply.take() {
                    let _ = reply.send(answer.map_err(wire::call_error));
                }
            }
        }
    }

    fn opened(&mut self, key: u64, answer: Result<Answer, v1::Error>) {
        let opening = self.openings.remove(&key);
        let opened = match answer {
            Ok(Answer::Opened(opened)) => opened,
            Ok(_) => return,
            Err(error) => {
                if let Some(opening) = opening {
                    let _ = opening
                        .reply
                        .send(Err(OpenError::Refused { name: error.name, message: error.message }));
                }
                return;
            }
        };
        let Some(opening) = opening else {
            return self.outgoing.push(Op::CloseUnwanted { session: opened.session });
        };
        let now = self.host.clock.now();
        let lease = self.settings.lease(Duration::from_millis(opened.ttl_ms));
        let deadline = lease.first_deadline(opening.first_sent.unwrap_or(now));
        let shared =
            Arc::new(SessionShared::new(SessionId(opened.session), self.host.clock.clone(), deadline));
        if deadline <= now {
            shared.report(SessionState::Suspended);
        }
        let record = SessionRecord::new(shared.clone(), lease, opening.secret, now);
        self.sessions.insert(opened.session, record);
        self.renew_wanted = true;
        // A handle that nobody takes drops here, and closes the session.
        let _ = opening.reply.send(Ok(Arc::new(SessionHandle { shared, client: opening.client })));
    }

    pub(super) fn queued(&mut self, session: u64, number: u64) {
        let patience = self.settings.request_timeout;
        let Some(record) = self.sessions.get_mut(&session) else { return };
        let Some(acquisition) = record.acquisitions.remove(&number) else { return };
        record.decided(number);
        let Acquisition { spec, copies, stage } = acquisition;
        let stage = match stage {
            Stage::Asking { caller, .. } => {
                let give_up = match spec.wait {
                    WaitFor::Bounded(bound) => Instant::now().checked_add(bound + patience),
                    WaitFor::Nothing | WaitFor::Session => None,
                };
                Stage::Waiting { caller, give_up }
            }
            stage @ (Stage::Waiting { .. } | Stage::Holding { .. } | Stage::Releasing { .. }) => stage,
        };
        record.acquisitions.insert(number, Acquisition { spec, copies, stage });
    }

    pub(super) fn granted(&mut self, session: u64, number: u64, grant: v1::Grant) {
        let Some(record) = self.sessions.get_mut(&session) else { return };
        // One that is being cancelled is released by its cancel.
        let Some(Acquisition { spec, copies, stage }) = record.acquisitions.remove(&number) else { return };
        record.decided(number);
        let stage = match stage {
            Stage::Asking { caller, .. } | Stage::Waiting { caller, .. } => {
                match held(&caller, grant) {
                    Some(held) => {
                        let held = Arc::new(held);
                        // A guard that nobody takes drops here, and releases.
                        let _ = caller.reply.send(Ok(LockGuard::new(held.clone())));
                        Stage::Holding { held }
                    }
                    None => {
                        let name = "UNEXPECTED".to_owned();
                        let message = "the grant names no lock and token that can be".to_owned();
                        let _ = caller.reply.send(Err(AcquireError::Refused { name, message }));
                        record.cancelling.insert(number);
                        self.outgoing.push(Op::Cancel { session, number });
                        return;
                    }
                }
            }
            stage @ (Stage::Holding { .. } | Stage::Releasing { .. }) => stage,
        };
        record.acquisitions.insert(number, Acquisition { spec, copies, stage });
    }

    fn refused(&mut self, session: u64, number: u64, error: v1::Error) {
        let Some(record) = self.sessions.get_mut(&session) else { return };
        let Some(Acquisition { spec, copies, stage }) = record.acquisitions.remove(&number) else { return };
        // A refusal for the limit of outcomes is not remembered: another copy, still on its way, could acquire.
        if wire::may_change(&error) && copies > 1 {
            record.cancelling.insert(number);
            self.outgoing.push(Op::Cancel { session, number });
        } else {
            record.decided(number);
        }
        match stage {
            Stage::Asking { caller, .. } | Stage::Waiting { caller, .. } => {
                let _ = caller.reply.send(Err(wire::acquire_error(&spec.lock, error)));
            }
            Stage::Holding { held } => {
                held.lose(LostReason::Ended(words::ended_from(error.ended).unwrap_or(Ended::Forgotten)));
            }
            // An answer to an earlier ask: the release has its own.
            stage @ Stage::Releasing { .. } => {
                record.acquisitions.insert(number, Acquisition { spec, copies, stage });
            }
        }
    }

    fn released(&mut self, session: u64, number: u64, answer: Result<Answer, v1::Error>) {
        let Some(record) = self.sessions.get_mut(&session) else { return };
        let Some(Acquisition { stage, .. }) = record.acquisitions.remove(&number) else { return };
        let Stage::Releasing { reply: Some(reply), .. } = stage else { return };
        let outcome = match answer {
            Ok(Answer::Released(released)) => {
                match words::ended_from(released.ended).unwrap_or(Ended::Released) {
                    ended @ (Ended::Released | Ended::Forgotten) => Ok(Released { ended }),
                    other => Err(ReleaseError::NotHeld { ended: Some(other), superseded_by: None }),
                }
            }
            Ok(_) => Err(ReleaseError::Unavailable),
            Err(error) => Err(wire::release_error(error)),
        };
        let _ = reply.send(outcome);
    }

    fn cancelled(&mut self, session: u64, number: u64, answer: Result<Answer, v1::Error>, now: Instant) {
        let Some(record) = self.sessions.get_mut(&session) else { return };
        match answer {
            // Refused at the limit of remembered outcomes: a copy on its way could still acquire.
            Err(error) if wire::may_change(&error) => {
                self.outgoing.park(Op::Cancel { session, number }, None, now);
            }
            Ok(_) | Err(_) => {
                record.cancelling.remove(&number);
                record.decided(number);
            }
        }
    }

    fn event(&mut self, event: v1::Event) {
        let session = event.session;
        match event.what {
            Some(v1::event::What::Granted(grant)) => {
                if let Some(number) = grant.acquisition.as_ref().map(|id| id.number) {
                    self.granted(session, number, grant);
                }
            }
            Some(v1::event::What::WaitEnded(ended)) => {
                self.refused(session, ended.number, ended.error.unwrap_or_default());
            }
            // The guard learns it with the next answer that says so.
            Some(v1::event::What::HoldEnded(_)) => {}
            Some(v1::event::What::SessionEnded(ended)) => {
                let ended = words::ended_from(ended.ended).unwrap_or(Ended::Forgotten);
                self.lose(session, LostReason::Ended(ended));
            }
            Some(v1::event::What::Contended(contended)) => {
                let record = self.sessions.get(&session);
                let acquisition = record.and_then(|record| record.acquisitions.get(&contended.number));
                if let Some(Acquisition { stage: Stage::Holding { held }, .. }) = acquisition {
                    held.contend();
                }
            }
            None => {}
        }
    }
}

/// Whose lease an answer can renew, and whose end an error can tell.
fn session_of(op: &Op) -> Option<u64> {
    match op {
        Op::Bind { session }
        | Op::Close { session }
        | Op::Acquire { session, .. }
        | Op::Release { session, .. }
        | Op::Cancel { session, .. } => Some(*session),
        Op::Sequencer(ask) => Some(ask.held.acquisition.session.0),
        Op::Open { .. } | Op::CloseUnwanted { .. } | Op::Read(_) => None,
    }
}

/// None when the grant says what cannot be.
fn held(caller: &Caller, mut wire: v1::Grant) -> Option<Held> {
    let sequencer = match wire.sequencers.pop() {
        Some(signed) => OnceLock::from(signed),
        None => OnceLock::new(),
    };
    let grant = words::grant_from(&wire).ok()?;
    let part = grant.parts.into_iter().next()?;
    Some(Held {
        session: caller.session.clone(),
        acquisition: grant.acquisition,
        lock: part.lock,
        slot: part.slot,
        mode: part.mode,
        token: part.token,
        grant_index: grant.grant_index,
        lock_delay: Duration::from_millis(part.delay.0),
        sequencer,
        contended: AtomicBool::new(false),
        lost: OnceLock::new(),
        changed: Notify::new(),
    })
}
