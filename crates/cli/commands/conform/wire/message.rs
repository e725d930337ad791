//! A protobuf message, written as JSON with field numbers in the place of names: `{"1": "a line", "2": 7}`.
//!
//! Numbers are all that is on the wire, so that no description of the service is needed. A text is a string, a whole
//! number any of the integers that are not zigzag or fixed, a fraction a double, a list a repeated field, an object with
//! numbers for keys a message. The rest says what it is: `{"sint": -1}`, `{"fixed32": 7}`, `{"fixed64": 7}`,
//! `{"float": 0.5}`, `{"double": 2}`, `{"hex": "00ff"}`.

use serde_json::{Map, Number, Value};

/// The largest that a field can have.
const FIELD_MAX: u64 = (1 << 29) - 1;

/// A value as it lies on the wire.
enum Encoded {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
    Fixed32([u8; 4]),
}

/// The bytes of a message. Nothing at all is a message without fields.
pub(super) fn encode(text: &str) -> Result<Vec<u8>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let value = serde_json::from_str(text)
        .map_err(|error| format!("a message is JSON with field numbers for names: {error}"))?;
    let Value::Object(fields) = value else {
        return Err(r#"a message is an object, such as {"1": "{id}"}"#.to_owned());
    };
    message(&fields)
}

fn message(fields: &Map<String, Value>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        let number = name.parse().ok().filter(|number| (1..=FIELD_MAX).contains(number));
        let number =
            number.ok_or_else(|| format!("{name:?} is no field number, nor a type with one value"))?;
        field(number, value, &mut bytes)?;
    }
    Ok(bytes)
}

fn field(number: u64, value: &Value, to: &mut Vec<u8>) -> Result<(), String> {
    let encoded = match value {
        Value::Null => return Ok(()),
        Value::Array(values) => return values.iter().try_for_each(|value| field(number, value, to)),
        Value::Bool(value) => Encoded::Varint(u64::from(*value)),
        Value::Number(value) => plain(value)?,
        Value::String(text) => Encoded::Bytes(text.as_bytes().to_vec()),
        Value::Object(fields) => match typed(fields) {
            Some(encoded) => encoded?,
            None => Encoded::Bytes(message(fields)?),
        },
    };
    put(number, encoded, to);
    Ok(())
}

fn plain(value: &Number) -> Result<Encoded, String> {
    if let Some(whole) = whole(value) {
        return Ok(Encoded::Varint(whole));
    }
    let fraction = value.as_f64().ok_or_else(|| format!("{value} is a number of no field"))?;
    Ok(Encoded::Fixed64(fraction.to_le_bytes()))
}

/// Negative ones as the two's complement of 64 bits.
fn whole(value: &Number) -> Option<u64> {
    value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned))
}

/// A value with its type before it. None where there is no type: then it is a message.
fn typed(fields: &Map<String, Value>) -> Option<Result<Encoded, String>> {
    let (kind, value) = fields.iter().next().filter(|_| fields.len() == 1)?;
    let encoded = match kind.as_str() {
        "sint" => value.as_i64().map(|value| Encoded::Varint(((value << 1) ^ (value >> 63)).cast_unsigned())),
        "fixed32" => value.as_number().and_then(half).map(|bits| Encoded::Fixed32(bits.to_le_bytes())),
        "fixed64" => value.as_number().and_then(whole).map(|bits| Encoded::Fixed64(bits.to_le_bytes())),
        "float" => value.as_f64().map(|value| Encoded::Fixed32((value as f32).to_le_bytes())),
        "double" => value.as_f64().map(|value| Encoded::Fixed64(value.to_le_bytes())),
        "hex" => value.as_str().and_then(unhex).map(Encoded::Bytes),
        _ => return None,
    };
    Some(encoded.ok_or_else(|| format!("{value} is no {kind}")))
}

fn half(value: &Number) -> Option<u32> {
    let signed = value.as_i64().and_then(|value| i32::try_from(value).ok()).map(i32::cast_unsigned);
    value.as_u64().and_then(|value| u32::try_from(value).ok()).or(signed)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).ok()).collect()
}

fn put(number: u64, encoded: Encoded, to: &mut Vec<u8>) {
    let mut tag = |wire| varint(number << 3 | wire, to);
    match encoded {
        Encoded::Varint(value) => {
            tag(0);
            varint(value, to);
        }
        Encoded::Fixed64(bytes) => {
            tag(1);
            to.extend(bytes);
        }
        Encoded::Bytes(bytes) => {
            tag(2);
            varint(bytes.len() as u64, to);
            to.extend(bytes);
        }
        Encoded::Fixed32(bytes) => {
            tag(5);
            to.extend(bytes);
        }
    }
}

fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    // The bytes are those of the encoding's own documentation, where it has them.
    #[test]
    fn a_message_is_what_protobuf_makes_of_it() {
        for (text, bytes) in [
            ("", &[][..]),
            (" {} ", &[]),
            (r#"{"1": 150}"#, b"\x08\x96\x01"),
            (r#"{"2": "testing"}"#, b"\x12\x07testing"),
            (r#"{"3": {"1": 150}}"#, b"\x1a\x03\x08\x96\x01"),
            (r#"{"4": "hello", "5": [1, 2, 3]}"#, b"\x22\x05hello\x28\x01\x28\x02\x28\x03"),
            (r#"{"1": -2}"#, b"\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            (r#"{"1": {"sint": -2}}"#, b"\x08\x03"),
            (r#"{"1": true, "2": null}"#, b"\x08\x01"),
            (r#"{"16": {"fixed32": 7}}"#, b"\x85\x01\x07\0\0\0"),
            (r#"{"1": {"fixed64": -1}}"#, b"\x09\xff\xff\xff\xff\xff\xff\xff\xff"),
            (r#"{"1": {"float": 0.5}}"#, b"\x0d\0\0\0\x3f"),
            (r#"{"1": 0.5}"#, b"\x09\0\0\0\0\0\0\xe0\x3f"),
            (r#"{"1": {"hex": "00fF"}}"#, b"\x0a\x02\x00\xff"),
            (r#"{"1": {}}"#, b"\x0a\x00"),
        ] {
            assert_eq!(encode(text).as_deref(), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for text in [
            "{id}",
            "[1]",
            "7",
            r#"{"line": "a"}"#,
            r#"{"0": 1}"#,
            r#"{"536870912": 1}"#,
            r#"{"1": {"hex": "0"}}"#,
            r#"{"1": {"fixed32": 4294967296}}"#,
            r#"{"1": {"sint": "a"}}"#,
        ] {
            assert!(encode(text).is_err(), "{text}");
        }
    }
}
