//! What a holder asks beside acquire, release and cancel.

use palisade_core::command::{Downgrade, HandOver, ReportProgress, SetBaton, SetMetadata, Terms};
use palisade_core::ids::{LockName, Millis, SessionId, Slot};
use palisade_core::limits::{DEADLINE_MAX, DEADLINE_MIN};
use palisade_core::payload::Payload;

use super::lock::own;
use super::{BadArgument, words};
use crate::v1;

/// From the wire: the terms of an acquire; none where it asks for nothing but the lock.
pub fn terms(message: &v1::Acquire) -> Result<Option<Terms>, BadArgument> {
    let terms = Terms {
        hold_max: deadline("a holding time", message.hold_max_ms)?,
        progress_every: deadline("a progress interval", message.progress_every_ms)?,
        metadata: Payload::new(&message.metadata)?,
    };
    Ok((terms != Terms::default()).then_some(terms))
}

fn deadline(what: &str, bound: u64) -> Result<Option<Millis>, BadArgument> {
    let Some(bound) = words::millis_from(bound) else { return Ok(None) };
    if !(DEADLINE_MIN..=DEADLINE_MAX).contains(&bound) {
        let text = format!("{what} is {DEADLINE_MIN} to {DEADLINE_MAX} ms; {bound} was asked");
        let limit = if bound < DEADLINE_MIN { DEADLINE_MIN } else { DEADLINE_MAX };
        return Err(BadArgument::over(text, limit.0));
    }
    Ok(Some(bound))
}

/// From the wire. `session` is the one that the call speaks for, with its secret, here and below.
pub fn downgrade(session: SessionId, message: &v1::Downgrade) -> Result<Downgrade, BadArgument> {
    Ok(Downgrade {
        acquisition: own(session, message.acquisition.as_ref())?,
        lock: LockName::new(&message.lock)?,
        token: words::token_from(message.token)?,
    })
}

/// From the wire.
pub fn hand_over(session: SessionId, message: &v1::HandOver) -> Result<HandOver, BadArgument> {
    Ok(HandOver {
        acquisition: own(session, message.acquisition.as_ref())?,
        lock: LockName::new(&message.lock)?,
        slot: Slot(message.slot),
        token: words::token_from(message.token)?,
        to: (message.to != 0).then_some(SessionId(message.to)),
    })
}

/// From the wire.
pub fn set_metadata(session: SessionId, message: &v1::SetMetadata) -> Result<SetMetadata, BadArgument> {
    Ok(SetMetadata {
        acquisition: own(session, message.acquisition.as_ref())?,
        token: words::token_from(message.token)?,
        revision: message.revision,
        metadata: Payload::new(&message.metadata)?,
    })
}

/// From the wire.
pub fn set_baton(session: SessionId, message: &v1::SetBaton) -> Result<SetBaton, BadArgument> {
    Ok(SetBaton {
        acquisition: own(session, message.acquisition.as_ref())?,
        lock: LockName::new(&message.lock)?,
        slot: Slot(message.slot),
        token: words::token_from(message.token)?,
        revision: message.revision,
        baton: Payload::new(&message.baton)?,
    })
}

/// From the wire.
pub fn report_progress(
    session: SessionId,
    message: &v1::ReportProgress,
) -> Result<ReportProgress, BadArgument> {
    Ok(ReportProgress {
        acquisition: own(session, message.acquisition.as_ref())?,
        token: words::token_from(message.token)?,
        number: message.number,
    })
}
