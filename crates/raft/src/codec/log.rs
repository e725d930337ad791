//! Bytes of the log: commands, entries, and the rows that hold entries on disk.
//!
//! An entry is `[term u64][kind u8][body]`; a row `[version][checksum][first index u64][count u32]`, then each entry
//! after its length. Peers get entries in the same form.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use openraft::EntryPayload;
use palisade_core::command::Envelope;
use serde::{Deserialize, Serialize};

use super::{DecodeError, FIRST, body_of, checked, decode, encode, encode_as, get_u32, get_u64, version_of};
use crate::types::{EncodedCommand, Entry, Membership, log_id};

/// Bytes of one encoded command. A row of the log holds at least one entry, and the store keeps rows in groups of up
/// to 17 that must stay below 2 MiB, so that they are part of what a flush covers.
pub const COMMAND_BYTES_MAX: usize = 96 << 10;

/// Bytes at which a row is full.
pub(crate) const ROW_BYTES_MAX: usize = 64 << 10;

const ENTRY_HEAD: usize = 8 + 1;
const ROW_HEAD: usize = 1 + 4 + 8 + 4;

/// Bytes of an encoded membership. Far above what fifty nodes need.
const MEMBERSHIP_BYTES_MAX: usize = COMMAND_BYTES_MAX;

/// Encodes a command for the log: the version that first had such a command, and the envelope. In an allocation of just
/// its size: it stays in memory with the newest entries.
pub fn encode_command(envelope: &Envelope) -> Bytes {
    Bytes::copy_from_slice(&encode_as(envelope.command.format(), envelope))
}

/// Reads a command.
///
/// # Errors
///
/// When it was written by a newer version, is too large, or is damaged.
pub fn decode_command(bytes: &[u8]) -> Result<Envelope, DecodeError> {
    const PLACE: &str = "a command";
    if bytes.len() > COMMAND_BYTES_MAX {
        return Err(DecodeError::TooLarge { place: PLACE, bytes: bytes.len(), max: COMMAND_BYTES_MAX });
    }
    // Later versions have more kinds; those of earlier ones look as they did.
    let (_, body) = version_of(bytes, PLACE)?;
    body_of(body, PLACE)
}

/// One entry without its index, as the engine keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The leader's term.
    pub term: u64,
    /// What the body is.
    pub kind: RecordKind,
    /// The encoded command or membership; empty for a blank entry.
    pub body: Bytes,
}

/// What an entry carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Nothing: a new leader's first entry.
    Blank,
    /// A command.
    Command,
    /// The members.
    Membership,
}

impl Record {
    pub(crate) fn from_entry(entry: &Entry) -> Self {
        let term = entry.log_id.leader_id.term;
        let (kind, body) = match &entry.payload {
            EntryPayload::Blank => (RecordKind::Blank, Bytes::new()),
            EntryPayload::Normal(command) => (RecordKind::Command, command.bytes.clone()),
            EntryPayload::Membership(members) => {
                (RecordKind::Membership, encode(&Members::from(members)).into())
            }
        };
        Self { term, kind, body }
    }

    pub(crate) fn to_entry(&self, index: u64) -> Result<Entry, DecodeError> {
        let payload = match self.kind {
            RecordKind::Blank => EntryPayload::Blank,
            RecordKind::Command => EntryPayload::Normal(EncodedCommand { bytes: self.body.clone() }),
            RecordKind::Membership => {
                let members: Members = decode(&self.body, "a membership", MEMBERSHIP_BYTES_MAX)?;
                EntryPayload::Membership(members.check()?)
            }
        };
        Ok(Entry { log_id: log_id(self.term, index), payload })
    }

    /// Bytes that it takes in a row.
    pub(crate) fn stored_bytes(&self) -> usize {
        4 + ENTRY_HEAD + self.body.len()
    }

    pub(crate) fn put(&self, out: &mut impl BufMut) {
        // A body is bounded by COMMAND_BYTES_MAX, so its length fits.
        out.put_u32_le((ENTRY_HEAD + self.body.len()) as u32);
        out.put_u64_le(self.term);
        out.put_u8(match self.kind {
            RecordKind::Blank => 0,
            RecordKind::Command => 1,
            RecordKind::Membership => 2,
        });
        out.put_slice(&self.body);
    }

    /// The next entry; its body shares the memory of `bytes`.
    pub(crate) fn get(bytes: &mut Bytes) -> Result<Self, DecodeError> {
        const PLACE: &str = "a log entry";
        let len = get_u32(bytes, PLACE)? as usize;
        if len < ENTRY_HEAD || len > bytes.len() {
            return Err(DecodeError::damaged(PLACE, "its length does not fit"));
        }
        let mut entry = bytes.split_to(len);
        let term = get_u64(&mut entry, PLACE)?;
        let kind = match entry.get_u8() {
            0 => RecordKind::Blank,
            1 => RecordKind::Command,
            2 => RecordKind::Membership,
            kind => return Err(DecodeError::damaged(PLACE, format!("its kind is {kind}"))),
        };
        if entry.len() > COMMAND_BYTES_MAX {
            return Err(DecodeError::TooLarge { place: PLACE, bytes: entry.len(), max: COMMAND_BYTES_MAX });
        }
        Ok(Self { term, kind, body: entry })
    }
}

