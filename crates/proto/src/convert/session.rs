//! Sessions: what a client asks of one, and what happens to it.

use palisade_core::event::Event;
use palisade_core::ids::{ClientName, Millis, RequestNumber, SecretHash, SessionId};
use palisade_core::limits::{TTL_DEFAULT, TTL_MAX, TTL_MIN};
use palisade_core::reply::{Ended, Grant, Reply, TakenState, TookOver};

use super::{BadArgument, lock, refusal, words};
use crate::v1;

/// What an open asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// For people.
    pub client: ClientName,
    /// The lease.
    pub ttl: Millis,
    /// None: the node draws the secret, and the open is not repeatable.
    pub secret: Option<SecretHash>,
    /// A session that it replaces.
    pub replaces: Option<Replacing>,
}

/// A session that is to be replaced, with its secret itself: the node hashes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacing {
    /// Which.
    pub session: SessionId,
    /// Its secret.
    pub secret: Vec<u8>,
    /// Whether its process is known to be dead.
    pub proven_dead: bool,
}

/// From the wire. A TTL of 0 is the default.
pub fn open_session(open: &v1::OpenSession) -> Result<Opening, BadArgument> {
    let ttl = if open.ttl_ms == 0 { TTL_DEFAULT } else { Millis(open.ttl_ms) };
    if !(TTL_MIN..=TTL_MAX).contains(&ttl) {
        let limit = if ttl < TTL_MIN { TTL_MIN.0 } else { TTL_MAX.0 };
        return Err(BadArgument::over(format!("a TTL is {TTL_MIN} to {TTL_MAX} ms; {ttl} was asked"), limit));
    }
    let secret = match open.secret_hash.len() {
        0 => None,
        _ => Some(SecretHash(open.secret_hash.as_slice().try_into().map_err(|_| {
            BadArgument::new(format!("a secret hash has 32 bytes (SHA-256); {} came", open.secret_hash.len()))
        })?)),
    };
    let replaces = open.replaces.as_ref().map(replacing).transpose()?;
    if replaces.is_some() && secret.is_none() {
        return Err(BadArgument::new(
            "a session that replaces another one brings a secret hash of its own, so that the open can be repeated",
        ));
    }
    Ok(Opening { client: ClientName::new(&open.client)?, ttl, secret, replaces })
}

fn replacing(replaces: &v1::Replaces) -> Result<Replacing, BadArgument> {
    Ok(Replacing {
        session: session_from(replaces.session)?,
        secret: replaces.secret.clone(),
        proven_dead: replaces.proven_dead,
    })
}

/// From the wire: the session that a call speaks for.
pub fn session_from(number: u64) -> Result<SessionId, BadArgument> {
    if number == 0 {
        return Err(BadArgument::new("the session is missing"));
    }
    Ok(SessionId(number))
}

/// To the wire. None for what the cluster asks of itself.
///
/// The node puts in what only it has: a secret that it drew, and signed sequencers.
pub fn reply(reply: &Reply) -> Option<v1::response::Result> {
    use v1::response::Result as Answer;
    Some(match reply {
        Reply::Done => return None,
        Reply::SessionOpened { session, ttl } => Answer::Opened(v1::SessionOpened {
            session: session.0,
            ttl_ms: ttl.0,
            ..v1::SessionOpened::default()
        }),
        Reply::TookOver(took) => Answer::Opened(v1::SessionOpened {
            session: took.session.0,
            ttl_ms: took.ttl.0,
            took_over: Some(took_over(took)),
            ..v1::SessionOpened::default()
        }),
        Reply::SessionClosed => Answer::Closed(v1::SessionClosed {}),
        Reply::Granted(grant) => Answer::Granted(words::grant(grant)),
        Reply::Queued { acquisition, place } => {
            Answer::Queued(v1::Queued { acquisition: Some(words::acquisition(*acquisition)), place: *place })
        }
        Reply::Released(ended) => Answer::Released(v1::Released { ended: words::ended(*ended).into() }),
        Reply::Cancelled(met) => Answer::Cancelled(lock::cancelled(*met)),
        Reply::Refused(why) => Answer::Error(refusal::refusal(why)),
        Reply::Downgraded(grant) => Answer::Downgraded(v1::Downgraded { grant: Some(words::grant(grant)) }),
        Reply::HandedOver { to, token } => {
            Answer::HandedOver(v1::HandedOver { to: Some(words::acquisition(*to)), token: token.get() })
        }
        Reply::Written { revision } => Answer::Written(v1::Written { revision: *revision }),
        Reply::Reported => Answer::Reported(v1::Reported {}),
        Reply::Broken { holders, closed } => Answer::Broken(v1::Broken {
            holders: holders.iter().map(words::holder).collect(),
            closed_ms: closed.0,
        }),
        Reply::Stopped { held, waited } => Answer::Stopped(v1::Stopped { held: *held, waited: *waited }),
        Reply::Kept { .. } => return None,
    })
}

