//! How acquisitions end: the one path for release, close, expiry, cancel and all that comes later.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{EndedSession, LockTable, Step};
use crate::event::Event;
use crate::history::EndedHold;
use crate::ids::{AcquisitionId, ClientName, RequestNumber, SessionId};
use crate::limits::ENDED_HELD_MAX;
use crate::lock::{Delay, OwedDelay, Predecessor, SlotState};
use crate::reply::Ended;
use crate::session::{Acquisition, AcquisitionState, ContentHash, HeldPart, Outcome, OutcomeHow, Session};
use crate::token::Token;

impl LockTable {
    /// Ends a session with everything it held or awaited.
    ///
    /// Locks lost by expiry enter lock-delay; those of a closed session are free at once (Burrows 2006, section 2.4).
    pub(super) fn end_session(&mut self, step: &mut Step, id: SessionId, ended: Ended) {
        let Some(session) = self.sessions.remove(&id) else { return };
        self.secrets.remove(&session.secret);
        for (number, acquisition) in session.acquisitions.iter() {
            let acquisition_id = AcquisitionId { session: id, number };
            self.end_acquisition(step, acquisition_id, &acquisition, &session.client, ended);
        }
        let held = session.held_tokens();
        self.remember_session(step, id, &session, held, ended);
    }

    /// How a session ended, and what it held then.
    pub(super) fn remember_session(
        &mut self,
        step: &mut Step,
        id: SessionId,
        session: &Session,
        held: Vec<(RequestNumber, Token)>,
        ended: Ended,
    ) {
        let memory = EndedSession {
            ended,
            end: step.at.index,
            ended_at: step.at.wall,
            held,
            client: session.client.clone(),
        };
        Arc::make_mut(&mut self.ended).remember(id, memory, self.header.limits.ended_sessions_max);
        step.events.push(Event::SessionEnded { session: id, ended });
    }

    /// Ends one acquisition of a live session, and remembers how.
    pub(super) fn end_one(&mut self, step: &mut Step, id: AcquisitionId, ended: Ended) {
        let Some(session) = self.sessions.get_mut(&id.session) else { return };
        let client = session.client.clone();
        if let Some((content, part)) = session.acquisitions.remove_plain(id.number) {
            session.remember_end(id.number, content, std::slice::from_ref(&part), ended);
            return self.end_holding(step, id, &part, &client, ended);
        }
        let Some(acquisition) = session.acquisitions.remove(id.number) else { return };
        session.remember_end(id.number, acquisition.content, acquisition.held(), ended);
        self.end_acquisition(step, id, &acquisition, &client, ended);
    }

    /// Ends some parts of an acquisition of a live session; with the last of them, the acquisition.
    pub(super) fn end_parts(&mut self, step: &mut Step, id: AcquisitionId, parts: &[HeldPart], ended: Ended) {
        let Some(session) = self.sessions.get_mut(&id.session) else { return };
        let client = session.client.clone();
        let Some(acquisition) = session.acquisitions.get_mut(id.number) else { return };
        let AcquisitionState::Holding { held, .. } = &mut acquisition.state else { return };
        if held.iter().all(|part| parts.contains(part)) {
            return self.end_one(step, id, ended);
        }
        held.retain(|part| !parts.contains(part));
        for part in parts {
            self.end_holding(step, id, part, &client, ended);
        }
    }

    fn end_acquisition(
        &mut self,
        step: &mut Step,
        id: AcquisitionId,
        acquisition: &Acquisition,
        client: &ClientName,
        ended: Ended,
    ) {
        match &acquisition.state {
            AcquisitionState::Waiting => self.leave_queues(step, id, acquisition, ended, None),
            AcquisitionState::Holding { held, .. } => {
                for part in held {
                    self.end_holding(step, id, part, client, ended);
                }
            }
            AcquisitionState::Kept { slots } => {
                let locks = slots.iter().map(|(lock, _)| lock.clone()).collect();
                step.events.push(Event::WaitEnded { acquisition: id, locks, ended, cycle: None });
                self.keep_no_longer(step, slots);
            }
        }
    }

