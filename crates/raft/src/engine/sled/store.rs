//! Rows of a sled tree: what is taken up gathers, and is put, flushed by sled and then flushed to the disk at once.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::open::Found;
use super::{COMMITTED, FLUSHED, IDENTITY, PURGED, RowSpan, VOTE, row_key};
use crate::codec::log::{decode_row, encode_row};
use crate::codec::seal;
use crate::engine::flushed::Flushed;
use crate::engine::flusher::{Store, Write};
use crate::engine::{LogPoint, Record};
use crate::flush_meter::FlushMeter;

/// Bytes of entries in one group.
const GROUP_BYTES: usize = 1 << 20;
/// Entries in one group.
const GROUP_ENTRIES: usize = 4_096;

pub(super) struct SledStore {
    db: sled::Db,
    tree: sled::Tree,
    file: File,
    flushed: Flushed,
    rows: VecDeque<RowSpan>,
    flushes: Arc<FlushMeter>,
    group: Group,
}

/// What was taken up and is not yet durable.
#[derive(Default)]
struct Group {
    first: u64,
    run: Vec<Record>,
    bytes: usize,
    committed: Option<Option<LogPoint>>,
}

impl Store for SledStore {
    fn take(&mut self, write: Write) -> io::Result<()> {
        match write {
            Write::Append { first, mut records } => {
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
            Write::Truncate { last } => self.truncate(last),
            Write::Purge { point } => self.purge(point),
            Write::Vote(vote) => {
                self.write_run()?;
                self.put(VOTE, seal(&vote))
            }
            Write::Committed(committed) => {
                self.group.committed = Some(committed);
                Ok(())
            }
            Write::Identity(identity) => {
                self.write_run()?;
                self.put(IDENTITY, seal(&*identity))
            }
        }
    }

    fn is_full(&self) -> bool {
        self.group.bytes >= GROUP_BYTES || self.group.run.len() >= GROUP_ENTRIES
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
        let number = self.flushed.number() + 1;
        self.put(FLUSHED, seal(&number))?;
        let began = Instant::now();
        self.db.flush()?;
        self.file.sync_data()?;
        self.flushes.record(began.elapsed());
        self.flushed.tell(number)?;
        Ok(())
    }

    fn abandon(&mut self) {
        // The store flushes when its last handle goes. What the disk dropped once, a second flush would call written.
        std::mem::forget(self.db.clone());
    }
}

impl SledStore {
    pub(super) fn new(found: Found, flushes: Arc<FlushMeter>) -> Self {
        let Found { db, tree, file, flushed, rows, .. } = found;
        Self { db, tree, file, flushed, rows, flushes, group: Group::default() }
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
}
