//! What answers of the cluster mean to this client: wire messages to our types, and error names to what to do.

use std::time::Duration;

use palisade_core::ids::{AcquisitionId, ClientName, LockName, RequestNumber, SessionId, WallTime};
use palisade_core::mode::Mode;
use palisade_core::reply::{Ended, HolderView};
use palisade_core::token::Token;
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
    match error.name.as_str() {
        "NOT_LEADER" | "NO_QUORUM" | "OUTCOME_UNKNOWN" | "OVERLOADED" | "NOT_FOUNDED" => {
            let after = (error.retry_after_ms > 0).then(|| Duration::from_millis(error.retry_after_ms));
            Meaning::Repeat { after }
        }
        "SESSION_UNKNOWN" => Meaning::SessionOver(LostReason::Unknown),
        "SESSION_EXPIRED" => Meaning::SessionOver(LostReason::Ended(Ended::Expired)),
        "SESSION_CLOSED" => Meaning::SessionOver(LostReason::Ended(Ended::Closed)),
        "SESSION_ENDED" => {
            Meaning::SessionOver(LostReason::Ended(ended(error.ended).unwrap_or(Ended::Forgotten)))
        }
        "UNAUTHENTICATED" => Meaning::NotBound,
        _ => Meaning::Final,
    }
}

pub(crate) fn ended(code: i32) -> Option<Ended> {
    match v1::Ended::try_from(code).ok()? {
        v1::Ended::Unspecified => None,
        v1::Ended::Released => Some(Ended::Released),
        v1::Ended::HandedOver => Some(Ended::HandedOver),
        v1::Ended::Cancelled => Some(Ended::Cancelled),
        v1::Ended::Closed => Some(Ended::Closed),
        v1::Ended::Expired => Some(Ended::Expired),
        v1::Ended::TakenOver => Some(Ended::TakenOver),
        v1::Ended::ByOperator => Some(Ended::ByOperator),
        v1::Ended::Broken => Some(Ended::Broken),
        v1::Ended::Overdue => Some(Ended::Overdue),
        v1::Ended::TimedOut => Some(Ended::TimedOut),
        v1::Ended::Refused => Some(Ended::Refused),
        v1::Ended::Forgotten => Some(Ended::Forgotten),
        v1::Ended::Restored => Some(Ended::Restored),
    }
}

pub(crate) fn mode(code: i32) -> Option<Mode> {
    match v1::Mode::try_from(code).ok()? {
        v1::Mode::Unspecified => None,
        v1::Mode::Exclusive => Some(Mode::Exclusive),
        v1::Mode::Shared => Some(Mode::Shared),
    }
}

/// None when it names nobody, or says what cannot be.
pub(crate) fn holder(holder: Option<v1::Holder>) -> Option<Box<HolderView>> {
    let holder = holder?;
    let acquisition = holder.acquisition?;
    Some(Box::new(HolderView {
        acquisition: AcquisitionId {
            session: SessionId(acquisition.session),
            number: RequestNumber(acquisition.number),
        },
        client: ClientName::new(&holder.client).ok()?,
        mode: mode(holder.mode)?,
        token: Token::new(holder.token)?,
        grant_index: holder.grant_index,
        granted_at: WallTime(holder.granted_at_us),
    }))
}

pub(crate) fn acquire_error(lock: &LockName, error: v1::Error) -> AcquireError {
    let lock = lock.clone();
    match error.name.as_str() {
        "LOCK_HELD" => AcquireError::Held { lock, holder: holder(error.holder), waiting: error.waiting },
        "QUEUED_AHEAD" => AcquireError::QueuedAhead { lock, waiting: error.waiting },
        "LOCK_CLOSED" => AcquireError::Closed {
            lock,
            lock_delay: Duration::from_millis(error.lock_delay_ms),
            retry_after: (error.retry_after_ms > 0).then(|| Duration::from_millis(error.retry_after_ms)),
        },
        "WAIT_TIMED_OUT" => AcquireError::TimedOut { lock },
        "ALREADY_ENDED" | "BELOW_MARK" => match ended(error.ended).unwrap_or(Ended::Forgotten) {
            Ended::TimedOut => AcquireError::TimedOut { lock },
            ended => AcquireError::Ended { lock, ended },
        },
        "LIMIT_REACHED" => AcquireError::Limit { limit: error.limit, message: error.message },
        "BAD_ARGUMENT" => AcquireError::BadArgument { message: error.message },
        _ => AcquireError::Refused { name: error.name, message: error.message },
    }
}

pub(crate) fn release_error(error: v1::Error) -> ReleaseError {
    match error.name.as_str() {
        "NOT_HELD" | "ALREADY_ENDED" | "BELOW_MARK" => {
            ReleaseError::NotHeld { ended: ended(error.ended), superseded_by: holder(error.holder) }
        }
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
        for name in ["NOT_LEADER", "NO_QUORUM", "OUTCOME_UNKNOWN", "OVERLOADED", "NOT_FOUNDED"] {
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
        let acquisition = Some(v1::AcquisitionId { session: 3, number: 1 });
        let nobody = v1::Holder { acquisition, mode: v1::Mode::Exclusive.into(), ..v1::Holder::default() };
        assert!(holder(Some(nobody.clone())).is_none());
        let somebody = v1::Holder { token: 7, ..nobody };
        assert_eq!(holder(Some(somebody)).map(|holder| holder.token.get()), Some(7));
    }
}
