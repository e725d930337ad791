//! A log in memory that behaves like a disk: what was not flushed is lost in a crash.
//!
//! For tests and simulations. A flush takes the time it is told to, on tokio's clock, and groups what waits while it
//! runs. It needs no thread.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Done, Engine, Identity, LogPoint, Record, Recovered, SavedVote, TAIL_BYTES};
use crate::error::OpenError;
use crate::flush_meter::FlushMeter;

/// A log in memory.
#[derive(Clone)]
pub struct MemoryEngine {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    flushes: FlushMeter,
    fail: watch::Sender<Option<String>>,
}

#[derive(Default)]
struct State {
    durable: Durable,
    queue: VecDeque<Op>,
    flushing: bool,
    /// The process is gone: nothing that it asks takes effect.
    crashed: bool,
    failed: Option<String>,
    delay: Duration,
    identity: Option<Identity>,
}

/// What a crash leaves.
#[derive(Clone, Default)]
struct Durable {
    first: u64,
    records: VecDeque<Record>,
    vote: Option<SavedVote>,
    purged: Option<LogPoint>,
    committed: Option<LogPoint>,
    identity: Option<Identity>,
}

enum Op {
    Append { first: u64, records: Vec<Record>, done: Done },
    Truncate { last: Option<u64> },
    Purge { point: LogPoint },
    Vote { vote: SavedVote, done: Done },
    Committed { committed: Option<LogPoint> },
    Identity { identity: Box<Identity>, done: Done },
}

impl MemoryEngine {
    /// An empty log whose flushes take `delay`. Without a delay, everything is durable at once.
    pub fn new(delay: Duration) -> Self {
        Self::with(Durable::default(), delay)
    }

    fn with(durable: Durable, delay: Duration) -> Self {
        let identity = durable.identity.clone();
        let state = State { durable, delay, identity, ..State::default() };
        let shared =
            Shared { state: Mutex::new(state), flushes: FlushMeter::default(), fail: watch::channel(None).0 };
        Self { shared: Arc::new(shared) }
    }

    /// Takes the power away: what was not flushed is lost, and nothing that this engine is asked from now on takes
    /// effect. Answers what a restart finds.
    pub fn crash(&self) -> Self {
        let mut state = self.shared.state.lock();
        state.crashed = true;
        let lost = std::mem::take(&mut state.queue);
        let reopened = Self::with(state.durable.clone(), state.delay);
        drop(state);
        // Nobody hears of it: the process is gone.
        drop(lost);
        reopened
    }

    /// Sets how long a flush takes from the next one on.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.state.lock().delay = delay;
    }

    /// Lets the disk fail for good.
    pub fn fail(&self, why: &str) {
        let why = why.to_owned();
        let mut state = self.shared.state.lock();
        state.failed = Some(why.clone());
        let failed = std::mem::take(&mut state.queue);
        drop(state);
        self.shared.fail.send_replace(Some(why.clone()));
        failed.into_iter().filter_map(Op::done).for_each(|done| done(Err(io::Error::other(why.clone()))));
    }

    fn ask(&self, op: Op) {
        let mut state = self.shared.state.lock();
        if state.crashed {
            return;
        }
        if let Some(why) = state.failed.clone() {
            drop(state);
            if let Some(done) = op.done() {
                done(Err(io::Error::other(why)));
            }
            return;
        }
        if state.delay.is_zero() && state.queue.is_empty() && !state.flushing {
            let done = state.durable.take(op);
            drop(state);
            self.shared.flushes.record(Duration::ZERO);
            if let Some(done) = done {
                done(Ok(()));
            }
            return;
        }
        // What rides on a flush waits for one.
        let asks = op.is_awaited();
        state.queue.push_back(op);
        if asks && !state.flushing {
            state.flushing = true;
            drop(state);
            tokio::spawn(self.clone().flush());
        }
    }

    /// Flushes until nobody waits for a flush any more.
    async fn flush(self) {
        loop {
            let (delay, count) = {
                let state = self.shared.state.lock();
                (state.delay, state.queue.len())
            };
            let began = tokio::time::Instant::now();
            tokio::time::sleep(delay).await;
            let (dones, more) = {
                let mut state = self.shared.state.lock();
                if state.crashed || state.failed.is_some() {
                    return;
                }
                let group: Vec<_> = state.queue.drain(..count).collect();
                let dones: Vec<_> = group.into_iter().filter_map(|op| state.durable.take(op)).collect();
                let more = state.queue.iter().any(Op::is_awaited);
                state.flushing = more;
                (dones, more)
            };
            self.shared.flushes.record(began.elapsed());
            dones.into_iter().for_each(|done| done(Ok(())));
            if !more {
                return;
            }
        }
    }
}

impl Op {
    fn done(self) -> Option<Done> {
        match self {
            Self::Append { done, .. } | Self::Vote { done, .. } | Self::Identity { done, .. } => Some(done),
            Self::Truncate { .. } | Self::Purge { .. } | Self::Committed { .. } => None,
        }
    }

    fn is_awaited(&self) -> bool {
        match self {
            Self::Append { .. } | Self::Vote { .. } | Self::Identity { .. } => true,
            Self::Truncate { .. } | Self::Purge { .. } | Self::Committed { .. } => false,
        }
    }
}

