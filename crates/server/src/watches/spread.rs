//! Spreads new events to the watchers that they concern, off the apply loop.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use palisade_core::ids::LockName;
use palisade_proto::convert::watch::Filter;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Watches;
use super::log::{Happened, TooOld};

/// Entries that are spread at a time.
const BATCH: usize = 256;

/// Who watches what, and how far events were spread.
#[derive(Default)]
pub(super) struct Registry {
    by_lock: HashMap<LockName, BTreeMap<u64, Arc<Watcher>>>,
    by_prefix: BTreeMap<u64, Arc<Watcher>>,
    next: u64,
    count: usize,
    /// Every event up to here was handed to whom it concerns.
    spread_to: u64,
}

/// One watcher's buffer.
pub(super) struct Watcher {
    id: u64,
    filter: Filter,
    buffer: Mutex<Buffer>,
    /// There is something in the buffer, or it is cut.
    woken: Notify,
}

#[derive(Default)]
struct Buffer {
    items: VecDeque<Item>,
    /// Of all items.
    events: usize,
    cut: bool,
}

/// What a watcher is handed.
pub(super) enum Item {
    /// An entry; some of its events concern this watcher.
    Entry(Arc<Happened>),
    /// Events are missing here.
    Gap,
}

/// The watcher did not take what it was sent, and hears no more.
pub(super) struct Cut;

impl Watcher {
    /// What came since the last call.
    pub(super) fn take(&self) -> Result<VecDeque<Item>, Cut> {
        let mut buffer = self.buffer.lock();
        if buffer.cut {
            return Err(Cut);
        }
        buffer.events = 0;
        Ok(std::mem::take(&mut buffer.items))
    }

    /// Returns when there may be something to take.
    pub(super) async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Returns when the watcher is cut.
    pub(super) async fn cut(&self) {
        while !self.buffer.lock().cut {
            self.woken.notified().await;
        }
    }

    /// False when there was no room.
    fn push(&self, item: Item, events: usize, max: usize) -> bool {
        let mut buffer = self.buffer.lock();
        if buffer.events + events > max && !buffer.items.is_empty() {
            *buffer = Buffer { cut: true, ..Buffer::default() };
        } else {
            buffer.events += events;
            buffer.items.push_back(item);
        }
        self.woken.notify_one();
        !buffer.cut
    }
}

impl Registry {
    fn add(&mut self, filter: Filter) -> Arc<Watcher> {
        let id = self.next;
        self.next += 1;
        self.count += 1;
        let watcher = Arc::new(Watcher { id, filter, buffer: Mutex::default(), woken: Notify::new() });
        match &watcher.filter {
            Filter::Lock(lock) => {
                self.by_lock.entry(lock.clone()).or_default().insert(id, watcher.clone());
            }
            Filter::Prefix(_) => {
                self.by_prefix.insert(id, watcher.clone());
            }
        }
        watcher
    }

