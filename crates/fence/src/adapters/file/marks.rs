//! The marks beside a file: one line that says version and checksum, then JSON.
//!
//! Damage is refused, never repaired: a guess would admit a stale holder. Cluster, lock and slot stand apart, so that no
//! two keys can run together.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use palisade_core::ids::{LockName, Slot};
use palisade_core::token::Token;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{read_bounded, replace_file, shown, storage};
use crate::admit::{HighWaterMark, MarkKey};
use crate::error::FenceError;

const VERSION: &str = "palisade-marks 1";
/// Some ten thousand marks with the longest names.
const BYTES_MAX: u64 = 16 * 1_024 * 1_024;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(BTreeMap<MarkKey, HighWaterMark>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    cluster: String,
    lock: LockName,
    slot: Slot,
    mark: u64,
}

impl Marks {
    pub(super) fn get(&self, key: &MarkKey) -> Option<HighWaterMark> {
        self.0.get(key).copied()
    }

    pub(super) fn set(&mut self, key: &MarkKey, mark: Option<HighWaterMark>) {
        match mark {
            Some(mark) => self.0.insert(key.clone(), mark),
            None => self.0.remove(key),
        };
    }

    pub(super) fn save(&self, path: &Path) -> Result<(), FenceError> {
        let entries = self.0.iter().map(|(key, HighWaterMark(mark))| Entry {
            cluster: key.cluster.to_string(),
            lock: key.lock.clone(),
            slot: key.slot,
            mark: mark.get(),
        });
        let body = serde_json::to_string_pretty(&entries.collect::<Vec<_>>())
            .map_err(|error| storage("encoding", path, error.into()))?;
        replace_file(path, format!("{VERSION} {}\n{body}\n", checksum(body.as_bytes())).as_bytes())
    }

    pub(super) fn load(path: &Path) -> Result<Self, FenceError> {
        let bytes = match read_bounded(path, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FenceError::NoMarks { store: shown(path) });
            }
            Err(error) => return Err(storage("reading", path, error)),
        };
        decode(&bytes).map_err(|reason| FenceError::Damaged { store: shown(path), reason })
    }
}

fn checksum(body: &[u8]) -> String {
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decode(bytes: &[u8]) -> Result<Marks, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
    let (first, rest) = text.split_once('\n').ok_or("it ends within its first line")?;
    let sum = first
        .strip_prefix(VERSION)
        .and_then(|sum| sum.strip_prefix(' '))
        .ok_or("its first line names another format or version")?;
    let body = rest.strip_suffix('\n').ok_or("its end is missing")?;
    if checksum(body.as_bytes()) != sum {
        return Err("its checksum differs".into());
    }
    let entries: Vec<Entry> = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let mut marks = BTreeMap::new();
    for entry in entries {
        let cluster = entry.cluster.parse().map_err(|_| "a cluster id is not one")?;
        let mark = Token::new(entry.mark).ok_or("a mark is not a token")?;
        let key = MarkKey { cluster, lock: entry.lock, slot: entry.slot };
        if marks.insert(key, HighWaterMark(mark)).is_some() {
            return Err("a mark stands twice".into());
        }
    }
    Ok(Marks(marks))
}
