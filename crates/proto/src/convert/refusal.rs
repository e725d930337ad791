//! A refusal of the table as an error that says enough to act on.

use palisade_core::limits::{
    CAPACITY_MAX, GUARDS_MAX, HISTORY_MAX, LOCK_DELAY_MAX, PARTS_MAX, TTL_MAX, TTL_MIN, WAIT_MAX,
};
use palisade_core::reply::{BadArgument, Ended, HolderView, LimitName, NotYet, Refusal};

use super::error::ErrorName;
use super::words;
use crate::v1;

/// To the wire. What only the leader's clock knows (the rest of a delay) is not in it.
pub fn refusal(refusal: &Refusal) -> v1::Error {
    match refusal {
        Refusal::SessionUnknown => session_unknown(),
        Refusal::SessionEnded { ended, superseded } => with_successor(session_ended(*ended), superseded.as_deref()),
        Refusal::SecretTaken => ErrorName::SecretTaken
            .error("this secret opened a session for another identity: draw a new secret and open again"),
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
            ErrorName::SessionEnded,
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
        | Ended::Restored => (
            ErrorName::SessionEnded,
            format!("the session is over ({}): stop work, open a new one, and acquire again", ended.words()),
        ),
    };
    v1::Error { ended: words::ended(ended).into(), ..name.error(message) }
}

/// A wait ended so, without a grant.
pub fn wait_ended(ended: Ended) -> v1::Error {
    match ended {
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
    if ended == Ended::TimedOut {
        return wait_ended(ended);
    }
    v1::Error {
        ended: words::ended(ended).into(),
        ..ErrorName::AlreadyEnded.error(format!(
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

fn bad_argument(what: BadArgument) -> v1::Error {
    let max = |bound: usize| u64::try_from(bound).unwrap_or(u64::MAX);
    let (limit, message) = match what {
        BadArgument::NumberReused => {
            (0, "this number is known with another content: a repeat must be the same request".to_owned())
        }
        BadArgument::NumberZero => (0, "a number is 0; numbers begin at 1".to_owned()),
        BadArgument::Parts => (max(PARTS_MAX), format!("an acquire names 1 to {PARTS_MAX} locks")),
        BadArgument::LockTwice => (0, "a lock is named twice: name it once, with permits".to_owned()),
        BadArgument::Capacity => (CAPACITY_MAX.into(), format!("a capacity is 1 to {CAPACITY_MAX}")),
        BadArgument::Permits => (0, "permits are 1 to the capacity".to_owned()),
        BadArgument::LockDelay => (LOCK_DELAY_MAX.0, format!("a lock-delay is at most {LOCK_DELAY_MAX} ms")),
        BadArgument::Ttl => (TTL_MAX.0, format!("a TTL is {TTL_MIN} to {TTL_MAX} ms")),
        BadArgument::Wait => (WAIT_MAX.0, format!("a bounded wait is 1 to {WAIT_MAX} ms")),
        BadArgument::Guards => (max(GUARDS_MAX), format!("a part names at most {GUARDS_MAX} guards")),
        BadArgument::Key => (0, "the key id is known with other bytes".to_owned()),
        BadArgument::HistorySize => (
            u64::from(HISTORY_MAX),
            format!("a history of more than {HISTORY_MAX} ended holds was asked for; ask for fewer"),
        ),
    };
    v1::Error { limit, ..ErrorName::BadArgument.error(message) }
}

fn name_of(limit: LimitName) -> &'static str {
    match limit {
        LimitName::Sessions => "sessions",
        LimitName::Locks => "locks",
        LimitName::AcquisitionsPerSession => "acquisitions a session",
        LimitName::WaitersPerLock => "waiters a lock",
        LimitName::OutcomesPerSession => "remembered outcomes a session",
        LimitName::Keys => "signing keys",
    }
}

fn advice(limit: LimitName) -> &'static str {
    match limit {
        LimitName::Sessions => {
            "share one session in a process, close those that are not needed, or raise the limit"
        }
        LimitName::Locks => "release locks that are not needed, or raise the limit",
        LimitName::AcquisitionsPerSession => "release or cancel some first",
        LimitName::WaitersPerLock => "try again later",
        LimitName::OutcomesPerSession => "send a higher mark, so that ended requests can be forgotten",
        LimitName::Keys => "remove nodes that are gone",
    }
}

fn feature(what: NotYet) -> &'static str {
    match what {
        NotYet::SharedMode => "shared mode",
        NotYet::SeveralLocks => "acquiring several locks at once",
        NotYet::Semaphores => "a capacity above 1",
        NotYet::TakingOver => "taking over a session",
        NotYet::ThisCommand => "this kind of command",
    }
}

#[cfg(test)]
mod tests {
    use palisade_core::ids::{AcquisitionId, ClientName, Millis, RequestNumber, SessionId, WallTime};
    use palisade_core::mode::Mode;
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
            (Ended::TakenOver, "SESSION_ENDED"),
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
        assert_eq!(wait_ended(Ended::TimedOut).name, "WAIT_TIMED_OUT");
        assert_eq!(wait_ended(Ended::Cancelled).name, "ALREADY_ENDED");
        assert_eq!(wait_ended(Ended::Expired).name, "SESSION_EXPIRED");
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
