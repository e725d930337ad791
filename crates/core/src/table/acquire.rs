use super::{LockTable, Step};
use crate::command::{Acquire, Terms, Wait};
use crate::event::Event;
use crate::ids::{AcquisitionId, RequestNumber};
use crate::limits::{CAPACITY_MAX, GUARDS_MAX, LOCK_DELAY_MAX, PARTS_MAX, WAIT_MAX};
use crate::lock::{Lock, SlotState};
use crate::mode::Mode;
use crate::reply::{BadArgument, LimitName, NotYet, Refusal, Reply};
use crate::session::{Acquisition, AcquisitionState, ContentHash, Outcome, OutcomeHow};

impl LockTable {
    /// Asks for a lock: grants it, queues for it, or refuses it, once for each number (SPEC 4 and 6).
    pub(super) fn acquire(&mut self, step: &mut Step, request: &Acquire) -> Reply {
        let Some(session) = self.sessions.get_mut(&request.session) else {
            return Reply::Refused(self.no_session(request.session));
        };
        session.last_command = step.at.index;
        session.raise_mark(request.mark);
        let Some(number) = request.number.or_else(|| session.next_number()) else {
            return Reply::Refused(Refusal::BadArgument(BadArgument::NumberReused));
        };
        let id = AcquisitionId { session: request.session, number };
        if let Some(reply) = self.known(id, request) {
            return reply;
        }
        if let Err(refusal) = well_formed(request, number) {
            return Reply::Refused(refusal);
        }
        if let Err(refusal) = self.remembers_one_more(id) {
            return Reply::Refused(refusal);
        }
        match self.admit(request, id) {
            Ok(Admission::Grant) => self.grant_new(step, request, id),
            Ok(Admission::Queue) => self.enqueue(step, request, id),
            Err(refusal) => {
                // Remembered, so that a copy that was delayed on the way cannot acquire later.
                if let Some(session) = self.sessions.get_mut(&id.session) {
                    session.highest = session.highest.max(number);
                    let how = OutcomeHow::Refused(Box::new(refusal.clone()));
                    session.outcomes.insert(
                        number,
                        Outcome { content: Some(ContentHash::of(request, &Terms::default())), how },
                    );
                }
                step.events.push(Event::Refused { session: id.session, refusal: refusal.clone() });
                Reply::Refused(refusal)
            }
        }
    }

    /// The answer to a number that was seen before, or that the mark has passed.
    fn known(&self, id: AcquisitionId, request: &Acquire) -> Option<Reply> {
        let session = self.sessions.get(&id.session)?;
        let content = ContentHash::of(request, &Terms::default());
        let reused = Reply::Refused(Refusal::BadArgument(BadArgument::NumberReused));
        if let Some(acquisition) = session.acquisitions.get(&id.number) {
            if acquisition.content != content {
                return Some(reused);
            }
            return Some(match &acquisition.state {
                AcquisitionState::Waiting | AcquisitionState::Kept { .. } => {
                    Reply::Queued { acquisition: id, place: self.place(acquisition) }
                }
                AcquisitionState::Holding { .. } => Reply::Granted(self.grant_of(id, acquisition)),
            });
        }
        if let Some(outcome) = session.outcomes.get(&id.number) {
            if outcome.content.is_some_and(|known| known != content) {
                return Some(reused);
            }
            return Some(Reply::Refused(match &outcome.how {
                OutcomeHow::Refused(refusal) => (**refusal).clone(),
                OutcomeHow::Ended { ended, held } => Refusal::AlreadyEnded {
                    ended: *ended,
                    superseded: held.first().and_then(|(lock, slot, _)| self.holder_of(lock, *slot)),
                },
            }));
        }
        (id.number < session.mark).then_some(Reply::Refused(Refusal::BelowMark { mark: session.mark }))
    }

    fn remembers_one_more(&self, id: AcquisitionId) -> Result<(), Refusal> {
        let limits = &self.header.limits;
        let Some(session) = self.sessions.get(&id.session) else { return Err(self.no_session(id.session)) };
        if session.remembered() >= limits.outcomes_per_session_max as usize {
            let max = limits.outcomes_per_session_max.into();
            return Err(Refusal::LimitReached { limit: LimitName::OutcomesPerSession, max });
        }
        Ok(())
    }

    /// Whether a new request is granted at once, queues, or is refused.
    fn admit(&self, request: &Acquire, id: AcquisitionId) -> Result<Admission, Refusal> {
        let limits = &self.header.limits;
        let session = self.sessions.get(&id.session).ok_or(Refusal::SessionUnknown)?;
        let max = limits.acquisitions_per_session_max;
        if session.acquisitions.len() >= max as usize {
            return Err(Refusal::LimitReached { limit: LimitName::AcquisitionsPerSession, max: max.into() });
        }
        let mut fits = true;
        for part in &request.parts {
            let Some(lock) = self.locks.get(&part.lock) else {
                if self.locks.len() as u64 >= limits.locks_max {
                    return Err(Refusal::LimitReached { limit: LimitName::Locks, max: limits.locks_max });
                }
                continue;
            };
            if lock.capacity != part.capacity {
                return Err(Refusal::CapacityDiffers { lock: lock.capacity, asked: part.capacity });
            }
            // A try never overtakes a waiter.
            if lock.queue.is_empty() && lock.free_slot().is_some() {
                continue;
            }
            if request.wait == Wait::Try {
                return Err(self.why_not_now(lock));
            }
            let max = limits.waiters_per_lock_max;
            if lock.queue.len() >= max {
                return Err(Refusal::LimitReached { limit: LimitName::WaitersPerLock, max: max.into() });
            }
            fits = false;
        }
        Ok(if fits { Admission::Grant } else { Admission::Queue })
    }

