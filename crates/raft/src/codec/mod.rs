//! The bytes of everything that is stored or sent between nodes.
//!
//! Each starts with a version byte; a newer version is refused, never guessed. What is stored also carries a checksum.
//! bincode is named here and nowhere else; the frequent things (rows of the log, appends) are laid out by hand around
//! it, so that a command's bytes are written once and only copied afterwards.
//!
//! [`log`]: commands, entries, rows. `peer`: messages between nodes. `snapshot`: the table as a whole.

pub mod log;
pub(crate) mod peer;
pub(crate) mod snapshot;

use bincode::Options;
use bytes::{Buf, Bytes};
use palisade_core::table::LockTable;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The newest version that this build writes and reads. All earlier ones are read.
///
/// Version 2: tables with more in them, and more kinds of command. What has not changed since is still written as
/// version 1, so that an older build reads it.
pub const VERSION: u8 = 2;
/// What most things are written as.
pub(crate) const FIRST: u8 = 1;

/// Why bytes were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by a newer version.
    #[error("{place} has format version {found}; this version of Palisade reads up to {VERSION}")]
    Newer {
        /// What was read.
        place: &'static str,
        /// The version byte.
        found: u8,
    },
    /// Not what was written.
    #[error("{place} (format version {version}) is damaged: {why}")]
    Damaged {
        /// What was read.
        place: &'static str,
        /// The version byte, 0 if there is none.
        version: u8,
        /// What is wrong.
        why: String,
    },
    /// Larger than allowed.
    #[error("{place} has {bytes} bytes; at most {max} are allowed")]
    TooLarge {
        /// What was read.
        place: &'static str,
        /// Its size.
        bytes: usize,
        /// The bound.
        max: usize,
    },
}

impl DecodeError {
    pub(crate) fn damaged(place: &'static str, why: impl ToString) -> Self {
        Self::Damaged { place, version: VERSION, why: why.to_string() }
    }
}

fn options(limit: usize) -> impl Options {
    bincode::DefaultOptions::new().with_fixint_encoding().with_limit(limit as u64).reject_trailing_bytes()
}

/// A version byte and `value`.
///
/// # Panics
///
/// Never for the types of this crate and of core: all have a length before they are written.
pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    encode_as(FIRST, value)
}

/// As [`encode`], of this version.
#[allow(clippy::expect_used)]
pub(crate) fn encode_as(version: u8, value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    bytes.push(version);
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .serialize_into(&mut bytes, value)
        .expect("writing to memory does not fail");
    bytes
}

/// Reads what [`encode`] wrote, if it has no more than `max` bytes.
pub(crate) fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    place: &'static str,
    max: usize,
) -> Result<T, DecodeError> {
    if bytes.len() > max {
        return Err(DecodeError::TooLarge { place, bytes: bytes.len(), max });
    }
    body_of(versioned(bytes, place)?, place)
}

/// Reads what follows the version.
pub(crate) fn body_of<T: DeserializeOwned>(body: &[u8], place: &'static str) -> Result<T, DecodeError> {
    options(body.len()).deserialize(body).map_err(|why| DecodeError::damaged(place, why))
}

/// Takes the version byte off what has not changed since version 1.
pub(crate) fn versioned<'a>(bytes: &'a [u8], place: &'static str) -> Result<&'a [u8], DecodeError> {
    match version_of(bytes, place)? {
        (FIRST, body) => Ok(body),
        (found, _) => Err(no_such_version(place, found)),
    }
}

/// The version, which this build knows, and what follows it.
pub(crate) fn version_of<'a>(bytes: &'a [u8], place: &'static str) -> Result<(u8, &'a [u8]), DecodeError> {
    match bytes.split_first() {
        Some((&found, _)) if found > VERSION => Err(DecodeError::Newer { place, found }),
        Some((&found, _)) if found < FIRST => Err(no_such_version(place, found)),
        Some((&found, body)) => Ok((found, body)),
        None => Err(DecodeError::Damaged { place, version: 0, why: "it is empty".into() }),
    }
}

fn no_such_version(place: &'static str, version: u8) -> DecodeError {
    DecodeError::Damaged { place, version, why: "there is no such version".into() }
}

