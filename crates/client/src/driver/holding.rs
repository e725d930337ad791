//! What is held of one acquisition, part by part, as far as this client knows.

use std::sync::Arc;

use palisade_core::ids::Slot;
use palisade_core::reply::{Ended, Grant, GrantedPart};
use palisade_core::token::Token;
use tokio::time::Instant;

use super::changes::Change;
use crate::error::LostReason;
use crate::guard::LockGuard;
use crate::guard_set::GuardSet;
use crate::held::{HeldPart, Hold};
use crate::session::SessionHandle;

/// Of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A guard has it.
    Held,
    /// It is being released, handed over or downgraded.
    Changing,
    /// Nothing is left to do.
    Over,
}

/// A change that is repeated until it is decided.
pub(super) struct Changing {
    /// None: all parts.
    pub(super) place: Option<usize>,
    /// Under which it was held.
    pub(super) token: Token,
    pub(super) change: Change,
    pub(super) give_up: Instant,
}

pub(super) struct Holding {
    /// In the order of the grant.
    parts: Vec<(Arc<HeldPart>, State)>,
    pub(super) changes: Vec<Changing>,
}

impl Holding {
    /// What a grant gave, and its guards. None of a grant of nothing.
    pub(super) fn new(
        session: Arc<SessionHandle>,
        grant: Grant,
        sequencers: Vec<String>,
    ) -> Option<(Self, GuardSet)> {
        let hold = Arc::new(Hold::new(session, &grant));
        let mut sequencers = sequencers.into_iter();
        let index = grant.grant_index;
        let parts: Vec<_> = grant
            .parts
            .into_iter()
            .enumerate()
            .map(|(place, part)| Arc::new(HeldPart::new(hold.clone(), place, index, part, sequencers.next())))
            .collect();
        let guards = GuardSet::new(parts.iter().cloned().map(LockGuard::new).collect())?;
        let parts = parts.into_iter().map(|part| (part, State::Held)).collect();
        Some((Self { parts, changes: Vec::new() }, guards))
    }

    /// Whether a task of this process holds any of it.
    pub(super) fn is_held(&self) -> bool {
        self.parts.iter().any(|(_, state)| *state == State::Held)
    }

    /// Whether nothing is left to do.
    pub(super) fn is_over(&self) -> bool {
        self.changes.is_empty() && self.parts.iter().all(|(_, state)| *state == State::Over)
    }

    pub(super) fn part(&self, place: usize) -> Option<&Arc<HeldPart>> {
        self.parts.get(place).map(|(part, _)| part)
    }

    /// Begins a change of a part, or of all that is held: the token that it names. None when nothing of it is held.
    pub(super) fn begin(&mut self, place: Option<usize>) -> Option<Token> {
        let mut token = None;
        for (part, state) in &mut self.parts {
            if *state == State::Held && place.is_none_or(|place| place == part.place) {
                *state = State::Changing;
                token.get_or_insert(part.token);
            }
        }
        token
    }

    /// The change at hand was decided.
    pub(super) fn decided(&mut self, place: Option<usize>) -> Option<Changing> {
        let at = self.changes.iter().position(|changing| changing.place == place)?;
        Some(self.changes.remove(at))
    }

    /// What was being changed is over.
    pub(super) fn over(&mut self, place: Option<usize>, ended: Option<Ended>) {
        for (part, state) in &mut self.parts {
            if *state == State::Changing && place.is_none_or(|place| place == part.place) {
                *state = State::Over;
                part.end(ended);
            }
        }
    }

    /// The change did not happen: a guard of what is held as before.
    pub(super) fn kept(&mut self, place: usize) -> Option<LockGuard> {
        let (part, state) = self.parts.get_mut(place)?;
        *state = State::Held;
        Some(LockGuard::new(part.clone()))
    }

    /// A part is held otherwise from now on: its new guard. None when the grant does not have it.
    pub(super) fn downgraded(&mut self, place: usize, grant: &Grant) -> Option<LockGuard> {
        let (part, state) = self.parts.get_mut(place)?;
        let granted = grant.parts.iter().find(|granted| same(part, granted))?;
        let index = grant.grant_index;
        let downgraded = Arc::new(HeldPart::new(part.hold.clone(), place, index, granted.clone(), None));
        part.end(Some(Ended::Released));
        *part = downgraded.clone();
        *state = State::Held;
        Some(LockGuard::new(downgraded))
    }

    /// The cluster says what is held. What a guard has and the cluster does not is lost.
    pub(super) fn still(&mut self, granted: &[GrantedPart]) {
        for (part, state) in &mut self.parts {
            let there = granted.iter().any(|granted| same(part, granted) && granted.token == part.token);
            if *state == State::Held && !there {
                *state = State::Over;
                part.end(None);
            }
        }
    }

    /// A part was taken away.
    pub(super) fn taken(&mut self, lock: &str, slot: Slot, token: u64, ended: Option<Ended>) {
        for (part, state) in &mut self.parts {
            if part.lock.as_str() == lock && part.slot == slot && part.token.get() == token {
                part.end(ended);
                // One that is being changed has an answer coming.
                if *state == State::Held {
                    *state = State::Over;
                }
            }
        }
    }

    /// Somebody queues behind it.
    pub(super) fn contended(&self, lock: &str) {
        for (part, _) in self.parts.iter().filter(|(part, _)| part.lock.as_str() == lock) {
            part.contend();
        }
    }

    /// All of it is over, and so is whatever was to become of it.
    pub(super) fn lose(self, reason: LostReason) {
        for (part, _) in &self.parts {
            part.lose(reason);
        }
        for changing in self.changes {
            changing.change.session_lost(reason);
        }
    }

    /// All of it is over; what is being changed has an answer coming.
    pub(super) fn end(&mut self, ended: Option<Ended>) {
        for (part, state) in &mut self.parts {
            part.end(ended);
            if *state == State::Held {
                *state = State::Over;
            }
        }
    }
}

fn same(part: &HeldPart, granted: &GrantedPart) -> bool {
    granted.lock == part.lock && granted.slot == part.slot
}
