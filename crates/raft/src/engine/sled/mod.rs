//! The log in sled.
//!
//! sled's own flush ends before the disk's cache: it neither empties that cache nor commits a file's new size. So one
//! thread owns the store, and each group of operations ends with sled's flush *and then* `fdatasync` on a handle of
//! our own on the same file; only then is anything reported as done. Messages above a quarter of a segment would go to
//! files that no flush covers, so segments have 8 MiB and rows stay small (see `codec::log`). sled cannot tell a torn
//! tail from a lost one, so each row carries its checksum and its place, a gap is refused at the start, and flushes are
//! counted outside the store (see `engine/flushed`). What remains: a disk that lies about its cache can reorder the reuse of a
//! segment.

mod open;
mod store;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use self::store::SledStore;
use super::threaded::{self, Opened, Reader};
use super::{Engine, Record};
use crate::codec::log::decode_row;
use crate::error::OpenError;
use crate::flush_meter::FlushMeter;

const SEGMENT_BYTES: usize = 8 << 20;
const CACHE_BYTES: u64 = 8 << 20;

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

/// Opens the log in `dir`, and makes it if there is none.
///
/// # Errors
///
/// When another process uses it, it cannot be read, or what it holds is not what was written. sled cuts its
/// file off behind the last record that makes sense, before this can refuse it; it is refused again each time.
pub(super) fn open_sled(dir: &Path) -> Result<Arc<dyn Engine>, OpenError> {
    let mut found = open::open(dir)?;
    let flushes = Arc::new(FlushMeter::default());
    let opened = Opened {
        reader: Rows(found.tree.clone()),
        place: dir.join("db"),
        identity: found.identity.take(),
        recovered: std::mem::take(&mut found.recovered),
        flushes: flushes.clone(),
        store: SledStore::new(found, flushes),
    };
    threaded::start(dir, opened)
}

struct Rows(sled::Tree);

impl Reader for Rows {
    fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>> {
        read(&self.0, range, bytes_max)
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

#[cfg(test)]
mod tests;
