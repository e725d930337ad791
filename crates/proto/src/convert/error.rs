//! The stable names of errors, their gRPC codes and HTTP statuses, in one table (SPEC 12).

use palisade_core::ids::NameError;
use prost::Message;
use tonic::{Code, Status};

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

impl From<BadArgument> for v1::Error {
    fn from(bad: BadArgument) -> Self {
        Self { limit: bad.limit, ..ErrorName::BadArgument.error(bad.text) }
    }
}

/// Every refusal and failure that a caller can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorName {
    /// No session of this number is known here.
    SessionUnknown,
    /// The session was not heard from.
    SessionExpired,
    /// The session was closed.
    SessionClosed,
    /// The session ended in another way.
    SessionEnded,
    /// The same secret opened a session for another identity.
    SecretTaken,
    /// The request's number is below the session's mark.
    BelowMark,
    /// The acquisition ended.
    AlreadyEnded,
    /// A field is out of bounds, or a known number came with other content.
    BadArgument,
    /// A try met a holder.
    LockHeld,
    /// A try met waiters.
    QueuedAhead,
    /// A try met a lock-delay.
    LockClosed,
    /// The lock is in use with another capacity.
    CapacityDiffers,
    /// Not held by this acquisition under this token.
    NotHeld,
    /// A bound was met.
    LimitReached,
    /// The cluster's version does not know this yet.
    NotYet,
    /// The cluster is not founded.
    NotFounded,
    /// A bounded wait passed.
    WaitTimedOut,
    /// This node does not lead and did not append the request.
    NotLeader,
    /// No leader with a quorum now.
    NoQuorum,
    /// The request may or may not have taken effect.
    OutcomeUnknown,
    /// The node has more requests than it can take.
    Overloaded,
    /// The session's secret is missing or wrong.
    Unauthenticated,
    /// The node has not got as far as the position that a watch goes on from.
    NodeBehind,
    /// The watcher does not take what it is sent.
    WatchTooSlow,
    /// The sequencer names a key that is not known here.
    UnknownKey,
    /// The sequencer was not signed by this cluster.
    Forged,
}

impl ErrorName {
    /// Every name.
    pub const ALL: [Self; 26] = [
        Self::SessionUnknown,
        Self::SessionExpired,
        Self::SessionClosed,
        Self::SessionEnded,
        Self::SecretTaken,
        Self::BelowMark,
        Self::AlreadyEnded,
        Self::BadArgument,
        Self::LockHeld,
        Self::QueuedAhead,
        Self::LockClosed,
        Self::CapacityDiffers,
        Self::NotHeld,
        Self::LimitReached,
        Self::NotYet,
        Self::NotFounded,
        Self::WaitTimedOut,
        Self::NotLeader,
        Self::NoQuorum,
        Self::OutcomeUnknown,
        Self::Overloaded,
        Self::Unauthenticated,
        Self::NodeBehind,
        Self::WatchTooSlow,
        Self::UnknownKey,
        Self::Forged,
    ];

    /// The table: stable name, gRPC code, HTTP status.
    pub const fn row(self) -> (&'static str, Code, u16) {
        match self {
            Self::SessionUnknown => ("SESSION_UNKNOWN", Code::NotFound, 404),
            Self::SessionExpired => ("SESSION_EXPIRED", Code::FailedPrecondition, 410),
            Self::SessionClosed => ("SESSION_CLOSED", Code::FailedPrecondition, 410),
            Self::SessionEnded => ("SESSION_ENDED", Code::FailedPrecondition, 410),
            Self::SecretTaken => ("SECRET_TAKEN", Code::PermissionDenied, 403),
            Self::BelowMark => ("BELOW_MARK", Code::FailedPrecondition, 409),
            Self::AlreadyEnded => ("ALREADY_ENDED", Code::FailedPrecondition, 409),
            Self::BadArgument => ("BAD_ARGUMENT", Code::InvalidArgument, 400),
            Self::LockHeld => ("LOCK_HELD", Code::FailedPrecondition, 409),
            Self::QueuedAhead => ("QUEUED_AHEAD", Code::FailedPrecondition, 409),
            Self::LockClosed => ("LOCK_CLOSED", Code::FailedPrecondition, 409),
            Self::CapacityDiffers => ("CAPACITY_DIFFERS", Code::FailedPrecondition, 409),
            Self::NotHeld => ("NOT_HELD", Code::FailedPrecondition, 409),
            Self::LimitReached => ("LIMIT_REACHED", Code::ResourceExhausted, 429),
            Self::NotYet => ("NOT_YET", Code::Unimplemented, 501),
            Self::NotFounded => ("NOT_FOUNDED", Code::Unavailable, 503),
            Self::WaitTimedOut => ("WAIT_TIMED_OUT", Code::DeadlineExceeded, 408),
            Self::NotLeader => ("NOT_LEADER", Code::Unavailable, 421),
            Self::NoQuorum => ("NO_QUORUM", Code::Unavailable, 503),
            Self::OutcomeUnknown => ("OUTCOME_UNKNOWN", Code::Unknown, 504),
            Self::Overloaded => ("OVERLOADED", Code::ResourceExhausted, 429),
            Self::Unauthenticated => ("UNAUTHENTICATED", Code::Unauthenticated, 401),
            Self::NodeBehind => ("NODE_BEHIND", Code::Unavailable, 503),
            Self::WatchTooSlow => ("WATCH_TOO_SLOW", Code::ResourceExhausted, 429),
            Self::UnknownKey => ("UNKNOWN_KEY", Code::Unauthenticated, 401),
            Self::Forged => ("FORGED", Code::Unauthenticated, 401),
        }
    }

    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// By its stable name. None for a name of a later version.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }

    /// An error of this name, for people to read.
    pub fn error(self, message: impl Into<String>) -> v1::Error {
        v1::Error { name: self.as_str().to_owned(), message: message.into(), ..v1::Error::default() }
    }
}

/// gRPC code and HTTP status of a stable name; of one that this version does not know, `Unknown` and 500.
pub fn error_code(name: &str) -> (Code, u16) {
    match ErrorName::parse(name) {
        Some(known) => (known.row().1, known.row().2),
        None => (Code::Unknown, 500),
    }
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

/// `google.rpc.Status`, in which stock clients look for the details of an error.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<RpcDetail>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct RpcDetail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

const ERROR_URL: &str = "type.googleapis.com/palisade.v1.Error";

/// As the status of a unary call; the whole error is among its details.
pub fn status_of(error: &v1::Error) -> Status {
    let (code, _) = error_code(&error.name);
    let message = format!("{}: {}", error.name, error.message);
    let detail = RpcDetail { type_url: ERROR_URL.to_owned(), value: error.encode_to_vec() };
    let status = RpcStatus { code: code as i32, message: message.clone(), details: vec![detail] };
    Status::with_details(code, message, status.encode_to_vec().into())
}

/// The error among the details of a status; none when the status is not one of `status_of`.
pub fn error_of(status: &Status) -> Option<v1::Error> {
    let details = RpcStatus::decode(status.details()).ok()?.details;
    let detail = details.into_iter().find(|detail| detail.type_url == ERROR_URL)?;
    v1::Error::decode(detail.value.as_slice()).ok()
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

    #[test]
    fn an_error_survives_the_status_of_a_unary_call() {
        let error = v1::Error { superseded_by: 52, ..ErrorName::NotHeld.error("superseded by token 52") };
        let status = status_of(&error);
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(error_of(&status), Some(error));
        assert_eq!(error_of(&Status::unavailable("connection refused")), None);
    }
}
