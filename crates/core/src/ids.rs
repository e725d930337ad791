//! The names of things: each a type of its own, checked when made.

use std::fmt;
use std::sync::Arc;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::{CLIENT_NAME_BYTES_MAX, LABEL_BYTES_MAX, NAME_BYTES_MAX};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Index of an entry of the replicated log, *without* the token base.
    LogIndex
}
number! {
    /// A session: the log index of the entry that opened it, plus the token base.
    SessionId
}
number! {
    /// A client's number for one request of a session. 0 is no request.
    RequestNumber
}
number! {
    /// A node, drawn at random at its first start and never reused.
    NodeId
}
number! {
    /// A Raft term.
    Term
}
number! {
    /// Milliseconds.
    Millis
}
number! {
    /// Wall-clock time in microseconds since 1970. For display and audit only: nothing is decided by it.
    WallTime
}

/// One attempt to hold a lock, or several at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AcquisitionId {
    /// The session it belongs to.
    pub session: SessionId,
    /// The number that the client gave it.
    pub number: RequestNumber,
}

impl fmt::Display for AcquisitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.session, self.number)
    }
}

/// One permit of a lock, from 0 to capacity - 1. A lock whose capacity is 1 has slot 0 only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(pub u32);

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing in it.
    #[error("{what} is empty")]
    Empty {
        /// What was to be named.
        what: &'static str,
    },
    /// Longer than the bound.
    #[error("{what} has {bytes} bytes; at most {max} are allowed")]
    TooLong {
        /// What was to be named.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// Unicode category Cc.
    #[error("{what} contains the control character U+{code:04X}")]
    Control {
        /// What was to be named.
        what: &'static str,
        /// The character.
        code: u32,
    },
}

fn check(what: &'static str, text: &str, max: usize) -> Result<(), NameError> {
    if text.len() > max {
        return Err(NameError::TooLong { what, bytes: text.len(), max });
    }
    // Most names are of ASCII, and each entry of the log is read with some.
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Ok(());
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(NameError::Control { what, code: u32::from(c) }),
        None => Ok(()),
    }
}

/// Reads a name where it stands: a table has a million of them.
struct Text<T>(fn(&str) -> Result<T, NameError>);

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr, empty: $empty:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks length and characters (SPEC 12).
            pub fn new(text: &str) -> Result<Self, NameError> {
                if text.is_empty() && !$empty {
                    return Err(NameError::Empty { what: $what });
                }
                check($what, text, $max)?;
                Ok(Self(text.into()))
            }

            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Text(Self::new))
            }
        }
    };
}

text! {
    /// The name of a lock: 1 to 512 bytes of UTF-8 without control characters, compared byte for byte.
    LockName, "the lock name", NAME_BYTES_MAX, empty: false
}
text! {
    /// The beginning of lock names, byte for byte. Empty: every name.
    LockPrefix, "the prefix", NAME_BYTES_MAX, empty: true
}
text! {
    /// What a client calls itself, for people. May be empty.
    ClientName, "the client name", CLIENT_NAME_BYTES_MAX, empty: true
}
text! {
    /// A task of a client, for the search of wait cycles.
    OwnerLabel, "the owner label", LABEL_BYTES_MAX, empty: false
}
text! {
    /// A guard of a resource, for fence-ahead.
    GuardName, "the guard name", LABEL_BYTES_MAX, empty: false
}
text! {
    /// An identity that may call. `anonymous` until identities exist.
    Principal, "the principal", LABEL_BYTES_MAX, empty: false
}
text! {
    /// The name of a cluster, the same in the configuration of each of its nodes.
    ClusterName, "the cluster name", LABEL_BYTES_MAX, empty: false
}
text! {
    /// The name of a node, unique in its cluster.
    NodeName, "the node name", LABEL_BYTES_MAX, empty: false
}
text! {
    /// The id of a signing key.
    KeyId, "the key id", LABEL_BYTES_MAX, empty: false
}

impl Principal {
    /// Who calls where no identities exist.
    pub fn anonymous() -> Self {
        Self("anonymous".into())
    }
}

impl ClientName {
    /// Of a client that gives no name.
    pub fn unnamed() -> Self {
        Self("".into())
    }
}

macro_rules! id16 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = &'static str;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                const SHAPE: &str = "32 hexadecimal digits are expected";
                if text.len() != 32 || !text.is_ascii() {
                    return Err(SHAPE);
                }
                let mut bytes = [0; 16];
                for (at, byte) in bytes.iter_mut().enumerate() {
                    *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| SHAPE)?;
                }
                Ok(Self(bytes))
            }
        }
    };
}

id16! {
    /// Drawn once when the cluster is founded, and kept over restores.
    ClusterId
}
id16! {
    /// New with every founding, restore or forced start.
    Incarnation
}

/// SHA-256 of the 32 random bytes that a client drew for a session. The secret itself is never stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretHash(pub [u8; 32]);

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_1_to_512_bytes_without_control_characters() {
        assert!(LockName::new("orders/shard-7").is_ok());
        assert!(LockName::new(&"é".repeat(256)).is_ok());
        assert_eq!(LockName::new(""), Err(NameError::Empty { what: "the lock name" }));
        assert!(matches!(LockName::new(&"x".repeat(513)), Err(NameError::TooLong { bytes: 513, .. })));
        for bad in ["a\nb", "a\u{1b}[0m", "\u{7f}", "\u{85}"] {
            assert!(matches!(LockName::new(bad), Err(NameError::Control { .. })), "{bad:?}");
        }
    }

    #[test]
    fn an_id_survives_its_text_form() {
        let id = ClusterId([0xa5; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("zz".parse::<ClusterId>().is_err());
        assert!("é".repeat(16).parse::<ClusterId>().is_err());
    }
}
