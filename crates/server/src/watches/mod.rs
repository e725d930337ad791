//! Watching: what happens to locks, told to whoever asked, in log order and without a gap (SPEC 10).
//!
//! The apply loop only appends to a bounded log of recent events. One task spreads what is new there to the watchers
//! that it concerns, each with a bounded buffer; a watcher that does not take what it is sent loses its own stream, and
//! nobody else notices. Every node does this by itself: a watch needs no leader. A fence feed (SPEC 7) is told from the
//! same log, in words of its own, and goes on where no leader is known: what is superseded stays so.

mod log;
mod spread;
mod stream;
mod telling;
mod told;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use palisade_core::command::Command;
use palisade_core::floors;
use palisade_core::reply::{Applied, EntryAt};
use palisade_core::table::LockTable;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use self::log::EventLog;
use self::spread::Registry;

pub(crate) use self::stream::{Frames, open};
pub(crate) use self::telling::{Feeding, Watching};

/// How watching is bounded on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLimits {
    /// Watch streams and fence feeds of this node.
    pub streams_max: usize,
    /// Events of this node's log of recent ones: how far back a position may be.
    pub events_kept_max: usize,
    /// Events that wait for one watcher. Past it, its stream is cut.
    pub buffer_max: usize,
    /// How long a node that is behind a position waits for itself.
    pub behind_wait: Duration,
    /// Snapshots that are sent at the same time. Each keeps a copy of the table that shares until it changes.
    pub snapshots_max: usize,
}

impl Default for WatchLimits {
    fn default() -> Self {
        Self {
            streams_max: 1_000,
            events_kept_max: 16_384,
            buffer_max: 8_192,
            behind_wait: Duration::from_secs(2),
            snapshots_max: 4,
        }
    }
}

/// All watching of one node.
pub(crate) struct Watches {
    limits: WatchLimits,
    /// Locked after the table where both are, never before it; after the registry where both are.
    log: Mutex<EventLog>,
    registry: Mutex<Registry>,
    /// How many are registered; changed under the registry's lock.
    watching: AtomicUsize,
    /// Something was appended, and somebody watches.
    arrived: Notify,
    /// The last applied index, for those that wait until this node has caught up.
    applied: watch::Sender<u64>,
    streams: Arc<Semaphore>,
    snapshots: Arc<Semaphore>,
    stopped: CancellationToken,
}

impl Watches {
    pub(crate) fn new(limits: WatchLimits) -> Arc<Self> {
        let limits = WatchLimits {
            streams_max: limits.streams_max.min(Semaphore::MAX_PERMITS),
            snapshots_max: limits.snapshots_max.min(Semaphore::MAX_PERMITS),
            ..limits
        };
        Arc::new(Self {
            limits,
            log: Mutex::new(EventLog::new(limits.events_kept_max)),
            registry: Mutex::default(),
            watching: AtomicUsize::new(0),
            arrived: Notify::new(),
            applied: watch::Sender::new(0),
            streams: Arc::new(Semaphore::new(limits.streams_max)),
            snapshots: Arc::new(Semaphore::new(limits.snapshots_max)),
            stopped: CancellationToken::new(),
        })
    }

    /// Called from the apply loop for each entry, in log order.
    pub(crate) fn applied(&self, at: EntryAt, command: &Command, applied: &Applied, table: &LockTable) {
        let index = table.header().token_base.at(at.index);
        let events = told::told(&applied.events, table);
        let slots = floors::moved(&applied.events, table);
        {
            let mut log = self.log.lock();
            if matches!(command, Command::Found(_)) {
                log.founded(table);
            }
            log.append(index, at.wall, events, slots);
        }
        self.moved(index);
    }

    /// Called when a snapshot replaced the table: what happened up to there is not known.
    pub(crate) fn installed(&self, table: &LockTable) {
        let index = table.header().token_base.at(table.header().applied);
        self.log.lock().begin(table, index);
        self.moved(index);
    }

    fn moved(&self, index: u64) {
        if self.applied.receiver_count() > 0 {
            self.applied.send_replace(index);
        }
        // Whoever registers later reads what is in the log by then.
        if self.watching.load(Ordering::Relaxed) > 0 {
            self.arrived.notify_one();
        }
    }

    /// Waits until this node has applied `index`, of an incarnation that it knows; false when it has not in time.
    pub(crate) async fn caught_up(&self, index: u64) -> bool {
        let mut applied = self.applied.subscribe();
        let caught_up = async {
            loop {
                applied.borrow_and_update();
                let (known, now) = {
                    let log = self.log.lock();
                    (log.incarnation().is_some(), log.applied())
                };
                if known && now >= index {
                    return;
                }
                if applied.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(self.limits.behind_wait, caught_up).await.is_ok()
    }

    /// Watch streams that are open.
    pub(crate) fn stream_count(&self) -> usize {
        self.limits.streams_max - self.streams.available_permits().min(self.limits.streams_max)
    }

    /// Ends every watch: this node stops.
    pub(crate) fn stop(&self) {
        self.stopped.cancel();
    }
}
