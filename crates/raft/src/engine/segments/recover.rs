//! Opening: everything is read and checked once.
//!
//! Frames are followed from the oldest segment that is needed to the newest. Where the next one does not fit is the end
//! if nothing says otherwise: neither the number of the last flush, nor a frame anywhere behind it that knew more to be
//! durable. Then what is there is a torn write, and is written over; otherwise the log is refused.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::BLOCK;
use super::frame::{self, Link};
use super::index::{Change, Index};
use super::item::Item;
use super::slot::{self, Found, Head, Slot};
use super::state::State;
use crate::error::OpenError;

/// What a directory held.
#[derive(Default)]
pub(super) struct Recovery {
    pub(super) state: State,
    pub(super) index: Index,
    /// The newest segment, if there is one.
    pub(super) newest: Option<Newest>,
    /// Files that hold nothing that is needed.
    pub(super) free: Vec<Arc<Slot>>,
    /// For the name of the next file.
    pub(super) next_name: u64,
    /// The last frame.
    pub(super) last: Link,
    /// Entries below this index lay in segments that are gone.
    gone: u64,
    /// What is wrong with the first of those.
    lost: Option<OpenError>,
}

/// Where writing goes on.
pub(super) struct Newest {
    pub(super) sequence: u64,
    pub(super) slot: Arc<Slot>,
    pub(super) end: usize,
    /// Why what lies behind is no frame.
    pub(super) why: &'static str,
}

type Begun = BTreeMap<u64, (Arc<Slot>, Head)>;

