//! The bytes of what nodes say to each other.
//!
//! Appends are laid out by hand: entries are copied as they stand. All else is small and rare.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use palisade_core::limits::TOKEN_MAX;
use serde::{Deserialize, Serialize};

use super::log::{Record, put_entries};
use super::{DecodeError, FIRST, decode, encode, get_u32, versioned};
use crate::types::{AppendRequest, AppendResult, LogId, SnapshotMeta, Vote};

/// Bytes of one message. An append carries about a mebibyte of entries; the rest is far smaller.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8 << 20;
/// Bytes of entries in one append, beyond its first entry.
pub(crate) const APPEND_BYTES_MAX: usize = 1 << 20;
/// Bytes of a snapshot's chunk.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

#[derive(Serialize, Deserialize)]
struct AppendHead {
    vote: Vote,
    prev: Option<LogId>,
    commit: Option<LogId>,
    count: u32,
}

/// `[version][length of the head u32][head][entries]`.
pub(crate) fn encode_append(request: &AppendRequest) -> Bytes {
    let head = encode(&AppendHead {
        vote: request.vote,
        prev: request.prev_log_id,
        commit: request.leader_commit,
        count: request.entries.len() as u32,
    });
    let mut out = BytesMut::with_capacity(head.len() + 8 + request.entries.len() * 192);
    out.put_u8(FIRST);
    out.put_u32_le(head.len() as u32);
    out.put_slice(&head);
    put_entries(&request.entries, &mut out);
    out.freeze()
}

pub(crate) fn decode_append(mut bytes: Bytes) -> Result<AppendRequest, DecodeError> {
    const PLACE: &str = "an append";
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(DecodeError::TooLarge { place: PLACE, bytes: bytes.len(), max: MESSAGE_BYTES_MAX });
    }
    versioned(&bytes, PLACE)?;
    bytes.advance(1);
    let len = get_u32(&mut bytes, PLACE)? as usize;
    if len > bytes.len() {
        return Err(DecodeError::damaged(PLACE, "it ends early"));
    }
    let head: AppendHead = decode(&bytes.split_to(len), PLACE, MESSAGE_BYTES_MAX)?;
    let first = head.prev.map_or(0, |prev| prev.index.saturating_add(1));
    let end = first.checked_add(u64::from(head.count)).filter(|end| *end <= TOKEN_MAX);
    let end = end.ok_or_else(|| DecodeError::damaged(PLACE, "its index is too large"))?;
    let mut entries = Vec::with_capacity((head.count as usize).min(bytes.len() / 8));
    for index in first..end {
        entries.push(Record::get(&mut bytes)?.to_entry(index)?);
    }
    if !bytes.is_empty() {
        return Err(DecodeError::damaged(PLACE, "its count does not match"));
    }
    Ok(AppendRequest { vote: head.vote, prev_log_id: head.prev, entries, leader_commit: head.commit })
}

pub(crate) fn encode_append_result(result: &AppendResult) -> Bytes {
    encode(result).into()
}

pub(crate) fn decode_append_result(bytes: &[u8]) -> Result<AppendResult, DecodeError> {
    decode(bytes, "the answer to an append", MESSAGE_BYTES_MAX)
}

/// Any small message.
pub(crate) fn encode_message(message: &impl Serialize) -> Bytes {
    encode(message).into()
}

/// Any small message.
pub(crate) fn decode_message<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
    place: &'static str,
) -> Result<T, DecodeError> {
    decode(bytes, place, MESSAGE_BYTES_MAX)
}

/// The parts of a snapshot, in order: one head, chunks, one end.
#[derive(Debug)]
pub(crate) enum SnapshotPart {
    /// Whose it is and what comes.
    Head(SnapshotHead),
    /// A piece of it.
    Chunk(Bytes),
    /// Checksum of the whole.
    End(u32),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotHead {
    pub(crate) vote: Vote,
    /// Bytes of all chunks.
    pub(crate) bytes: u64,
}

const HEAD: u8 = 0;
const CHUNK: u8 = 1;
const END: u8 = 2;

pub(crate) fn encode_part(part: &SnapshotPart) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(FIRST);
    match part {
        SnapshotPart::Head(head) => {
            out.put_u8(HEAD);
            out.put_slice(&encode(head));
        }
        SnapshotPart::Chunk(chunk) => {
            out.reserve(1 + chunk.len());
            out.put_u8(CHUNK);
            out.put_slice(chunk);
        }
        SnapshotPart::End(checksum) => {
            out.put_u8(END);
            out.put_u32_le(*checksum);
        }
    }
    out.freeze()
}

pub(crate) fn decode_part(mut bytes: Bytes) -> Result<SnapshotPart, DecodeError> {
    const PLACE: &str = "a part of a snapshot";
    versioned(&bytes, PLACE)?;
    bytes.advance(1);
    match bytes.try_get_u8() {
        Ok(HEAD) => decode(&bytes, PLACE, MESSAGE_BYTES_MAX).map(SnapshotPart::Head),
        Ok(CHUNK) => Ok(SnapshotPart::Chunk(bytes)),
        Ok(END) => get_u32(&mut bytes, PLACE).map(SnapshotPart::End),
        Ok(kind) => Err(DecodeError::damaged(PLACE, format!("its kind is {kind}"))),
        Err(_) => Err(DecodeError::damaged(PLACE, "it ends early")),
    }
}

/// Kept beside the bytes so that the receiver need not decode the table to know what it covers.
pub(crate) fn cover_of(snapshot: &[u8]) -> Result<SnapshotMeta, DecodeError> {
    super::snapshot::decode_cover(snapshot)
}

#[cfg(test)]
mod tests {
    use openraft::EntryPayload;
    use openraft::vote::RaftVote;
    use openraft::vote::leader_id_std::LeaderId;

    use super::*;
    use crate::types::{EncodedCommand, Entry, log_id};

    fn request(entries: u64) -> AppendRequest {
        let entry = |index| Entry {
            log_id: log_id(3, index),
            payload: EntryPayload::Normal(EncodedCommand { bytes: vec![7; 100].into() }),
        };
        AppendRequest {
            vote: Vote::from_leader_id(LeaderId { term: 3, voted_for: 1 }, true),
            prev_log_id: Some(log_id(2, 9)),
            entries: (10..10 + entries).map(entry).collect(),
            leader_commit: Some(log_id(2, 8)),
        }
    }

    #[test]
    fn an_append_survives_with_and_without_entries() {
        for entries in [0, 1, 100] {
            let sent = request(entries);
            let got = decode_append(encode_append(&sent)).expect("it is whole");
            assert_eq!(format!("{got:?}"), format!("{sent:?}"));
        }
    }

    #[test]
    fn a_truncated_append_is_refused() {
        let bytes = encode_append(&request(2));
        for len in 0..bytes.len() {
            assert!(decode_append(bytes.slice(..len)).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn each_part_of_a_snapshot_survives() {
        let chunk = encode_part(&SnapshotPart::Chunk(Bytes::from_static(b"abc")));
        assert!(matches!(decode_part(chunk), Ok(SnapshotPart::Chunk(bytes)) if &bytes[..] == b"abc"));
        let end = encode_part(&SnapshotPart::End(7));
        assert!(matches!(decode_part(end), Ok(SnapshotPart::End(7))));
        assert!(decode_part(Bytes::from_static(&[FIRST, 9])).is_err());
        assert!(decode_part(Bytes::from_static(&[FIRST])).is_err());
    }
}
