//! Sequencers: asking for one, and asking whether one is current.

use palisade_core::ids::{AcquisitionId, LockName, LogIndex, SessionId, Slot};
use palisade_core::sequencer::Sequencer;
use palisade_core::sequencer_text::TEXT_BYTES_MAX;
use palisade_core::table::{Presented, Verdict};
use palisade_core::token::TokenBase;

use super::{BadArgument, lock, words};
use crate::v1;

/// Whose sequencer is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which acquisition.
    pub acquisition: AcquisitionId,
    /// Which part; none means its only one.
    pub part: Option<(LockName, Slot)>,
}

/// From the wire. `session` is the one that the call speaks for, with its secret.
pub fn get_sequencer(session: SessionId, message: &v1::GetSequencer) -> Result<Wanted, BadArgument> {
    let part = match (message.lock.as_str(), message.slot) {
        ("", 0) => None,
        ("", slot) => return Err(BadArgument::new(format!("slot {slot} is named without its lock"))),
        (name, slot) => Some((LockName::new(name)?, Slot(slot))),
    };
    Ok(Wanted { acquisition: lock::own(session, message.acquisition.as_ref())?, part })
}

/// What is to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The claim.
    pub claim: Claim,
    /// The lock that the resource expects, where it says so.
    pub expected: Option<LockName>,
}

/// A claim to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// A compact JWS, not verified yet.
    Sequencer(String),
    /// Names and numbers, of a caller that trusts its source.
    Plain {
        /// What.
        presented: Presented,
        /// The entry that gave the acquisition its tenure, with the token base: only a state that has applied it
        /// may deny. 0 when the caller does not know it; the token then stands for it.
        grant_index: u64,
    },
}

/// From the wire.
pub fn check(message: &v1::Check, max: usize) -> Result<Vec<Check>, BadArgument> {
    let items = message.items.len();
    if items == 0 || items > max {
        let limit = u64::try_from(max).unwrap_or(u64::MAX);
        return Err(BadArgument::over(format!("a check has 1 to {max} items; {items} came"), limit));
    }
    message.items.iter().map(check_item).collect()
}

/// From the wire.
pub fn check_item(item: &v1::CheckItem) -> Result<Check, BadArgument> {
    use v1::check_item::What;
    let expected = match item.lock.as_str() {
        "" => None,
        name => Some(LockName::new(name)?),
    };
    let claim = match &item.what {
        None => return Err(BadArgument::new("a check needs a sequencer, or plain names and numbers")),
        Some(What::Sequencer(text)) if text.is_empty() => {
            return Err(BadArgument::new("the sequencer is empty"));
        }
        Some(What::Sequencer(text)) if text.len() > TEXT_BYTES_MAX => {
            let limit = u64::try_from(TEXT_BYTES_MAX).unwrap_or(u64::MAX);
            let text = format!("a sequencer has at most {TEXT_BYTES_MAX} bytes; {} came", text.len());
            return Err(BadArgument::over(text, limit));
        }
        Some(What::Sequencer(text)) => Claim::Sequencer(text.clone()),
        Some(What::Plain(plain)) => Claim::Plain {
            presented: Presented {
                lock: LockName::new(&plain.lock)?,
                slot: Slot(plain.slot),
                mode: words::mode_from(plain.mode)?,
                token: words::token_from(plain.token)?,
                acquisition: words::acquisition_from(plain.acquisition.as_ref())?,
            },
            grant_index: plain.grant_index,
        },
    };
    Ok(Check { claim, expected })
}

/// What a verified sequencer claims.
pub fn presented(sequencer: &Sequencer) -> Presented {
    Presented {
        lock: sequencer.lock.clone(),
        slot: sequencer.slot,
        mode: sequencer.mode,
        token: sequencer.token,
        acquisition: sequencer.acquisition,
    }
}

/// To the wire: what the state at `applied` says of `presented`.
pub fn verdict(presented: &Presented, verdict: Verdict, base: TokenBase, applied: LogIndex) -> v1::Verdict {
    use v1::verdict::State;
    let said = v1::Verdict {
        lock: presented.lock.as_str().to_owned(),
        slot: presented.slot.0,
        mode: words::mode(presented.mode).into(),
        token: presented.token.get(),
        index: base.at(applied),
        ..v1::Verdict::default()
    };
    match verdict {
        Verdict::Current => v1::Verdict {
            state: State::Current.into(),
            message: "held at some moment during this call; it may end at any moment after".to_owned(),
            ..said
        },
        Verdict::Over { ended, superseded_by, in_lock_delay } => {
            let state = if superseded_by.is_some() { State::Superseded } else { State::Ended };
            let message = match superseded_by {
                Some(token) => format!("superseded by token {token} ({}): reject", ended.words()),
                None if in_lock_delay => format!("{}, and the slot is in lock-delay: reject", ended.words()),
                None => format!("{}: reject", ended.words()),
            };
            v1::Verdict {
                state: state.into(),
                ended: words::ended(ended).into(),
                superseded_by: superseded_by.map_or(0, |token| token.get()),
                in_lock_delay,
                message,
                ..said
            }
        }
        Verdict::NeverGranted => v1::Verdict {
            state: State::NeverGranted.into(),
            message: "nothing like it was ever granted here: reject".to_owned(),
            ..said
        },
    }
}

