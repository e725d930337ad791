//! openraft's log and vote, over an [`Engine`].
//!
//! Appending is a push into memory and a message to the engine: nothing here waits for the disk but a vote, and a read
//! of what is no longer in memory, which happens off the reactor.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage};
use openraft::{LogState, OptionalSend};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::codec::peer::APPEND_BYTES_MAX;
use crate::engine::{Engine, LogPoint, Record, Recovered};
use crate::log_window::LogWindow;
use crate::types::{Entry, LogId, Types, Vote};

#[derive(Clone)]
pub(crate) struct LogStore {
    engine: Arc<dyn Engine>,
    state: Arc<Mutex<State>>,
}

struct State {
    window: LogWindow,
    purged: Option<LogPoint>,
    committed: Option<LogPoint>,
    vote: Option<Vote>,
    /// Counts truncations: a flush from before one says nothing about what was appended since.
    epoch: u64,
}

impl LogStore {
    pub(crate) fn new(engine: Arc<dyn Engine>, mut recovered: Recovered) -> Self {
        let state = State {
            window: LogWindow::new(&mut recovered),
            purged: recovered.purged,
            committed: recovered.committed,
            vote: recovered.vote.map(Into::into),
            epoch: 0,
        };
        Self { engine, state: Arc::new(Mutex::new(state)) }
    }

    /// Reads from memory, and what is not there from the engine, in order.
    async fn read(&self, wanted: Range<u64>, bytes_max: usize) -> io::Result<Vec<Entry>> {
        let mut next = wanted.start.max(self.state.lock().window.span().start);
        let mut entries = Vec::new();
        let mut bytes = 0;
        loop {
            let room = bytes_max.saturating_sub(bytes);
            let (on_disk, records) = {
                let state = self.state.lock();
                let end = wanted.end.min(state.window.end());
                if next >= end || (room == 0 && !entries.is_empty()) {
                    return Ok(entries);
                }
                let first = state.window.first();
                if next >= first {
                    (next..next, state.window.read(next..end, room))
                } else {
                    (next..end.min(first), Vec::new())
                }
            };
            let in_memory = on_disk.is_empty();
            let records = if in_memory { records } else { self.read_engine(on_disk, room).await? };
            for (index, record) in (next..).zip(&records) {
                bytes += record.stored_bytes();
                entries.push(record.to_entry(index).map_err(io::Error::other)?);
            }
            next += records.len() as u64;
            if in_memory {
                return Ok(entries);
            }
        }
    }

    async fn read_engine(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>> {
        if !self.engine.blocks() {
            return self.engine.read(range, bytes_max);
        }
        let engine = self.engine.clone();
        tokio::task::spawn_blocking(move || engine.read(range, bytes_max)).await.map_err(io::Error::other)?
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> io::Result<Vec<Entry>> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        self.read(start..end, usize::MAX).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        self.read(start..end, APPEND_BYTES_MAX).await
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.state.lock().vote)
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let state = self.state.lock();
        let purged: Option<LogId> = state.purged.map(Into::into);
        let last = state.window.last().map(Into::into).or(purged);
        Ok(LogState { last_purged_log_id: purged, last_log_id: last })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let (sender, receiver) = oneshot::channel();
        let done = move |result| {
            // openraft stopped meanwhile.
            let _ = sender.send(result);
        };
        self.engine.save_vote((*vote).into(), Box::new(done));
        receiver.await.unwrap_or_else(|_| Err(io::Error::other("the log was closed")))?;
        self.state.lock().vote = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        let committed = committed.map(LogPoint::from);
        self.state.lock().committed = committed;
        self.engine.save_committed(committed);
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.state.lock().committed.map(Into::into))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut first = None;
        let records: Vec<_> = entries
            .into_iter()
            .map(|entry| {
                first.get_or_insert(entry.log_id.index);
                Record::from_entry(&entry)
            })
            .collect();
        let Some(first) = first else {
            callback.io_completed(Ok(()));
            return Ok(());
        };
        let end = first + records.len() as u64;
        let epoch = {
            let mut state = self.state.lock();
            let span = state.window.span();
            if !span.is_empty() && span.end != first {
                return Err(io::Error::other(format!("entry {first} does not follow {}", span.end - 1)));
            }
            state.window.push(first, &records);
            state.epoch
        };
        let state = self.state.clone();
        let done = move |result: io::Result<()>| {
            if result.is_ok() {
                let mut state = state.lock();
                if state.epoch == epoch {
                    state.window.durable(end);
                }
            }
            callback.io_completed(result);
        };
        self.engine.append(first, records, Box::new(done));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let last = last.map(|id| id.index);
        let refill = {
            let mut state = self.state.lock();
            state.epoch += 1;
            state.window.truncate(last.map_or(0, |last| last + 1));
            state.window.needs_refill()
        };
        self.engine.truncate_after(last);
        // What is read here was durable before it left memory, and lies below what is being dropped.
        if let Some(range) = refill {
            let records = self.read_engine(range.clone(), usize::MAX).await?;
            self.state.lock().window.refill(range.start, records);
        }
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let point = LogPoint::from(upto);
        {
            let mut state = self.state.lock();
            state.purged = state.purged.max(Some(point));
            state.window.purge(point.index + 1);
        }
        self.engine.purge_to(point);
        Ok(())
    }
}