/// Makes the directory, and keeps every other process out of it.
pub(super) fn lock(dir: &Path) -> Result<File, OpenError> {
    let failed = |source| OpenError::io(dir, source);
    fs::create_dir_all(dir).map_err(failed)?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)
        .and_then(|parent| parent.sync_all())
        .map_err(|source| OpenError::io(parent, source))?;
    let directory = File::open(dir).map_err(failed)?;
    match directory.try_lock() {
        Ok(()) => Ok(directory),
        Err(TryLockError::WouldBlock) => {
            Err(OpenError::InUse { path: dir.to_owned(), why: "it is locked".to_owned() })
        }
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Reads what `dir` holds. Changes nothing but files that were left half made.
pub(super) fn read(dir: &Path) -> Result<Recovery, OpenError> {
    let (slots, next_name) = slot::list(dir)?;
    let mut begun = Begun::new();
    let mut rest = Vec::new();
    for slot in slots.into_iter().map(Arc::new) {
        match slot.head()? {
            Found::Segment(head) => {
                if head.bytes != slot.bytes {
                    let why = format!("it has {} bytes instead of {}", slot.bytes, head.bytes);
                    return Err(OpenError::damaged(&slot.path, why));
                }
                let path = slot.path.clone();
                if let Some((other, _)) = begun.insert(head.sequence, (slot, head)) {
                    let why =
                        format!("it holds segment {}, and so does {}", head.sequence, other.path.display());
                    return Err(OpenError::damaged(path, why));
                }
            }
            Found::Blank | Found::Unreadable => rest.push(slot),
        }
    }
    drop_unbegun(&mut begun, &mut rest)?;
    let mut recovery = Recovery { next_name, ..Recovery::default() };
    let needed = split_needed(&mut begun);
    for (slot, head) in needed.values() {
        recovery.segment(slot, *head)?;
    }
    recovery.check_gone(dir, needed.first_key_value().map(|(sequence, _)| *sequence))?;
    recovery.check_end(dir, &rest)?;
    // Those that were used first come first; then those that were never used, or torn.
    recovery.free = begun.into_values().map(|(slot, _)| slot).chain(rest).collect();
    Ok(recovery)
}

/// A segment whose first frame is not there never began.
fn drop_unbegun(begun: &mut Begun, rest: &mut Vec<Arc<Slot>>) -> Result<(), OpenError> {
    while let Some(newest) = begun.last_entry() {
        let (slot, head) = newest.get();
        let bytes = slot.read_all()?;
        if frame::parse(bytes.get(slot::HEAD..).unwrap_or(&[])).is_ok_and(|first| first.follows(head.before))
        {
            return Ok(());
        }
        let (slot, _) = newest.remove();
        rest.push(slot);
    }
    Ok(())
}

/// Takes out the newest segment and all before it that it needs, as far as they are there without a gap.
fn split_needed(begun: &mut Begun) -> Begun {
    let Some((&newest, (_, head))) = begun.last_key_value() else { return Begun::new() };
    let (mut first, oldest) = (newest, head.oldest);
    while let Some(before) =
        first.checked_sub(1).filter(|before| *before >= oldest && begun.contains_key(before))
    {
        first = before;
    }
    begun.split_off(&first)
}

impl Recovery {
    fn segment(&mut self, slot: &Arc<Slot>, head: Head) -> Result<(), OpenError> {
        if let Some(before) = self.newest.take()
            && head.before != self.last
        {
            let why = format!(
                "at byte {}: {}, and the next segment goes on after frame {}",
                before.end, before.why, head.before.number
            );
            // That matters only if it held anything that was not purged by the end: begin anew behind it.
            let lost = self.lost.take().unwrap_or(OpenError::damaged(&before.slot.path, why));
            *self = Self { lost: Some(lost), next_name: self.next_name, ..Self::default() };
        }
        let first = self.index.oldest().is_none();
        self.last = head.before;
        self.index.apply(Change::Begin(head.sequence, slot.clone()));
        let bytes = Bytes::from(slot.read_all()?);
        let mut at = slot::HEAD;
        let why = loop {
            let frame = match frame::parse(bytes.get(at..).unwrap_or(&[])) {
                Ok(frame) if frame.follows(self.last) => frame,
                Ok(_) => break "its frame does not follow the one before",
                Err(why) => break why,
            };
            let items = bytes.slice(at + frame::HEAD..at + frame::HEAD + frame.items);
            let place = at as u64..(at + frame.bytes()) as u64;
            self.frame(items, frame.link.number, place, first && at == slot::HEAD).map_err(|why| {
                OpenError::damaged(&slot.path, format!("at byte {at}, frame {}: {why}", frame.link.number))
            })?;
            self.last = frame.link;
            at += frame.bytes();
        };
        self.newest = Some(Newest { sequence: head.sequence, slot: slot.clone(), end: at, why });
        Ok(())
    }

    fn frame(
        &mut self,
        mut items: Bytes,
        number: u64,
        place: std::ops::Range<u64>,
        is_first: bool,
    ) -> Result<(), String> {
        while !items.is_empty() {
            match Item::get(&mut items).map_err(|why| why.to_string())? {
                Item::Entries(run) => {
                    let (first, count) = (run.first, u64::from(run.count));
                    for record in run.records() {
                        record.map_err(|why| why.to_string())?;
                    }
                    self.state.append(first, count)?;
                    let indexes = first..first + count;
                    self.index.apply(Change::Entries { indexes, frame: number, bytes: place.clone() });
                }
                Item::Truncated(end) => {
                    self.state.truncate(end);
                    self.gone = self.gone.min(end);
                    self.index.apply(Change::Truncate(end));
                }
                Item::Purged(point) => {
                    self.state.purge(point);
                    self.index.apply(Change::Purge(point.index.saturating_add(1)));
                }
                Item::Vote(vote) => self.state.vote = Some(vote),
                Item::Committed(committed) => self.state.committed = committed,
                Item::Identity(identity) => self.state.identity = Some(*identity),
                Item::Span(first, end) if is_first => {
                    self.state.log = first..end.max(first);
                    self.gone = end;
                }
                Item::Span(first, end) if self.state.log != (first..end) => {
                    let log = &self.state.log;
                    return Err(format!(
                        "it goes on after entries {first} to {end}, not after {} to {}",
                        log.start, log.end
                    ));
                }
                Item::Span(..) => {}
            }
        }
        Ok(())
    }

    /// What lay in segments that are gone must have been purged.
    fn check_gone(&mut self, dir: &Path, oldest: Option<u64>) -> Result<(), OpenError> {
        let log = &self.state.log;
        let (Some(oldest), true) = (oldest, log.start < log.end.min(self.gone)) else { return Ok(()) };
        let why = format!(
            "entries {} to {} are missing: the segment before segment {oldest} is not there",
            log.start,
            log.end.min(self.gone) - 1
        );
        Err(self.lost.take().unwrap_or(OpenError::damaged(dir, why)))
    }

    /// Nothing behind the end, and in no file besides, may say that more was durable.
    fn check_end(&self, dir: &Path, rest: &[Arc<Slot>]) -> Result<(), OpenError> {
        let newest = self.newest.as_ref().map(|newest| (&newest.slot, newest.end));
        for (slot, from) in newest.into_iter().chain(rest.iter().map(|slot| (slot, 0))) {
            let bytes = slot.read_all()?;
            let Some((at, flushed)) = frame::flushed_beyond(&bytes, from, self.last.number) else { continue };
            let end = self.ends();
            let why = format!(
                "{end}; but byte {at} of {} says that the log was flushed up to frame {flushed}",
                slot.path.display()
            );
            return Err(OpenError::damaged(self.place(dir), why));
        }
        Ok(())
    }

    /// Where the log ends, for messages.
    pub(super) fn ends(&self) -> String {
        match &self.newest {
            Some(newest) => format!("frame {}, before byte {}: {}", self.last.number, newest.end, newest.why),
            None => "nothing".to_owned(),
        }
    }

    /// The file where it ends.
    pub(super) fn place(&self, dir: &Path) -> PathBuf {
        self.newest.as_ref().map_or(dir.to_owned(), |newest| newest.slot.path.clone())
    }

    /// Takes the head off files that would be found as segments later on, and were none.
    pub(super) fn blank_torn(&self) -> Result<(), OpenError> {
        for slot in &self.free {
            match slot.head()? {
                Found::Blank => {}
                Found::Segment(head)
                    if self.newest.as_ref().is_some_and(|it| head.sequence < it.sequence) => {}
                Found::Segment(_) | Found::Unreadable => slot.blank()?,
            }
        }
        Ok(())
    }
}

impl Newest {
    /// What its last block holds so far, and where that begins.
    pub(super) fn open_block(&self) -> Result<(Vec<u8>, u64), OpenError> {
        let base = self.end - self.end % BLOCK;
        let mut block = vec![0; self.end - base];
        let read = self.slot.file.read_exact_at(&mut block, base as u64);
        read.map_err(|source| OpenError::io(&self.slot.path, source))?;
        Ok((block, base as u64))
    }
}
