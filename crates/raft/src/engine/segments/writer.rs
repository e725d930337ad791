//! Writes groups: each one write that returns when it is durable.
//!
//! Frames are put together in a buffer that mirrors the file from the beginning of the block that is not yet full, so
//! that whole blocks are written and none must be read. A group never spans two segments: what does not fit is made
//! durable first, and the rest begins the next one.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::blocks::Blocks;
use super::frame::{self, Link};
use super::index::{Change, Index};
use super::item::{self, Item};
use super::slot::{self, Slot};
use super::state::State;
use super::supply::Supply;
use super::{BLOCK, FRAME_BYTES, GROUP_BYTES};
use crate::engine::Record;
use crate::engine::flushed::Flushed;
use crate::engine::flusher::{Store, Write};
use crate::flush_meter::FlushMeter;

pub(super) struct Writer {
    /// The segment that is written.
    pub(super) slot: Arc<Slot>,
    pub(super) sequence: u64,
    /// The file's bytes from `base` on, as far as there are any, and then what is not yet written.
    pub(super) buffer: Vec<u8>,
    /// A multiple of the block.
    pub(super) base: u64,
    /// Where the kernel takes them from.
    pub(super) blocks: Blocks,
    /// Bytes of the buffer that are durable.
    pub(super) durable: usize,
    /// Where the frame that is being put together begins in the buffer.
    pub(super) frame: Option<usize>,
    /// The last frame.
    pub(super) last: Link,
    /// Drawn at each opening.
    pub(super) life: u32,
    pub(super) state: State,
    pub(super) index: Arc<Mutex<Index>>,
    /// For the index, once they are durable; those from `sealed` on belong to the frame that is being put together.
    pub(super) changes: Vec<Change>,
    pub(super) sealed: usize,
    pub(super) supply: Supply,
    pub(super) flushed: Flushed,
    pub(super) flushes: Arc<FlushMeter>,
    /// Keeps other processes out of the directory.
    pub(super) _lock: File,
}

impl Store for Writer {
    fn take(&mut self, write: Write) -> io::Result<()> {
        match write {
            Write::Append { first, records } => self.append(first, &records),
            Write::Truncate { last } => self.truncate(last.map_or(0, |last| last.saturating_add(1))),
            Write::Purge { point } => {
                self.put(&Item::Purged(point))?;
                self.state.purge(point);
                self.changes.push(Change::Purge(point.index.saturating_add(1)));
                Ok(())
            }
            Write::Vote(vote) => {
                self.put(&Item::Vote(vote))?;
                self.state.vote = Some(vote);
                Ok(())
            }
            Write::Committed(committed) => {
                self.put(&Item::Committed(committed))?;
                self.state.committed = committed;
                Ok(())
            }
            Write::Identity(identity) => {
                self.state.identity = Some((*identity).clone());
                self.put(&Item::Identity(identity))
            }
        }
    }

    fn is_full(&self) -> bool {
        self.buffer.len() - self.durable >= GROUP_BYTES
    }

    fn commit(&mut self) -> io::Result<()> {
        self.end_frame();
        let end = self.buffer.len();
        if end > self.durable {
            self.buffer.resize(end.next_multiple_of(BLOCK), 0);
            let began = Instant::now();
            self.slot.write_durably(self.blocks.of(&self.buffer), self.base)?;
            self.flushes.record(began.elapsed());
            self.flushed.tell(self.last.number)?;
            let full = end - end % BLOCK;
            self.buffer.truncate(end);
            self.buffer.drain(..full);
            self.base += full as u64;
            self.durable = self.buffer.len();
        }
        self.publish();
        if self.base > self.slot.bytes / 2 {
            self.supply.want();
        }
        Ok(())
    }
}