fn took_over(took: &TookOver) -> v1::TookOver {
    use v1::taken_acquisition::State;
    v1::TookOver {
        replaced: took.replaced.0,
        kept: took
            .kept
            .iter()
            .map(|kept| v1::TakenAcquisition {
                was: kept.was.0,
                number: kept.number.0,
                state: Some(match kept.state {
                    TakenState::Holds => State::Holds(true),
                    TakenState::Waits => State::Waits(true),
                    TakenState::Closed { closed } => State::ClosedMs(closed.0),
                }),
            })
            .collect(),
        ended: took
            .ended
            .iter()
            .map(|(number, ended)| v1::EndedRequest { number: number.0, ended: words::ended(*ended).into() })
            .collect(),
    }
}

/// To the wire: what a session is told without its asking, at this index (with the token base).
///
/// None for what nobody is told, and for what was the answer to a request.
pub fn event(event: &Event, index: u64) -> Option<v1::Event> {
    use v1::event::What;
    let (session, what) = match event {
        Event::Granted { grant, waited: true } => {
            (grant.acquisition.session, What::Granted(words::grant(grant)))
        }
        Event::WaitEnded { acquisition, ended, cycle, .. } => {
            let error = Some(refusal::wait_ended(*ended, cycle.as_deref()));
            (acquisition.session, What::WaitEnded(v1::WaitEnded { number: acquisition.number.0, error }))
        }
        Event::SessionEnded { session, ended } => {
            (*session, What::SessionEnded(v1::SessionEnded { ended: words::ended(*ended).into() }))
        }
        Event::Contended { holder, lock } => {
            let lock = lock.as_str().to_owned();
            (holder.session, What::Contended(v1::Contended { number: holder.number.0, lock }))
        }
        Event::HoldEnded {
            acquisition,
            lock,
            slot,
            token,
            ended: ended @ (Ended::Overdue | Ended::Broken),
        } => {
            let lost = v1::HoldEnded {
                number: acquisition.number.0,
                lock: lock.as_str().to_owned(),
                slot: slot.0,
                token: token.get(),
                ended: words::ended(*ended).into(),
            };
            (acquisition.session, What::HoldEnded(lost))
        }
        Event::Founded
        | Event::LeaderReady { .. }
        | Event::SessionOpened { .. }
        | Event::Queued { .. }
        | Event::Granted { waited: false, .. }
        | Event::HoldEnded { .. }
        | Event::DelayStarted { .. }
        | Event::DelayEnded { .. }
        | Event::Refused { .. }
        | Event::KeyPublished { .. }
        | Event::MetadataSet { .. }
        | Event::ProgressReported { .. }
        | Event::SessionKept { .. }
        | Event::Ticked
        | Event::Broken { .. }
        | Event::SessionTakenOver { .. }
        | Event::CapacitySet { .. }
        | Event::FloorConfirmed { .. }
        | Event::CycleSearchGivenUp { .. }
        | Event::VersionSet { .. } => return None,
    };
    Some(v1::Event { session: session.0, index, what: Some(what) })
}

