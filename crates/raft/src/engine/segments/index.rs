//! Where durable entries lie, and reading them.
//!
//! A mark stands for the entries up to the next mark and for the frames that hold them. A truncation begins a frame and
//! a mark, so that within a mark's frames the last word on an index of the mark is the only one.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::MARK_BYTES;
use super::frame::{self, HEAD};
use super::item::Item;
use super::slot::Slot;
use crate::engine::threaded::Reader;
use crate::engine::{Record, TAIL_BYTES};

/// What a group changes, in order.
pub(super) enum Change {
    /// Entries of one frame: the frame has this number and lies at these bytes of the newest segment.
    Entries {
        indexes: Range<u64>,
        frame: u64,
        bytes: Range<u64>,
    },
    Truncate(u64),
    /// Entries below this index are gone.
    Purge(u64),
    /// A segment begins.
    Begin(u64, Arc<Slot>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    first: u64,
    frame: u64,
    segment: u64,
    bytes: Range<u64>,
}

#[derive(Default)]
pub(super) struct Index {
    /// Sequence and file, oldest first.
    segments: VecDeque<(u64, Arc<Slot>)>,
    marks: VecDeque<Mark>,
    end: u64,
    /// The next entries begin a mark.
    fresh: bool,
}

impl Index {
    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Entries { indexes, frame, bytes } => self.append(indexes, frame, bytes),
            Change::Truncate(end) => {
                self.fresh = true;
                self.end = self.end.min(end);
                while self.marks.back().is_some_and(|mark| mark.first >= end) {
                    self.marks.pop_back();
                }
            }
            Change::Purge(from) => {
                while self.marks.get(1).is_some_and(|second| second.first <= from) {
                    self.marks.pop_front();
                }
                if self.end <= from {
                    self.marks.clear();
                }
            }
            Change::Begin(sequence, slot) => {
                self.fresh = true;
                self.segments.push_back((sequence, slot));
            }
        }
    }

    fn append(&mut self, indexes: Range<u64>, frame: u64, bytes: Range<u64>) {
        // A frame may bring several runs.
        let fits =
            |mark: &&mut Mark| bytes.start < mark.bytes.end || bytes.end - mark.bytes.start <= MARK_BYTES;
        let follows = !self.fresh && self.end == indexes.start;
        self.end = indexes.end;
        self.fresh = false;
        match self.marks.back_mut().filter(|mark| follows && fits(mark)) {
            Some(mark) => mark.bytes.end = bytes.end,
            None => {
                let segment = self.segments.back().map_or(0, |(sequence, _)| *sequence);
                self.marks.push_back(Mark { first: indexes.start, frame, segment, bytes });
            }
        }
    }

    /// The oldest segment that holds anything needed.
    pub(super) fn oldest(&self) -> Option<u64> {
        let newest = self.segments.back().map(|(sequence, _)| *sequence);
        self.marks.front().map(|mark| mark.segment).or(newest)
    }

    /// Lets go of the segments that hold nothing that is needed.
    pub(super) fn release(&mut self) -> Vec<Arc<Slot>> {
        let Some(oldest) = self.oldest() else { return Vec::new() };
        let count = self.segments.iter().take_while(|(sequence, _)| *sequence < oldest).count();
        self.segments.drain(..count).map(|(_, slot)| slot).collect()
    }

    /// From where to read the newest entries, so that they are about as many as a replica keeps in memory.
    pub(super) fn tail_start(&self) -> Option<u64> {
        let mut bytes = 0;
        let enough = self.marks.iter().rev().find(|mark| {
            bytes += mark.bytes.end - mark.bytes.start;
            bytes >= TAIL_BYTES as u64
        });
        enough.or(self.marks.front()).map(|mark| mark.first)
    }

    /// The mark that has entry `index`, the indexes that it stands for, and its file.
    fn find(&self, index: u64) -> Option<(Mark, Range<u64>, Arc<Slot>)> {
        let next = self.marks.partition_point(|mark| mark.first <= index);
        let mark = self.marks.get(next.checked_sub(1)?)?;
        let end = self.marks.get(next).map_or(self.end, |next| next.first);
        let (_, slot) = self.segments.iter().find(|(sequence, _)| *sequence == mark.segment)?;
        (index < end).then(|| (mark.clone(), mark.first..end, slot.clone()))
    }
}

/// Reads entries through the index.
pub(super) struct Entries(pub(super) Arc<Mutex<Index>>);

impl Reader for Entries {
    fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>> {
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut next = range.start;
        while next < range.end {
            let Some((mark, indexes, slot)) = self.0.lock().find(next) else { break };
            let wanted = next..range.end.min(indexes.end);
            let read = match read_mark(&mark, wanted.clone(), &slot) {
                Ok(read) => read,
                // A purge may have given the file to another segment meanwhile.
                Err(_) if self.0.lock().find(next).is_none_or(|(found, _, _)| found != mark) => break,
                Err(why) => {
                    let at = format!("{}, at byte {}: {why}", slot.path.display(), mark.bytes.start);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, at));
                }
            };
            for record in read {
                bytes += record.stored_bytes();
                if bytes > bytes_max && !records.is_empty() {
                    return Ok(records);
                }
                records.push(record);
            }
            next = wanted.end;
        }
        if records.is_empty() {
            let why = format!("entry {} is not in the log", range.start);
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        Ok(records)
    }
}

/// The entries of `wanted`, all of which lie in the mark's frames.
fn read_mark(mark: &Mark, wanted: Range<u64>, slot: &Slot) -> Result<Vec<Record>, String> {
    let bytes = usize::try_from(mark.bytes.end - mark.bytes.start).map_err(|why| why.to_string())?;
    let mut buffer = vec![0; bytes];
    slot.file.read_exact_at(&mut buffer, mark.bytes.start).map_err(|why| why.to_string())?;
    let buffer = Bytes::from(buffer);
    let mut records = Vec::with_capacity((wanted.end - wanted.start).min(4_096) as usize);
    let (mut at, mut number) = (0, mark.frame);
    while at < buffer.len() {
        let frame = frame::parse(&buffer[at..])?;
        if frame.link.number != number {
            return Err(format!("frame {} stands where frame {number} was", frame.link.number));
        }
        let mut items = buffer.slice(at + HEAD..at + HEAD + frame.items);
        while !items.is_empty() {
            let Item::Entries(run) = Item::get(&mut items).map_err(|why| why.to_string())? else { continue };
            for entry in run.records() {
                let (index, record) = entry.map_err(|why| why.to_string())?;
                if wanted.contains(&index) {
                    records.push(record);
                }
            }
        }
        at += frame.bytes();
        number += 1;
    }
    if records.len() as u64 != wanted.end - wanted.start {
        return Err(format!("entries {} to {} are not all there", wanted.start, wanted.end - 1));
    }
    Ok(records)
}
