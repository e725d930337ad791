//! The events of recent entries, bounded by their number: what a watcher can go on from.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use palisade_core::floors::SlotStanding;
use palisade_core::ids::{Incarnation, WallTime};
use palisade_core::table::LockTable;
use palisade_proto::convert::watch::LockEvent;

/// Events of one entry at most. One that did more (the end of a session that held a great many locks) is a gap for its
/// watchers: a message that held it all would be too large.
const ENTRY_EVENTS_MAX: usize = 16_384;

/// What one entry did to locks.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    /// With the token base, as every index here.
    pub(super) index: u64,
    pub(super) wall: WallTime,
    pub(super) events: MostlyOne<LockEvent>,
    /// The slots that it moved, as they stood after it.
    pub(super) slots: MostlyOne<SlotStanding>,
}

/// One, most often, and then in place: what is kept comes back cold, and each allocation of it costs a wait for memory.
#[derive(Clone, Debug)]
pub(super) enum MostlyOne<T> {
    One(T),
    Others(Box<[T]>),
}

impl<T> From<Vec<T>> for MostlyOne<T> {
    fn from(all: Vec<T>) -> Self {
        match <[T; 1]>::try_from(all) {
            Ok([one]) => Self::One(one),
            Err(others) => Self::Others(others.into()),
        }
    }
}

impl<T> Deref for MostlyOne<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Others(others) => others,
        }
    }
}

/// A position is before what is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooOld;

/// Entries that did something, in order.
pub(super) struct EventLog {
    max: usize,
    incarnation: Option<Incarnation>,
    /// One behind the other in memory, which the oldest is let go from and the next is put into.
    entries: VecDeque<Happened>,
    /// Of all entries.
    events: usize,
    /// Every event after this index is here.
    kept_after: u64,
    /// The last applied index.
    applied: u64,
}

impl EventLog {
    pub(super) fn new(max: usize) -> Self {
        Self { max, incarnation: None, entries: VecDeque::new(), events: 0, kept_after: 0, applied: 0 }
    }

    /// The cluster is the one that the table says. Nothing happened to locks before.
    pub(super) fn founded(&mut self, table: &LockTable) {
        self.incarnation = table.header().founding.as_ref().map(|founding| founding.incarnation);
    }

    /// Begins anew after `index`, with what the table says of the cluster.
    pub(super) fn begin(&mut self, table: &LockTable, index: u64) {
        self.founded(table);
        self.forget(index);
    }

    /// Nothing up to `index` is known any more.
    fn forget(&mut self, index: u64) {
        self.entries.clear();
        self.events = 0;
        self.kept_after = index;
        self.applied = index;
    }

    /// The next entry.
    pub(super) fn append(
        &mut self,
        index: u64,
        wall: WallTime,
        events: Vec<LockEvent>,
        slots: Vec<SlotStanding>,
    ) {
        if events.len() > ENTRY_EVENTS_MAX {
            return self.forget(index);
        }
        self.applied = index;
        if events.is_empty() {
            return;
        }
        self.events += events.len();
        // First room, then the new one: a queue that is full for a moment would double.
        while self.events > self.max {
            let Some(oldest) = self.entries.pop_front() else { return self.forget(index) };
            self.events -= oldest.events.len();
            self.kept_after = oldest.index;
        }
        self.entries.push_back(Happened { index, wall, events: events.into(), slots: slots.into() });
    }

    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation
    }

    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    /// The next entries after a position, at most `max`.
    pub(super) fn after(&self, position: u64, max: usize) -> Result<Vec<Arc<Happened>>, TooOld> {
        if position < self.kept_after {
            return Err(TooOld);
        }
        let from = self.entries.partition_point(|entry| entry.index <= position);
        Ok(self.entries.range(from..).take(max).cloned().map(Arc::new).collect())
    }
}

#[cfg(test)]
mod tests {
    use palisade_core::ids::{AcquisitionId, ClientName, LockName, RequestNumber, SessionId};
    use palisade_proto::convert::watch::What;

    use super::*;

    fn events(count: usize) -> Vec<LockEvent> {
        let acquisition = AcquisitionId { session: SessionId(1), number: RequestNumber(1) };
        let who = (acquisition, ClientName::unnamed());
        let lock = LockName::new("l").expect("a name");
        vec![LockEvent { lock, what: What::Queued(who) }; count]
    }

    fn indexes(log: &EventLog, after: u64) -> Result<Vec<u64>, TooOld> {
        log.after(after, 100).map(|entries| entries.iter().map(|entry| entry.index).collect())
    }

    #[test]
    fn what_fell_out_cannot_be_gone_on_from() {
        let mut log = EventLog::new(4);
        for index in 1..=3 {
            log.append(index, WallTime(0), events(2), Vec::new());
        }
        assert_eq!(indexes(&log, 0), Err(TooOld));
        assert_eq!(indexes(&log, 1), Ok(vec![2, 3]));
        assert_eq!(indexes(&log, 2), Ok(vec![3]));
        assert_eq!(indexes(&log, 3), Ok(vec![]));
        assert_eq!(log.after(1, 1).map(|entries| entries.len()), Ok(1));
    }

    #[test]
    fn entries_that_did_nothing_cost_nothing_and_move_the_end() {
        let mut log = EventLog::new(2);
        log.append(1, WallTime(0), events(1), Vec::new());
        for index in 2..1_000 {
            log.append(index, WallTime(0), Vec::new(), Vec::new());
        }
        assert_eq!((indexes(&log, 0), log.applied()), (Ok(vec![1]), 999));
    }

    #[test]
    fn an_entry_that_did_too_much_is_a_gap() {
        let mut log = EventLog::new(1 << 20);
        log.append(1, WallTime(0), events(1), Vec::new());
        log.append(2, WallTime(0), events(ENTRY_EVENTS_MAX + 1), Vec::new());
        log.append(3, WallTime(0), events(ENTRY_EVENTS_MAX), Vec::new());
        assert_eq!((indexes(&log, 1), indexes(&log, 2)), (Err(TooOld), Ok(vec![3])));
    }

    #[test]
    fn a_snapshot_is_a_gap() {
        let mut log = EventLog::new(100);
        log.append(1, WallTime(0), events(1), Vec::new());
        log.begin(&LockTable::new(), 50);
        assert_eq!((indexes(&log, 1), indexes(&log, 50)), (Err(TooOld), Ok(vec![])));
        assert_eq!(log.applied(), 50);
    }
}