    fn why_not_now(&self, lock: &Lock) -> Refusal {
        let waiting = lock.queue.len();
        for state in lock.slots.values() {
            match state {
                SlotState::Held(tenure) => {
                    if let Some(holder) = self.tenure_holder(tenure) {
                        return Refusal::Held { holder: Box::new(holder), waiting };
                    }
                }
                SlotState::Delayed(delay) => {
                    return Refusal::InLockDelay {
                        began: self.header.token_base.at(delay.began),
                        delay: delay.delay,
                        ended: delay.ended,
                    };
                }
            }
        }
        Refusal::Queue { waiting }
    }

    fn grant_new(&mut self, step: &mut Step, request: &Acquire, id: AcquisitionId) -> Reply {
        self.arrive(step, request, id);
        match self.grant_acquisition(step, id, false) {
            Some(grant) => Reply::Granted(grant),
            None => Reply::Refused(Refusal::SessionUnknown),
        }
    }

    fn enqueue(&mut self, step: &mut Step, request: &Acquire, id: AcquisitionId) -> Reply {
        self.arrive(step, request, id);
        self.counts.waiting += 1;
        let mut place = 1;
        for part in &request.parts {
            if self.locks.get(&part.lock).is_none() {
                self.locks.insert(part.lock.clone(), Lock::new(part.capacity));
            }
            let Some(lock) = self.locks.get_mut(&part.lock) else { continue };
            if lock.queue.is_empty() {
                for holder in lock.slots.values().filter_map(SlotState::tenure).flat_map(|t| t.holders.keys())
                {
                    step.events.push(Event::Contended { holder: *holder, lock: part.lock.clone() });
                }
            }
            lock.queue.push(step.at.index, id);
            place = place.max(lock.queue.len());
        }
        step.events.push(Event::Queued {
            acquisition: id,
            locks: request.parts.iter().map(|part| part.lock.clone()).collect(),
            wait: request.wait,
        });
        Reply::Queued { acquisition: id, place }
    }

    fn arrive(&mut self, step: &Step, request: &Acquire, id: AcquisitionId) {
        let Some(session) = self.sessions.get_mut(&id.session) else { return };
        session.highest = session.highest.max(id.number);
        let acquisition = Acquisition {
            content: ContentHash::of(request, &Terms::default()),
            parts: request.parts.clone(),
            wait: request.wait,
            owner: request.owner.clone(),
            terms: Terms::default(),
            metadata_revision: 0,
            arrived: step.at.index,
            arrived_at: step.at.wall,
            state: AcquisitionState::Waiting,
        };
        session.acquisitions.insert(id.number, acquisition);
    }

    fn place(&self, acquisition: &Acquisition) -> u32 {
        let places = acquisition.parts.iter().filter_map(|part| self.locks.get(&part.lock));
        places.map(|lock| lock.queue.place(acquisition.arrived)).max().unwrap_or(1)
    }
}

enum Admission {
    Grant,
    Queue,
}

/// What no state of the table could make right.
fn well_formed(request: &Acquire, number: RequestNumber) -> Result<(), Refusal> {
    let bad = |what| Err(Refusal::BadArgument(what));
    if number == RequestNumber(0) {
        return bad(BadArgument::NumberZero);
    }
    if request.parts.is_empty() || request.parts.len() > PARTS_MAX {
        return bad(BadArgument::Parts);
    }
    if let Wait::Bounded(bound) = request.wait
        && (bound.0 == 0 || bound > WAIT_MAX)
    {
        return bad(BadArgument::Wait);
    }
    for (at, part) in request.parts.iter().enumerate() {
        if request.parts[..at].iter().any(|earlier| earlier.lock == part.lock) {
            return bad(BadArgument::LockTwice);
        }
        if part.capacity == 0 || part.capacity > CAPACITY_MAX {
            return bad(BadArgument::Capacity);
        }
        if part.permits == 0 || part.permits > part.capacity {
            return bad(BadArgument::Permits);
        }
        if part.delay.millis() > LOCK_DELAY_MAX {
            return bad(BadArgument::LockDelay);
        }
        if part.fenced_by.len() > GUARDS_MAX {
            return bad(BadArgument::Guards);
        }
        // The formats have a place for what follows; cluster version 1 refuses it.
        if part.mode == Mode::Shared {
            return Err(Refusal::NotYet(NotYet::SharedMode));
        }
        if part.capacity > 1 {
            return Err(Refusal::NotYet(NotYet::Semaphores));
        }
    }
    if request.parts.len() > 1 {
        return Err(Refusal::NotYet(NotYet::SeveralLocks));
    }
    Ok(())
}

