//! The bare integer, for callers that are trusted.

use std::sync::atomic::{AtomicU64, Ordering};

use palisade_core::holding::{Holding, NotHolding};
use palisade_core::ids::{LockName, Slot};
use palisade_core::mode::Mode;
use palisade_core::token::Token;

/// A token that nobody signed: only where you trust your callers.
///
/// Whoever can make one can raise the mark to 2^53 - 1 and shut every true holder out until an operator resets it.
/// Where requests come from elsewhere, take a sequencer and a [`Verifier`](crate::verifier::Verifier).
#[derive(Debug)]
pub struct TrustedToken {
    lock: LockName,
    slot: Slot,
    mode: Mode,
    token: Token,
    refused_by: AtomicU64,
}

impl TrustedToken {
    /// Of an exclusive holder of slot 0.
    pub fn exclusive(lock: LockName, token: Token) -> Self {
        Self::new(lock, Slot(0), Mode::Exclusive, token)
    }

    /// Of any holder.
    pub fn new(lock: LockName, slot: Slot, mode: Mode, token: Token) -> Self {
        Self { lock, slot, mode, token, refused_by: AtomicU64::new(0) }
    }
}

impl Holding for TrustedToken {
    fn issuer(&self) -> Option<&str> {
        None
    }

    fn lock(&self) -> &LockName {
        &self.lock
    }

    fn slot(&self) -> Slot {
        self.slot
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn token(&self) -> Token {
        self.token
    }

    fn sequencer(&self) -> Option<&str> {
        None
    }

    fn check(&self) -> Result<(), NotHolding> {
        match Token::new(self.refused_by.load(Ordering::Acquire)) {
            None => Ok(()),
            Some(mark) => Err(NotHolding::Rejected { lock: self.lock.clone(), token: self.token, mark }),
        }
    }

    fn rejected(&self, mark: Token) {
        self.refused_by.fetch_max(mark.get(), Ordering::AcqRel);
    }
}