/// A table alone: the same bytes for equal tables, on every replica. Takes time in proportion to it.
pub fn encode_table(table: &LockTable) -> Bytes {
    encode_as(VERSION, table).into()
}

/// Reads what [`encode_table`] wrote.
///
/// # Errors
///
/// When it was written by a newer version, or is damaged.
pub fn decode_table(bytes: &[u8]) -> Result<LockTable, DecodeError> {
    const PLACE: &str = "a table";
    let (version, body) = version_of(bytes, PLACE)?;
    table_of(version, body, PLACE)
}

/// Reads a table as this version wrote it.
pub(crate) fn table_of(version: u8, body: &[u8], place: &'static str) -> Result<LockTable, DecodeError> {
    if version == FIRST {
        return body_of::<palisade_core::table::version_1::LockTable>(body, place).map(LockTable::from);
    }
    body_of(body, place)
}

/// A version byte, a checksum, and `value`: one record of a store.
pub(crate) fn seal(value: &impl Serialize) -> Vec<u8> {
    let body = encode(value);
    let mut bytes = Vec::with_capacity(body.len() + 4);
    bytes.push(FIRST);
    bytes.extend_from_slice(&crc32fast::hash(&body[1..]).to_le_bytes());
    bytes.extend_from_slice(&body[1..]);
    bytes
}

/// Reads what [`seal`] wrote.
pub(crate) fn unseal<T: DeserializeOwned>(bytes: &[u8], place: &'static str) -> Result<T, DecodeError> {
    body_of(checked(bytes, place)?, place)
}

/// Takes version byte and checksum off.
pub(crate) fn checked<'a>(bytes: &'a [u8], place: &'static str) -> Result<&'a [u8], DecodeError> {
    let mut body = versioned(bytes, place)?;
    let expected = get_u32(&mut body, place)?;
    if crc32fast::hash(body) != expected {
        return Err(DecodeError::damaged(place, "its checksum does not match"));
    }
    Ok(body)
}

/// The next four bytes, as a number.
pub(crate) fn get_u32(bytes: &mut impl Buf, place: &'static str) -> Result<u32, DecodeError> {
    bytes.try_get_u32_le().map_err(|_| DecodeError::damaged(place, "it ends early"))
}

/// The next eight bytes, as a number.
pub(crate) fn get_u64(bytes: &mut impl Buf, place: &'static str) -> Result<u64, DecodeError> {
    bytes.try_get_u64_le().map_err(|_| DecodeError::damaged(place, "it ends early"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_record_survives_and_a_changed_one_is_refused() {
        let bytes = seal(&(7_u64, "seven".to_owned()));
        assert_eq!(unseal::<(u64, String)>(&bytes, "a record"), Ok((7, "seven".into())));
        for at in 1..bytes.len() {
            let mut hurt = bytes.clone();
            hurt[at] ^= 1;
            assert!(unseal::<(u64, String)>(&hurt, "a record").is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let mut bytes = encode(&7_u64);
        bytes[0] = VERSION + 1;
        let error = decode::<u64>(&bytes, "a vote", 100).expect_err("the version is unknown");
        assert_eq!(error, DecodeError::Newer { place: "a vote", found: VERSION + 1 });
        assert_eq!(error.to_string(), "a vote has format version 3; this version of Palisade reads up to 2");
    }

    #[test]
    fn what_is_too_large_or_has_a_tail_is_refused() {
        let mut bytes = encode(&7_u64);
        assert!(matches!(decode::<u64>(&bytes, "a vote", 8), Err(DecodeError::TooLarge { bytes: 9, .. })));
        bytes.push(0);
        assert!(matches!(decode::<u64>(&bytes, "a vote", 100), Err(DecodeError::Damaged { .. })));
        assert!(matches!(decode::<u64>(&[], "a vote", 100), Err(DecodeError::Damaged { version: 0, .. })));
    }

    #[test]
    fn a_length_that_lies_allocates_nothing() {
        let mut bytes = vec![FIRST];
        bytes.extend_from_slice(&u64::MAX.to_le_bytes());
        assert!(decode::<Vec<u8>>(&bytes, "a list", 100).is_err());
    }
}
