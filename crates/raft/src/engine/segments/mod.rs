//! The log in segments: files of one size that were written through once, and are used again and again.
//!
//! A flush then has nothing to write but the bytes themselves: no new size, no new blocks, no journal of the file system.
//! Operations become items, items are packed into frames (see `frame`), and all that waits goes out as one write past the
//! page cache that returns when the disk has it (`writer`), or as a write and an `fdatasync` where there is no such thing. A segment begins with what is in force, so that those before it may be used again once their
//! entries are purged (`supply`). At the start everything is read and checked (`recover`); an index that has a mark
//! every 64 KiB finds entries again (`index`).
//!
//! What is taken for granted: a sector is written as a whole or not at all, and a flush that succeeded has told the
//! truth.

mod blocks;
mod frame;
mod index;
mod item;
mod recover;
mod slot;
mod state;
mod supply;
mod writer;

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use self::blocks::Blocks;
use self::index::Entries;
use self::supply::Supply;
use self::writer::Writer;
use super::flushed::Flushed;
use super::threaded::{self, Opened, Reader as _};
use super::{Engine, Record, Recovered, TAIL_BYTES};
use crate::error::OpenError;
use crate::flush_meter::FlushMeter;

pub(super) use self::slot::any;

/// Bytes of one file. A new node writes one through before it answers anybody, and a group that does not fit leaves up
/// to a megabyte unused; so neither larger nor smaller by much.
const SEGMENT_BYTES: u64 = 8 << 20;
/// Files that are kept although nothing in them is needed: what a purge frees at once with the default settings, and
/// what the next one will be filled with.
const SPARES_MAX: usize = 16;
/// Whole blocks are written, so that none must be read first. No smaller than a page.
const BLOCK: usize = 4 << 10;
/// Bytes at which a group is full.
const GROUP_BYTES: usize = 1 << 20;
/// Bytes at which a frame is full.
const FRAME_BYTES: usize = 64 << 10;
/// No frame is larger: a full one, and the largest entry.
const FRAME_BYTES_MAX: usize = FRAME_BYTES + crate::COMMAND_BYTES_MAX + (4 << 10);
/// Bytes that one mark of the index stands for, so that reading an entry reads little more.
const MARK_BYTES: u64 = 64 << 10;

/// Opens the log in `dir`, and makes it if there is none.
///
/// # Errors
///
/// When another process uses it, it cannot be read, or what it holds is not what was written.
pub(super) fn open_segments(dir: &Path) -> Result<Arc<dyn Engine>, OpenError> {
    open_sized(dir, SEGMENT_BYTES)
}

fn open_sized(dir: &Path, segment_bytes: u64) -> Result<Arc<dyn Engine>, OpenError> {
    let lock = recover::lock(dir)?;
    let mut recovery = recover::read(dir)?;
    let stored = recovery.newest.is_some().then_some(recovery.last.number);
    let flushed = Flushed::open(dir, &recovery.place(dir), stored, &recovery.ends())?;
    recovery.blank_torn()?;
    let failed = |source| OpenError::io(dir, source);
    let free = std::mem::take(&mut recovery.free);
    let mut supply = Supply::start(dir, segment_bytes, free, recovery.next_name).map_err(failed)?;
    let is_new = recovery.newest.is_none();
    let (slot, sequence, (buffer, base)) = match recovery.newest {
        Some(newest) => (newest.slot.clone(), newest.sequence, newest.open_block()?),
        None => (supply.take().map_err(failed)?, 1, (Vec::new(), 0)),
    };
    let index = Arc::new(Mutex::new(recovery.index));
    let reader = Entries(index.clone());
    let recovered = recovered(&recovery.state, &reader).map_err(|why| OpenError::damaged(dir, why))?;
    let flushes = Arc::new(FlushMeter::default());
    let mut writer = Writer {
        blocks: Blocks::default(),
        durable: buffer.len(),
        slot,
        sequence,
        buffer,
        base,
        frame: None,
        last: recovery.last,
        life: rand::random(),
        state: recovery.state,
        index,
        changes: Vec::new(),
        sealed: 0,
        supply,
        flushed,
        flushes: flushes.clone(),
        _lock: lock,
    };
    if is_new {
        writer.begin(1);
    }
    let identity = writer.state.identity.clone();
    let opened = Opened { store: writer, reader, place: dir.to_owned(), identity, recovered, flushes };
    threaded::start(dir, opened)
}

/// What was there, with as much of the end as a replica keeps in memory.
fn recovered(state: &state::State, reader: &Entries) -> io::Result<Recovered> {
    let log = state.log.clone();
    let mut tail = Vec::new();
    if !log.is_empty() {
        let from = reader.0.lock().tail_start().unwrap_or(log.start).max(log.start);
        tail = reader.read(from..log.end, usize::MAX)?;
        let mut bytes: usize = tail.iter().map(Record::stored_bytes).sum();
        let surplus = tail.iter().take_while(|record| {
            let drops = bytes > TAIL_BYTES;
            bytes -= record.stored_bytes();
            drops
        });
        let surplus = surplus.count().min(tail.len() - 1);
        tail.drain(..surplus);
    }
    Ok(Recovered {
        vote: state.vote,
        purged: state.purged,
        committed: state.committed,
        log: (!log.is_empty()).then(|| (log.start, log.end - 1)),
        tail,
    })
}

#[cfg(test)]
mod tests;
