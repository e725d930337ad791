//! Why a resource did not act. A refusal is expected, not a failure: each says what to do.

use std::error::Error;
use std::path::PathBuf;

use palisade_core::holding::NotHolding;
use palisade_core::ids::{LockName, Slot};
use palisade_core::mode::Mode;
use palisade_core::token::Token;

/// Why a claim or a write had no effect. Where it may have had one, the variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A newer tenure is known: the holder was superseded. The only refusal that ends a holder's work.
    #[error(
        "stale: token {presented} of {lock} (slot {slot}) is below {mark}, which this resource has seen: \
         stop work, and acquire again for a higher token"
    )]
    Stale {
        /// Which lock.
        lock: LockName,
        /// Which slot.
        slot: Slot,
        /// The refused token.
        presented: Token,
        /// The lowest token that is still accepted.
        mark: Token,
    },
    /// No key of the cluster made this signature.
    #[error("forged: the signature of this sequencer is not one of the cluster's: refuse the caller")]
    Forged,
    /// Signed with a key that this resource does not know, or pretends to be. Not a proof of anything.
    #[error(
        "unknown key {kid:?}: fetch the cluster's keys again (rate-limited); the holder may fetch its sequencer again, once"
    )]
    UnknownKey {
        /// The named key.
        kid: String,
    },
    /// Signed by the cluster, for something else.
    #[error(
        "this is a {typ:?} signed with {alg:?}, not a {expected:?}: a holder presents the sequencer of its grant, and only \
         a signed floor raises a mark without one"
    )]
    WrongPurpose {
        /// The purpose that was needed.
        expected: &'static str,
        /// The header's purpose.
        typ: String,
        /// The header's algorithm.
        alg: String,
    },
    /// Another cluster's.
    #[error(
        "{presented:?} granted this, but this resource serves {expected:?}: check which cluster the holder asked"
    )]
    WrongCluster {
        /// Who granted it.
        presented: String,
        /// Whom this resource serves.
        expected: String,
    },
    /// A lock that this resource, or this write, does not rely on.
    #[error("{presented} does not guard this ({expected} does): acquire the lock that guards it")]
    WrongLock {
        /// Which lock was held.
        presented: LockName,
        /// Which is expected, for people.
        expected: String,
    },
    /// A slot beyond those that this resource was told of.
    #[error(
        "slot {presented} of {lock} is beyond the {slots} that this resource was told of: \
         tell the resource about the lock's capacity first"
    )]
    WrongSlot {
        /// Which lock.
        lock: LockName,
        /// Which slot was held.
        presented: Slot,
        /// How many slots the resource serves.
        slots: u32,
    },
    /// Held in a mode that does not allow writing here.
    #[error(
        "{lock} is held {mode:?}, and this write path takes exclusive holders only: acquire it exclusively"
    )]
    WrongMode {
        /// Which lock.
        lock: LockName,
        /// How it was held.
        mode: Mode,
    },
    /// Not a sequencer at all, or one with other claims.
    #[error("malformed sequencer: {0}: pass it on unchanged, as the grant carried it")]
    Malformed(String),
    /// The holder itself should not act, so nothing was tried.
    #[error(transparent)]
    NotHolding(#[from] NotHolding),
    /// The cluster's floors are not known now, and this guard was told to refuse without them.
    #[error(
        "the floors of {lock} are not known now, and this guard does not act without them: try again later"
    )]
    NoFloor {
        /// Which lock.
        lock: LockName,
    },
    /// The store has no marks. It may be new, or have lost them.
    #[error(
        "there are no marks in {store}: if this resource is new, create it as new; if it was used before, its marks are \
         lost and a stale holder would be admitted: set them from the tokens of the present holders first"
    )]
    NoMarks {
        /// Where they should be.
        store: String,
    },
    /// The marks exist already.
    #[error("there are marks in {store}: this resource is not new; open it instead")]
    MarksExist {
        /// Where they are.
        store: String,
    },
    /// The marks cannot be read. Nothing is admitted: guessing would admit a stale holder.
    #[error("{store} is damaged ({reason}): nothing is written until its marks are restored or reset")]
    Damaged {
        /// Where they are.
        store: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another process works on the resource for too long; it may be suspended in the middle.
    #[error("{} stays locked by another process: find it (it may be suspended), then try again", .path.display())]
    Busy {
        /// The lock file.
        path: PathBuf,
    },
    /// The store keeps less than was asked of it, so that a claim could be forgotten, or a condition ignored.
    #[error(
        "{store} does not hold what fencing relies on ({reason}): change its settings, or use another store"
    )]
    Unfit {
        /// Which store.
        store: String,
        /// What it does not do.
        reason: String,
    },
    /// Another write came in between, and this one did not take effect.
    #[error(
        "{store}: another write came in between, and nothing was written: begin again under the same token"
    )]
    Contended {
        /// Which store.
        store: String,
    },
    /// The request brought no sequencer.
    #[error("this is written only under a lock: send the sequencer of the grant with the request")]
    NoSequencer,
    /// The store failed. Whether the write took effect is not known.
    #[error(
        "{what} failed ({source}); the write may have taken effect: read, then repeat it under the same token"
    )]
    Storage {
        /// What was tried.
        what: String,
        /// How it failed.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A write panicked half-way, and its data cannot be trusted.
    #[error("an earlier write panicked half-way: make the resource anew from what is known to be whole")]
    Poisoned,
    /// The write's own error.
    #[error("the write itself failed: {0}")]
    Effect(#[source] Box<dyn Error + Send + Sync>),
}

impl FenceError {
    /// The error of a write that failed for reasons of its own, for use in the closure that writes.
    pub fn effect(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Effect(error.into())
    }

    /// The error of a store that failed while `what` was tried: whether it took effect is not known.
    pub(crate) fn storage(what: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Storage { what: what.into(), source: source.into() }
    }

    /// Whether the holder was superseded: it must stop, and acquire again.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. })
    }
}
