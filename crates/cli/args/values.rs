//! Values of flags, as people type them.

use std::time::Duration;

use palisade_core::ids::NodeName;
use palisade_server::InitialMember;

/// A member, as `--members` lists it.
pub(crate) fn member(text: &str) -> Result<InitialMember, String> {
    let (name, address) = text.split_once('=').ok_or("a member is name=host:port")?;
    let name = NodeName::new(name).map_err(|bad| bad.to_string())?;
    Ok(InitialMember { name, peer_address: address.to_owned() })
}

/// A duration as people type it: 500ms, 10s, 1.5m, 2h, 1d.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        "" => return Err("a duration needs a unit: 500ms, 10s, 5m, 2h".to_owned()),
        other => return Err(format!("unknown unit {other:?}: use ms, s, m, h or d")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{number:?} is not a number"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        for bad in ["", "10", "s", "1.2.3s", "10y", "-1s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