/// The members as they are written: independent of openraft's own layout.
#[derive(Serialize, Deserialize)]
pub(crate) struct Members {
    /// One set of voters, or two while the membership changes.
    configs: Vec<std::collections::BTreeSet<u64>>,
    nodes: std::collections::BTreeMap<u64, crate::replica::PeerNode>,
}

impl From<&Membership> for Members {
    fn from(membership: &Membership) -> Self {
        Self {
            configs: membership.get_joint_config().clone(),
            nodes: membership.nodes().map(|(id, node)| (*id, node.clone())).collect(),
        }
    }
}

impl Members {
    pub(crate) fn check(self) -> Result<Membership, DecodeError> {
        if self.configs.is_empty() && self.nodes.is_empty() {
            return Ok(Membership::default());
        }
        Membership::new(self.configs, self.nodes).map_err(|why| DecodeError::damaged("a membership", why))
    }
}

/// Packs as many of `records` as fit a row, at least one; says how many.
pub(crate) fn encode_row(first: u64, records: &[Record]) -> (Vec<u8>, usize) {
    let mut bytes = ROW_HEAD;
    let mut count = 0;
    for record in records {
        if count > 0 && bytes + record.stored_bytes() > ROW_BYTES_MAX {
            break;
        }
        bytes += record.stored_bytes();
        count += 1;
    }
    let mut row = Vec::with_capacity(bytes);
    row.put_u8(FIRST);
    row.put_u32_le(0);
    row.put_u64_le(first);
    row.put_u32_le(count as u32);
    records[..count].iter().for_each(|record| record.put(&mut row));
    let checksum = crc32fast::hash(&row[5..]);
    row[1..5].copy_from_slice(&checksum.to_le_bytes());
    (row, count)
}

/// Reads what [`encode_row`] wrote: the first index and the entries.
pub(crate) fn decode_row(row: &[u8]) -> Result<(u64, Vec<Record>), DecodeError> {
    const PLACE: &str = "a row of the log";
    let mut body = Bytes::copy_from_slice(checked(row, PLACE)?);
    let first = get_u64(&mut body, PLACE)?;
    let count = get_u32(&mut body, PLACE)?;
    let mut records = Vec::with_capacity((count as usize).min(ROW_BYTES_MAX / ENTRY_HEAD));
    for _ in 0..count {
        records.push(Record::get(&mut body)?);
    }
    if !body.is_empty() || records.is_empty() {
        return Err(DecodeError::damaged(PLACE, "its count does not match"));
    }
    Ok((first, records))
}

/// Appends `entries` to a message.
pub(crate) fn put_entries(entries: &[Entry], out: &mut BytesMut) {
    for entry in entries {
        Record::from_entry(entry).put(out);
    }
}

#[cfg(test)]
mod tests {
    use palisade_core::command::{CloseSession, Command};
    use palisade_core::ids::{NodeId, SessionId, WallTime};

    use super::*;

    fn record(term: u64, bytes: usize) -> Record {
        Record { term, kind: RecordKind::Command, body: vec![7; bytes].into() }
    }

    #[test]
    fn a_command_survives_and_a_truncated_one_is_refused() {
        let envelope = Envelope {
            wall: WallTime(1),
            node: NodeId(2),
            command: Command::CloseSession(CloseSession { session: SessionId(3) }),
        };
        let bytes = encode_command(&envelope);
        assert_eq!(decode_command(&bytes), Ok(envelope));
        for len in 0..bytes.len() {
            assert!(decode_command(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn rows_hold_what_fits_and_at_least_one() {
        let records: Vec<_> = (1..=10).map(|term| record(term, 20_000)).collect();
        let (row, count) = encode_row(5, &records);
        assert!((1..10).contains(&count) && row.len() <= ROW_BYTES_MAX);
        assert_eq!(decode_row(&row), Ok((5, records[..count].to_vec())));
        let large = [record(1, COMMAND_BYTES_MAX), record(1, 1)];
        let (row, count) = encode_row(5, &large);
        assert_eq!((decode_row(&row), count), (Ok((5, large[..1].to_vec())), 1));
    }

    #[test]
    fn a_row_with_one_changed_bit_is_refused() {
        let (row, _) = encode_row(5, &[record(1, 100), record(2, 100)]);
        for at in 0..row.len() {
            let mut hurt = row.clone();
            hurt[at] ^= 0x10;
            assert!(decode_row(&hurt).is_err(), "byte {at}");
        }
        assert!(decode_row(&row[..row.len() - 1]).is_err());
    }

    #[test]
    fn each_kind_of_entry_survives() {
        let nodes = std::collections::BTreeMap::from([(1, crate::replica::PeerNode::default())]);
        let members = Membership::new(vec![[1].into()], nodes).expect("node 1 is known");
        let payloads = [
            EntryPayload::Blank,
            EntryPayload::Normal(EncodedCommand { bytes: Bytes::from_static(b"command") }),
            EntryPayload::Membership(members),
        ];
        for payload in payloads {
            let entry = Entry { log_id: log_id(3, 9), payload };
            let mut bytes = BytesMut::new();
            put_entries(std::slice::from_ref(&entry), &mut bytes);
            let read = Record::get(&mut bytes.freeze()).and_then(|record| record.to_entry(9));
            assert_eq!(read, Ok(entry));
        }
    }
}
