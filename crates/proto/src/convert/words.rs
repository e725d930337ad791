//! The words that every message shares: acquisitions, modes, ends, grants, holders.

use std::sync::Arc;

use palisade_core::ids::{
    AcquisitionId, ClientName, LockName, Millis, RequestNumber, SessionId, Slot, WallTime,
};
use palisade_core::mode::Mode;
use palisade_core::payload::Payload;
use palisade_core::reply::{Ended, Grant, GrantedPart, HolderView, Inherited};
use palisade_core::token::Token;

use super::BadArgument;
use crate::v1;

/// To the wire.
pub fn acquisition(id: AcquisitionId) -> v1::AcquisitionId {
    v1::AcquisitionId { session: id.session.0, number: id.number.0 }
}

/// From the wire. An acquisition has a session and a number, neither of them 0.
pub fn acquisition_from(id: Option<&v1::AcquisitionId>) -> Result<AcquisitionId, BadArgument> {
    let Some(id) = id else { return Err(BadArgument::new("the acquisition is missing")) };
    if id.session == 0 {
        return Err(BadArgument::new("the acquisition names no session"));
    }
    if id.number == 0 {
        return Err(BadArgument::new("the acquisition's number is 0; numbers begin at 1"));
    }
    Ok(AcquisitionId { session: SessionId(id.session), number: RequestNumber(id.number) })
}

/// To the wire.
pub fn mode(mode: Mode) -> v1::Mode {
    match mode {
        Mode::Exclusive => v1::Mode::Exclusive,
        Mode::Shared => v1::Mode::Shared,
    }
}

/// From the wire. Unspecified is exclusive.
pub fn mode_from(number: i32) -> Result<Mode, BadArgument> {
    match v1::Mode::try_from(number) {
        Ok(v1::Mode::Unspecified | v1::Mode::Exclusive) => Ok(Mode::Exclusive),
        Ok(v1::Mode::Shared) => Ok(Mode::Shared),
        Err(_) => {
            Err(BadArgument::new(format!("the mode {number} is not known; 1 is exclusive, 2 is shared")))
        }
    }
}

/// From the wire. A token is 1 to 2^53 - 1.
pub fn token_from(number: u64) -> Result<Token, BadArgument> {
    Token::new(number)
        .ok_or_else(|| BadArgument::new(format!("{number} is no token; tokens are 1 to 2^53 - 1")))
}

/// To the wire.
pub fn ended(ended: Ended) -> v1::Ended {
    match ended {
        Ended::Released => v1::Ended::Released,
        Ended::HandedOver => v1::Ended::HandedOver,
        Ended::Cancelled => v1::Ended::Cancelled,
        Ended::Closed => v1::Ended::Closed,
        Ended::Expired => v1::Ended::Expired,
        Ended::TakenOver => v1::Ended::TakenOver,
        Ended::ByOperator => v1::Ended::ByOperator,
        Ended::Broken => v1::Ended::Broken,
        Ended::Overdue => v1::Ended::Overdue,
        Ended::TimedOut => v1::Ended::TimedOut,
        Ended::Refused => v1::Ended::Refused,
        Ended::Forgotten => v1::Ended::Forgotten,
        Ended::Restored => v1::Ended::Restored,
        Ended::Deadlocked => v1::Ended::Deadlocked,
    }
}

/// From the wire. None when unspecified; what a later version may say is taken as ended, details forgotten.
pub fn ended_from(number: i32) -> Option<Ended> {
    let Ok(known) = v1::Ended::try_from(number) else { return Some(Ended::Forgotten) };
    Some(match known {
        v1::Ended::Unspecified => return None,
        v1::Ended::Released => Ended::Released,
        v1::Ended::HandedOver => Ended::HandedOver,
        v1::Ended::Cancelled => Ended::Cancelled,
        v1::Ended::Closed => Ended::Closed,
        v1::Ended::Expired => Ended::Expired,
        v1::Ended::TakenOver => Ended::TakenOver,
        v1::Ended::ByOperator => Ended::ByOperator,
        v1::Ended::Broken => Ended::Broken,
        v1::Ended::Overdue => Ended::Overdue,
        v1::Ended::TimedOut => Ended::TimedOut,
        v1::Ended::Refused => Ended::Refused,
        v1::Ended::Forgotten => Ended::Forgotten,
        v1::Ended::Restored => Ended::Restored,
        v1::Ended::Deadlocked => Ended::Deadlocked,
    })
}

/// How something ended, in a word for people and scripts; none while it did not.
pub fn ended_word(number: i32) -> Option<&'static str> {
    ended_from(number).map(Ended::words)
}

/// A mode, in a word for people and scripts.
pub fn mode_word(number: i32) -> &'static str {
    match v1::Mode::try_from(number) {
        Ok(v1::Mode::Exclusive) => "exclusive",
        Ok(v1::Mode::Shared) => "shared",
        Ok(v1::Mode::Unspecified) | Err(_) => "unknown",
    }
}

/// To the wire; the sequencers are put in by whoever signs.
pub fn grant(grant: &Grant) -> v1::Grant {
    let parts = grant.parts.iter().map(|part| v1::GrantedPart {
        lock: part.lock.as_str().to_owned(),
        slot: part.slot.0,
        mode: mode(part.mode).into(),
        token: part.token.get(),
        lock_delay_ms: part.delay.0,
        inherited: part.inherited.as_deref().map(inherited),
    });
    v1::Grant {
        acquisition: Some(acquisition(grant.acquisition)),
        grant_index: grant.grant_index,
        parts: parts.collect(),
        sequencers: Vec::new(),
        hold_max_ms: millis(grant.hold_max),
        progress_every_ms: millis(grant.progress_every),
    }
}

