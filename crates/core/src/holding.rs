//! What a holder shows to a resource.
//!
//! The seam between the two halves: a client's lock guard implements it at the holder, a verified sequencer that came
//! with a request at a service. A bare integer only through a type that says so.

use crate::ids::{AcquisitionId, ClientName, LockName, Slot};
use crate::mode::Mode;
use crate::token::Token;

/// A claim to hold one slot of one lock under one token.
pub trait Holding {
    /// The cluster that granted it, as in the sequencer's issuer. None where the holder itself writes and the
    /// resource serves one cluster.
    fn issuer(&self) -> Option<&str>;

    /// Which lock.
    fn lock(&self) -> &LockName;

    /// Which slot.
    fn slot(&self) -> Slot;

    /// How it is held. Write paths accept `Exclusive` only, unless told otherwise.
    fn mode(&self) -> Mode;

    /// Under which token.
    fn token(&self) -> Token;

    /// The signed sequencer, where there is one.
    fn sequencer(&self) -> Option<&str>;

    /// What the holder calls itself, for people and for counts; none where nobody knows.
    fn client(&self) -> Option<&ClientName> {
        None
    }

    /// Its acquisition, for reports; none where nobody knows.
    fn acquisition(&self) -> Option<AcquisitionId> {
        None
    }

    /// An error once the holder's own deadline has passed or a resource refused the token: stop before the effect.
    /// Defence in depth only; the resource decides.
    fn check(&self) -> Result<(), NotHolding>;

    /// The resource refused the token: from now on `check` fails.
    fn rejected(&self, mark: Token);
}

/// Why a holder should not act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotHolding {
    /// The nearest of the holder's deadlines passed unanswered; whether it still holds is not known.
    #[error("the local deadline of {lock} (token {token}) has passed: stop work, and acquire again")]
    DeadlinePassed {
        /// Which lock.
        lock: LockName,
        /// Under which token.
        token: Token,
    },
    /// The cluster says that it is over.
    #[error("{lock} is no longer held (token {token}): stop work, and acquire again")]
    Lost {
        /// Which lock.
        lock: LockName,
        /// Under which token.
        token: Token,
    },
    /// A resource has seen a newer token.
    #[error(
        "a resource refused token {token} of {lock}, because it has accepted {mark}: stop work, and acquire again"
    )]
    Rejected {
        /// Which lock.
        lock: LockName,
        /// Under which token.
        token: Token,
        /// What the resource had accepted.
        mark: Token,
    },
}
