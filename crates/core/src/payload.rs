//! Bytes that Palisade carries and does not read: metadata and batons.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::PAYLOAD_BYTES_MAX;

/// Up to 4 KiB of the holder's own (SPEC 4).
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Payload(Option<Arc<[u8]>>);

/// Why bytes were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes; at most {PAYLOAD_BYTES_MAX} are carried. Put them elsewhere, and a reference here")]
pub struct PayloadTooLong {
    /// How many came.
    pub bytes: usize,
}

impl Payload {
    /// Checks the length.
    pub fn new(bytes: &[u8]) -> Result<Self, PayloadTooLong> {
        match bytes.len() {
            0 => Ok(Self(None)),
            length if length > PAYLOAD_BYTES_MAX => Err(PayloadTooLong { bytes: length }),
            _ => Ok(Self(Some(bytes.into()))),
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({:?})", self.as_bytes().escape_ascii().to_string())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_bytes().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        Self::new(&bytes).map_err(serde::de::Error::custom)
    }
}
