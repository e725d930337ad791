//! What a script asks, as JSON. Numbers of 64 bits may come as strings or as integers; a field that is not known is
//! refused, so that a slip of the pen does nothing else than was meant.

use std::fmt;

use palisade_proto::v1;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error;

/// A 64-bit number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wide(pub(super) u64);

impl<'de> Deserialize<'de> for Wide {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Wide;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, as a string or an integer")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Wide, E> {
                Ok(Wide(number))
            }

            fn visit_str<E: Error>(self, digits: &str) -> Result<Wide, E> {
                digits.parse().map(Wide).map_err(|_| E::custom(format!("{digits:?} is not a whole number")))
            }
        }
        from.deserialize_any(Digits)
    }
}

/// A session's secret, in hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(pub(super) Vec<u8>);

/// Bytes that a secret may have; those that this program draws have 32.
const SECRET_BYTES_MAX: usize = 64;

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bad = || D::Error::custom("a secret is 2 to 128 hexadecimal digits, two for a byte");
        let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !digits || text.is_empty() || text.len() > 2 * SECRET_BYTES_MAX || !text.len().is_multiple_of(2) {
            return Err(bad());
        }
        let pairs = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16));
        pairs.collect::<Result<_, _>>().map(Self).map_err(|_| bad())
    }
}

/// Bytes as such digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Open {
    #[serde(default)]
    pub(super) ttl_ms: Wide,
    #[serde(default)]
    pub(super) client: String,
    /// Makes the open repeatable.
    pub(super) secret: Option<Secret>,
}

