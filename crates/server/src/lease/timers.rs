//! What the lease clock counts: each session, lock-delay, bounded wait and holder with a deadline, with one place in a
//! queue by time.
//!
//! A renewal is one update of a map: a session keeps its place when its deadline moves on, and finds a new one only
//! when the old one comes up.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use palisade_core::ids::{AcquisitionId, LockName, LogIndex, SessionId, Slot};
use palisade_host::Moment;

use super::deadlines::Holder;

/// Whose time it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Session(SessionId),
    Delay(LockName, Slot),
    Wait(AcquisitionId),
    Holder(AcquisitionId),
}

/// A time that begins anew with each renewal.
#[derive(Debug)]
pub(super) struct Span {
    /// Stretched by the drift bound.
    pub(super) length: Duration,
    pub(super) deadline: Moment,
    /// What pauses added to the deadline since the last renewal.
    extended: Duration,
}

/// What of its owner is undecided, and until when that counts.
#[derive(Debug, Default)]
pub(super) struct Held {
    count: u32,
    until: Moment,
}

/// A session's lease.
#[derive(Debug)]
pub(super) struct Lease {
    /// Its length is the TTL.
    pub(super) span: Span,
    /// The last command that this leader has applied.
    pub(super) last_command: LogIndex,
    /// Commands and keepalives that are undecided.
    pub(super) held: Held,
    /// The last command on which an expiry that is not decided yet was decided.
    pub(super) marked: Option<LogIndex>,
    /// Where it stands in the queue: at its deadline, or wherever it must be looked at next.
    pub(super) place: Moment,
}

/// A lock-delay.
#[derive(Debug)]
pub(super) struct DelayTimer {
    pub(super) began: LogIndex,
    pub(super) deadline: Moment,
    pub(super) place: Moment,
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub(super) struct Timers {
    pub(super) sessions: HashMap<SessionId, Lease>,
    pub(super) delays: HashMap<(LockName, Slot), DelayTimer>,
    /// Bounded waits, with their places.
    pub(super) waits: HashMap<AcquisitionId, Moment>,
    /// Holders that named a deadline.
    pub(super) holders: HashMap<AcquisitionId, Holder>,
    queue: BTreeSet<(Moment, Key)>,
}

impl Timers {
    /// When something must be looked at.
    pub(super) fn next(&self) -> Option<Moment> {
        self.queue.first().map(|(place, _)| *place)
    }

    /// Takes what must be looked at out of the queue; `put_back` gives it its next place.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Key> {
        let (place, _) = self.queue.first()?;
        if *place > now {
            return None;
        }
        self.queue.pop_first().map(|(_, key)| key)
    }

    /// Gives what was taken out its next place.
    pub(super) fn put_back(&mut self, key: Key, place: Moment) {
        self.set_place(&key, place);
        self.queue.insert((place, key));
    }

    /// Moves what stands in the queue to another place.
    pub(super) fn move_to(&mut self, key: Key, place: Moment) {
        let Some(earlier) = self.set_place(&key, place) else { return };
        let mut entry = (earlier, key);
        self.queue.remove(&entry);
        entry.0 = place;
        self.queue.insert(entry);
    }

    pub(super) fn insert_session(&mut self, id: SessionId, lease: Lease) {
        self.forget_session(id);
        self.queue.insert((lease.place, Key::Session(id)));
        self.sessions.insert(id, lease);
    }

    pub(super) fn insert_delay(&mut self, lock: &LockName, slot: Slot, began: LogIndex, deadline: Moment) {
        self.forget_delay(lock, slot);
        self.queue.insert((deadline, Key::Delay(lock.clone(), slot)));
        self.delays.insert((lock.clone(), slot), DelayTimer { began, deadline, place: deadline });
    }

    pub(super) fn insert_wait(&mut self, acquisition: AcquisitionId, place: Moment) {
        self.forget_wait(acquisition);
        self.queue.insert((place, Key::Wait(acquisition)));
        self.waits.insert(acquisition, place);
    }