impl crate::session::Session {
    /// Forgets what the client will not repeat. The mark never goes back.
    pub(super) fn raise_mark(&mut self, mark: RequestNumber) {
        if mark <= self.mark {
            return;
        }
        self.mark = mark;
        self.outcomes = self.outcomes.split_off(&mark);
    }

    /// The number of a request that brought none; none is left once the client has used the largest.
    pub(super) fn next_number(&self) -> Option<RequestNumber> {
        let known = self.highest.max(RequestNumber(self.mark.0.saturating_sub(1)));
        known.0.checked_add(1).map(RequestNumber)
    }

    /// Outcomes kept, and those that what waits or holds will leave.
    pub(crate) fn remembered(&self) -> usize {
        self.outcomes.len() + self.acquisitions.range(self.mark..).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::story::{DELAY, Story, ask, id, lock, refusal, token};

    #[test]
    fn a_free_lock_is_granted_under_the_index_of_its_entry() {
        let mut story = Story::begin();
        let a = story.open("a");
        let Reply::Granted(grant) = story.acquire(ask(a, 1, "l")) else { panic!("it is free") };
        assert_eq!((grant.acquisition, grant.grant_index), (id(a, 1), story.index));
        assert_eq!((grant.parts[0].token.get(), grant.parts[0].delay), (story.index, DELAY));
        assert_eq!(story.renewed, Some(a));
        assert_eq!(story.table.grant(id(a, 1)), Some(grant));
    }

    #[test]
    fn a_taken_lock_is_waited_for_in_order() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        story.holds(a, 1, "l");
        assert_eq!(story.acquire(ask(b, 1, "l")), Reply::Queued { acquisition: id(b, 1), place: 1 });
        assert!(story.events.contains(&Event::Contended { holder: id(a, 1), lock: lock("l") }));
        assert_eq!(story.acquire(ask(b, 2, "l")), Reply::Queued { acquisition: id(b, 2), place: 2 });
        assert_eq!(story.table.counts().waiting, 2);
        let queue = story.table.view(&lock("l")).queue;
        assert_eq!(queue.iter().map(|w| w.acquisition).collect::<Vec<_>>(), [id(b, 1), id(b, 2)]);
    }

    #[test]
    fn two_acquisitions_of_one_session_exclude_each_other() {
        let mut story = Story::begin();
        let a = story.open("a");
        story.holds(a, 1, "l");
        story.waits(a, 2, "l");
    }

    #[test]
    fn a_try_is_told_who_holds() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        let Refusal::Held { holder, waiting } = refusal(story.acquire(ask(b, 1, "l").trying())) else {
            panic!("it is held")
        };
        assert_eq!(
            (holder.acquisition, holder.token, holder.client.as_str(), waiting),
            (id(a, 1), held, "a", 0)
        );
        assert_eq!(story.table.counts().waiting, 0);
    }

    #[test]
    fn a_try_of_a_free_lock_is_granted() {
        let mut story = Story::begin();
        let a = story.open("a");
        token(&story.acquire(ask(a, 1, "l").trying()));
    }

    #[test]
    fn a_try_never_overtakes_a_waiter_in_a_lock_delay() {
        let mut story = Story::begin();
        let (a, b, c) = (story.open("a"), story.open("b"), story.open("c"));
        let ended = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.expire(&[a]);
        let (epoch, began) = (story.epoch(), story.index);
        let refused = refusal(story.acquire(ask(c, 1, "l").trying()));
        assert_eq!(refused, Refusal::InLockDelay { began, delay: DELAY, ended });
        story.end_lock_delay(epoch, "l", began);
        assert_eq!(story.granted(), [(b, 1)]);
    }

    #[test]
    fn b97_names_are_exact() {
        let mut story = Story::begin();
        let a = story.open("a");
        for (number, name) in (1..).zip(["xy", "xyz", "x", "xy/", "xy/z", "XY", "é", "e\u{301}"]) {
            story.holds(a, number, name);
        }
        assert_eq!(story.table.lock_count(), 8);
    }

    #[test]
    fn b70_b71_b62_tokens_never_go_back_when_a_lock_is_forgotten() {
        let mut story = Story::begin();
        let a = story.open("a");
        let mut last = None;
        for number in 1..=5 {
            let now = story.holds(a, number, "l");
            assert!(last < Some(now));
            last = Some(now);
            story.release(a, number, "l", now);
            assert_eq!(story.table.lock_count(), 0);
        }
    }

    #[test]
    fn a_request_without_a_number_takes_the_next() {
        let mut story = Story::begin();
        let a = story.open("a");
        story.holds(a, 7, "l");
        assert_eq!(
            story.acquire(ask(a, 1, "l").unnumbered()),
            Reply::Queued { acquisition: id(a, 8), place: 1 }
        );
        let Reply::Granted(grant) = story.acquire(ask(a, 1, "m").unnumbered().marked(20)) else {
            panic!("free")
        };
        assert_eq!(grant.acquisition, id(a, 20));
    }
}