impl Writer {
    fn append(&mut self, first: u64, records: &[Record]) -> io::Result<()> {
        let (mut first, mut rest) = (first, records);
        if records.iter().any(|record| record.body.len() > crate::COMMAND_BYTES_MAX) {
            return Err(io::Error::other("an entry is larger than the log takes"));
        }
        while let Some(record) = rest.first() {
            self.make_room(item::HEAD + item::RUN_HEAD + record.stored_bytes())?;
            let began = self.frame.unwrap_or(self.buffer.len());
            let run = item::begin_run(&mut self.buffer, first);
            let mut count = 0;
            for record in rest {
                let room = self.buffer.len() - began < FRAME_BYTES && self.fits(record.stored_bytes());
                if count > 0 && !room {
                    break;
                }
                record.put(&mut self.buffer);
                count += 1;
            }
            item::end_run(&mut self.buffer, run, count as u32);
            self.state.append(first, count as u64).map_err(io::Error::other)?;
            let end = first + count as u64;
            let at = self.base + began as u64;
            self.changes.push(Change::Entries {
                indexes: first..end,
                frame: self.last.number + 1,
                bytes: at..at,
            });
            (first, rest) = (end, &rest[count..]);
        }
        Ok(())
    }

    fn truncate(&mut self, end: u64) -> io::Result<()> {
        // The index tells what was dropped from what came in its place by their frames.
        self.end_frame();
        self.put(&Item::Truncated(end))?;
        self.state.truncate(end);
        self.changes.push(Change::Truncate(end));
        Ok(())
    }

    /// The state changes afterwards: a segment that begins here begins with what was in force before.
    fn put(&mut self, item: &Item) -> io::Result<()> {
        self.make_room(ITEM_BYTES)?;
        item.put(&mut self.buffer);
        Ok(())
    }

    /// Sees to it that a frame is begun, and that `bytes` more fit into it.
    fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        if self.frame.is_some_and(|began| self.buffer.len() - began >= FRAME_BYTES) {
            self.end_frame();
        }
        if self.is_full() {
            self.commit()?;
        }
        if !self.fits(frame::HEAD + bytes) {
            self.commit()?;
            self.begin_segment()?;
            if !self.fits(frame::HEAD + bytes) {
                return Err(io::Error::other(format!("{bytes} bytes do not fit into a segment")));
            }
        }
        if self.frame.is_none() {
            self.begin_frame();
        }
        Ok(())
    }

    /// Whether `bytes` more, rounded up, fit into the segment.
    fn fits(&self, bytes: usize) -> bool {
        self.base + (self.buffer.len() + bytes + frame::ALIGN) as u64 <= self.slot.bytes
    }

    fn begin_frame(&mut self) {
        self.frame = Some(self.buffer.len());
        self.buffer.resize(self.buffer.len() + frame::HEAD, 0);
    }

    fn end_frame(&mut self) {
        let Some(began) = self.frame.take() else { return };
        self.last = frame::seal(&mut self.buffer[began..], self.last, self.flushed.number(), self.life);
        self.buffer.resize(self.buffer.len().next_multiple_of(frame::ALIGN), 0);
        let end = self.base + self.buffer.len() as u64;
        for change in &mut self.changes[self.sealed..] {
            if let Change::Entries { bytes, .. } = change {
                bytes.end = end;
            }
        }
        self.sealed = self.changes.len();
    }

    /// Everything so far is durable.
    fn publish(&mut self) {
        let freed = {
            let mut index = self.index.lock();
            self.changes.drain(..).for_each(|change| index.apply(change));
            index.release()
        };
        self.sealed = 0;
        freed.into_iter().for_each(|slot| self.supply.put(slot));
    }

    /// Goes on in the next segment. Everything is durable, and no frame is begun.
    fn begin_segment(&mut self) -> io::Result<()> {
        self.slot = self.supply.take()?;
        self.sequence += 1;
        let oldest = self.index.lock().oldest().unwrap_or(self.sequence);
        self.begin(oldest);
        Ok(())
    }

    /// Puts the head of a segment, and a frame with what was in force before it.
    pub(super) fn begin(&mut self, oldest: u64) {
        let head = slot::Head { sequence: self.sequence, bytes: self.slot.bytes, before: self.last, oldest };
        self.buffer.clear();
        self.buffer.extend_from_slice(&head.encode());
        (self.base, self.durable) = (0, 0);
        self.changes.push(Change::Begin(self.sequence, self.slot.clone()));
        self.sealed = self.changes.len();
        self.begin_frame();
        for item in self.state.items() {
            item.put(&mut self.buffer);
        }
    }
}

/// Above what any item but entries takes: an identity has three names.
const ITEM_BYTES: usize = 1 << 10;
