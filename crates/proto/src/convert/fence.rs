//! Floors for the guards of resources: requests to their meaning, and what is told.

use palisade_core::floors::{SlotStanding, Standing};
use palisade_core::ids::{GuardName, LockName, Slot};

use super::watch::{Filter, From, filter, position_from};
use super::{BadArgument, words};
use crate::v1;

/// From the wire.
pub fn feed(request: &v1::FeedRequest) -> Result<(Filter, From), BadArgument> {
    use v1::feed_request::What;
    let what = match &request.what {
        Some(What::Lock(name)) => filter(Some(name), None),
        Some(What::Prefix(prefix)) => filter(None, Some(prefix)),
        None => filter(None, None),
    };
    let from = match &request.after {
        Some(position) => From::After(position_from(position)?),
        None => From::Snapshot,
    };
    Ok((what?, from))
}

/// To the wire.
pub fn slot(stands: &SlotStanding) -> v1::SlotFloor {
    let mut wire = v1::SlotFloor {
        lock: stands.lock.as_str().to_owned(),
        slot: stands.slot.0,
        ..v1::SlotFloor::default()
    };
    match &stands.standing {
        Standing::Held(token) => wire.held = token.get(),
        Standing::Asking { floor, guards } => {
            wire.asked = floor.get();
            wire.guards = guards.iter().map(|guard| guard.as_str().to_owned()).collect();
        }
        Standing::Open => {}
    }
    wire
}

/// From the wire.
pub fn slot_from(wire: &v1::SlotFloor) -> Result<SlotStanding, BadArgument> {
    let standing = match (wire.held, &wire.guards[..]) {
        (0, []) => Standing::Open,
        (0, guards) => Standing::Asking {
            floor: words::token_from(wire.asked)?,
            guards: guards.iter().map(|name| GuardName::new(name)).collect::<Result<_, _>>()?,
        },
        (token, _) => Standing::Held(words::token_from(token)?),
    };
    Ok(SlotStanding { lock: LockName::new(&wire.lock)?, slot: Slot(wire.slot), standing })
}

#[cfg(test)]
mod tests {
    use palisade_core::token::Token;

    use super::*;

    #[test]
    fn a_slot_is_read_back_as_it_stood() {
        let token = |number| Token::new(number).expect("a token");
        let guards = vec![GuardName::new("orders-db").expect("a name")];
        let all = [Standing::Held(token(34)), Standing::Asking { floor: token(40), guards }, Standing::Open];
        for standing in all {
            let lock = LockName::new("orders/7").expect("a name");
            let stands = SlotStanding { lock, slot: Slot(2), standing };
            assert_eq!(slot_from(&slot(&stands)), Ok(stands));
        }
        let asks_nothing = v1::SlotFloor { guards: vec!["g".to_owned()], ..slot_of("orders/7") };
        assert!(slot_from(&asks_nothing).is_err());
        assert!(slot_from(&slot_of("")).is_err());
    }

    fn slot_of(lock: &str) -> v1::SlotFloor {
        v1::SlotFloor { lock: lock.to_owned(), ..v1::SlotFloor::default() }
    }

    #[test]
    fn a_feed_begins_with_a_snapshot_or_after_a_position() {
        use v1::feed_request::What;
        let what = Some(What::Prefix("orders/".to_owned()));
        let of = |after| feed(&v1::FeedRequest { what: what.clone(), after }).map(|(_, from)| from);
        assert_eq!(of(None), Ok(From::Snapshot));
        let after = v1::Position { incarnation: String::new(), index: 7 };
        assert!(matches!(of(Some(after)), Ok(From::After(_))));
        assert!(feed(&v1::FeedRequest::default()).is_err());
    }
}