    pub(super) fn insert_holder(&mut self, acquisition: AcquisitionId, holder: Holder) {
        self.forget_holder(acquisition);
        self.queue.insert((holder.place, Key::Holder(acquisition)));
        self.holders.insert(acquisition, holder);
    }

    pub(super) fn forget_session(&mut self, id: SessionId) {
        if let Some(lease) = self.sessions.remove(&id) {
            self.queue.remove(&(lease.place, Key::Session(id)));
        }
    }

    pub(super) fn forget_delay(&mut self, lock: &LockName, slot: Slot) {
        if let Some(timer) = self.delays.remove(&(lock.clone(), slot)) {
            self.queue.remove(&(timer.place, Key::Delay(lock.clone(), slot)));
        }
    }

    pub(super) fn forget_wait(&mut self, acquisition: AcquisitionId) {
        if let Some(place) = self.waits.remove(&acquisition) {
            self.queue.remove(&(place, Key::Wait(acquisition)));
        }
    }

    pub(super) fn forget_holder(&mut self, acquisition: AcquisitionId) {
        if let Some(holder) = self.holders.remove(&acquisition) {
            self.queue.remove(&(holder.place, Key::Holder(acquisition)));
        }
    }

    /// Where it stood; none when nothing of the kind is counted.
    fn set_place(&mut self, key: &Key, place: Moment) -> Option<Moment> {
        let stood = match key {
            Key::Session(id) => self.sessions.get_mut(id).map(|lease| &mut lease.place),
            Key::Delay(lock, slot) => {
                self.delays.get_mut(&(lock.clone(), *slot)).map(|timer| &mut timer.place)
            }
            Key::Wait(acquisition) => self.waits.get_mut(acquisition),
            Key::Holder(acquisition) => self.holders.get_mut(acquisition).map(|holder| &mut holder.place),
        };
        stood.map(|stood| std::mem::replace(stood, place))
    }
}

impl Span {
    /// A full one from now.
    pub(super) fn new(now: Moment, length: Duration) -> Self {
        Self { length, deadline: now + length, extended: Duration::ZERO }
    }

    /// Counts from the receipt of a renewal; never shortens.
    pub(super) fn renew(&mut self, received: Moment) {
        let earned = received + self.length;
        self.deadline = self.deadline.max(earned);
        self.extended = self.deadline.since(earned);
    }

    /// This node stood still for `gap`. By how much the deadline moved on: never beyond a full length from now, nor by
    /// more than one in sum between two renewals.
    pub(super) fn extend(&mut self, now: Moment, gap: Duration) -> Duration {
        let room = (now + self.length).since(self.deadline);
        let extension = gap.min(room).min(self.length.saturating_sub(self.extended));
        self.deadline = self.deadline + extension;
        self.extended += extension;
        extension
    }
}

impl Held {
    /// One more, which counts until then at most.
    pub(super) fn take(&mut self, until: Moment) {
        self.count += 1;
        self.until = self.until.max(until);
    }

    /// One of them is decided.
    pub(super) fn release(&mut self) {
        self.count = self.count.saturating_sub(1);
    }

    /// Whether nothing is undecided.
    pub(super) fn is_free(&self) -> bool {
        self.count == 0
    }

    /// When what is due at `deadline` must be looked at.
    pub(super) fn wakes(&self, deadline: Moment, now: Moment) -> Moment {
        if self.count > 0 && deadline <= now { self.until } else { deadline }
    }
}

impl Lease {
    /// The last command that an expiry must name, if the session is to expire; marks it.
    pub(super) fn due(&mut self, now: Moment) -> Option<LogIndex> {
        if self.marked.is_none() && now >= self.wakes(now) {
            self.marked = Some(self.last_command);
        }
        self.marked
    }

    /// When the session must be looked at again.
    pub(super) fn wakes(&self, now: Moment) -> Moment {
        self.held.wakes(self.span.deadline, now)
    }
}