/// To the wire: a claim that was refused before any state was asked.
pub fn refused(state: v1::verdict::State, message: impl Into<String>) -> v1::Verdict {
    v1::Verdict { state: state.into(), message: message.into(), ..v1::Verdict::default() }
}

#[cfg(test)]
mod tests {
    use palisade_core::ids::RequestNumber;
    use palisade_core::mode::Mode;
    use palisade_core::reply::Ended;
    use palisade_core::token::Token;
    use v1::check_item::What;

    use super::*;

    fn plain() -> v1::PlainCheck {
        v1::PlainCheck {
            lock: "orders/7".to_owned(),
            token: 34,
            acquisition: Some(v1::AcquisitionId { session: 7, number: 1 }),
            grant_index: 34,
            ..v1::PlainCheck::default()
        }
    }

    fn item(what: What) -> v1::CheckItem {
        v1::CheckItem { what: Some(what), lock: String::new() }
    }

    fn claim() -> Presented {
        Presented {
            lock: LockName::new("orders/7").expect("a name"),
            slot: Slot(0),
            mode: Mode::Exclusive,
            token: Token::new(34).expect("a token"),
            acquisition: AcquisitionId { session: SessionId(7), number: RequestNumber(1) },
        }
    }

    #[test]
    fn a_plain_claim_names_everything() {
        let checked = check_item(&item(What::Plain(plain()))).expect("well formed");
        assert_eq!(checked.claim, Claim::Plain { presented: claim(), grant_index: 34 });
        for bad in [
            v1::PlainCheck { lock: String::new(), ..plain() },
            v1::PlainCheck { token: 0, ..plain() },
            v1::PlainCheck { acquisition: None, ..plain() },
            v1::PlainCheck { mode: 5, ..plain() },
        ] {
            assert!(check_item(&item(What::Plain(bad))).is_err());
        }
    }

    #[test]
    fn a_sequencer_is_bounded_and_not_empty() {
        assert!(check_item(&item(What::Sequencer("x".repeat(4_096)))).is_ok());
        assert!(check_item(&item(What::Sequencer("x".repeat(4_097)))).is_err());
        assert!(check_item(&item(What::Sequencer(String::new()))).is_err());
        assert!(check_item(&v1::CheckItem::default()).is_err());
        let long = v1::CheckItem { lock: "x".repeat(513), ..item(What::Sequencer("x".to_owned())) };
        assert!(check_item(&long).is_err());
    }

    #[test]
    fn a_check_has_1_to_256_items() {
        let of = |count| v1::Check { items: vec![item(What::Plain(plain())); count] };
        assert_eq!(check(&of(256), 256).map(|items| items.len()), Ok(256));
        assert!(check(&of(0), 256).is_err());
        assert!(check(&of(257), 256).is_err());
    }

    #[test]
    fn a_verdict_says_by_which_token_it_is_superseded() {
        let base = TokenBase::default();
        let over = |superseded_by, in_lock_delay| {
            let over = Verdict::Over { ended: Ended::Expired, superseded_by, in_lock_delay };
            verdict(&claim(), over, base, LogIndex(60))
        };
        let superseded = over(Token::new(52), false);
        assert_eq!(superseded.state(), v1::verdict::State::Superseded);
        assert_eq!((superseded.superseded_by, superseded.ended()), (52, v1::Ended::Expired));
        assert_eq!((superseded.token, superseded.index), (34, 60));
        let delayed = over(None, true);
        assert_eq!((delayed.state(), delayed.in_lock_delay), (v1::verdict::State::Ended, true));
        let current = verdict(&claim(), Verdict::Current, base, LogIndex(60));
        assert_eq!((current.state(), current.ended()), (v1::verdict::State::Current, v1::Ended::Unspecified));
    }

    #[test]
    fn a_sequencer_is_given_to_its_own_session() {
        let of = |session, lock: &str, slot| {
            let acquisition = Some(v1::AcquisitionId { session, number: 1 });
            get_sequencer(SessionId(7), &v1::GetSequencer { acquisition, lock: lock.to_owned(), slot })
        };
        assert_eq!(of(7, "", 0).map(|wanted| wanted.part), Ok(None));
        assert!(of(0, "orders/7", 0).is_ok());
        assert!(of(8, "orders/7", 0).is_err());
        assert!(of(7, "", 1).is_err());
    }
}
