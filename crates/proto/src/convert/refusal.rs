//! A refusal of the table as an error that says enough to act on.

use std::fmt::Write;

use palisade_core::reply::{Cycle, CycleStep, Ended, HolderView, Refusal};

use super::bad_argument::{advice, bad_argument, feature, name_of};
use super::error::ErrorName;
use super::words;
use crate::v1;

/// To the wire. What only the leader's clock knows (the rest of a delay) is not in it.
pub fn refusal(refusal: &Refusal) -> v1::Error {
    match refusal {
        Refusal::SessionUnknown => session_unknown(),
        Refusal::SessionEnded { ended, superseded } => with_successor(session_ended(*ended), superseded.as_deref()),
        Refusal::SecretTaken => ErrorName::SecretTaken
            .error("this secret opened a session for another identity, or the one that is to be replaced: draw a new secret and \
             open again"),
        Refusal::BelowMark { mark } => ErrorName::BelowMark.error(format!(
            "the number is below {mark}, below which this session said that it repeats nothing. Nothing took effect; \
             use a new number"
        )),
        Refusal::AlreadyEnded { ended, superseded } => with_successor(already_ended(*ended), superseded.as_deref()),
        Refusal::BadArgument(what) => bad_argument(*what),
        Refusal::Held { holder, waiting } => v1::Error {
            holder: Some(words::holder(holder)),
            waiting: *waiting,
            ..ErrorName::LockHeld.error(format!(
                "held by {}; {waiting} waiting. Try again later, or wait in the queue",
                describe(holder)
            ))
        },
        Refusal::Queue { waiting } => v1::Error {
            waiting: *waiting,
            ..ErrorName::QueuedAhead.error(format!(
                "{waiting} waiting, and a try never overtakes a waiter. Try again later, or wait in the queue"
            ))
        },
        Refusal::InLockDelay { began, delay, ended } => v1::Error {
            lock_delay_ms: delay.0,
            ..ErrorName::LockClosed.error(format!(
                "in a lock-delay of {} ms since index {began}: the holder of token {ended} ended without releasing. \
                 Try again later, or wait in the queue",
                delay.0
            ))
        },
        Refusal::CapacityDiffers { lock, asked } => v1::Error {
            limit: u64::from(*lock),
            ..ErrorName::CapacityDiffers.error(format!(
                "the lock is in use with capacity {lock}, and {asked} was asked: name the same capacity, or wait \
                 until nobody holds or awaits it"
            ))
        },
        Refusal::NotHeld { superseded } => {
            let error = ErrorName::NotHeld.error(
                "not held by this acquisition under this token; nothing was released. Stop work that relied on it",
            );
            with_successor(error, superseded.as_deref())
        }
        Refusal::LimitReached { limit, max } => v1::Error {
            limit: *max,
            ..ErrorName::LimitReached.error(format!("the limit of {max} {} is reached; {}", name_of(*limit), advice(*limit)))
        },
        Refusal::NotYet(what) => ErrorName::NotYet.error(format!(
            "the cluster's version does not know {} yet: every node must run a version that does",
            feature(*what)
        )),
        Refusal::WouldDeadlock(cycle) => deadlock(cycle),
        Refusal::NobodyToHandTo { to, waiting } => v1::Error {
            waiting: *waiting,
            ..ErrorName::NobodyToHandTo.error(match to {
                Some(session) => format!(
                    "session {session} has no waiter that could be granted the slot now ({waiting} waiting); it is kept"
                ),
                None => format!("no waiter could be granted the slot now ({waiting} waiting); it is kept"),
            })
        },
        Refusal::DelayOutOfBounds { prefix, least, most } => v1::Error {
            limit: most.0,
            ..ErrorName::DelayOutOfBounds.error(format!(
                "locks below {:?} have lock-delays of {least} to {most} ms: name one inside, or none",
                prefix.as_str()
            ))
        },
        Refusal::TooManyPermits { capacity, permits } => v1::Error {
            limit: u64::from(*capacity),
            ..ErrorName::CapacityDiffers.error(format!(
                "an operator set the capacity to {capacity}, and {permits} permits were asked: ask for fewer"
            ))
        },
        Refusal::NotInUse => ErrorName::NotInUse
            .error("nobody holds or awaits the lock, and it is in no lock-delay: the next acquire names its capacity"),
        Refusal::SecretWrong => {
            ErrorName::Unauthenticated.error("the secret is not that of the session to be replaced; nothing was taken over")
        }
        Refusal::Version { present, newest } => v1::Error {
            limit: u64::from(*newest),
            ..ErrorName::VersionDiffers
                .error(format!("the cluster is at version {present} and can go to {newest} at most; it never goes back"))
        },
        Refusal::NotFounded => {
            ErrorName::NotFounded.error("the cluster is not founded yet: are all its initial members up?")
        }
    }
}