    /// Takes one holder out of the tenure of one slot; with the last one, the tenure ends.
    pub(super) fn end_holding(
        &mut self,
        step: &mut Step,
        id: AcquisitionId,
        part: &HeldPart,
        client: &ClientName,
        ended: Ended,
    ) {
        let Some(lock) = self.locks.get_mut(&part.lock) else { return };
        let Some(SlotState::Held(tenure)) = lock.slots.get_mut(&part.slot) else { return };
        let Some(holder) = tenure.holders.remove(&id) else { return };
        let hold = EndedHold {
            number: 0,
            lock: part.lock.clone(),
            slot: part.slot,
            mode: tenure.mode,
            acquisition: id,
            client: client.clone(),
            token: tenure.token,
            grant: holder.grant,
            granted_at: holder.granted_at,
            ended,
            end: step.at.index,
            ended_at: step.at.wall,
        };
        if ended.delays() {
            let owed = OwedDelay { delay: holder.delay, guards: holder.fenced_by };
            tenure.owed = Some(Box::new(match tenure.owed.take() {
                None => owed,
                Some(earlier) => earlier.join(owed),
            }));
        }
        let token = tenure.token;
        let over = tenure.holders.is_empty();
        let owed = if over { tenure.owed.take().filter(|owed| owed.delay.0 > 0) } else { None };
        step.events.push(Event::HoldEnded {
            acquisition: id,
            lock: part.lock.clone(),
            slot: part.slot,
            token,
            ended,
        });
        if over {
            self.counts.held -= 1;
            step.touched.push(part.lock.clone());
            match owed {
                None => {
                    lock.slots.remove(&part.slot);
                }
                Some(owed) => {
                    let delay = Delay {
                        began: step.at.index,
                        began_at: step.at.wall,
                        ended: token,
                        delay: owed.delay,
                        guards: owed.guards,
                        confirmed: BTreeSet::new(),
                        kept_for: None,
                    };
                    step.events.push(Event::DelayStarted {
                        lock: part.lock.clone(),
                        slot: part.slot,
                        began: delay.began,
                        delay: delay.delay,
                    });
                    lock.slots.insert(part.slot, SlotState::Delayed(Box::new(delay)));
                    self.counts.delayed += 1;
                }
            }
        }
        self.remember_hold(step, hold);
        let predecessor = Predecessor {
            slot: part.slot,
            acquisition: id,
            client: client.clone(),
            token,
            ended,
            end: step.at.index,
            ended_at: step.at.wall,
        };
        let bounds = self.memory_bounds();
        self.slot_memories.remember(&part.lock, predecessor, bounds);
    }
}

impl LockTable {
    /// How a held part ended, for its lock's history. A cluster of version 1 has none.
    fn remember_hold(&mut self, step: &Step, hold: EndedHold) {
        if self.knows(2) {
            self.history.remember(hold);
        } else {
            self.history.begin_after(step.at.index);
        }
    }
}

impl Session {
    /// What a repeat of a request that is over is told, unless the client will not repeat it.
    fn remember_end(&mut self, number: RequestNumber, content: ContentHash, held: &[HeldPart], ended: Ended) {
        if number >= self.mark {
            let held = held.iter().map(|part| (part.lock.clone(), part.slot, part.token)).collect();
            let how = OutcomeHow::Ended { ended, held };
            self.outcomes.insert(number, Outcome { content: Some(content), how });
        }
    }

    /// What it holds, up to `ENDED_HELD_MAX`, for the memory of how it ended.
    pub(super) fn held_tokens(&self) -> Vec<(RequestNumber, Token)> {
        // Of one that had ended in part, number and token do not tell which part is meant.
        let whole = self.acquisitions.iter().filter(|(_, acquisition)| acquisition.holds_all());
        let held = whole.flat_map(|(number, acquisition)| {
            let tokens: Vec<_> = acquisition.held().iter().map(|part| part.token).collect();
            tokens.into_iter().map(move |token| (number, token))
        });
        held.take(ENDED_HELD_MAX).collect()
    }
}

impl Acquisition {
    /// Whether it holds everything that it was granted, as it was granted; what is but one part may be downgraded.
    fn holds_all(&self) -> bool {
        let AcquisitionState::Holding { held, .. } = &self.state else { return false };
        let granted: usize = self.parts.iter().map(|part| part.permits as usize).sum();
        held.len() == granted && (granted == 1 || held.iter().all(|part| part.downgraded_from.is_none()))
    }
}

impl OwedDelay {
    /// The longest delay counts; guards skip it only if every member that left it named some.
    fn join(self, other: Self) -> Self {
        let guards = if self.guards.is_empty() || other.guards.is_empty() {
            Vec::new()
        } else {
            let mut guards = self.guards;
            guards.extend(other.guards);
            guards.sort();
            guards.dedup();
            guards
        };
        Self { delay: self.delay.max(other.delay), guards }
    }
}