/// Keepalive and close.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfSession {
    pub(super) session: Wide,
    pub(super) secret: Secret,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    Exclusive,
    Shared,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Wait {
    None,
    Session,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    lock: String,
    mode: Option<Mode>,
    #[serde(default)]
    capacity: u32,
    #[serde(default)]
    permits: u32,
    lock_delay_ms: Option<Wide>,
    #[serde(default)]
    fenced_by: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Acquire {
    pub(super) session: Wide,
    pub(super) secret: Secret,
    #[serde(default)]
    number: Wide,
    #[serde(default)]
    mark: Wide,
    /// One lock, in short.
    lock: Option<String>,
    mode: Option<Mode>,
    lock_delay_ms: Option<Wide>,
    /// Or its parts at length.
    #[serde(default)]
    parts: Vec<Part>,
    wait: Option<Wait>,
    wait_ms: Option<Wide>,
    #[serde(default)]
    owner: String,
    sequencer: Option<bool>,
    /// How long this call waits for its answer.
    pub(super) poll_ms: Option<Wide>,
}

impl Acquire {
    /// As gRPC's call has it.
    pub(super) fn message(self) -> Result<v1::Acquire, v1::Error> {
        let mut parts = self.parts;
        match self.lock {
            Some(lock) => parts.push(Part {
                lock,
                mode: self.mode,
                capacity: 0,
                permits: 0,
                lock_delay_ms: self.lock_delay_ms,
                fenced_by: Vec::new(),
            }),
            None if self.mode.is_some() || self.lock_delay_ms.is_some() => {
                return Err(error::bad_argument(
                    "mode and lock_delay_ms go with lock; in parts, each has its own",
                ));
            }
            None => {}
        }
        let kind = match (self.wait, self.wait_ms) {
            (None | Some(Wait::None), None) => v1::wait::Kind::None(true),
            (Some(Wait::Session), None) => v1::wait::Kind::Session(true),
            (None, Some(Wide(bounded))) => v1::wait::Kind::BoundedMs(bounded),
            (Some(_), Some(_)) => {
                return Err(error::bad_argument("wait and wait_ms exclude each other"));
            }
        };
        let parts = parts.into_iter().map(|part| v1::AcquirePart {
            lock: part.lock,
            mode: part
                .mode
                .map_or(v1::Mode::Unspecified, |mode| match mode {
                    Mode::Exclusive => v1::Mode::Exclusive,
                    Mode::Shared => v1::Mode::Shared,
                })
                .into(),
            capacity: part.capacity,
            permits: part.permits,
            lock_delay_ms: part.lock_delay_ms.map(|delay| delay.0),
            fenced_by: part.fenced_by,
        });
        Ok(v1::Acquire {
            number: self.number.0,
            mark: self.mark.0,
            parts: parts.collect(),
            wait: Some(v1::Wait { kind: Some(kind) }),
            owner: self.owner,
            want_sequencer: self.sequencer.unwrap_or(true),
            ..v1::Acquire::default()
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Release {
    pub(super) session: Wide,
    pub(super) secret: Secret,
    pub(super) number: Wide,
    #[serde(default)]
    pub(super) lock: String,
    #[serde(default)]
    pub(super) slot: u32,
    pub(super) token: Wide,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancel {
    pub(super) session: Wide,
    pub(super) secret: Secret,
    pub(super) number: Wide,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sequencer {
    pub(super) session: Wide,
    pub(super) secret: Secret,
    pub(super) number: Wide,
    #[serde(default)]
    pub(super) lock: String,
    #[serde(default)]
    pub(super) slot: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Check {
    pub(super) sequencer: String,
    #[serde(default)]
    pub(super) lock: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Who {
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Locks {
    #[serde(default)]
    pub(super) prefix: String,
    #[serde(default)]
    pub(super) limit: u32,
    #[serde(default)]
    pub(super) after: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sessions {
    #[serde(default)]
    pub(super) client: String,
    #[serde(default)]
    pub(super) limit: u32,
    #[serde(default)]
    pub(super) after: Wide,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Status {
    #[serde(default)]
    pub(super) local: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(more: &str) -> Result<v1::Acquire, String> {
        let body = format!(r#"{{"session":"7","secret":"00ff"{more}}}"#);
        let asked: Acquire = serde_json::from_str(&body).map_err(|bad| bad.to_string())?;
        asked.message().map_err(|bad| bad.message)
    }

    #[test]
    fn a_number_comes_as_a_string_or_an_integer_and_loses_nothing() {
        let of = |text: &str| serde_json::from_str::<Wide>(text).map(|wide| wide.0).ok();
        assert_eq!(of(r#""18446744073709551615""#), Some(u64::MAX));
        assert_eq!(of("7"), Some(7));
        for bad in ["-1", "1.5", r#""""#, r#""-1""#, r#"" 7""#, "1e3", "null", r#""18446744073709551616""#] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_secret_is_hexadecimal() {
        let of = |text: &str| serde_json::from_value::<Secret>(text.into()).map(|secret| secret.0).ok();
        assert_eq!(of("00ff"), Some(vec![0, 255]));
        for bad in ["", "0", "0g", "+1", "é0", &"00".repeat(65)] {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert_eq!(hex(&[0, 255]), "00ff");
    }

    #[test]
    fn a_wait_is_none_bounded_or_as_long_as_the_session() {
        let kind = |more: &str| acquire(more).map(|message| message.wait.and_then(|wait| wait.kind));
        assert_eq!(kind(r#","lock":"a""#), Ok(Some(v1::wait::Kind::None(true))));
        assert_eq!(kind(r#","lock":"a","wait_ms":"500""#), Ok(Some(v1::wait::Kind::BoundedMs(500))));
        assert_eq!(kind(r#","lock":"a","wait":"session""#), Ok(Some(v1::wait::Kind::Session(true))));
        assert!(kind(r#","lock":"a","wait":"session","wait_ms":5"#).is_err());
    }

    #[test]
    fn a_slip_of_the_pen_is_refused() {
        assert!(acquire(r#","lock":"a","waitms":5"#).is_err());
        assert!(acquire(r#","lock":"a","mode":"exclusiv""#).is_err());
        assert!(acquire(r#","mode":"shared""#).is_err());
        let message =
            acquire(r#","parts":[{"lock":"a","lock_delay_ms":0},{"lock":"b"}]"#).expect("it is fine");
        assert_eq!(message.parts.len(), 2);
        assert_eq!((message.parts[0].lock_delay_ms, message.parts[1].lock_delay_ms), (Some(0), None));
    }
}