/// Nobody ever opened it here.
pub fn session_unknown() -> v1::Error {
    ErrorName::SessionUnknown.error("no such session is known here: open a new one, and acquire again")
}

/// The session is over, so.
pub fn session_ended(ended: Ended) -> v1::Error {
    let (name, message) = match ended {
        Ended::Expired => (
            ErrorName::SessionExpired,
            "the session expired: it was not heard from for its whole TTL. Stop work, open a new session, and \
             acquire again for a higher token"
                .to_owned(),
        ),
        Ended::Closed => {
            (ErrorName::SessionClosed, "the session was closed: open a new one, and acquire again".to_owned())
        }
        Ended::TakenOver => (
            ErrorName::TakenOver,
            "the session was taken over by a newer process: stop, and take nothing over".to_owned(),
        ),
        Ended::Released
        | Ended::HandedOver
        | Ended::Cancelled
        | Ended::ByOperator
        | Ended::Broken
        | Ended::Overdue
        | Ended::TimedOut
        | Ended::Refused
        | Ended::Forgotten
        | Ended::Restored
        | Ended::Deadlocked => (
            ErrorName::SessionEnded,
            format!("the session is over ({}): stop work, open a new one, and acquire again", ended.words()),
        ),
    };
    v1::Error { ended: words::ended(ended).into(), ..name.error(message) }
}

