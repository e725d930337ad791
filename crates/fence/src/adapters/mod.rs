//! What a resource keeps its data in, seen as a place where a mark and a write move together.
//!
//! An adapter knows nothing of sequencers, clusters or modes: the [`Guard`](crate::guard::Guard) has checked those.

pub mod file;
pub mod memory;
#[cfg(feature = "object-store")]
pub mod object;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sled")]
pub mod sled;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use palisade_core::token::Token;

use crate::admit::{HighWaterMark, MarkKey};
use crate::error::FenceError;

/// A store of data and marks.
///
/// The marks are durable wherever the data is. What cannot be read is an error, never a missing mark.
pub trait Adapter {
    /// What a write gets to work on, for as long as it runs.
    type Data<'a>: ?Sized;

    /// Admits `token` by [`decide`](crate::admit::decide), records the mark and runs `effect`, all in one atomic step:
    /// nothing else is admitted between the comparison and the end of the effect.
    ///
    /// Where the token is stale, `effect` does not run and the mark stays. Where `effect` fails, the mark may be raised
    /// already: that is safe, because raising it admits nothing.
    fn admit_with<R>(
        &self,
        key: &MarkKey,
        floor: Option<Token>,
        token: Token,
        effect: impl FnOnce(&mut Self::Data<'_>) -> Result<R, FenceError>,
    ) -> Result<R, FenceError>;

    /// The present mark; None if nothing was accepted yet.
    fn mark(&self, key: &MarkKey) -> Result<Option<HighWaterMark>, FenceError>;

    /// An operator's way out of a poisoned mark: sets it to the present holder's token, or to nothing.
    ///
    /// Lower than the token of any earlier holder that may still run, it admits that holder's writes.
    fn reset_mark(&self, key: &MarkKey, mark: Option<HighWaterMark>) -> Result<(), FenceError>;
}

/// Marks that are raised in a transaction of the caller's own, which also writes the data.
///
/// A claim or an admission counts when the transaction is committed; until then nothing that conflicts with it is
/// committed either.
pub trait InTransaction {
    /// The caller's transaction, or what its closure was given of one.
    type Transaction<'a>: ?Sized;

    /// Admits `token` by [`decide`](crate::admit::decide) and records the mark, in `transaction`.
    fn admit_in(
        &self,
        transaction: &Self::Transaction<'_>,
        key: &MarkKey,
        floor: Option<Token>,
        token: Token,
    ) -> Result<(), FenceError>;
}