    fn remove(&mut self, watcher: &Watcher) {
        let removed = match &watcher.filter {
            Filter::Lock(lock) => {
                let Some(of_lock) = self.by_lock.get_mut(lock) else { return };
                let removed = of_lock.remove(&watcher.id);
                if of_lock.is_empty() {
                    self.by_lock.remove(lock);
                }
                removed
            }
            Filter::Prefix(_) => self.by_prefix.remove(&watcher.id),
        };
        self.count -= usize::from(removed.is_some());
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Watcher>> {
        self.by_lock.values().flat_map(BTreeMap::values).chain(self.by_prefix.values())
    }

    /// The watchers that an entry concerns, each with how many of its events do.
    fn concerned(&self, entry: &Happened) -> BTreeMap<u64, (Arc<Watcher>, usize)> {
        let mut concerned: BTreeMap<u64, (Arc<Watcher>, usize)> = BTreeMap::new();
        let mut count = |watcher: &Arc<Watcher>| {
            concerned.entry(watcher.id).or_insert_with(|| (watcher.clone(), 0)).1 += 1;
        };
        for event in entry.events.iter() {
            self.by_lock.get(&event.lock).into_iter().flat_map(BTreeMap::values).for_each(&mut count);
            let prefixed = self.by_prefix.values().filter(|w| w.filter.concerns(event.lock.as_str()));
            prefixed.for_each(&mut count);
        }
        concerned
    }
}

impl Watches {
    /// Spreads for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.arrived.notified().await;
            while self.spread() {
                // Others want this thread, too.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Spreads one batch; whether there may be more.
    fn spread(&self) -> bool {
        let mut registry = self.registry.lock();
        let (batch, applied) = {
            let log = self.log.lock();
            if registry.count == 0 {
                registry.spread_to = log.applied();
                return false;
            }
            (log.after(registry.spread_to, BATCH), log.applied())
        };
        let Ok(entries) = batch else {
            // They see for themselves from where they can go on.
            for watcher in registry.all() {
                watcher.push(Item::Gap, 1, self.limits.buffer_max);
            }
            registry.spread_to = applied;
            return false;
        };
        let mut cut = Vec::new();
        for entry in &entries {
            for (watcher, events) in registry.concerned(entry).into_values() {
                if !watcher.push(Item::Entry(entry.clone()), events, self.limits.buffer_max) {
                    cut.push(watcher);
                }
            }
        }
        cut.iter().for_each(|watcher| registry.remove(watcher));
        self.watching.store(registry.count, Ordering::Relaxed);
        let more = entries.len() == BATCH;
        // What was read is all that had happened by then.
        registry.spread_to = if more { entries.last().map_or(applied, |entry| entry.index) } else { applied };
        more
    }

    /// From now on a watcher is handed what concerns it; and what it has to read itself: the entries after its
    /// position that were spread before.
    pub(super) fn register(
        &self,
        filter: &Filter,
        position: u64,
    ) -> Result<(Arc<Watcher>, Vec<Arc<Happened>>), TooOld> {
        let mut registry = self.registry.lock();
        let first = registry.count == 0;
        let watcher = registry.add(filter.clone());
        // Before the log is looked at: what is appended after that look is notified.
        self.watching.store(registry.count, Ordering::Relaxed);
        let log = self.log.lock();
        if first {
            registry.spread_to = log.applied();
        }
        let missed = match log.after(position, usize::MAX) {
            Ok(missed) => missed,
            Err(too_old) => {
                registry.remove(&watcher);
                self.watching.store(registry.count, Ordering::Relaxed);
                return Err(too_old);
            }
        };
        let spread_to = registry.spread_to;
        Ok((watcher, missed.into_iter().filter(|entry| entry.index <= spread_to).collect()))
    }

    pub(super) fn unregister(&self, watcher: &Watcher) {
        let mut registry = self.registry.lock();
        registry.remove(watcher);
        self.watching.store(registry.count, Ordering::Relaxed);
    }

    /// Up to where every event was handed to whom it concerns.
    pub(super) fn spread_to(&self) -> u64 {
        self.registry.lock().spread_to
    }
}

#[cfg(test)]
mod tests {
    use palisade_core::ids::{AcquisitionId, ClientName, RequestNumber, SessionId, WallTime};
    use palisade_core::table::LockTable;
    use palisade_proto::convert::watch::{LockEvent, What};

    use super::*;
    use crate::watches::WatchLimits;

    fn lock(name: &str) -> Filter {
        Filter::Lock(LockName::new(name).expect("a name"))
    }

    fn prefix(prefix: &str) -> Filter {
        Filter::Prefix(prefix.to_owned())
    }

    fn watches(buffer_max: usize) -> Arc<Watches> {
        Watches::new(WatchLimits { buffer_max, events_kept_max: 8, ..WatchLimits::default() })
    }

    /// An entry that did something to each of these locks.
    fn happen(watches: &Watches, index: u64, locks: &[&str]) {
        let acquisition = AcquisitionId { session: SessionId(1), number: RequestNumber(1) };
        let events = locks.iter().map(|name| LockEvent {
            lock: LockName::new(name).expect("a name"),
            what: What::Queued((acquisition, ClientName::unnamed())),
        });
        watches.log.lock().append(index, WallTime(0), events.collect(), Vec::new());
    }

