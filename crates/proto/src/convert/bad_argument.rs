//! What was wrong with a command, and what a limit asks of its caller, in words.

use palisade_core::limits::{
    CAPACITY_MAX, CLOSED_MAX, DEADLINE_MAX, DEADLINE_MIN, GUARDS_MAX, HISTORY_MAX, KEEP_BATCH_MAX,
    LOCK_DELAY_MAX, PARTS_MAX, TTL_MAX, TTL_MIN, WAIT_MAX,
};
use palisade_core::reply::{BadArgument, LimitName, NotYet};

use super::error::ErrorName;
use crate::v1;

pub(super) fn bad_argument(what: BadArgument) -> v1::Error {
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
        BadArgument::Mode => {
            (0, "a lock with a capacity above 1 is held exclusively, slot by slot".to_owned())
        }
        BadArgument::Deadline => (
            DEADLINE_MAX.0,
            format!("a holding time and a progress interval are {DEADLINE_MIN} to {DEADLINE_MAX} ms"),
        ),
        BadArgument::DelayRule => (
            LOCK_DELAY_MAX.0,
            format!("a rule's least delay is at most its largest, and that at most {LOCK_DELAY_MAX} ms"),
        ),
        BadArgument::Limits => (0, "a limit is out of its bounds; 0 would stop everything".to_owned()),
        BadArgument::Closed => (CLOSED_MAX.0, format!("a slot is closed for at most {CLOSED_MAX} ms")),
        BadArgument::Floor => {
            (0, "the floor is below the one that the delay asks for, or no token".to_owned())
        }
        BadArgument::Sessions => {
            (max(KEEP_BATCH_MAX), format!("a keepalive in the log names at most {KEEP_BATCH_MAX} sessions"))
        }
    };
    v1::Error { limit, ..ErrorName::BadArgument.error(message) }
}

pub(super) fn name_of(limit: LimitName) -> &'static str {
    match limit {
        LimitName::Sessions => "sessions",
        LimitName::Locks => "locks",
        LimitName::AcquisitionsPerSession => "acquisitions a session",
        LimitName::WaitersPerLock => "waiters a lock",
        LimitName::OutcomesPerSession => "remembered outcomes a session",
        LimitName::Keys => "signing keys",
        LimitName::DelayRules => "rules of lock-delays",
    }
}

pub(super) fn advice(limit: LimitName) -> &'static str {
    match limit {
        LimitName::Sessions => {
            "share one session in a process, close those that are not needed, or raise the limit"
        }
        LimitName::Locks => "release locks that are not needed, or raise the limit",
        LimitName::AcquisitionsPerSession => "release or cancel some first",
        LimitName::WaitersPerLock => "try again later",
        LimitName::OutcomesPerSession => "send a higher mark, so that ended requests can be forgotten",
        LimitName::Keys => "remove nodes that are gone",
        LimitName::DelayRules => "take away those that are not needed",
    }
}

pub(super) fn feature(what: NotYet) -> &'static str {
    match what {
        NotYet::SharedMode => "shared mode",
        NotYet::SeveralLocks => "acquiring several locks at once",
        NotYet::Semaphores => "a capacity above 1",
        NotYet::TakingOver => "taking over a session",
        NotYet::ThisCommand => "this kind of command",
    }
}
