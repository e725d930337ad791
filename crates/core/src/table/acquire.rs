use super::admission::Admission;
use super::grant::Came;
use super::{LockTable, Step};
use crate::command::{Acquire, Terms};
use crate::event::Event;
use crate::ids::{AcquisitionId, RequestNumber};
use crate::lock::{Lock, SlotState};
use crate::reply::{BadArgument, Refusal, Reply};
use crate::session::{Acquisition, AcquisitionState, ContentHash, Outcome, OutcomeHow, Session};

/// A request, and what all of it together is known by.
pub(super) struct Asked<'a> {
    pub(super) request: &'a Acquire,
    pub(super) terms: &'a Terms,
    content: ContentHash,
}

impl LockTable {
    /// Asks for locks: grants them, queues for them, or refuses, once for each number (SPEC 4 and 6).
    ///
    /// Several locks, and several permits of one, are asked for in one step: the acquisition has one place, the index of
    /// its entry, in each of its queues, and holds nothing before it holds everything.
    pub(super) fn acquire(&mut self, step: &mut Step, request: &Acquire, terms: &Terms) -> Reply {
        let Some(session) = self.sessions.get_mut(&request.session) else {
            return Reply::Refused(self.no_session(request.session));
        };
        session.raise_mark(request.mark);
        let Some(number) = request.number.or_else(|| session.next_number()) else {
            return Reply::Refused(Refusal::BadArgument(BadArgument::NumberReused));
        };
        let id = AcquisitionId { session: request.session, number };
        let asked = Asked { request, terms, content: ContentHash::of(request, terms) };
        let Some(session) = self.sessions.get(&id.session) else {
            return Reply::Refused(self.no_session(id.session));
        };
        if let Some(reply) = self.known(session, id, &asked) {
            return reply;
        }
        if let Err(refusal) = self.well_formed(&asked, number) {
            return Reply::Refused(refusal);
        }
        if let Err(refusal) = self.remembers_one_more(session) {
            return Reply::Refused(refusal);
        }
        match self.admit(step, session, request, id) {
            Ok(Admission::Grant) => self.grant_new(step, &asked, id),
            Ok(Admission::Queue) => self.enqueue(step, &asked, id),
            Err(refusal) => {
                // Remembered, so that a copy that was delayed on the way cannot acquire later.
                if let Some(session) = self.sessions.get_mut(&id.session) {
                    session.highest = session.highest.max(number);
                    let how = OutcomeHow::Refused(Box::new(refusal.clone()));
                    session.outcomes.insert(number, Outcome { content: Some(asked.content), how });
                }
                step.events.push(Event::Refused { session: id.session, refusal: refusal.clone() });
                Reply::Refused(refusal)
            }
        }
    }

    /// The answer to a number that was seen before, or that the mark has passed.
    fn known(&self, session: &Session, id: AcquisitionId, asked: &Asked<'_>) -> Option<Reply> {
        let reused = Reply::Refused(Refusal::BadArgument(BadArgument::NumberReused));
        if let Some(acquisition) = session.acquisitions.get(id.number) {
            if acquisition.content != asked.content {
                return Some(reused);
            }
            return Some(match &acquisition.state {
                AcquisitionState::Waiting | AcquisitionState::Kept { .. } => {
                    Reply::Queued { acquisition: id, place: self.place(&acquisition) }
                }
                AcquisitionState::Holding { .. } => Reply::Granted(self.grant_of(id, &acquisition)),
            });
        }
        if let Some(outcome) = session.outcomes.get(&id.number) {
            if outcome.content.is_some_and(|known| known != asked.content) {
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

    fn grant_new(&mut self, step: &mut Step, asked: &Asked<'_>, id: AcquisitionId) -> Reply {
        let mut acquisition = self.arrived(step, asked);
        let Some(grant) = self.take_places(step, id, &mut acquisition, Came::AtOnce) else {
            return Reply::Refused(Refusal::SessionUnknown);
        };
        self.put_new(id, acquisition);
        step.events.push(Event::Granted { grant: grant.clone(), waited: false });
        Reply::Granted(grant)
    }

    fn enqueue(&mut self, step: &mut Step, asked: &Asked<'_>, id: AcquisitionId) -> Reply {
        let acquisition = self.arrived(step, asked);
        self.put_new(id, acquisition);
        self.counts.waiting += 1;
        let mut place = 1;
        for part in &asked.request.parts {
            let lock = self.locks.get_or_insert_with(&part.lock, || Lock::new(part.capacity));
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
            locks: asked.request.parts.iter().map(|part| part.lock.clone()).collect(),
            wait: asked.request.wait,
        });
        Reply::Queued { acquisition: id, place }
    }

    /// A new acquisition, which waits until it holds.
    fn arrived(&self, step: &Step, asked: &Asked<'_>) -> Acquisition {
        Acquisition {
            content: asked.content,
            parts: self.settled(&asked.request.parts),
            wait: asked.request.wait,
            owner: asked.request.owner.clone(),
            terms: asked.terms.clone(),
            metadata_revision: 0,
            arrived: step.at.index,
            arrived_at: step.at.wall,
            state: AcquisitionState::Waiting,
        }
    }

    fn put_new(&mut self, id: AcquisitionId, acquisition: Acquisition) {
        if let Some(session) = self.sessions.get_mut(&id.session) {
            session.highest = session.highest.max(id.number);
            session.acquisitions.insert(id.number, acquisition);
        }
    }

    /// Of all its queues, the worst.
    fn place(&self, acquisition: &Acquisition) -> u32 {
        let places = acquisition.parts.iter().filter_map(|part| self.locks.get(&part.lock));
        places.map(|lock| lock.queue.place(acquisition.arrived)).max().unwrap_or(1)
    }
}

impl Session {
    /// Forgets what the client will not repeat. The mark never goes back.
    pub(super) fn raise_mark(&mut self, mark: RequestNumber) {
        if mark <= self.mark {
            return;
        }
        self.mark = mark;
        while let Some(first) = self.outcomes.first_entry()
            && *first.key() < mark
        {
            first.remove();
        }
    }

    /// The number of a request that brought none; none is left once the client has used the largest.
    pub(super) fn next_number(&self) -> Option<RequestNumber> {
        let known = self.highest.max(RequestNumber(self.mark.0.saturating_sub(1)));
        known.0.checked_add(1).map(RequestNumber)
    }

    /// Outcomes kept, and those that what waits or holds will leave.
    pub(crate) fn remembered(&self) -> usize {
        self.outcomes.len() + self.acquisitions.count_from(self.mark)
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
