//! The log in sled.
//!
//! sled's own flush ends before the disk's cache: it neither empties that cache nor commits a file's new size. So one
//! thread owns the store, and each group of operations ends with sled's flush *and then* `fdatasync` on a handle of
//! our own on the same file; only then is anything reported as done. Messages above a quarter of a segment would go to
//! files that no flush covers, so segments have 8 MiB and rows stay small (see `codec::log`). sled cannot tell a torn
//! tail from a lost one, so each row carries its checksum and its place, a gap is refused at the start, and flushes are
//! counted outside the store (see `flushed`). What remains: a disk that lies about its cache can reorder the reuse of a
//! segment.

mod flushed;
mod flusher;
mod open;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tokio::sync::watch;

use self::flusher::{Flusher, Op};
use super::{Done, Engine, Identity, LogPoint, Record, Recovered, SavedVote};
use crate::codec::log::decode_row;
use crate::error::OpenError;
use crate::flush_meter::FlushMeter;

const SEGMENT_BYTES: usize = 8 << 20;
const CACHE_BYTES: u64 = 8 << 20;
/// Operations that wait for the flusher. Admission bounds the bytes behind them long before.
const QUEUE: usize = 16_384;

const VOTE: &[u8] = b"M:vote";
const PURGED: &[u8] = b"M:purged";
const COMMITTED: &[u8] = b"M:committed";
const IDENTITY: &[u8] = b"M:ident";
const FLUSHED: &[u8] = b"M:flushed";
const ROW: u8 = b'L';

fn row_key(first: u64) -> [u8; 9] {
    let mut key = [ROW; 9];
    key[1..].copy_from_slice(&first.to_be_bytes());
    key
}

/// First index and count of a row.
type RowSpan = (u64, u64);

struct SledEngine {
    ops: SyncSender<Op>,
    thread: Mutex<Option<JoinHandle<()>>>,
    tree: Mutex<Option<sled::Tree>>,
    path: PathBuf,
    identity: Mutex<Option<Identity>>,
    recovered: Mutex<Option<Recovered>>,
    flushes: Arc<FlushMeter>,
    failed: watch::Receiver<Option<String>>,
}

/// Opens the log in `dir`, and makes it if there is none.
///
/// # Errors
///
/// When another process uses it, it cannot be read, or what it holds is not what was written. sled cuts its
/// file off behind the last record that makes sense, before this can refuse it; it is refused again each time.
pub fn open_sled(dir: &Path) -> Result<Arc<dyn Engine>, OpenError> {
    let mut opened = open::open(dir)?;
    let flushes = Arc::new(FlushMeter::default());
    let (fail, failed) = watch::channel(None);
    let (ops, queue) = sync_channel(QUEUE);
    let tree = opened.tree.clone();
    let identity = opened.identity.take();
    let recovered = std::mem::take(&mut opened.recovered);
    let flusher = Flusher::new(opened, flushes.clone(), fail);
    let thread = std::thread::Builder::new()
        .name("flusher".into())
        .spawn(move || flusher.run(&queue))
        .map_err(|source| OpenError::io(dir, source))?;
    Ok(Arc::new(SledEngine {
        ops,
        thread: Mutex::new(Some(thread)),
        tree: Mutex::new(Some(tree)),
        path: dir.to_owned(),
        identity: Mutex::new(identity),
        recovered: Mutex::new(Some(recovered)),
        flushes,
        failed,
    }))
}

impl SledEngine {
    fn ask(&self, op: Op) {
        // The flusher is gone after `close` alone; an unsent operation then reports its end by being dropped.
        if let Err(unsent) = self.ops.send(op) {
            unsent.0.fail("the log was closed");
        }
    }
}

impl Engine for SledEngine {
    fn place(&self) -> PathBuf {
        self.path.join("db")
    }

    fn identity(&self) -> Option<Identity> {
        self.identity.lock().clone()
    }

    fn load(&self) -> Result<Recovered, OpenError> {
        let recovered = self.recovered.lock().take();
        recovered.ok_or_else(|| OpenError::io(&self.path, io::Error::other("the log was loaded before")))
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
        *self.identity.lock() = Some(identity.clone());
        self.ask(Op::Identity { identity: Box::new(identity), done });
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>> {
        let tree = self.tree.lock().clone().ok_or_else(|| io::Error::other("the log was closed"))?;
        read(&tree, range, bytes_max)
    }

    fn blocks(&self) -> bool {
        true
    }

    fn flushes(&self) -> &FlushMeter {
        &self.flushes
    }

    fn failed(&self) -> watch::Receiver<Option<String>> {
        self.failed.clone()
    }

    fn close(&self) {
        self.tree.lock().take();
        // A flusher that is gone has closed already.
        let _ = self.ops.send(Op::Close);
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the flusher was reported through `failed`.
            let _ = thread.join();
        }
    }
}

fn read(tree: &sled::Tree, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>> {
    let missing =
        || io::Error::new(io::ErrorKind::NotFound, format!("entry {} is not in the log", range.start));
    let (start_key, _) = tree
        .get_lt(row_key(range.start.saturating_add(1)))?
        .filter(|(key, _)| key.first() == Some(&ROW))
        .ok_or_else(missing)?;
    let mut records = VecDeque::new();
    let mut next = None;
    let mut bytes = 0;
    for row in tree.range(start_key..sled::IVec::from(&row_key(range.end))) {
        let (first, row) = decode_row(&row?.1).map_err(io::Error::other)?;
        if next.is_some_and(|next| next != first) {
            break;
        }
        next = Some(first + row.len() as u64);
        for (index, record) in (first..).zip(row) {
            if !range.contains(&index) {
                continue;
            }
            bytes += record.stored_bytes();
            if bytes > bytes_max && !records.is_empty() {
                return Ok(records.into());
            }
            records.push_back(record);
        }
    }
    if records.is_empty() { Err(missing()) } else { Ok(records.into()) }
}

impl Drop for SledEngine {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
