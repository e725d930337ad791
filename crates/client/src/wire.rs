//! What answers of the cluster mean to this client: wire messages to our types, and error names to what to do.

use std::time::Duration;

use palisade_core::ids::{AcquisitionId, ClientName, LockName, OwnerLabel};
use palisade_core::reply::{Ended, HolderView};
use palisade_proto::convert::{ErrorName, words};
use palisade_proto::v1;

use crate::error::{AcquireError, AskedFor, CallError, LostReason, ReleaseError, Waiting};

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

pub(crate) fn acquisition(id: AcquisitionId) -> v1::AcquisitionId {
    words::acquisition(id)
}

/// Whether it says that what was named is not held any more: how that ended, and who came after.
pub(crate) fn not_held(error: &v1::Error) -> Option<(Option<Ended>, Option<Box<HolderView>>)> {
    let gone = matches!(
        ErrorName::parse(&error.name)?,
        ErrorName::NotHeld
            | ErrorName::AlreadyEnded
            | ErrorName::BelowMark
            | ErrorName::Overdue
            | ErrorName::Broken
            | ErrorName::Cancelled
            | ErrorName::SessionExpired
            | ErrorName::SessionEnded
            | ErrorName::SessionClosed
            | ErrorName::TakenOver
    );
    gone.then(|| (words::ended_from(error.ended), holder(error)))
}

/// Without the steps that say what cannot be.
fn cycle(error: &v1::Error) -> Vec<Waiting> {
    let step = |step: &v1::CycleStep| {
        Some(Waiting {
            owner: OwnerLabel::new(&step.owner).ok()?,
            client: ClientName::new(&step.client).ok()?,
            lock: LockName::new(&step.lock).ok()?,
        })
    };
    error.cycle.iter().filter_map(step).collect()
}

pub(crate) fn acquire_error(lock: AskedFor, error: v1::Error) -> AcquireError {
    if let Meaning::SessionOver(reason) = meaning(&error) {
        return AcquireError::SessionLost(reason);
    }
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
        Some(ErrorName::WouldDeadlock) => {
            AcquireError::WouldDeadlock { lock, cycle: cycle(&error), message: error.message }
        }
        Some(ErrorName::CapacityDiffers) => {
            AcquireError::CapacityDiffers { lock, capacity: error.limit, message: error.message }
        }
        Some(ErrorName::DelayOutOfBounds) => AcquireError::DelayOutOfBounds { lock, message: error.message },
        Some(
            ErrorName::AlreadyEnded
            | ErrorName::BelowMark
            | ErrorName::Overdue
            | ErrorName::Broken
            | ErrorName::Cancelled,
        ) => match words::ended_from(error.ended).unwrap_or(Ended::Forgotten) {
            Ended::TimedOut => AcquireError::TimedOut { lock },
            ended => AcquireError::Ended { lock, ended },
        },
        Some(ErrorName::LimitReached) => AcquireError::Limit { limit: error.limit, message: error.message },
        Some(ErrorName::BadArgument) => AcquireError::BadArgument { message: error.message },
        _ => AcquireError::Refused { name: error.name, message: error.message },
    }
}

pub(crate) fn release_error(error: v1::Error) -> ReleaseError {
    match not_held(&error) {
        Some((ended, superseded_by)) => ReleaseError::NotHeld { ended, superseded_by },
        None => ReleaseError::Refused { name: error.name, message: error.message },
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

    fn orders() -> AskedFor {
        AskedFor(vec![LockName::new("orders").expect("a name")])
    }

    #[test]
    fn a_cycle_is_told_in_names() {
        let step = |owner: &str, lock: &str| v1::CycleStep {
            owner: owner.to_owned(),
            lock: lock.to_owned(),
            ..v1::CycleStep::default()
        };
        let error = v1::Error { cycle: vec![step("a", "x"), step("b", "y")], ..named("WOULD_DEADLOCK") };
        let AcquireError::WouldDeadlock { cycle, .. } = acquire_error(orders(), error) else {
            panic!("another error")
        };
        let cycle: Vec<_> = cycle.iter().map(|step| (step.owner.as_str(), step.lock.as_str())).collect();
        assert_eq!(cycle, [("a", "x"), ("b", "y")]);
    }

    #[test]
    fn what_ended_before_its_guard_says_how() {
        let error = v1::Error { ended: v1::Ended::Overdue.into(), ..named("OVERDUE") };
        let overdue = AcquireError::Ended { lock: orders(), ended: Ended::Overdue };
        assert_eq!(acquire_error(orders(), error), overdue);
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
        let acquisition = Some(v1::AcquisitionId { session: 3, number: 1 });
        let nobody = v1::Holder { acquisition, mode: v1::Mode::Exclusive.into(), ..v1::Holder::default() };
        let holder_of = |holder| match acquire_error(orders(), v1::Error { holder, ..named("LOCK_HELD") }) {
            AcquireError::Held { holder, .. } => holder.map(|holder| holder.token.get()),
            other => panic!("{other:?}"),
        };
        assert_eq!(holder_of(Some(nobody.clone())), None);
        assert_eq!(holder_of(Some(v1::Holder { token: 7, ..nobody })), Some(7));
    }

    #[test]
    fn a_wait_that_ends_with_its_session_is_lost_with_it() {
        let lost = AcquireError::SessionLost(LostReason::Ended(Ended::Expired));
        assert_eq!(acquire_error(orders(), named("SESSION_EXPIRED")), lost);
    }
}