    fn watch(watches: &Watches, filter: &Filter, position: u64) -> Arc<Watcher> {
        watches.register(filter, position).unwrap_or_else(|TooOld| panic!("too old")).0
    }

    /// The indexes that a watcher was handed; 0 for a gap. None when it is cut.
    fn taken(watcher: &Watcher) -> Option<Vec<u64>> {
        let items = watcher.take().ok()?;
        let index = |item: Item| match item {
            Item::Entry(entry) => entry.index,
            Item::Gap => 0,
        };
        Some(items.into_iter().map(index).collect())
    }

    #[test]
    fn b97_a_watcher_is_handed_what_concerns_it_and_nothing_else() {
        let watches = watches(100);
        let filters = [lock("a"), lock("a/b"), prefix("a/"), prefix(""), prefix("b")];
        let watchers = filters.map(|filter| watch(&watches, &filter, 0));
        happen(&watches, 1, &["a"]);
        happen(&watches, 2, &["a/b", "a/c"]);
        happen(&watches, 3, &["ab"]);
        happen(&watches, 4, &[]);
        assert!(!watches.spread());
        let handed: Vec<_> = watchers.iter().map(|watcher| taken(watcher).expect("not cut")).collect();
        assert_eq!(handed, [vec![1], vec![2], vec![2], vec![1, 2, 3], vec![]]);
        assert_eq!(watches.spread_to(), 4);
        watches.unregister(&watchers[3]);
        happen(&watches, 5, &["a"]);
        watches.spread();
        assert_eq!((taken(&watchers[3]), taken(&watchers[0])), (Some(vec![]), Some(vec![5])));
    }

    #[test]
    fn a_full_buffer_cuts_its_own_watcher_and_no_other() {
        let watches = watches(2);
        let (slow, reads) = (watch(&watches, &prefix(""), 0), watch(&watches, &prefix(""), 0));
        for index in 1..=3 {
            happen(&watches, index, &["a"]);
            watches.spread();
            assert_eq!(taken(&reads), Some(vec![index]));
        }
        assert_eq!(taken(&slow), None);
        happen(&watches, 4, &["a"]);
        watches.spread();
        assert_eq!((taken(&slow), taken(&reads)), (None, Some(vec![4])));
        // One entry alone may be larger than the buffer.
        happen(&watches, 5, &["a", "b", "c"]);
        watches.spread();
        assert_eq!(taken(&reads), Some(vec![5]));
    }

    #[test]
    fn what_was_spread_before_it_came_a_watcher_reads_itself() {
        let watches = watches(100);
        let _other = watch(&watches, &prefix(""), 0);
        for index in 1..=3 {
            happen(&watches, index, &["a"]);
        }
        watches.spread();
        happen(&watches, 4, &["a"]);
        let Ok((watcher, read)) = watches.register(&lock("a"), 1) else { panic!("it is kept") };
        assert_eq!(read.iter().map(|entry| entry.index).collect::<Vec<_>>(), [2, 3]);
        watches.spread();
        assert_eq!(taken(&watcher), Some(vec![4]));
    }

    #[test]
    fn a_gap_is_told_to_everybody() {
        let watches = watches(100);
        let watcher = watch(&watches, &lock("a"), 0);
        happen(&watches, 1, &["a"]);
        watches.spread();
        watches.log.lock().begin(&LockTable::new(), 50);
        happen(&watches, 51, &["a"]);
        watches.spread();
        assert_eq!(taken(&watcher), Some(vec![1, 0]));
        assert!(watches.register(&lock("a"), 49).is_err());
        // More happened at once than is kept.
        for index in 52..=60 {
            happen(&watches, index, &["a"]);
        }
        watches.spread();
        assert_eq!(taken(&watcher), Some(vec![0]));
    }
}