/// 0 where there is none.
pub fn millis(bound: Option<Millis>) -> u64 {
    bound.map_or(0, |bound| bound.0)
}

/// None where it is 0.
pub fn millis_from(bound: u64) -> Option<Millis> {
    (bound != 0).then_some(Millis(bound))
}

fn inherited(inherited: &Inherited) -> v1::Inherited {
    v1::Inherited {
        token: inherited.token.get(),
        client: inherited.client.as_str().to_owned(),
        ended: ended(inherited.ended).into(),
        baton: inherited.baton.as_bytes().to_vec(),
        baton_token: inherited.baton_token.map_or(0, Token::get),
    }
}

fn inherited_from(inherited: &v1::Inherited) -> Result<Arc<Inherited>, BadArgument> {
    Ok(Arc::new(Inherited {
        token: token_from(inherited.token)?,
        client: ClientName::new(&inherited.client)?,
        ended: ended_from(inherited.ended).unwrap_or(Ended::Forgotten),
        baton: Payload::new(&inherited.baton)?,
        baton_token: (inherited.baton_token != 0).then(|| token_from(inherited.baton_token)).transpose()?,
    }))
}

/// From the wire, at the client.
pub fn grant_from(grant: &v1::Grant) -> Result<Grant, BadArgument> {
    let parts = grant.parts.iter().map(|part| {
        Ok(GrantedPart {
            lock: LockName::new(&part.lock)?,
            slot: Slot(part.slot),
            mode: mode_from(part.mode)?,
            token: token_from(part.token)?,
            delay: Millis(part.lock_delay_ms),
            inherited: part.inherited.as_ref().map(inherited_from).transpose()?,
        })
    });
    Ok(Grant {
        acquisition: acquisition_from(grant.acquisition.as_ref())?,
        grant_index: grant.grant_index,
        parts: parts.collect::<Result<_, BadArgument>>()?,
        hold_max: millis_from(grant.hold_max_ms),
        progress_every: millis_from(grant.progress_every_ms),
    })
}

/// To the wire.
pub fn holder(holder: &HolderView) -> v1::Holder {
    v1::Holder {
        acquisition: Some(acquisition(holder.acquisition)),
        client: holder.client.as_str().to_owned(),
        mode: mode(holder.mode).into(),
        token: holder.token.get(),
        grant_index: holder.grant_index,
        granted_at_us: holder.granted_at.0,
        ..v1::Holder::default()
    }
}

/// From the wire, at the client.
pub fn holder_from(holder: &v1::Holder) -> Result<HolderView, BadArgument> {
    Ok(HolderView {
        acquisition: acquisition_from(holder.acquisition.as_ref())?,
        client: ClientName::new(&holder.client)?,
        mode: mode_from(holder.mode)?,
        token: token_from(holder.token)?,
        grant_index: holder.grant_index,
        granted_at: WallTime(holder.granted_at_us),
    })
}

/// Wall time for people: RFC 3339, UTC, to the second.
pub fn wall_time(at: WallTime) -> String {
    let seconds = at.0 / 1_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days to year, month and day by 400-year eras that begin on the first of March, after Hinnant 2013.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unspecified_mode_is_exclusive_and_an_unknown_one_is_refused() {
        assert_eq!(mode_from(0), Ok(Mode::Exclusive));
        for known in [Mode::Exclusive, Mode::Shared] {
            assert_eq!(mode_from(mode(known).into()), Ok(known));
        }
        assert!(mode_from(3).is_err());
    }

    #[test]
    fn every_end_survives_the_wire() {
        assert_eq!(ended_from(0), None);
        for number in 1..=13 {
            let known = ended_from(number).expect("specified");
            assert_eq!(ended(known) as i32, number);
        }
        assert_eq!(ended_from(99), Some(Ended::Forgotten));
    }

    #[test]
    fn a_grant_survives_the_wire() {
        let granted = Grant {
            acquisition: AcquisitionId { session: SessionId(7), number: RequestNumber(1) },
            grant_index: 34,
            parts: vec![GrantedPart {
                lock: LockName::new("orders/7").expect("a name"),
                slot: Slot(0),
                mode: Mode::Shared,
                token: Token::new(34).expect("a token"),
                delay: Millis(15_000),
                inherited: Some(Arc::new(Inherited {
                    token: Token::new(30).expect("a token"),
                    client: ClientName::unnamed(),
                    ended: Ended::Expired,
                    baton: Payload::new(b"checkpoint 7").expect("short"),
                    baton_token: Token::new(20),
                })),
            }],
            hold_max: Some(Millis(60_000)),
            progress_every: None,
        };
        assert_eq!(grant_from(&grant(&granted)), Ok(granted.clone()));
        let mut forged = grant(&granted);
        forged.parts[0].token = 1 << 53;
        assert!(grant_from(&forged).is_err());
    }

    #[test]
    fn a_holder_survives_the_wire() {
        let view = HolderView {
            acquisition: AcquisitionId { session: SessionId(7), number: RequestNumber(1) },
            client: ClientName::new("billing-3").expect("a name"),
            mode: Mode::Exclusive,
            token: Token::new(34).expect("a token"),
            grant_index: 34,
            granted_at: WallTime(1),
        };
        assert_eq!(holder_from(&holder(&view)), Ok(view));
    }

    #[test]
    fn an_acquisition_has_a_session_and_a_number() {
        assert!(acquisition_from(None).is_err());
        for (session, number) in [(0, 1), (1, 0)] {
            assert!(acquisition_from(Some(&v1::AcquisitionId { session, number })).is_err());
        }
    }

    #[test]
    fn wall_time_is_shown_as_a_date() {
        for (seconds, shown) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(wall_time(WallTime(seconds * 1_000_000 + 5)), shown);
        }
    }
}
