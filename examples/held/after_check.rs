//! The worst moment of a write: after the holder's own check, before the resource decides.

use palisade_core::holding::{Holding, NotHolding};
use palisade_core::ids::{ClientName, LockName, Slot};
use palisade_core::mode::Mode;
use palisade_core::token::Token;

use crate::pause::Pause;

/// A holding whose process is paused there.
pub(crate) struct PausedAfterCheck<'a> {
    pub(crate) held: &'a dyn Holding,
    pub(crate) pause: &'a Pause,
}

impl Holding for PausedAfterCheck<'_> {
    fn check(&self) -> Result<(), NotHolding> {
        self.held.check()?;
        self.pause.here();
        Ok(())
    }

    fn issuer(&self) -> Option<&str> {
        self.held.issuer()
    }

    fn lock(&self) -> &LockName {
        self.held.lock()
    }

    fn slot(&self) -> Slot {
        self.held.slot()
    }

    fn mode(&self) -> Mode {
        self.held.mode()
    }

    fn token(&self) -> Token {
        self.held.token()
    }

    fn sequencer(&self) -> Option<&str> {
        self.held.sequencer()
    }

    fn client(&self) -> Option<&ClientName> {
        self.held.client()
    }

    fn rejected(&self, mark: Token) {
        self.held.rejected(mark);
    }
}