/// To the wire: what of a session holds (with its grant) or waits (with none).
pub fn bound(acquisitions: impl IntoIterator<Item = (RequestNumber, Option<Grant>)>) -> v1::Bound {
    let acquisitions = acquisitions.into_iter().map(|(number, grant)| v1::BoundAcquisition {
        number: number.0,
        grant: grant.as_ref().map(words::grant),
    });
    v1::Bound { acquisitions: acquisitions.collect() }
}

#[cfg(test)]
mod tests {
    use palisade_core::ids::{AcquisitionId, LockName};
    use palisade_core::reply::Refusal;

    use super::*;

    fn open(ttl_ms: u64, client: &str, secret: usize) -> Result<Opening, BadArgument> {
        open_session(&v1::OpenSession {
            ttl_ms,
            client: client.to_owned(),
            secret_hash: vec![7; secret],
            replaces: None,
        })
    }

    #[test]
    fn an_open_without_a_ttl_gets_the_default() {
        let opening = open(0, "billing-3", 32).expect("well formed");
        assert_eq!(opening.ttl, TTL_DEFAULT);
        assert_eq!(opening.secret, Some(SecretHash([7; 32])));
        assert_eq!(open(0, "", 0).expect("well formed").secret, None);
    }

    #[test]
    fn a_ttl_is_2_seconds_to_a_day() {
        for good in [2_000, 86_400_000] {
            assert_eq!(open(good, "", 32).map(|opening| opening.ttl), Ok(Millis(good)));
        }
        for bad in [1, 1_999, 86_400_001, u64::MAX] {
            assert!(open(bad, "", 32).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_client_name_has_at_most_128_bytes_and_no_control_characters() {
        assert!(open(0, &"x".repeat(128), 32).is_ok());
        assert!(open(0, &"x".repeat(129), 32).is_err());
        assert!(open(0, "a\u{1b}[2J", 32).is_err());
    }

    #[test]
    fn a_secret_hash_has_32_bytes() {
        for bad in [1, 31, 33] {
            assert!(open(0, "", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_grant_is_an_event_only_after_a_wait() {
        let acquisition = AcquisitionId { session: SessionId(7), number: RequestNumber(2) };
        let grant =
            Grant { acquisition, grant_index: 34, parts: Vec::new(), hold_max: None, progress_every: None };
        let late = event(&Event::Granted { grant: grant.clone(), waited: true }, 34).expect("an event");
        assert_eq!((late.session, late.index), (7, 34));
        assert_eq!(event(&Event::Granted { grant, waited: false }, 34), None);
    }

    #[test]
    fn the_holder_hears_of_a_waiter_and_the_waiter_of_its_end() {
        let holder = AcquisitionId { session: SessionId(7), number: RequestNumber(2) };
        let lock = LockName::new("orders/7").expect("a name");
        let told = event(&Event::Contended { holder, lock }, 9).expect("an event");
        assert_eq!(told.session, 7);
        let told = event(
            &Event::WaitEnded { acquisition: holder, locks: Vec::new(), ended: Ended::TimedOut, cycle: None },
            9,
        );
        let told = told.expect("an event");
        let Some(v1::event::What::WaitEnded(end)) = told.what else { panic!("{told:?}") };
        assert_eq!(end.error.map(|error| error.name), Some("WAIT_TIMED_OUT".to_owned()));
    }

    #[test]
    fn a_refusal_is_an_error() {
        let Some(v1::response::Result::Error(error)) = reply(&Reply::Refused(Refusal::SessionUnknown)) else {
            panic!("an error")
        };
        assert_eq!(error.name, "SESSION_UNKNOWN");
        assert_eq!(reply(&Reply::Done), None);
    }
}
