//! What answers of the cluster mean to this client: wire messages to our types, and error names to what to do.

use std::time::Duration;

use palisade_core::ids::LockName;
use palisade_core::reply::{Ended, HolderView};
use palisade_proto::convert::{ErrorName, words};
use palisade_proto::v1;

use crate::error::{AcquireError, CallError, LostReason, ReleaseError};

/// What an error asks of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Repeat under the same number, not before this time when one is named.
    Repeat { after: Option<Duration> },
    /// The session is over.
    SessionOver(LostReason),
    /// The stream may not speak for the session: bind, then repeat.
    NotBound,
    /// An answer.
    Final,
}

pub(crate) fn meaning(error: &v1::Error) -> Meaning {
    // A name of a later version is an answer like any other: nothing is known of repeating it.
    let Some(name) = ErrorName::parse(&error.name) else { return Meaning::Final };
    match name {
        ErrorName::NotLeader
        | ErrorName::NoQuorum
        | ErrorName::OutcomeUnknown
        | ErrorName::Overloaded
        | ErrorName::RateLimited
        | ErrorName::NotFounded => Meaning::Repeat { after: retry_after(error) },
        ErrorName::SessionUnknown => Meaning::SessionOver(LostReason::Unknown),
        ErrorName::SessionExpired => Meaning::SessionOver(LostReason::Ended(Ended::Expired)),
        ErrorName::SessionClosed => Meaning::SessionOver(LostReason::Ended(Ended::Closed)),
        ErrorName::SessionEnded => {
            let ended = words::ended_from(error.ended).unwrap_or(Ended::Forgotten);
            Meaning::SessionOver(LostReason::Ended(ended))
        }
        ErrorName::TakenOver => Meaning::SessionOver(LostReason::Ended(Ended::TakenOver)),
        ErrorName::Unauthenticated => Meaning::NotBound,
        ErrorName::SecretTaken
        | ErrorName::BelowMark
        | ErrorName::AlreadyEnded
        | ErrorName::BadArgument
        | ErrorName::LockHeld
        | ErrorName::QueuedAhead
        | ErrorName::LockClosed
        | ErrorName::CapacityDiffers
        | ErrorName::NotHeld
        | ErrorName::LimitReached
        | ErrorName::NotYet
        | ErrorName::WaitTimedOut
        | ErrorName::NodeBehind
        | ErrorName::WatchTooSlow
        | ErrorName::UnknownKey
        | ErrorName::Forged
        | ErrorName::TooLarge
        | ErrorName::NoSuchCall
        | ErrorName::WouldDeadlock
        | ErrorName::NobodyToHandTo
        | ErrorName::DelayOutOfBounds
        | ErrorName::NotInUse
        | ErrorName::VersionDiffers
        | ErrorName::Overdue
        | ErrorName::Broken
        | ErrorName::Cancelled
        | ErrorName::Defect => Meaning::Final,
    }
}

fn retry_after(error: &v1::Error) -> Option<Duration> {
    (error.retry_after_ms > 0).then(|| Duration::from_millis(error.retry_after_ms))
}

/// A refusal that is not remembered by the cluster, so that another copy, still on its way, could be granted.
pub(crate) fn may_change(error: &v1::Error) -> bool {
    error.name == ErrorName::LimitReached.as_str()
}

fn holder(error: &v1::Error) -> Option<Box<HolderView>> {
    error.holder.as_ref().and_then(|holder| words::holder_from(holder).ok()).map(Box::new)
}

