//! How every error leaves this node. Names, codes and words stand in one table, in `palisade_proto::convert`.

use std::time::Duration;

use palisade_proto::convert::{self, BadArgument, ErrorName};
use palisade_proto::v1;
use tonic::Status;

use crate::rounds::Unproved;

/// When to ask again where a majority is missing, milliseconds: about half an election.
const NO_QUORUM_RETRY_MS: u64 = 200;
/// When to ask again where this node is busy.
const OVERLOADED_RETRY_MS: u64 = 50;

/// No leader is known, or it cannot reach a majority.
pub(crate) fn no_quorum() -> v1::Error {
    convert::error::no_quorum(NO_QUORUM_RETRY_MS)
}

/// This node does not lead, and nothing was appended.
pub(crate) fn not_leader() -> v1::Error {
    convert::error::not_leader(None)
}

/// What became of a proposal is not known.
pub(crate) fn outcome_unknown() -> v1::Error {
    convert::error::outcome_unknown()
}

/// Nothing was proved.
pub(crate) fn unproved(why: Unproved) -> v1::Error {
    match why {
        Unproved::NotLeader => not_leader(),
        Unproved::NoQuorum => no_quorum(),
    }
}

/// Try again after a while.
pub(crate) fn overloaded() -> v1::Error {
    convert::error::overloaded(OVERLOADED_RETRY_MS)
}

/// This node is behind the position that a watch goes on from.
pub(crate) fn behind() -> v1::Error {
    ErrorName::NodeBehind.error(
        "this node has not got as far as the position and did not in time: go on from it at another node, or here later",
    )
}

/// A watcher did not take what it was sent.
pub(crate) fn too_slow() -> v1::Error {
    ErrorName::WatchTooSlow.error(
        "the watcher did not take what it was sent, and its buffer is full: go on from the last position that it has, \
         and read faster, or watch less",
    )
}

/// Every stream for watches and fence feeds of this node is taken.
pub(crate) fn watches_full(max: usize) -> v1::Error {
    let words =
        format!("the limit of {max} watches and fence feeds of this node is reached; go to another node");
    v1::Error { limit: u64::try_from(max).unwrap_or(u64::MAX), ..ErrorName::LimitReached.error(words) }
}

/// One client asks too often; nothing was taken.
pub(crate) fn rate_limited(bound: u64, what: &str, wait: Duration) -> v1::Error {
    let retry_after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    let words =
        format!("this node takes {bound} {what} a second from one client. Nothing took effect; repeat later");
    v1::Error { limit: bound, retry_after_ms, ..ErrorName::RateLimited.error(words) }
}

/// A body is larger than this node takes.
pub(crate) fn too_large(bound: usize) -> v1::Error {
    let limit = u64::try_from(bound).unwrap_or(u64::MAX);
    v1::Error { limit, ..ErrorName::TooLarge.error(format!("a body has at most {bound} bytes at this node")) }
}

/// HTTP knows no such call.
pub(crate) fn no_such_call(words: String) -> v1::Error {
    ErrorName::NoSuchCall.error(words)
}

/// What should never happen did.
pub(crate) fn defect(words: &str) -> v1::Error {
    ErrorName::Defect.error(words)
}

/// The caller did not prove the session's secret.
pub(crate) fn unauthenticated(message: &str) -> v1::Error {
    convert::error::unauthenticated(message)
}

/// A request that cannot be.
pub(crate) fn bad_argument(message: impl Into<String>) -> v1::Error {
    BadArgument::new(message).into()
}

/// What was asked for is not held.
pub(crate) fn not_held(message: &str) -> v1::Error {
    ErrorName::NotHeld.error(message)
}

/// This node's signing key is not in force: it was replaced, and the new one has not settled.
pub(crate) fn key_not_in_force() -> v1::Error {
    ErrorName::UnknownKey.error(
        "the leader's signing key is not in force yet, so that resources could not verify what it signs; put its \
         earlier signing.key back, or stop this node so that another leads",
    )
}

/// Another node's key may be in force.
pub(crate) fn cannot_sign_here() -> v1::Error {
    ErrorName::UnknownKey.error(
        "this node's signing key is not in force yet, so that resources could not verify what it signs: ask another node",
    )
}

/// An answer that is an error.
pub(crate) fn response(tag: u64, session: u64, error: v1::Error) -> v1::Response {
    let result = Some(v1::response::Result::Error(error));
    v1::Response { tag, session, index: 0, renewed: false, result }
}

/// A single call's error: the code of its name, with the whole error among the details.
pub(crate) fn status(error: &v1::Error) -> Status {
    convert::error::status_of(error)
}
