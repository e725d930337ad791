//! Errors as they leave a node: made here, named in [`ErrorName`], carried by a status of gRPC (SPEC 12).

use palisade_core::ids::NameError;
use palisade_core::limits::PAYLOAD_BYTES_MAX;
use palisade_core::payload::PayloadTooLong;
use tonic::Code;

mod details;
mod name;
mod table;

pub use self::details::{error_of, status_of};
pub use self::name::ErrorName;
pub use self::table::Row;

use crate::v1;

/// A message that no state of the cluster could make right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct BadArgument {
    text: String,
    limit: u64,
}

impl BadArgument {
    /// What is wrong, in words that say what to change.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), limit: 0 }
    }

    /// A bound was met.
    pub fn over(text: impl Into<String>, limit: u64) -> Self {
        Self { text: text.into(), limit }
    }
}

impl From<NameError> for BadArgument {
    fn from(error: NameError) -> Self {
        let limit = match &error {
            NameError::TooLong { max, .. } => u64::try_from(*max).unwrap_or(u64::MAX),
            NameError::Empty { .. } | NameError::Control { .. } => 0,
        };
        Self { text: error.to_string(), limit }
    }
}

impl From<PayloadTooLong> for BadArgument {
    fn from(error: PayloadTooLong) -> Self {
        Self { text: error.to_string(), limit: PAYLOAD_BYTES_MAX as u64 }
    }
}

impl From<BadArgument> for v1::Error {
    fn from(bad: BadArgument) -> Self {
        Self { limit: bad.limit, ..ErrorName::BadArgument.error(bad.text) }
    }
}

impl ErrorName {
    /// An error of this name, for people to read.
    pub fn error(self, message: impl Into<String>) -> v1::Error {
        v1::Error { name: self.as_str().to_owned(), message: message.into(), ..v1::Error::default() }
    }
}

/// gRPC code and HTTP status of a stable name; of one that this version does not know, `Unknown` and 500.
pub fn error_code(name: &str) -> (Code, u16) {
    match ErrorName::parse(name) {
        Some(known) => (known.row().code, known.row().http),
        None => (Code::Unknown, 500),
    }
}

/// What there is to act on, as plain words: what is 0 or empty is left out.
pub fn facts(error: &v1::Error) -> Vec<(&'static str, String)> {
    let holder = error.holder.as_ref();
    let acquisition = holder.and_then(|holder| holder.acquisition);
    let numbers = [
        ("holder_session", acquisition.map_or(0, |id| id.session)),
        ("holder_number", acquisition.map_or(0, |id| id.number)),
        ("holder_token", holder.map_or(0, |holder| holder.token)),
        ("superseded_by", error.superseded_by),
        ("waiting", error.waiting.into()),
        ("retry_after_ms", error.retry_after_ms),
        ("limit", error.limit),
        ("lock_delay_ms", error.lock_delay_ms),
    ];
    let words = [
        ("holder_client", holder.map_or_else(String::new, |holder| holder.client.clone())),
        ("ended", super::words::ended_word(error.ended).unwrap_or_default().to_owned()),
        ("cycle", cycle(&error.cycle)),
    ];
    let numbers = numbers.into_iter().filter(|(_, number)| *number > 0);
    let words = words.into_iter().filter(|(_, word)| !word.is_empty());
    numbers.map(|(name, number)| (name, number.to_string())).chain(words).collect()
}

/// Who waits for which lock, each for the next, the last for the first.
fn cycle(steps: &[v1::CycleStep]) -> String {
    let waits = steps.iter().map(|step| format!("{:?} waits for {:?}", step.owner, step.lock));
    waits.collect::<Vec<_>>().join(", ")
}

/// This node does not lead, and the request was not appended: retry at the leader, under the same number.
///
/// `leader` is where clients reach it, where it is known.
pub fn not_leader(leader: Option<&str>) -> v1::Error {
    ErrorName::NotLeader.error(match leader {
        Some(address) => {
            format!("this node does not lead; ask {address}. Nothing took effect, so repeating is safe")
        }
        None => "this node does not lead and knows no leader now. Nothing took effect, so repeating is safe"
            .to_owned(),
    })
}

/// No leader with a quorum: retry later, under the same number.
pub fn no_quorum(retry_after_ms: u64) -> v1::Error {
    v1::Error {
        retry_after_ms,
        ..ErrorName::NoQuorum.error("no leader with a quorum now. Nothing took effect; repeat after a moment")
    }
}

/// The request was appended and its fate is not known (SPEC 6).
pub fn outcome_unknown() -> v1::Error {
    ErrorName::OutcomeUnknown.error(
        "whether the request took effect is not known: repeat it under the same number, which is safe and tells",
    )
}

/// The node has no room for the request now.
pub fn overloaded(retry_after_ms: u64) -> v1::Error {
    v1::Error {
        retry_after_ms,
        ..ErrorName::Overloaded
            .error("the node has no room for more requests now. Nothing took effect; repeat later")
    }
}

/// The session's secret is missing or wrong.
pub fn unauthenticated(message: impl Into<String>) -> v1::Error {
    ErrorName::Unauthenticated.error(message)
}

/// A sequencer names a key that is not known here.
pub fn unknown_key(key: &str) -> v1::Error {
    ErrorName::UnknownKey.error(format!(
        "the key {key:?} is not known here: fetch the key set again, or have the holder fetch its sequencer again, once"
    ))
}

/// A sequencer that this cluster did not sign.
pub fn forged(why: &str) -> v1::Error {
    ErrorName::Forged.error(format!("not a sequencer of this cluster: {why}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_stands_once_in_the_table_and_finds_itself() {
        let names: BTreeSet<_> = ErrorName::ALL.iter().map(|name| name.as_str()).collect();
        assert_eq!(names.len(), ErrorName::ALL.len());
        for name in ErrorName::ALL {
            assert_eq!(ErrorName::parse(name.as_str()), Some(name));
            let (code, http) = error_code(name.as_str());
            assert_ne!(code, Code::Ok);
            assert!((400..600).contains(&http));
        }
        assert_eq!(error_code("OF_A_LATER_VERSION"), (Code::Unknown, 500));
    }
}
