//! Locks: acquire, release, cancel.

use palisade_core::command::{Acquire, AcquirePart, Cancel, LockDelay, Release, Wait};
use palisade_core::ids::{
    AcquisitionId, GuardName, LockName, Millis, OwnerLabel, RequestNumber, SessionId, Slot,
};
use palisade_core::limits::{CAPACITY_MAX, GUARDS_MAX, LOCK_DELAY_MAX, PARTS_MAX, WAIT_MAX};
use palisade_core::reply::CancelMet;

use super::{BadArgument, words};
use crate::v1;

/// From the wire. `lock_delay_default` stands where the caller named no delay: a command carries explicit values.
pub fn acquire(
    session: SessionId,
    message: &v1::Acquire,
    lock_delay_default: Millis,
) -> Result<Acquire, BadArgument> {
    let parts = message.parts.len();
    if parts == 0 || parts > PARTS_MAX {
        return Err(over(format!("an acquire names 1 to {PARTS_MAX} locks; {parts} came"), PARTS_MAX));
    }
    for (at, part) in message.parts.iter().enumerate() {
        if message.parts[..at].iter().any(|earlier| earlier.lock == part.lock) {
            return Err(BadArgument::new(format!(
                "the lock {:?} is named twice: name it once, with permits",
                part.lock
            )));
        }
    }
    let owner = match message.owner.as_str() {
        "" => None,
        label => Some(OwnerLabel::new(label)?),
    };
    Ok(Acquire {
        session,
        number: (message.number != 0).then_some(RequestNumber(message.number)),
        mark: RequestNumber(message.mark),
        parts: message
            .parts
            .iter()
            .map(|part| acquire_part(part, lock_delay_default))
            .collect::<Result<_, _>>()?,
        wait: wait(message.wait.as_ref())?,
        owner,
    })
}

fn acquire_part(part: &v1::AcquirePart, lock_delay_default: Millis) -> Result<AcquirePart, BadArgument> {
    let lock = LockName::new(&part.lock)?;
    let capacity = part.capacity.max(1);
    if capacity > CAPACITY_MAX {
        let text = format!("a capacity is 1 to {CAPACITY_MAX}; {capacity} was asked");
        return Err(BadArgument::over(text, CAPACITY_MAX.into()));
    }
    let permits = part.permits.max(1);
    if permits > capacity {
        let text = format!("{permits} permits were asked of a lock with capacity {capacity}");
        return Err(BadArgument::over(text, capacity.into()));
    }
    let delay = match part.lock_delay_ms {
        None => LockDelay::Default(lock_delay_default),
        Some(named) if named > LOCK_DELAY_MAX.0 => {
            let text = format!("a lock-delay is at most {LOCK_DELAY_MAX} ms; {named} was asked");
            return Err(BadArgument::over(text, LOCK_DELAY_MAX.0));
        }
        Some(named) => LockDelay::Named(Millis(named)),
    };
    let guards = part.fenced_by.len();
    if guards > GUARDS_MAX {
        return Err(over(format!("a part names at most {GUARDS_MAX} guards; {guards} came"), GUARDS_MAX));
    }
    let fenced_by = part.fenced_by.iter().map(|guard| GuardName::new(guard)).collect::<Result<_, _>>()?;
    Ok(AcquirePart { lock, mode: words::mode_from(part.mode)?, capacity, permits, delay, fenced_by })
}

fn wait(wait: Option<&v1::Wait>) -> Result<Wait, BadArgument> {
    use v1::wait::Kind;
    match wait.and_then(|wait| wait.kind) {
        None | Some(Kind::Session(true)) => Ok(Wait::Session),
        Some(Kind::None(true)) => Ok(Wait::Try),
        Some(Kind::Session(false) | Kind::None(false)) => Err(BadArgument::new(
            "a wait that is set to false says nothing: set the one that is meant, to true",
        )),
        Some(Kind::BoundedMs(bound)) if bound == 0 || bound > WAIT_MAX.0 => Err(BadArgument::over(
            format!("a bounded wait is 1 to {WAIT_MAX} ms; {bound} was asked. Not to wait at all is `none`"),
            WAIT_MAX.0,
        )),
        Some(Kind::BoundedMs(bound)) => Ok(Wait::Bounded(Millis(bound))),
    }
}

