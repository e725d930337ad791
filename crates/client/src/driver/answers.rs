//! What comes back: answers to requests, and what happens to sessions without their asking.

use palisade_core::ids::Slot;
use palisade_core::reply::Ended;
use palisade_proto::convert::{ErrorName, words};
use palisade_proto::v1;
use palisade_proto::v1::response::Result as Answer;
use tokio::time::Instant;

use super::Driver;
use super::outgoing::Op;
use crate::client::Answered;
use crate::error::LostReason;
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
        let unanswered = self.outgoing.has_unanswered() || !self.renewals.is_empty();
        self.unanswered_since = unanswered.then_some(now);
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
            Op::Open { .. } => self.answer(op, Err(error), Instant::now()),
            Op::Ask(ask) if ask.session.is_none() => {
                self.answer(Op::Ask(ask), Err(error), Instant::now());
            }
            other => {
                if let Some(session) = session_of(&other) {
                    self.bind_again(session, other);
                }
            }
        }
    }

    fn session_over(&mut self, op: Op, reason: LostReason, error: v1::Error) {
        // A release that came too late is answered by who came after it, not by the end of the session alone.
        if let Op::Change { session, number, place } = op
            && error.holder.is_some()
        {
            self.changed(session, number, place, Err(error));
        }
        if let Some(session) = session_of(&op) {
            self.lose(session, reason);
        }
        if let Op::Ask(mut ask) = op
            && let Some(reply) = ask.reply.take()
        {
            let _ = reply.send(Err(crate::error::CallError::SessionLost(reason)));
        }
    }

    fn answer(&mut self, op: Op, answer: Result<Answer, v1::Error>, now: Instant) {
        match op {
            Op::Open { key, purpose } => self.opened(key, purpose, answer),
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
            Op::Change { session, number, place } => self.changed(session, number, place, answer),
            Op::Cancel { session, number } => self.cancelled(session, number, answer, now),
            Op::Ask(mut ask) => {
                if let Some(reply) = ask.reply.take() {
                    let _ = reply.send(Ok(Answered { sent: ask.first_sent.unwrap_or_default(), answer }));
                }
            }
        }
    }

    fn cancelled(&mut self, session: u64, number: u64, answer: Result<Answer, v1::Error>, now: Instant) {
        let Some(record) = self.sessions.get_mut(&session) else { return };
        match answer {
            // Refused at the limit of remembered outcomes: a copy on its way could still acquire.
            Err(error) if wire::may_change(&error) => {
                self.outgoing.park(Op::Cancel { session, number }, None, now);
            }
            answer => {
                record.cancelling.remove(&number);
                record.decided(number);
                // One that is wanted still was taken over, and had ended: this tells how.
                let error = match answer {
                    Ok(Answer::Cancelled(cancelled)) => {
                        v1::Error { ended: cancelled.ended, ..ErrorName::AlreadyEnded.error("it had ended") }
                    }
                    Ok(_) => return,
                    Err(error) => error,
                };
                self.refused(session, number, error);
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
            Some(v1::event::What::HoldEnded(hold)) => {
                if let Some(holding) = self.holding(session, hold.number) {
                    let ended = words::ended_from(hold.ended);
                    holding.taken(&hold.lock, Slot(hold.slot), hold.token, ended);
                }
                self.forget_what_is_over(session, hold.number);
            }
            Some(v1::event::What::SessionEnded(ended)) => {
                let ended = words::ended_from(ended.ended).unwrap_or(Ended::Forgotten);
                self.lose(session, LostReason::Ended(ended));
            }
            Some(v1::event::What::Contended(contended)) => {
                if let Some(holding) = self.holding(session, contended.number) {
                    holding.contended(&contended.lock);
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
        | Op::Change { session, .. }
        | Op::Cancel { session, .. } => Some(*session),
        Op::Ask(ask) => ask.session.as_ref().map(|session| session.id().0),
        Op::Open { .. } | Op::CloseUnwanted { .. } => None,
    }
}
