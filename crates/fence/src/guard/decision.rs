//! What a guard does around an adapter's decision: all checks but the token's, and what follows from a refusal.

use palisade_core::holding::Holding;
use palisade_core::ids::{LockName, Slot};
use palisade_core::mode::Mode;
use palisade_core::rejections::{Above, Refused, StaleHolder};
use palisade_core::sequencer::issuer;
use palisade_core::signed_floor::FloorStatement;
use palisade_core::token::Token;

use super::{Floor, Guard, Rejection, Writers};
use crate::admit::{HighWaterMark, MarkKey};
use crate::error::FenceError;
use crate::tally::{self, Decision};
use crate::verifier::SignedFloor;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Claim,
    Write,
}

/// What is left for the adapter to compare.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) key: MarkKey,
    pub(crate) floor: Option<Token>,
}

impl<A> Guard<A> {
    pub(crate) fn key(&self, lock: &LockName, slot: Slot) -> MarkKey {
        MarkKey { cluster: self.scope.cluster, lock: lock.clone(), slot }
    }

    /// Everything but the token. The holder's own belief comes first: it saves a call, and decides nothing else.
    pub(crate) fn check(&self, holding: &(impl Holding + ?Sized), act: Act) -> Result<Checked, FenceError> {
        holding.check()?;
        let lock = holding.lock();
        if let Some(presented) = holding.issuer().filter(|presented| *presented != self.issuer) {
            let presented = presented.to_owned();
            return Err(FenceError::WrongCluster { presented, expected: self.issuer.clone() });
        }
        self.expect_slot(lock, holding.slot())?;
        if act == Act::Write && holding.mode() == Mode::Shared && self.scope.writers == Writers::Exclusive {
            return Err(FenceError::WrongMode { lock: lock.clone(), mode: holding.mode() });
        }
        let floor = match (self.floor)(lock, holding.slot()) {
            Floor::At(floor) => Some(floor),
            Floor::MarksAlone => None,
            Floor::Refuse => return Err(FenceError::NoFloor { lock: lock.clone() }),
        };
        Ok(Checked { key: self.key(lock, holding.slot()), floor })
    }

    /// Where a floor belongs, if it is of this resource. What the floors of a feed say is not asked: only what raises the
    /// mark itself is kept.
    pub(crate) fn check_floor(&self, floor: &SignedFloor) -> Result<MarkKey, FenceError> {
        let FloorStatement { cluster, lock, slot, .. } = floor.statement();
        if *cluster != self.scope.cluster {
            let presented = issuer(*cluster);
            return Err(FenceError::WrongCluster { presented, expected: self.issuer.clone() });
        }
        self.expect_slot(lock, *slot)?;
        Ok(self.key(lock, *slot))
    }

    fn expect_slot(&self, lock: &LockName, slot: Slot) -> Result<(), FenceError> {
        if !self.scope.locks.contains(lock) {
            let expected = self.scope.locks.iter().map(LockName::as_str).collect::<Vec<_>>().join(", ");
            return Err(FenceError::WrongLock { presented: lock.clone(), expected });
        }
        if slot.0 >= self.scope.slots {
            return Err(FenceError::WrongSlot {
                lock: lock.clone(),
                presented: slot,
                slots: self.scope.slots,
            });
        }
        Ok(())
    }

    /// Counts what was decided; a stale refusal is told to the holding and reported. `floor` is what the token was compared
    /// with beside the mark.
    pub(crate) fn decided(
        &self,
        holding: &(impl Holding + ?Sized),
        act: Act,
        floor: Option<Token>,
        refused: Option<&FenceError>,
    ) {
        let decision = match (refused, act) {
            (Some(FenceError::Stale { mark, .. }), _) => {
                holding.rejected(*mark);
                (self.on_stale)(&Rejection {
                    lock: holding.lock(),
                    slot: holding.slot(),
                    presented: holding.token(),
                    mark: *mark,
                    client: holding.client(),
                    sequencer: holding.sequencer(),
                });
                let above = if floor == Some(*mark) { Above::Floor } else { Above::Mark };
                Decision::Stale(stale_holder(holding), Refused { count: 1, mark: *mark, above })
            }
            (Some(error), _) => Decision::Other(tally::reason(error)),
            (None, Act::Claim) => Decision::Claimed,
            (None, Act::Write) => Decision::Written,
        };
        // Locks of others could be any number.
        let lock = self.scope.locks.get(holding.lock());
        self.tally.count(lock, holding.client(), decision);
    }
}

fn stale_holder(holding: &(impl Holding + ?Sized)) -> StaleHolder {
    StaleHolder {
        lock: holding.lock().clone(),
        slot: holding.slot(),
        presented: holding.token(),
        client: holding.client().filter(|client| !client.as_str().is_empty()).cloned(),
        acquisition: holding.acquisition(),
    }
}

/// The floor that a check found.
pub(crate) fn floor_of(checked: &Result<Checked, FenceError>) -> Option<Token> {
    checked.as_ref().ok().and_then(|checked| checked.floor)
}

/// The mark after a floor was offered as if it were a token: where it was refused, the mark was higher already.
pub(crate) fn raised<R>(
    outcome: Result<R, FenceError>,
    floor: &SignedFloor,
) -> Result<HighWaterMark, FenceError> {
    match outcome {
        Ok(_) => Ok(HighWaterMark(floor.statement().floor)),
        Err(FenceError::Stale { mark, .. }) => Ok(HighWaterMark(mark)),
        Err(error) => Err(error),
    }
}
