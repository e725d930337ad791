//! The bytes of a snapshot: `[version][length u32][what it covers][table]`.

use std::io::{self, BufWriter, Write};

use bytes::Buf;
use palisade_core::table::LockTable;
use serde::{Deserialize, Serialize};

use super::log::Members;
use super::{DecodeError, VERSION, get_u32, options, table_of, version_of};
use crate::engine::LogPoint;
use crate::types::{SnapshotMeta, StoredMembership};

const PLACE: &str = "a snapshot";
/// Bytes that are handed on at one time.
const PIECE: usize = 16 << 10;

/// What the snapshot covers.
#[derive(Serialize, Deserialize)]
struct Cover {
    last: Option<LogPoint>,
    members_at: Option<LogPoint>,
    members: Members,
}

/// Writes the table, piece by piece. Takes time in proportion to it: not for a reactor.
///
/// # Errors
///
/// Those of `to`.
pub(crate) fn write_snapshot(meta: &SnapshotMeta, table: &LockTable, to: &mut dyn Write) -> io::Result<()> {
    use bincode::Options;
    let cover = Cover {
        last: meta.last_log_id.map(LogPoint::from),
        members_at: meta.last_membership.log_id().map(LogPoint::from),
        members: Members::from(meta.last_membership.membership()),
    };
    let write = bincode::DefaultOptions::new().with_fixint_encoding();
    let mut bytes = vec![VERSION, 0, 0, 0, 0];
    write.serialize_into(&mut bytes, &cover).map_err(io::Error::other)?;
    let len = (bytes.len() - 5) as u32;
    bytes[1..5].copy_from_slice(&len.to_le_bytes());
    // Fields are written one by one, and `to` may count each.
    let mut to = BufWriter::with_capacity(PIECE, to);
    to.write_all(&bytes)?;
    let write = bincode::DefaultOptions::new().with_fixint_encoding();
    write.serialize_into(&mut to, table).map_err(io::Error::other)?;
    to.flush()
}

/// What a snapshot covers, without its table.
pub(crate) fn decode_cover(bytes: &[u8]) -> Result<SnapshotMeta, DecodeError> {
    split(bytes).map(|(meta, _)| meta)
}

/// A whole snapshot. Takes time in proportion to it.
pub(crate) fn decode_snapshot(bytes: &[u8]) -> Result<(SnapshotMeta, LockTable), DecodeError> {
    let (version, _) = version_of(bytes, PLACE)?;
    let (meta, body) = split(bytes)?;
    Ok((meta, table_of(version, body, PLACE)?))
}

fn split(bytes: &[u8]) -> Result<(SnapshotMeta, &[u8]), DecodeError> {
    use bincode::Options;
    let (_, mut body) = version_of(bytes, PLACE)?;
    let len = get_u32(&mut body, PLACE)? as usize;
    if len > body.remaining() {
        return Err(DecodeError::damaged(PLACE, "it ends early"));
    }
    let (cover, table) = body.split_at(len);
    let cover: Cover = options(len).deserialize(cover).map_err(|why| DecodeError::damaged(PLACE, why))?;
    let membership = StoredMembership::new(cover.members_at.map(Into::into), cover.members.check()?);
    Ok((SnapshotMeta { last_log_id: cover.last.map(Into::into), last_membership: membership }, table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::log_id;

    #[test]
    fn a_snapshot_survives_and_a_short_one_is_refused() {
        let meta =
            SnapshotMeta { last_log_id: Some(log_id(3, 9)), last_membership: StoredMembership::default() };
        let mut bytes = Vec::new();
        write_snapshot(&meta, &LockTable::new(), &mut bytes).expect("it writes");
        assert_eq!(decode_cover(&bytes), Ok(meta.clone()));
        assert_eq!(decode_snapshot(&bytes), Ok((meta, LockTable::new())));
        for len in 0..bytes.len() {
            assert!(decode_snapshot(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
}
