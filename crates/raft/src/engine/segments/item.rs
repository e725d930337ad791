//! What a frame holds: `[name of four letters][bytes u32]` and a body, one after the other.

use bytes::{Buf, BufMut, Bytes};
use serde::de::DeserializeOwned;

use crate::codec::{DecodeError, decode, encode, get_u32, get_u64};
use crate::engine::{Identity, LogPoint, Record, SavedVote};

/// Bytes before an item's body.
pub(super) const HEAD: usize = 8;
/// Bytes before the entries of a run.
pub(super) const RUN_HEAD: usize = 8 + 4;

const PLACE: &str = "an item of the log";
const ENTRIES: &[u8; 4] = b"entr";
const TRUNCATED: &[u8; 4] = b"trun";
const PURGED: &[u8; 4] = b"purg";
const VOTE: &[u8; 4] = b"vote";
const COMMITTED: &[u8; 4] = b"comm";
const IDENTITY: &[u8; 4] = b"iden";
const SPAN: &[u8; 4] = b"span";

/// One item.
pub(super) enum Item {
    /// Entries, the first of which has this index.
    Entries(Run),
    /// Every entry from this index on is dropped.
    Truncated(u64),
    Purged(LogPoint),
    Vote(SavedVote),
    Committed(Option<LogPoint>),
    Identity(Box<Identity>),
    /// At the head of a segment: first and next index of the log in the segments before it.
    Span(u64, u64),
}

/// Entries as they lie in a frame.
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) count: u32,
    body: Bytes,
}

impl Run {
    /// The entries with their indexes; they share the frame's memory.
    pub(super) fn records(mut self) -> impl Iterator<Item = Result<(u64, Record), DecodeError>> {
        (self.first..)
            .zip(0..self.count)
            .map(move |(index, _)| Record::get(&mut self.body).map(|record| (index, record)))
    }
}

impl Item {
    /// Writes anything but entries, which [`begin_run`] and [`end_run`] write.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let (name, body) = match self {
            Self::Entries(_) => return,
            Self::Truncated(end) => (TRUNCATED, encode(end)),
            Self::Purged(point) => (PURGED, encode(point)),
            Self::Vote(vote) => (VOTE, encode(vote)),
            Self::Committed(point) => (COMMITTED, encode(point)),
            Self::Identity(identity) => (IDENTITY, encode(identity)),
            Self::Span(first, end) => (SPAN, encode(&(first, end))),
        };
        out.put_slice(name);
        out.put_u32_le(body.len() as u32);
        out.put_slice(&body);
    }

    /// Takes the next item off the front of `items`.
    pub(super) fn get(items: &mut Bytes) -> Result<Self, DecodeError> {
        let mut name = [0; 4];
        items.try_copy_to_slice(&mut name).map_err(|_| DecodeError::damaged(PLACE, "it ends early"))?;
        let bytes = get_u32(items, PLACE)? as usize;
        if bytes > items.len() {
            return Err(DecodeError::damaged(PLACE, "its length does not fit"));
        }
        let mut body = items.split_to(bytes);
        Ok(match &name {
            ENTRIES => {
                let (first, count) = (get_u64(&mut body, PLACE)?, get_u32(&mut body, PLACE)?);
                Self::Entries(Run { first, count, body })
            }
            TRUNCATED => Self::Truncated(value(&body)?),
            PURGED => Self::Purged(value(&body)?),
            VOTE => Self::Vote(value(&body)?),
            COMMITTED => Self::Committed(value(&body)?),
            IDENTITY => Self::Identity(Box::new(value(&body)?)),
            SPAN => {
                let (first, end) = value(&body)?;
                Self::Span(first, end)
            }
            _ => return Err(DecodeError::damaged(PLACE, "its name is unknown")),
        })
    }
}

fn value<T: DeserializeOwned>(body: &Bytes) -> Result<T, DecodeError> {
    decode(body, PLACE, body.len())
}

/// Begins a run of entries at the end of `out`; answers where, for [`end_run`].
pub(super) fn begin_run(out: &mut Vec<u8>, first: u64) -> usize {
    let at = out.len();
    out.put_slice(ENTRIES);
    out.put_u32_le(0);
    out.put_u64_le(first);
    out.put_u32_le(0);
    at
}

/// Ends the run that began at `at`.
pub(super) fn end_run(out: &mut [u8], at: usize, count: u32) {
    // A frame is bounded far below.
    let bytes = (out.len() - at - HEAD) as u32;
    out[at + 4..at + 8].copy_from_slice(&bytes.to_le_bytes());
    out[at + 16..at + 20].copy_from_slice(&count.to_le_bytes());
}
