//! The bytes of a guarded object: a line with a version and the marks, then the data.

use std::collections::BTreeMap;

use bytes::Bytes;
use palisade_core::ids::{LockName, Slot};
use palisade_core::token::Token;
use serde::{Deserialize, Serialize};

use crate::admit::{HighWaterMark, MarkKey};

const VERSION: &str = "palisade-object 1 ";
/// Some thousand marks.
const HEADER_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Body {
    /// How often the object was written: makes each body another one.
    pub(super) writes: u64,
    marks: BTreeMap<MarkKey, HighWaterMark>,
    pub(super) data: Bytes,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    writes: u64,
    marks: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    cluster: String,
    lock: LockName,
    slot: Slot,
    mark: u64,
}

impl Body {
    pub(super) fn mark(&self, key: &MarkKey) -> Option<HighWaterMark> {
        self.marks.get(key).copied()
    }

    pub(super) fn set(&mut self, key: &MarkKey, mark: Option<HighWaterMark>) {
        match mark {
            Some(mark) => self.marks.insert(key.clone(), mark),
            None => self.marks.remove(key),
        };
    }

    pub(super) fn encode(&self) -> Result<Bytes, serde_json::Error> {
        let entry = |(key, HighWaterMark(mark)): (&MarkKey, &HighWaterMark)| Entry {
            cluster: key.cluster.to_string(),
            lock: key.lock.clone(),
            slot: key.slot,
            mark: mark.get(),
        };
        let header = Header { writes: self.writes, marks: self.marks.iter().map(entry).collect() };
        let header = serde_json::to_string(&header)?;
        Ok([VERSION.as_bytes(), header.as_bytes(), b"\n", &self.data].concat().into())
    }

    pub(super) fn decode(bytes: Bytes) -> Result<Self, String> {
        let end = bytes.iter().take(HEADER_BYTES_MAX).position(|byte| *byte == b'\n');
        let end = end.ok_or("its first line does not end")?;
        let line = std::str::from_utf8(&bytes[..end]).map_err(|_| "its first line is not text")?;
        let header = line.strip_prefix(VERSION).ok_or("its first line names another format or version")?;
        let Header { writes, marks: entries } =
            serde_json::from_str(header).map_err(|error| error.to_string())?;
        let mut marks = BTreeMap::new();
        for Entry { cluster, lock, slot, mark } in entries {
            let cluster = cluster.parse().map_err(|_| "a cluster id is not one")?;
            let mark = Token::new(mark).ok_or("a mark is not a token")?;
            if marks.insert(MarkKey { cluster, lock, slot }, HighWaterMark(mark)).is_some() {
                return Err("a mark stands twice".to_owned());
            }
        }
        Ok(Self { writes, marks, data: bytes.slice(end + 1..) })
    }
}