pub(crate) fn acquire_error(lock: &LockName, error: v1::Error) -> AcquireError {
    if let Meaning::SessionOver(reason) = meaning(&error) {
        return AcquireError::SessionLost(reason);
    }
    let lock = lock.clone();
    match ErrorName::parse(&error.name) {
        Some(ErrorName::LockHeld) => {
            AcquireError::Held { lock, holder: holder(&error), waiting: error.waiting }
        }
        Some(ErrorName::QueuedAhead) => AcquireError::QueuedAhead { lock, waiting: error.waiting },
        Some(ErrorName::LockClosed) => AcquireError::Closed {
            lock,
            lock_delay: Duration::from_millis(error.lock_delay_ms),
            retry_after: retry_after(&error),
        },
        Some(ErrorName::WaitTimedOut) => AcquireError::TimedOut { lock },
        Some(ErrorName::AlreadyEnded | ErrorName::BelowMark) => {
            match words::ended_from(error.ended).unwrap_or(Ended::Forgotten) {
                Ended::TimedOut => AcquireError::TimedOut { lock },
                ended => AcquireError::Ended { lock, ended },
            }
        }
        Some(ErrorName::LimitReached) => AcquireError::Limit { limit: error.limit, message: error.message },
        Some(ErrorName::BadArgument) => AcquireError::BadArgument { message: error.message },
        _ => AcquireError::Refused { name: error.name, message: error.message },
    }
}

pub(crate) fn release_error(error: v1::Error) -> ReleaseError {
    match ErrorName::parse(&error.name) {
        Some(
            ErrorName::NotHeld
            | ErrorName::AlreadyEnded
            | ErrorName::BelowMark
            | ErrorName::SessionExpired
            | ErrorName::SessionEnded
            | ErrorName::SessionClosed,
        ) => ReleaseError::NotHeld { ended: words::ended_from(error.ended), superseded_by: holder(&error) },
        _ => ReleaseError::Refused { name: error.name, message: error.message },
    }
}

pub(crate) fn call_error(error: v1::Error) -> CallError {
    CallError::Refused { name: error.name, message: error.message }
}

/// An answer of a kind that the request does not have.
pub(crate) fn unexpected() -> CallError {
    CallError::Refused {
        name: "UNEXPECTED".to_owned(),
        message: "the node answered with another kind of message; do client and node fit together?"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> v1::Error {
        v1::Error { name: name.to_owned(), ..v1::Error::default() }
    }

    #[test]
    fn what_is_undecided_is_repeated_and_what_is_decided_is_not() {
        for name in
            ["NOT_LEADER", "NO_QUORUM", "OUTCOME_UNKNOWN", "OVERLOADED", "RATE_LIMITED", "NOT_FOUNDED"]
        {
            assert_eq!(meaning(&named(name)), Meaning::Repeat { after: None }, "{name}");
        }
        for name in ["LOCK_HELD", "NOT_HELD", "BELOW_MARK", "ALREADY_ENDED", "LIMIT_REACHED", "NOT_YET"] {
            assert_eq!(meaning(&named(name)), Meaning::Final, "{name}");
        }
    }

    #[test]
    fn the_end_of_a_session_says_how() {
        let error = v1::Error { ended: v1::Ended::ByOperator.into(), ..named("SESSION_ENDED") };
        assert_eq!(meaning(&error), Meaning::SessionOver(LostReason::Ended(Ended::ByOperator)));
        assert_eq!(meaning(&named("SESSION_UNKNOWN")), Meaning::SessionOver(LostReason::Unknown));
    }

    #[test]
    fn a_holder_without_a_token_is_no_holder() {
        let lock = LockName::new("orders").expect("a name");
        let acquisition = Some(v1::AcquisitionId { session: 3, number: 1 });
        let nobody = v1::Holder { acquisition, mode: v1::Mode::Exclusive.into(), ..v1::Holder::default() };
        let holder_of = |holder| match acquire_error(&lock, v1::Error { holder, ..named("LOCK_HELD") }) {
            AcquireError::Held { holder, .. } => holder.map(|holder| holder.token.get()),
            other => panic!("{other:?}"),
        };
        assert_eq!(holder_of(Some(nobody.clone())), None);
        assert_eq!(holder_of(Some(v1::Holder { token: 7, ..nobody })), Some(7));
    }

    #[test]
    fn a_wait_that_ends_with_its_session_is_lost_with_it() {
        let lock = LockName::new("orders").expect("a name");
        let lost = AcquireError::SessionLost(LostReason::Ended(Ended::Expired));
        assert_eq!(acquire_error(&lock, named("SESSION_EXPIRED")), lost);
    }
}
