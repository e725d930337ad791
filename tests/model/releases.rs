//! How holders and waiters leave, in the reference: release, cancel (SPEC 4 and 6).

use palisade_core::command::Release;
use palisade_core::ids::{AcquisitionId, LockName, LogIndex, RequestNumber, Slot};
use palisade_core::reply::{BadArgument, CancelMet, Ended, Refusal, Reply};
use palisade_core::token::Token;

use super::endings::Closed;
use super::reference::{Reference, Request, State};

impl Reference {
    pub(super) fn release(&mut self, release: &Release) -> Result<Reply, Refusal> {
        let id = release.acquisition;
        let session = self.heard(id.session, release.part.as_ref())?;
        let (mark, highest) = (session.mark, session.highest);
        let Some(at) = self.known(id) else {
            let passed = id.number < mark && id.number <= highest;
            let others = Refusal::NotHeld { superseded: self.superseding(id, release.part.as_ref()) };
            return if passed { Ok(Reply::Released(Ended::Forgotten)) } else { Err(others) };
        };
        let request = &self.requests[at];
        let is_named =
            |lock, slot| release.part.as_ref().is_none_or(|part| (&part.0, part.1) == (lock, slot));
        let named: Vec<usize> = (0..request.holds.len())
            .filter(|hold| is_named(&request.holds[*hold].lock, request.holds[*hold].slot))
            .collect();
        let freed: Vec<usize> =
            named.iter().copied().filter(|hold| request.holds[*hold].end.is_none()).collect();
        if !freed.is_empty() && freed.iter().all(|hold| request.holds[*hold].token == release.token) {
            for hold in freed {
                self.end_hold(at, hold, Ended::Released, Closed::AsEnded);
            }
            return Ok(Reply::Released(Ended::Released));
        }
        if !named.iter().any(|hold| request.holds[*hold].end.is_none())
            && request.state == State::Holds
            && let Some((lock, slot)) = &release.part
            && let Some(how) = self.part_before(request, lock, *slot, release.token)
        {
            return self.part_ended(how, lock, *slot);
        }
        self.ended_before(at, release)
    }

    fn part_ended(&self, how: Ended, lock: &LockName, slot: Slot) -> Result<Reply, Refusal> {
        match how {
            Ended::Released | Ended::Cancelled | Ended::Forgotten => Ok(Reply::Released(how)),
            _ => Err(Refusal::AlreadyEnded { ended: how, superseded: self.shown(lock, slot) }),
        }
    }

    /// How a slot's last holder ended, if it was this one.
    pub(super) fn last_end(
        &self,
        id: AcquisitionId,
        lock: &LockName,
        slot: Slot,
        token: Token,
    ) -> Option<Ended> {
        let last = self.slots.get(lock, slot)?.last.as_ref()?;
        (last.acquisition == id && last.token == token).then_some(last.ended)
    }

    /// How a part ended of a request that goes on holding others, as far as that is remembered.
    pub(super) fn part_before(
        &self,
        request: &Request,
        lock: &LockName,
        slot: Slot,
        token: Token,
    ) -> Option<Ended> {
        if let Some(how) = self.last_end(request.id, lock, slot, token) {
            return Some(how);
        }
        let part = request.parts.iter().find(|part| part.lock == *lock)?;
        if let Some(hold) = request.holds_slot(lock, slot) {
            return (hold.downgraded_from == Some(token)).then_some(Ended::Released);
        }
        let still = request.held().filter(|hold| hold.lock == *lock).count();
        let fewer = still < part.permits as usize && token <= self.base.token(request.grant);
        fewer.then_some(Ended::Forgotten)
    }

    /// The answer to a release of what is not held so.
    fn ended_before(&self, at: usize, release: &Release) -> Result<Reply, Refusal> {
        let request = &self.requests[at];
        let State::Ended { how, at: end } = request.state else {
            let superseded = self.superseding(request.id, release.part.as_ref());
            return Err(Refusal::NotHeld { superseded });
        };
        let was = request.holds.iter().find(|hold| {
            hold.token == release.token
                && hold.end.is_some_and(|(_, at)| at == end)
                && release.part.as_ref().is_none_or(|part| (&part.0, part.1) == (&hold.lock, hold.slot))
        });
        let stale = Refusal::NotHeld { superseded: self.superseding(request.id, release.part.as_ref()) };
        match (was, &release.part) {
            (Some(hold), _) => self.part_ended(how, &hold.lock, hold.slot),
            (None, None) => Err(stale),
            (None, Some((lock, slot))) => match self.last_end(request.id, lock, *slot, release.token) {
                Some(how) => self.part_ended(how, lock, *slot),
                None => Err(stale),
            },
        }
    }

    /// Who holds a slot, if it is another.
    pub(super) fn superseding(
        &self,
        id: AcquisitionId,
        part: Option<&(palisade_core::ids::LockName, Slot)>,
    ) -> Option<Box<palisade_core::reply::HolderView>> {
        let (lock, slot) = part?;
        self.shown(lock, *slot).filter(|holder| holder.acquisition != id)
    }

    pub(super) fn cancel(&mut self, id: AcquisitionId) -> Result<Reply, Refusal> {
        let mark = self.heard(id.session, None)?.mark;
        if let Some(at) = self.known(id) {
            let met = match &self.requests[at].state {
                State::Waits | State::Kept(_) => CancelMet::Waiting,
                State::Holds => CancelMet::Holding,
                State::Ended { how, .. } => CancelMet::Ended(*how),
                State::Refused(_) => CancelMet::Ended(Ended::Refused),
            };
            self.end(at, Ended::Cancelled, Closed::AsEnded);
            return Ok(Reply::Cancelled(met));
        }
        if id.number == RequestNumber(0) {
            return Err(Refusal::BadArgument(BadArgument::NumberZero));
        }
        if id.number < mark {
            return Ok(Reply::Cancelled(CancelMet::Ended(Ended::Forgotten)));
        }
        self.room_for_outcome(id.session)?;
        self.seen(id);
        self.requests.push(Request {
            id,
            asked: None,
            parts: Vec::new(),
            metadata: Default::default(),
            metadata_revision: 0,
            reports: (None, None, 0),
            arrived: self.now,
            grant: LogIndex(0),
            state: State::Ended { how: Ended::Cancelled, at: self.now },
            holds: Vec::new(),
        });
        Ok(Reply::Cancelled(CancelMet::NotArrived))
    }
}