/// From the wire. `session` is the one that the call speaks for, with its secret: it releases its own only.
pub fn release(session: SessionId, message: &v1::Release) -> Result<Release, BadArgument> {
    let acquisition = own(session, message.acquisition.as_ref())?;
    let part = match (message.lock.as_str(), message.slot) {
        ("", 0) => None,
        ("", slot) => return Err(BadArgument::new(format!("slot {slot} is named without its lock"))),
        (lock, slot) => Some((LockName::new(lock)?, Slot(slot))),
    };
    Ok(Release { acquisition, part, token: words::token_from(message.token)? })
}

/// From the wire.
pub fn cancel(session: SessionId, message: &v1::Cancel) -> Result<Cancel, BadArgument> {
    if message.number == 0 {
        return Err(BadArgument::new("a cancel names the number of a request; numbers begin at 1"));
    }
    Ok(Cancel { acquisition: AcquisitionId { session, number: RequestNumber(message.number) } })
}

/// To the wire.
pub fn cancelled(met: CancelMet) -> v1::Cancelled {
    use v1::cancelled::Was;
    let (was, ended) = match met {
        CancelMet::NotArrived => (Was::NotArrived, v1::Ended::Unspecified),
        CancelMet::Waiting => (Was::Waiting, v1::Ended::Unspecified),
        CancelMet::Holding => (Was::Holding, v1::Ended::Unspecified),
        CancelMet::Ended(ended) => (Was::Ended, words::ended(ended)),
    };
    v1::Cancelled { was: was.into(), ended: ended.into() }
}

/// An acquisition of this session. One that names no session is taken as the session's own.
pub(super) fn own(session: SessionId, id: Option<&v1::AcquisitionId>) -> Result<AcquisitionId, BadArgument> {
    let named = id
        .map(|id| v1::AcquisitionId { session: if id.session == 0 { session.0 } else { id.session }, ..*id });
    let acquisition = words::acquisition_from(named.as_ref())?;
    if acquisition.session != session {
        return Err(BadArgument::new(format!("the acquisition {acquisition} is not of session {session}")));
    }
    Ok(acquisition)
}

