//! What a holder asks under its token: metadata, batons, reports, downgrade, handover. All of them meet the same question
//! first.

use std::borrow::Cow;

use super::LockTable;
use crate::ids::{AcquisitionId, LockName, Slot};
use crate::reply::{Ended, HolderView, Refusal};
use crate::session::{Acquisition, AcquisitionState, HeldPart, OutcomeHow};
use crate::token::Token;

/// Under what a holder asks: one of its tokens, and that of one slot where it is about a slot.
pub(super) struct UnderToken<'a> {
    pub(super) acquisition: AcquisitionId,
    pub(super) token: Token,
    pub(super) slot: Option<(&'a LockName, Slot)>,
}

impl UnderToken<'_> {
    fn is(&self, lock: &LockName, slot: Slot, token: Token) -> bool {
        token == self.token && self.slot.is_none_or(|named| named == (lock, slot))
    }
}

impl LockTable {
    /// Whether the acquisition holds so; if not, what a late release is told (SPEC 4).
    pub(super) fn holds_under(&self, under: &UnderToken<'_>) -> Result<(), Refusal> {
        let id = under.acquisition;
        let Some(session) = self.sessions.get(&id.session) else {
            return Err(match self.no_session(id.session) {
                Refusal::SessionEnded { ended, .. } => {
                    Refusal::SessionEnded { ended, superseded: self.in_its_place(under) }
                }
                other => other,
            });
        };
        if session.acquisitions.contains(id.number) {
            let held = self.held_parts(id);
            let holds = held.iter().any(|part| under.is(&part.lock, part.slot, part.token));
            return if holds { Ok(()) } else { Err(self.part_not_held(under)) };
        }
        if let Some(outcome) = session.outcomes.get(&id.number) {
            let OutcomeHow::Ended { ended, held } = &outcome.how else { return Err(self.not_held(under)) };
            let was = held.iter().find(|(lock, slot, token)| under.is(lock, *slot, *token));
            return Err(match was {
                None => self.part_not_held(under),
                Some((lock, slot, _)) => {
                    Refusal::AlreadyEnded { ended: *ended, superseded: self.holder_of(lock, *slot) }
                }
            });
        }
        if id.number <= session.highest && id.number < session.mark {
            let superseded = self.in_its_place(under);
            return Err(Refusal::AlreadyEnded { ended: Ended::Forgotten, superseded });
        }
        Err(self.not_held(under))
    }

    /// An acquisition that waits or holds.
    pub(super) fn acquisition(&self, id: AcquisitionId) -> Option<Cow<'_, Acquisition>> {
        self.sessions.get(&id.session)?.acquisitions.get(id.number)
    }

    /// The same, unless it is a plain hold: those have no owners, and wait for nothing.
    pub(super) fn whole(&self, id: AcquisitionId) -> Option<&Acquisition> {
        self.sessions.get(&id.session)?.acquisitions.get_whole(id.number)
    }

    /// Everything that an acquisition holds.
    pub(super) fn held_parts(&self, id: AcquisitionId) -> Vec<HeldPart> {
        match self.acquisition(id).map(|acquisition| acquisition.into_owned().state) {
            Some(AcquisitionState::Holding { held, .. }) => held,
            Some(AcquisitionState::Waiting | AcquisitionState::Kept { .. }) | None => Vec::new(),
        }
    }

    /// A part that ended before others of the same acquisition did is told as one.
    fn part_not_held(&self, under: &UnderToken<'_>) -> Refusal {
        let before =
            under.slot.and_then(|(lock, slot)| self.part_before(under.acquisition, lock, slot, under.token));
        match before {
            Some(ended) => Refusal::AlreadyEnded { ended, superseded: self.in_its_place(under) },
            None => self.not_held(under),
        }
    }

    fn not_held(&self, under: &UnderToken<'_>) -> Refusal {
        Refusal::NotHeld { superseded: self.in_its_place(under) }
    }

    /// Who else holds the slot that is named.
    fn in_its_place(&self, under: &UnderToken<'_>) -> Option<Box<HolderView>> {
        let (lock, slot) = under.slot?;
        self.holder_of(lock, slot).filter(|holder| holder.acquisition != under.acquisition)
    }
}

/// The revision that a write puts in force; none when it is not above the present one. 0 asks for the next.
pub(super) fn risen(present: u64, asked: u64) -> Option<u64> {
    match asked {
        0 => present.checked_add(1),
        asked => (asked > present).then_some(asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_only_rises() {
        assert_eq!((risen(0, 0), risen(7, 0)), (Some(1), Some(8)));
        assert_eq!((risen(0, 1), risen(7, 9), risen(7, u64::MAX)), (Some(1), Some(9), Some(u64::MAX)));
        assert_eq!((risen(7, 7), risen(7, 6), risen(u64::MAX, 0)), (None, None, None));
    }
}
