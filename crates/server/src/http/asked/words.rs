//! Numbers, secrets and bytes, as JSON has them.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// A 64-bit number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct Wide(pub(in crate::http) u64);

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
pub(in crate::http) struct Secret(pub(in crate::http) Vec<u8>);

/// Bytes that a secret may have; those that this program draws have 32.
const SECRET_BYTES_MAX: usize = 64;

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = bytes_of(&text).filter(|bytes| (1..=SECRET_BYTES_MAX).contains(&bytes.len()));
        let bad = || D::Error::custom("a secret is 2 to 128 hexadecimal digits, two for a byte");
        bytes.map(Self).ok_or_else(bad)
    }
}

/// Bytes as such digits.
pub(in crate::http) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit()) && digits.len().is_multiple_of(2);
    let pairs = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok());
    if hexadecimal { pairs.collect() } else { None }
}

/// Bytes that Palisade carries and does not read: a text, or `{"hex": …}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct Bytes(pub(in crate::http) Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Digits {
            hex: String,
        }
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "bytes are a text, or {\"hex\": \"…\"}")]
        enum Shape {
            Text(String),
            Digits(Digits),
        }
        match Shape::deserialize(from)? {
            Shape::Text(text) => Ok(Self(text.into_bytes())),
            Shape::Digits(Digits { hex }) => bytes_of(&hex)
                .map(Self)
                .ok_or_else(|| D::Error::custom("hex is hexadecimal digits, two for a byte")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn bytes_are_a_text_or_hexadecimal() {
        let of = |text: &str| serde_json::from_str::<Bytes>(text).map(|bytes| bytes.0).ok();
        assert_eq!(of(r#""10.0.0.7:80""#), Some(b"10.0.0.7:80".to_vec()));
        assert_eq!(of(r#""""#), Some(Vec::new()));
        assert_eq!(of(r#"{"hex":"00fF"}"#), Some(vec![0, 255]));
        for bad in [r#"{"hex":"0"}"#, r#"{"hex":"é"}"#, r#"{"hex":"00","more":1}"#, "7", "[1]"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