fn over(text: String, max: usize) -> BadArgument {
    BadArgument::over(text, u64::try_from(max).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use palisade_core::mode::Mode;
    use palisade_core::reply::Ended;
    use v1::wait::Kind;

    use super::*;

    const SESSION: SessionId = SessionId(7);
    const DEFAULT: Millis = Millis(15_000);

    fn part(lock: &str) -> v1::AcquirePart {
        v1::AcquirePart { lock: lock.to_owned(), ..v1::AcquirePart::default() }
    }

    fn asked(parts: Vec<v1::AcquirePart>) -> v1::Acquire {
        v1::Acquire { number: 3, mark: 2, parts, ..v1::Acquire::default() }
    }

    fn convert(message: &v1::Acquire) -> Result<Acquire, BadArgument> {
        acquire(SESSION, message, DEFAULT)
    }

    fn refused(part: v1::AcquirePart) -> bool {
        convert(&asked(vec![part])).is_err()
    }

    #[test]
    fn what_is_not_said_has_its_default() {
        let acquire = convert(&asked(vec![part("orders/7")])).expect("well formed");
        assert_eq!(
            (acquire.session, acquire.number, acquire.mark),
            (SESSION, Some(RequestNumber(3)), RequestNumber(2))
        );
        assert_eq!((acquire.wait, acquire.owner), (Wait::Session, None));
        let [part] = acquire.parts.as_slice() else { panic!("one part") };
        assert_eq!((part.mode, part.capacity, part.permits), (Mode::Exclusive, 1, 1));
        assert_eq!(part.delay, LockDelay::Default(DEFAULT));
        let unnumbered = v1::Acquire { number: 0, ..asked(vec![self::part("orders/7")]) };
        assert_eq!(convert(&unnumbered).map(|acquire| acquire.number), Ok(None));
    }

    #[test]
    fn an_explicit_delay_of_zero_is_zero_and_more_than_a_minute_is_refused() {
        for named in [0, 60_000] {
            let message = asked(vec![v1::AcquirePart { lock_delay_ms: Some(named), ..part("a") }]);
            assert_eq!(
                convert(&message).expect("well formed").parts[0].delay,
                LockDelay::Named(Millis(named))
            );
        }
        assert!(refused(v1::AcquirePart { lock_delay_ms: Some(60_001), ..part("a") }));
    }

    #[test]
    fn a_name_is_1_to_512_bytes_without_control_characters() {
        assert!(convert(&asked(vec![part(&"x".repeat(512))])).is_ok());
        assert!(convert(&asked(vec![part(&"é".repeat(256))])).is_ok());
        for bad in ["".to_owned(), "x".repeat(513), "a\0".to_owned(), "\u{85}".to_owned(), "a\nb".to_owned()]
        {
            assert!(refused(part(&bad)), "{bad:?}");
        }
        let error = v1::Error::from(convert(&asked(vec![part(&"x".repeat(513))])).expect_err("too long"));
        assert_eq!((error.name.as_str(), error.limit), ("BAD_ARGUMENT", 512));
    }

    #[test]
    fn an_acquire_names_1_to_64_locks_each_once() {
        let parts = |count: usize| (0..count).map(|n| part(&n.to_string())).collect::<Vec<_>>();
        assert!(convert(&asked(parts(64))).is_ok());
        assert!(convert(&asked(parts(0))).is_err());
        assert!(convert(&asked(parts(65))).is_err());
        assert!(convert(&asked(vec![part("a"), part("a")])).is_err());
    }

    #[test]
    fn capacity_permits_and_guards_have_bounds() {
        assert!(!refused(v1::AcquirePart { capacity: 10_000, permits: 10_000, ..part("a") }));
        assert!(refused(v1::AcquirePart { capacity: 10_001, ..part("a") }));
        assert!(refused(v1::AcquirePart { capacity: 2, permits: 3, ..part("a") }));
        assert!(refused(v1::AcquirePart { permits: 2, ..part("a") }));
        assert!(!refused(v1::AcquirePart { fenced_by: vec!["g".to_owned(); 16], ..part("a") }));
        assert!(refused(v1::AcquirePart { fenced_by: vec!["g".to_owned(); 17], ..part("a") }));
        assert!(refused(v1::AcquirePart { fenced_by: vec![String::new()], ..part("a") }));
        assert!(refused(v1::AcquirePart { mode: 9, ..part("a") }));
    }

    #[test]
    fn a_wait_is_none_bounded_or_the_session() {
        let with = |kind| convert(&v1::Acquire { wait: Some(v1::Wait { kind }), ..asked(vec![part("a")]) });
        let day = 86_400_000;
        for (kind, expected) in [
            (None, Wait::Session),
            (Some(Kind::Session(true)), Wait::Session),
            (Some(Kind::None(true)), Wait::Try),
            (Some(Kind::BoundedMs(1)), Wait::Bounded(Millis(1))),
            (Some(Kind::BoundedMs(day)), Wait::Bounded(Millis(day))),
        ] {
            assert_eq!(with(kind).map(|acquire| acquire.wait), Ok(expected));
        }
        for bad in [Kind::BoundedMs(0), Kind::BoundedMs(day + 1), Kind::None(false), Kind::Session(false)] {
            assert!(with(Some(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_owner_label_has_at_most_128_bytes() {
        let with = |owner: String| convert(&v1::Acquire { owner, ..asked(vec![part("a")]) });
        assert!(with("x".repeat(128)).is_ok());
        assert!(with("x".repeat(129)).is_err());
    }

    #[test]
    fn a_session_releases_its_own_only() {
        let message = |session, lock: &str, slot, token| v1::Release {
            acquisition: Some(v1::AcquisitionId { session, number: 1 }),
            lock: lock.to_owned(),
            slot,
            token,
        };
        let all = release(SESSION, &message(7, "", 0, 34)).expect("well formed");
        assert_eq!(all.part, None);
        let one = release(SESSION, &message(0, "a", 2, 34)).expect("well formed");
        assert_eq!((one.acquisition.session, one.part.map(|part| part.1)), (SESSION, Some(Slot(2))));
        assert!(release(SESSION, &message(8, "a", 0, 34)).is_err());
        assert!(release(SESSION, &message(7, "", 2, 34)).is_err());
        assert!(release(SESSION, &message(7, "a", 0, 0)).is_err());
        assert!(release(SESSION, &message(7, "a", 0, 1 << 53)).is_err());
        assert!(release(SESSION, &v1::Release::default()).is_err());
    }

    #[test]
    fn a_cancel_says_what_it_met() {
        assert!(cancel(SESSION, &v1::Cancel { number: 0 }).is_err());
        assert_eq!(
            cancel(SESSION, &v1::Cancel { number: 4 }).map(|c| c.acquisition.number),
            Ok(RequestNumber(4))
        );
        let met = cancelled(CancelMet::Ended(Ended::Expired));
        assert_eq!((met.was(), met.ended()), (v1::cancelled::Was::Ended, v1::Ended::Expired));
        assert_eq!(cancelled(CancelMet::Holding).was(), v1::cancelled::Was::Holding);
    }
}