/// The cycle, in names that a person understands.
fn deadlock(cycle: &Cycle) -> v1::Error {
    let mut words = String::from("this would be a wait without end: ");
    for (at, step) in cycle.steps.iter().enumerate() {
        let next = &cycle.steps[(at + 1) % cycle.steps.len()];
        let comma = if at == 0 { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(words, "{comma}{} waits for {}, which {} has", named(step), step.lock, named(next));
    }
    words.push_str(". Nothing took effect: release what is held, and acquire all at once, or in one order");
    let steps = cycle.steps.iter().map(|step| v1::CycleStep {
        owner: step.owner.as_str().to_owned(),
        client: step.client.as_str().to_owned(),
        acquisition: Some(words::acquisition(step.acquisition)),
        lock: step.lock.as_str().to_owned(),
    });
    v1::Error { cycle: steps.collect(), ..ErrorName::WouldDeadlock.error(words) }
}

fn named(step: &CycleStep) -> String {
    match step.client.as_str() {
        "" => format!("{:?}", step.owner.as_str()),
        client => format!("{:?} of {client:?}", step.owner.as_str()),
    }
}

/// A wait ended so, without a grant; `cycle` where it ended to break one.
pub fn wait_ended(ended: Ended, cycle: Option<&Cycle>) -> v1::Error {
    match ended {
        Ended::Deadlocked => {
            let error = cycle.map_or_else(|| already_ended(ended), deadlock);
            v1::Error { ended: words::ended(ended).into(), ..error }
        }
        Ended::TimedOut => v1::Error {
            ended: words::ended(ended).into(),
            ..ErrorName::WaitTimedOut
                .error("not granted within the wait that was asked for; the place in the queue is given up")
        },
        Ended::Expired | Ended::Closed | Ended::TakenOver | Ended::ByOperator | Ended::Restored => {
            session_ended(ended)
        }
        Ended::Released
        | Ended::HandedOver
        | Ended::Cancelled
        | Ended::Broken
        | Ended::Overdue
        | Ended::Refused
        | Ended::Forgotten => already_ended(ended),
    }
}

fn already_ended(ended: Ended) -> v1::Error {
    let name = match ended {
        Ended::TimedOut => return wait_ended(ended, None),
        Ended::Overdue => ErrorName::Overdue,
        Ended::Broken => ErrorName::Broken,
        Ended::Cancelled => ErrorName::Cancelled,
        Ended::TakenOver => ErrorName::TakenOver,
        Ended::Deadlocked => ErrorName::WouldDeadlock,
        Ended::Released
        | Ended::HandedOver
        | Ended::Closed
        | Ended::Expired
        | Ended::ByOperator
        | Ended::Refused
        | Ended::Forgotten
        | Ended::Restored => ErrorName::AlreadyEnded,
    };
    v1::Error {
        ended: words::ended(ended).into(),
        ..name.error(format!(
            "this acquisition is over ({}) and is never acquired again: acquire under a new number",
            ended.words()
        ))
    }
}

fn with_successor(error: v1::Error, successor: Option<&HolderView>) -> v1::Error {
    let Some(holder) = successor else { return error };
    v1::Error {
        message: format!("{}. Now held by {}", error.message, describe(holder)),
        superseded_by: holder.token.get(),
        holder: Some(words::holder(holder)),
        ..error
    }
}

fn describe(holder: &HolderView) -> String {
    let client = match holder.client.as_str() {
        "" => "an unnamed client".to_owned(),
        name => format!("{name:?}"),
    };
    let since = words::wall_time(holder.granted_at);
    format!("{client} (session {}) under token {} since {since}", holder.acquisition.session, holder.token)
}

#[cfg(test)]
mod tests {
    use palisade_core::ids::{AcquisitionId, ClientName, Millis, RequestNumber, SessionId, WallTime};
    use palisade_core::mode::Mode;
    use palisade_core::reply::{BadArgument, LimitName};
    use palisade_core::token::Token;

    use super::*;

    fn successor() -> Box<HolderView> {
        Box::new(HolderView {
            acquisition: AcquisitionId { session: SessionId(40), number: RequestNumber(1) },
            client: ClientName::new("billing-3").expect("a name"),
            mode: Mode::Exclusive,
            token: Token::new(52).expect("a token"),
            grant_index: 52,
            granted_at: WallTime(1_709_251_199_000_000),
        })
    }

    #[test]
    fn a_late_release_is_told_who_superseded_it() {
        let error = refusal(&Refusal::NotHeld { superseded: Some(successor()) });
        assert_eq!(error.name, "NOT_HELD");
        assert_eq!(error.superseded_by, 52);
        assert_eq!(error.holder.map(|holder| holder.client), Some("billing-3".to_owned()));
        assert!(error.message.contains("token 52 since 2024-02-29T23:59:59Z"), "{}", error.message);
    }

    #[test]
    fn a_try_is_told_who_holds_and_how_many_wait() {
        let error = refusal(&Refusal::Held { holder: successor(), waiting: 3 });
        assert_eq!((error.name.as_str(), error.waiting, error.superseded_by), ("LOCK_HELD", 3, 0));
        assert!(error.holder.is_some());
    }

    #[test]
    fn a_try_on_a_closed_lock_is_told_the_delay() {
        let ended = Token::new(34).expect("a token");
        let error = refusal(&Refusal::InLockDelay { began: 40, delay: Millis(15_000), ended });
        assert_eq!((error.name.as_str(), error.lock_delay_ms), ("LOCK_CLOSED", 15_000));
        assert!(error.message.contains("token 34"), "{}", error.message);
    }

    #[test]
    fn each_end_of_a_session_has_its_name() {
        for (ended, name) in [
            (Ended::Expired, "SESSION_EXPIRED"),
            (Ended::Closed, "SESSION_CLOSED"),
            (Ended::TakenOver, "TAKEN_OVER"),
            (Ended::ByOperator, "SESSION_ENDED"),
            (Ended::Restored, "SESSION_ENDED"),
        ] {
            let error = refusal(&Refusal::SessionEnded { ended, superseded: None });
            assert_eq!(error.name, name);
            assert_eq!(words::ended_from(error.ended), Some(ended));
        }
        let late = refusal(&Refusal::SessionEnded { ended: Ended::Expired, superseded: Some(successor()) });
        assert_eq!(late.superseded_by, 52);
    }

    #[test]
    fn a_wait_ends_by_its_bound_by_its_caller_or_with_its_session() {
        assert_eq!(wait_ended(Ended::TimedOut, None).name, "WAIT_TIMED_OUT");
        assert_eq!(wait_ended(Ended::Cancelled, None).name, "CANCELLED");
        assert_eq!(wait_ended(Ended::Expired, None).name, "SESSION_EXPIRED");
        let repeat = refusal(&Refusal::AlreadyEnded { ended: Ended::TimedOut, superseded: None });
        assert_eq!(repeat.name, "WAIT_TIMED_OUT");
    }

    #[test]
    fn a_limit_says_its_value() {
        let error = refusal(&Refusal::LimitReached { limit: LimitName::WaitersPerLock, max: 10_000 });
        assert_eq!((error.name.as_str(), error.limit), ("LIMIT_REACHED", 10_000));
        let error = refusal(&Refusal::BadArgument(BadArgument::LockDelay));
        assert_eq!((error.name.as_str(), error.limit), ("BAD_ARGUMENT", 60_000));
    }
}
