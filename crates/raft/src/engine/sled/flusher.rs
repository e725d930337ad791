//! The one thread that writes: groups what waits, writes it, flushes once, and only then reports.
//!
//! There is no lingering: the flush before is the window in which a group gathers.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use tokio::sync::watch;

use super::flushed::Flushed;
use super::open::Opened;
use super::{COMMITTED, FLUSHED, IDENTITY, PURGED, RowSpan, VOTE, row_key};
use crate::codec::log::{decode_row, encode_row};
use crate::codec::seal;
use crate::engine::{Done, Identity, LogPoint, Record, SavedVote};
use crate::flush_meter::FlushMeter;

/// Bytes of entries in one group.
const GROUP_BYTES: usize = 1 << 20;
/// Entries in one group.
const GROUP_ENTRIES: usize = 4_096;

pub(super) enum Op {
    Append { first: u64, records: Vec<Record>, done: Done },
    Truncate { last: Option<u64> },
    Purge { point: LogPoint },
    Vote { vote: SavedVote, done: Done },
    Committed { committed: Option<LogPoint> },
    Identity { identity: Box<Identity>, done: Done },
    Close,
}

impl Op {
    /// Reports that it did not happen.
    pub(super) fn fail(self, why: &str) {
        match self {
            Self::Append { done, .. } | Self::Vote { done, .. } | Self::Identity { done, .. } => {
                done(Err(io::Error::other(why.to_owned())));
            }
            Self::Truncate { .. } | Self::Purge { .. } | Self::Committed { .. } | Self::Close => {}
        }
    }
}

pub(super) struct Flusher {
    db: sled::Db,
    tree: sled::Tree,
    file: File,
    flushed: Flushed,
    rows: VecDeque<RowSpan>,
    flushes: Arc<FlushMeter>,
    fail: watch::Sender<Option<String>>,
    failed: Option<String>,
    group: Group,
}

/// What was taken up and is not yet durable.
#[derive(Default)]
struct Group {
    first: u64,
    run: Vec<Record>,
    bytes: usize,
    dones: Vec<Done>,
    committed: Option<Option<LogPoint>>,
}

impl Flusher {
    pub(super) fn new(opened: Opened, flushes: Arc<FlushMeter>, fail: watch::Sender<Option<String>>) -> Self {
        let Opened { db, tree, file, flushed, rows, .. } = opened;
        Self { db, tree, file, flushed, rows, flushes, fail, failed: None, group: Group::default() }
    }

    pub(super) fn run(mut self, queue: &Receiver<Op>) {
        while let Ok(op) = queue.recv() {
            let mut closing = false;
            let mut next = Some(op);
            while let Some(op) = next {
                closing |= matches!(op, Op::Close);
                match &self.failed {
                    None => self.guard(|flusher| flusher.take(op)),
                    Some(why) => op.fail(why),
                }
                let full = self.group.bytes >= GROUP_BYTES || self.group.run.len() >= GROUP_ENTRIES;
                next = if full || closing { None } else { queue.try_recv().ok() };
            }
            // What rides on a flush waits for one; closing is the last chance.
            if self.failed.is_none() && (closing || !self.group.dones.is_empty()) {
                self.guard(Self::commit);
            }
            self.report();
            if closing {
                return;
            }
        }
    }

    /// Runs `step`. Its failure is final.
    fn guard(&mut self, step: impl FnOnce(&mut Self) -> io::Result<()>) {
        let why = match catch_unwind(AssertUnwindSafe(|| step(self))) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("the log could not be written: {error}"),
            Err(_) => "the log could not be written: the store gave up".to_owned(),
        };
        tracing::error!(why, "storage failed");
        // The store flushes when its last handle goes. What the disk dropped once, a second flush would call written.
        std::mem::forget(self.db.clone());
        self.fail.send_replace(Some(why.clone()));
        self.failed = Some(why);
    }

    fn report(&mut self) {
        for done in self.group.dones.drain(..) {
            done(match &self.failed {
                None => Ok(()),
                Some(why) => Err(io::Error::other(why.clone())),
            });
        }
    }

    fn take(&mut self, op: Op) -> io::Result<()> {
        match op {
            Op::Append { first, mut records, done } => {
                self.group.dones.push(done);
                if self.group.first + self.group.run.len() as u64 != first {
                    self.write_run()?;
                }
                if self.group.run.is_empty() {
                    self.group.first = first;
                }
                self.group.bytes += records.iter().map(Record::stored_bytes).sum::<usize>();
                self.group.run.append(&mut records);
                Ok(())
            }
            Op::Truncate { last } => self.truncate(last),
            Op::Purge { point } => self.purge(point),
            Op::Vote { vote, done } => {
                self.group.dones.push(done);
                self.write_run()?;
                self.put(VOTE, seal(&vote))
            }
            Op::Committed { committed } => {
                self.group.committed = Some(committed);
                Ok(())
            }
            Op::Identity { identity, done } => {
                self.group.dones.push(done);
                self.write_run()?;
                self.put(IDENTITY, seal(&*identity))
            }
            Op::Close => Ok(()),
        }
    }

    fn put(&mut self, key: &[u8], value: Vec<u8>) -> io::Result<()> {
        self.tree.insert(key, value)?;
        Ok(())
    }

    /// Writes the entries gathered so far, as rows.
    fn write_run(&mut self) -> io::Result<()> {
        let run = std::mem::take(&mut self.group.run);
        let mut first = self.group.first;
        let mut rest = &run[..];
        while !rest.is_empty() {
            let (row, count) = encode_row(first, rest);
            self.put(&row_key(first), row)?;
            self.rows.push_back((first, count as u64));
            first += count as u64;
            rest = &rest[count..];
        }
        Ok(())
    }

    fn truncate(&mut self, last: Option<u64>) -> io::Result<()> {
        self.write_run()?;
        let end = last.map_or(0, |last| last + 1);
        while let Some(&(first, count)) = self.rows.back() {
            if first + count <= end {
                break;
            }
            self.rows.pop_back();
            let row = self.tree.remove(row_key(first))?;
            if first >= end {
                continue;
            }
            let row = row.ok_or_else(|| io::Error::other(format!("the row of entry {first} is gone")))?;
            let (_, mut records) = decode_row(&row).map_err(io::Error::other)?;
            records.truncate(usize::try_from(end - first).unwrap_or(usize::MAX));
            self.group.first = first;
            self.group.run = records;
            self.write_run()?;
        }
        Ok(())
    }

    fn purge(&mut self, point: LogPoint) -> io::Result<()> {
        self.write_run()?;
        // The mark first: a row that outlives a crash below it is known to be garbage.
        self.put(PURGED, seal(&point))?;
        while let Some(&(first, count)) = self.rows.front() {
            if first + count > point.index + 1 {
                break;
            }
            self.rows.pop_front();
            self.tree.remove(row_key(first))?;
        }
        Ok(())
    }

    fn commit(&mut self) -> io::Result<()> {
        self.write_run()?;
        if let Some(committed) = self.group.committed.take() {
            match committed {
                Some(point) => self.put(COMMITTED, seal(&point))?,
                None => {
                    self.tree.remove(COMMITTED)?;
                }
            }
        }
        self.group.bytes = 0;
        let (number, record) = self.flushed.next();
        self.put(FLUSHED, record)?;
        let began = Instant::now();
        self.db.flush()?;
        self.file.sync_data()?;
        self.flushes.record(began.elapsed());
        self.flushed.tell(number)?;
        Ok(())
    }
}
