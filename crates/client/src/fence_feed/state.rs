//! What a feed has heard, and what follows from it. Knows neither connection nor clock.

use std::collections::BTreeMap;

use palisade_core::floors::{Floors, SlotStanding, Standing};
use palisade_core::ids::{Incarnation, LockName, Slot};
use palisade_host::Moment;
use tonic::Status;

use super::{Asked, FeedFloor, LOST_AFTER};

/// Bounded by the slots that are held, and those whose delay asks for guards.
#[derive(Default)]
pub(super) struct State {
    pub(super) floors: Option<Floors>,
    pub(super) incarnation: Option<Incarnation>,
    /// When the last mark came.
    pub(super) marked: Option<Moment>,
    pub(super) asked: BTreeMap<(LockName, Slot), Asked>,
}

impl State {
    pub(super) fn floor(&self, lock: &LockName, slot: Slot, now: Moment) -> FeedFloor {
        let Some(floors) = &self.floors else { return FeedFloor::Unknown };
        let floor = floors.floor(lock, slot);
        if self.marked.is_some_and(|marked| now.since(marked) <= LOST_AFTER) {
            FeedFloor::Known(floor)
        } else {
            FeedFloor::Lost(floor)
        }
    }

    pub(super) fn entry(&mut self, index: u64, moved: Vec<SlotStanding>) -> Result<(), Status> {
        let Some(floors) = &mut self.floors else { return Err(out_of_order()) };
        if index <= floors.applied() {
            return Ok(());
        }
        for stands in &moved {
            self.asked.remove(&(stands.lock.clone(), stands.slot));
        }
        self.asked.extend(moved.iter().filter_map(asked));
        floors.entry(index, moved);
        Ok(())
    }

    pub(super) fn snapshot(
        &mut self,
        incarnation: Option<Incarnation>,
        index: u64,
        all: Vec<SlotStanding>,
    ) -> Result<(), Status> {
        let asked = all.iter().filter_map(asked).collect();
        let held = all.into_iter().filter_map(|stands| match stands.standing {
            Standing::Held(token) => Some((stands.lock, stands.slot, token)),
            Standing::Asking { .. } | Standing::Open => None,
        });
        let newer = Floors::at(index, held);
        match &mut self.floors {
            None => self.floors = Some(newer),
            Some(floors) => floors.replace(newer).map_err(|older| {
                tracing::warn!(%older, "a node offered older floors and was left");
                Status::unavailable(older.to_string())
            })?,
        }
        (self.incarnation, self.asked) = (incarnation, asked);
        Ok(())
    }
}

fn asked(stands: &SlotStanding) -> Option<((LockName, Slot), Asked)> {
    let SlotStanding { lock, slot, standing } = stands;
    let Standing::Asking { floor, guards } = standing else { return None };
    let asked = Asked { lock: lock.clone(), slot: *slot, floor: *floor, guards: guards.clone() };
    Some(((lock.clone(), *slot), asked))
}

pub(super) fn out_of_order() -> Status {
    Status::internal("news came before a snapshot")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use palisade_core::ids::GuardName;
    use palisade_core::token::Token;

    use super::*;

    fn lock(name: &str) -> LockName {
        LockName::new(name).expect("a name")
    }

    fn token(number: u64) -> Token {
        Token::new(number).expect("a token")
    }

    fn stands(standing: Standing) -> SlotStanding {
        SlotStanding { lock: lock("a"), slot: Slot(0), standing }
    }

    #[test]
    fn a_feed_that_is_silent_for_3_s_is_lost_and_still_tells_what_it_knew() {
        let mut state = State::default();
        let at = |seconds| Moment::default() + Duration::from_secs(seconds);
        let floor = |state: &State, now| state.floor(&lock("a"), Slot(0), now);
        assert_eq!(floor(&state, at(0)), FeedFloor::Unknown);
        state.snapshot(None, 50, vec![stands(Standing::Held(token(34)))]).expect("the first");
        assert_eq!(floor(&state, at(0)), FeedFloor::Lost(token(34)), "a snapshot is no mark");
        state.marked = Some(at(10));
        assert_eq!(floor(&state, at(13)), FeedFloor::Known(token(34)));
        assert_eq!(floor(&state, at(14)), FeedFloor::Lost(token(34)));
        state.entry(60, vec![stands(Standing::Open)]).expect("in order");
        assert_eq!(floor(&state, at(14)), FeedFloor::Lost(token(61)));
    }

    #[test]
    fn a_node_with_older_floors_is_left() {
        let mut state = State::default();
        assert!(state.entry(60, Vec::new()).is_err(), "before the first snapshot");
        state.snapshot(None, 50, vec![stands(Standing::Held(token(34)))]).expect("the first");
        assert!(state.snapshot(Some(Incarnation([9; 16])), 40, Vec::new()).is_err());
        assert_eq!(
            (state.incarnation, state.floor(&lock("a"), Slot(0), Moment::default())),
            (None, FeedFloor::Lost(token(34)))
        );
    }

    #[test]
    fn what_a_delay_asks_is_known_until_it_is_over() {
        let mut state = State::default();
        let guards = vec![GuardName::new("orders-db").expect("a name")];
        let asking = Standing::Asking { floor: token(60), guards: guards.clone() };
        state.snapshot(None, 60, vec![stands(asking.clone())]).expect("the first");
        let asked = Asked { lock: lock("a"), slot: Slot(0), floor: token(60), guards };
        assert_eq!(state.asked.values().collect::<Vec<_>>(), [&asked]);
        state.entry(70, vec![stands(Standing::Held(token(70)))]).expect("in order");
        assert!(state.asked.is_empty());
        state.entry(80, vec![stands(asking)]).expect("in order");
        assert_eq!(state.asked.len(), 1);
        state.snapshot(None, 90, Vec::new()).expect("newer");
        assert!(state.asked.is_empty());
    }
}
