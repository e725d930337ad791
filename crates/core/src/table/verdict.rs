//! Whether an acquisition holds a slot, in this mode, under this token: what `CheckSequencer` asks.

use super::LockTable;
use crate::ids::{AcquisitionId, LockName, Slot};
use crate::lock::SlotState;
use crate::mode::Mode;
use crate::reply::Ended;
use crate::session::OutcomeHow;
use crate::token::Token;

/// What somebody claims to hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Presented {
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// How.
    pub mode: Mode,
    /// Under which token.
    pub token: Token,
    /// Which acquisition.
    pub acquisition: AcquisitionId,
}

/// What this state says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Current,
    /// It does not, and never will again.
    Over {
        /// How it ended.
        ended: Ended,
        /// The token of the tenure that holds the slot now, where there is one.
        superseded_by: Option<Token>,
        /// Whether the slot is in lock-delay.
        in_lock_delay: bool,
    },
    /// The session is live and knows nothing of it, or the token is none that could have been granted yet.
    NeverGranted,
}

impl LockTable {
    /// The verdict of this state. A verdict other than `Current` never becomes false, as long as this state has
    /// applied the grant.
    pub fn verdict(&self, presented: &Presented) -> Verdict {
        let state = self.locks.get(&presented.lock).and_then(|lock| lock.slots.get(&presented.slot));
        if let Some(SlotState::Held(tenure)) = state
            && tenure.token == presented.token
        {
            let holds = tenure.mode == presented.mode && tenure.holders.contains_key(&presented.acquisition);
            if holds {
                return Verdict::Current;
            }
        }
        let superseded_by = match state {
            Some(SlotState::Held(tenure)) if tenure.token > presented.token => Some(tenure.token),
            _ => None,
        };
        let in_lock_delay = matches!(state, Some(SlotState::Delayed(_)));
        match self.how_it_ended(presented) {
            Some(ended) => Verdict::Over { ended, superseded_by, in_lock_delay },
            None => Verdict::NeverGranted,
        }
    }

    /// None when nothing like it can have been granted.
    fn how_it_ended(&self, presented: &Presented) -> Option<Ended> {
        let id = presented.acquisition;
        if presented.token > self.header.token_base.token(self.header.applied) {
            return None;
        }
        let Some(session) = self.sessions.get(&id.session) else {
            return Some(match self.ended.get(id.session) {
                Some(session) => self.remembered_end(presented).unwrap_or(session.ended),
                None => Ended::Forgotten,
            });
        };
        if session.acquisitions.contains_key(&id.number) {
            // Alive, but not so: part of it may have ended, or the claim is of another token or mode.
            return self.remembered_end(presented);
        }
        match session.outcomes.get(&id.number) {
            Some(outcome) => match &outcome.how {
                OutcomeHow::Ended { ended, held } => {
                    let was = (&presented.lock, presented.slot, presented.token);
                    held.iter().any(|(lock, slot, token)| (lock, *slot, *token) == was).then_some(*ended)
                }
                OutcomeHow::Refused(_) => None,
            },
            None if id.number < session.mark => {
                Some(self.remembered_end(presented).unwrap_or(Ended::Forgotten))
            }
            None => None,
        }
    }

    fn remembered_end(&self, presented: &Presented) -> Option<Ended> {
        let last = self.predecessors.get(&presented.lock)?;
        let same = last.acquisition == presented.acquisition
            && last.token == presented.token
            && last.slot == presented.slot;
        same.then_some(last.ended)
    }
}
