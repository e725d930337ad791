//! Opening the store: everything is read and checked once, and refused when anything is missing.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::{CACHE_BYTES, COMMITTED, FLUSHED, IDENTITY, PURGED, ROW, RowSpan, SEGMENT_BYTES, VOTE, row_key};
use crate::codec::log::decode_row;
use crate::codec::unseal;
use crate::engine::flushed::Flushed;
use crate::engine::{Identity, LogPoint, Record, Recovered, TAIL_BYTES};
use crate::error::OpenError;

/// How long an opening waits for the file to be let go.
const LINGER: Duration = Duration::from_secs(2);

pub(super) struct Found {
    pub(super) db: sled::Db,
    pub(super) tree: sled::Tree,
    /// Our own handle on sled's file, for `fdatasync`.
    pub(super) file: File,
    pub(super) flushed: Flushed,
    pub(super) rows: VecDeque<RowSpan>,
    pub(super) recovered: Recovered,
    pub(super) identity: Option<Identity>,
}

pub(super) fn open(dir: &Path) -> Result<Found, OpenError> {
    fs::create_dir_all(dir).map_err(|source| OpenError::io(dir, source))?;
    let (db, tree) = open_patiently(dir)?;
    let file = sync_files(dir)?;
    let read = catch_unwind(AssertUnwindSafe(|| {
        let stored = record(dir, &tree, FLUSHED, "the number of the last flush")?;
        let ends = format!("flush {}", stored.unwrap_or(0));
        let flushed = Flushed::open(dir, &dir.join("db"), stored, &ends)?;
        Ok((flushed, recover(dir, &tree)?))
    }));
    let (flushed, (recovered, rows, identity)) = read.unwrap_or_else(|_| {
        Err(OpenError::damaged(dir.join("db"), "the store could not make sense of it"))
    })?;
    Ok(Found { db, tree, file, flushed, rows, recovered, identity })
}

/// Opens the store, and waits a moment for an earlier one of this process: sled's own threads let go of its file a
/// little after the last handle was dropped.
fn open_patiently(dir: &Path) -> Result<(sled::Db, sled::Tree), OpenError> {
    let until = Instant::now() + LINGER;
    loop {
        match open_store(dir) {
            Err(OpenError::InUse { .. }) if Instant::now() < until => thread::sleep(LINGER / 100),
            opened => return opened,
        }
    }
}

fn open_store(dir: &Path) -> Result<(sled::Db, sled::Tree), OpenError> {
    // sled panics on damage in the middle of its file.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let db = sled::Config::new()
            .path(dir)
            .segment_size(SEGMENT_BYTES)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(None)
            .open()?;
        let tree = db.open_tree("raft")?;
        Ok((db, tree))
    }));
    match opened {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(error)) => Err(refuse(dir, error)),
        Err(_) => Err(OpenError::damaged(dir.join("db"), "the store could not make sense of it")),
    }
}

fn refuse(dir: &Path, error: sled::Error) -> OpenError {
    match error {
        sled::Error::Io(source) if source.to_string().contains("lock") => {
            OpenError::InUse { path: dir.to_owned(), why: source.to_string() }
        }
        sled::Error::Io(source) => OpenError::io(dir, source),
        error => OpenError::damaged(dir.join("db"), error),
    }
}

/// sled never syncs a directory, nor its `conf`.
fn sync_files(dir: &Path) -> Result<File, OpenError> {
    let db = dir.join("db");
    let file =
        File::options().read(true).write(true).open(&db).map_err(|source| OpenError::io(&db, source))?;
    file.sync_all().map_err(|source| OpenError::io(&db, source))?;
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    for path in [&dir.join("conf"), &dir.join("blobs"), dir, parent] {
        if path.exists() {
            let opened = File::open(path).and_then(|opened| opened.sync_all());
            opened.map_err(|source| OpenError::io(path, source))?;
        }
    }
    Ok(file)
}

type Read = (Recovered, VecDeque<RowSpan>, Option<Identity>);

fn recover(dir: &Path, tree: &sled::Tree) -> Result<Read, OpenError> {
    let file = dir.join("db");
    let vote = record(dir, tree, VOTE, "the vote")?;
    let purged: Option<LogPoint> = record(dir, tree, PURGED, "the purge mark")?;
    let committed = record(dir, tree, COMMITTED, "the commit mark")?;
    let identity = record(dir, tree, IDENTITY, "the identity")?;
    let mut rows = VecDeque::new();
    let mut tail = Tail::default();
    let mut next = purged.map(|point: LogPoint| point.index + 1);
    for row in tree.range([ROW]..[ROW + 1]) {
        let (key, row) = row.map_err(|error| refuse(dir, error))?;
        let (first, records) = decode_row(&row).map_err(|source| OpenError::decode(&file, source))?;
        if key != row_key(first) {
            return Err(OpenError::damaged(&file, format!("a row of entry {first} is in the wrong place")));
        }
        let count = records.len() as u64;
        let end = first + count;
        // Rows below the purge mark are left over from a purge that was not finished.
        if tail.end.is_none() && purged.is_some_and(|point| end <= point.index + 1) {
            rows.push_back((first, count));
            continue;
        }
        let straddles = purged.is_some_and(|point| first <= point.index) && tail.end.is_none();
        match next {
            Some(next) if first != next && !straddles => {
                return Err(OpenError::damaged(
                    &file,
                    format!("the log goes from entry {} to entry {first}", next.saturating_sub(1)),
                ));
            }
            _ => {}
        }
        next = Some(end);
        rows.push_back((first, count));
        tail.push(first, records, purged.map_or(0, |point| point.index + 1));
    }
    let recovered = Recovered { vote, purged, committed, log: tail.log(), tail: tail.records.into() };
    Ok((recovered, rows, identity))
}

fn record<T: serde::de::DeserializeOwned>(
    dir: &Path,
    tree: &sled::Tree,
    key: &[u8],
    place: &'static str,
) -> Result<Option<T>, OpenError> {
    let value = tree.get(key).map_err(|error| refuse(dir, error))?;
    value
        .map(|value| unseal(&value, place).map_err(|source| OpenError::decode(dir.join("db"), source)))
        .transpose()
}

/// The newest entries, and how far the log reaches.
#[derive(Default)]
struct Tail {
    first: u64,
    end: Option<u64>,
    records: VecDeque<Record>,
    bytes: usize,
}

impl Tail {
    fn push(&mut self, first: u64, records: Vec<Record>, from: u64) {
        for (index, record) in (first..).zip(records) {
            if index < from {
                continue;
            }
            if self.end.is_none() {
                self.first = index;
            }
            self.end = Some(index + 1);
            self.bytes += record.stored_bytes();
            self.records.push_back(record);
        }
        while self.bytes > TAIL_BYTES && self.records.len() > 1 {
            if let Some(oldest) = self.records.pop_front() {
                self.bytes -= oldest.stored_bytes();
            }
        }
    }

    fn log(&self) -> Option<(u64, u64)> {
        self.end.map(|end| (self.first, end - 1))
    }
}