impl Durable {
    fn take(&mut self, op: Op) -> Option<Done> {
        match op {
            Op::Append { first, records, done } => {
                if self.records.is_empty() {
                    self.first = first;
                }
                assert_eq!(self.first + self.records.len() as u64, first, "the log has no gap");
                self.records.extend(records);
                Some(done)
            }
            Op::Truncate { last } => {
                let keep = last.map_or(0, |last| (last + 1).saturating_sub(self.first));
                self.records.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
                None
            }
            Op::Purge { point } => {
                let gone = (point.index + 1).saturating_sub(self.first).min(self.records.len() as u64);
                self.records.drain(..usize::try_from(gone).unwrap_or(usize::MAX));
                self.first = (self.first + gone).max(point.index + 1);
                self.purged = Some(point);
                None
            }
            Op::Vote { vote, done } => {
                self.vote = Some(vote);
                Some(done)
            }
            Op::Committed { committed } => {
                self.committed = committed;
                None
            }
            Op::Identity { identity, done } => {
                self.identity = Some(*identity);
                Some(done)
            }
        }
    }

    fn recovered(&self) -> Recovered {
        let mut bytes = 0;
        let newest = self.records.iter().rev().take_while(|record| {
            bytes += record.stored_bytes();
            bytes <= TAIL_BYTES
        });
        let kept = newest.count().max(1).min(self.records.len());
        let last = self.first + self.records.len() as u64;
        Recovered {
            vote: self.vote,
            purged: self.purged,
            committed: self.committed,
            log: (!self.records.is_empty()).then(|| (self.first, last - 1)),
            tail: self.records.iter().skip(self.records.len() - kept).cloned().collect(),
        }
    }
}

impl Engine for MemoryEngine {
    fn place(&self) -> PathBuf {
        "the log in memory".into()
    }

    fn identity(&self) -> Option<Identity> {
        self.shared.state.lock().identity.clone()
    }

    fn load(&self) -> Result<Recovered, OpenError> {
        Ok(self.shared.state.lock().durable.recovered())
    }

    fn append(&self, first: u64, records: Vec<Record>, done: Done) {
        self.ask(Op::Append { first, records, done });
    }

    fn truncate_after(&self, last: Option<u64>) {
        self.ask(Op::Truncate { last });
    }

    fn purge_to(&self, point: LogPoint) {
        self.ask(Op::Purge { point });
    }

    fn save_vote(&self, vote: SavedVote, done: Done) {
        self.ask(Op::Vote { vote, done });
    }

    fn save_committed(&self, committed: Option<LogPoint>) {
        self.ask(Op::Committed { committed });
    }

    fn save_identity(&self, identity: Identity, done: Done) {
        self.shared.state.lock().identity = Some(identity.clone());
        self.ask(Op::Identity { identity: Box::new(identity), done });
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>> {
        let state = self.shared.state.lock();
        let durable = &state.durable;
        let missing =
            || io::Error::new(io::ErrorKind::NotFound, format!("entry {} is not in the log", range.start));
        let skip = range.start.checked_sub(durable.first).ok_or_else(missing)?;
        let mut bytes = 0;
        let records: Vec<_> = durable
            .records
            .iter()
            .skip(usize::try_from(skip).unwrap_or(usize::MAX))
            .take(usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX))
            .enumerate()
            .take_while(|(at, record)| {
                bytes += record.stored_bytes();
                *at == 0 || bytes <= bytes_max
            })
            .map(|(_, record)| record.clone())
            .collect();
        if records.is_empty() { Err(missing()) } else { Ok(records) }
    }

    fn blocks(&self) -> bool {
        false
    }

    fn flushes(&self) -> &FlushMeter {
        &self.shared.flushes
    }

    fn failed(&self) -> watch::Receiver<Option<String>> {
        self.shared.fail.subscribe()
    }

    fn close(&self) {}
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::engine::RecordKind;

    fn records(count: usize) -> Vec<Record> {
        vec![Record { term: 1, kind: RecordKind::Blank, body: Default::default() }; count]
    }

    fn append(engine: &MemoryEngine, first: u64, count: usize) -> oneshot::Receiver<io::Result<()>> {
        let (sender, receiver) = oneshot::channel();
        let done = move |result| {
            let _ = sender.send(result);
        };
        engine.append(first, records(count), Box::new(done));
        receiver
    }

    #[tokio::test(start_paused = true)]
    async fn a_crash_loses_what_was_not_flushed_and_nothing_else() {
        let engine = MemoryEngine::new(Duration::from_millis(5));
        append(&engine, 1, 3).await.expect("it answers").expect("it is durable");
        let unheard = append(&engine, 4, 2);
        let reopened = engine.crash();
        assert!(unheard.await.is_err(), "nobody hears of what was lost");
        assert_eq!(reopened.load().expect("it loads").log, Some((1, 3)));
        append(&engine, 4, 1).await.expect_err("a crashed process writes nothing");
        assert_eq!(reopened.load().expect("it loads").log, Some((1, 3)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_disk_stays_failed() {
        let engine = MemoryEngine::new(Duration::from_millis(5));
        let waiting = append(&engine, 1, 1);
        engine.fail("no space left");
        assert!(waiting.await.expect("it answers").is_err());
        assert!(append(&engine, 1, 1).await.expect("it answers").is_err());
        assert_eq!(engine.failed().borrow().as_deref(), Some("no space left"));
    }
}
