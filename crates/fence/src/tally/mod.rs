//! What was decided at a resource, by lock and client: for whoever watches it, and for the coordinator.
//!
//! One for a resource: the guards of its locks and the layer before them count in the same. Everything in it is bounded,
//! since callers choose names.

mod exposition;

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use palisade_core::ids::{ClientName, GuardName, LockName};
use palisade_core::rejections::{Reason, Refused, Rejections, StaleHolder};
use palisade_core::token::Token;

use crate::error::FenceError;

/// Clients that are counted apart, over all locks of a resource. Further ones are counted together, as if nobody knew them.
pub const CLIENTS_MAX: usize = 1_024;

/// How often a resource decided what, since its tally was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Claims that were admitted.
    pub claimed: u64,
    /// Writes that were admitted, also those that then failed by themselves.
    pub written: u64,
    /// Stale tokens that were refused.
    pub stale: u64,
    /// What was refused or failed for any other reason.
    pub other: u64,
}

/// How far behind a client's stale tokens were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The token that was refused last.
    pub presented: Token,
    /// The lowest that was still accepted then.
    pub mark: Token,
    /// The largest distance between the two so far, entries of the log.
    pub largest: u64,
}

/// The counts of one client at one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The lock; none for all that do not guard this resource, and where nothing said which.
    pub lock: Option<LockName>,
    /// What the holder calls itself; none where nobody knows, and for those beyond [`CLIENTS_MAX`].
    pub client: Option<ClientName>,
    /// What was decided.
    pub counts: Counts,
    /// Of its stale tokens; none while it had none.
    pub gap: Option<Gap>,
}

/// Counts for one resource. Share it: `Guard::counted_in`, `SequencerLayer::counted_in`.
#[derive(Debug, Default)]
pub struct Tally {
    guard: Option<GuardName>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    counted: BTreeMap<Key, (Counts, Option<Gap>)>,
    gaps: Gaps,
    reasons: BTreeMap<Reason, u64>,
    /// What `take_rejections` has not taken.
    untold: Rejections,
}

type Key = (Option<LockName>, Option<ClientName>);

/// What is counted.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    Claimed,
    Written,
    Stale(StaleHolder, Refused),
    Other(Reason),
}

impl Tally {
    /// Of the guard that holders name in `fenced_by`, or whatever the resource is called.
    pub fn named(guard: GuardName) -> Self {
        Self { guard: Some(guard), ..Self::default() }
    }

    /// What the resource is called, where it was told.
    pub fn guard(&self) -> Option<&GuardName> {
        self.guard.as_ref()
    }

    /// What was decided so far, in all.
    pub fn counts(&self) -> Counts {
        let inner = self.inner();
        inner.counted.values().fold(Counts::default(), |sum, (counts, _)| sum.plus(counts))
    }

    /// What was decided so far, by lock and client.
    pub fn list(&self) -> Vec<Counted> {
        let inner = self.inner();
        let list = inner.counted.iter().map(|((lock, client), (counts, gap))| Counted {
            lock: lock.clone(),
            client: client.clone(),
            counts: *counts,
            gap: *gap,
        });
        list.collect()
    }

    /// The counts in the text format of Prometheus, for a resource to expose. Names of locks and clients are no labels:
    /// their number has no bound.
    pub fn metrics(&self) -> String {
        let counts = self.counts();
        let inner = self.inner();
        exposition::text(self.guard.as_ref(), &counts, &inner.reasons, &inner.gaps)
    }

    /// What was refused since it was last taken: to be reported to the coordinator, by one who asks again and again.
    /// Bounded also where nobody takes it.
    pub fn take_rejections(&self) -> Rejections {
        mem::take(&mut self.inner().untold)
    }

    pub(crate) fn count(&self, lock: Option<&LockName>, client: Option<&ClientName>, decision: Decision) {
        let mut inner = self.inner();
        let mut key = (lock.cloned(), client.cloned());
        if inner.counted.len() >= CLIENTS_MAX && !inner.counted.contains_key(&key) {
            // One more for each lock: those are the resource's own, and none.
            key.1 = None;
        }
        let (counts, gap) = inner.counted.entry(key).or_default();
        match decision {
            Decision::Claimed => counts.claimed += 1,
            Decision::Written => counts.written += 1,
            Decision::Stale(holder, refused) => {
                counts.stale += 1;
                let (presented, mark) = (holder.presented, refused.mark);
                let distance = mark.get().saturating_sub(presented.get());
                let largest = gap.map_or(distance, |gap| gap.largest.max(distance));
                *gap = Some(Gap { presented, mark, largest });
                inner.gaps.observe(distance);
                inner.untold.add_stale(holder, refused);
            }
            Decision::Other(reason) => {
                counts.other += 1;
                *inner.reasons.entry(reason).or_default() += 1;
                inner.untold.add_other(reason, 1);
            }
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn plus(self, other: &Self) -> Self {
        Self {
            claimed: self.claimed + other.claimed,
            written: self.written + other.written,
            stale: self.stale + other.stale,
            other: self.other + other.other,
        }
    }
}

/// Distances between refused tokens and marks, by powers of ten.
#[derive(Debug, Default)]
struct Gaps {
    /// Up to 1, 10, 100 and so on; the last is for all above.
    buckets: [u64; Self::BOUNDS.len() + 1],
    sum: u64,
}

impl Gaps {
    /// Entries of the log.
    const BOUNDS: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

    fn observe(&mut self, distance: u64) {
        let bucket = Self::BOUNDS.iter().position(|bound| distance <= *bound).unwrap_or(Self::BOUNDS.len());
        self.buckets[bucket] += 1;
        self.sum = self.sum.saturating_add(distance);
    }
}

/// Why something other than a stale token was refused.
pub(crate) fn reason(error: &FenceError) -> Reason {
    match error {
        FenceError::NotHolding(_) => Reason::NotHolding,
        FenceError::NoSequencer => Reason::NoSequencer,
        FenceError::Malformed(_) => Reason::Malformed,
        FenceError::Forged => Reason::Forged,
        FenceError::UnknownKey { .. } => Reason::UnknownKey,
        FenceError::WrongPurpose { .. } => Reason::WrongPurpose,
        FenceError::WrongCluster { .. } => Reason::WrongCluster,
        FenceError::WrongLock { .. } => Reason::WrongLock,
        FenceError::WrongSlot { .. } => Reason::WrongSlot,
        FenceError::WrongMode { .. } => Reason::WrongMode,
        FenceError::Stale { .. }
        | FenceError::Contended { .. }
        | FenceError::NoFloor { .. }
        | FenceError::Busy { .. }
        | FenceError::NoMarks { .. }
        | FenceError::MarksExist { .. }
        | FenceError::Damaged { .. }
        | FenceError::Unfit { .. }
        | FenceError::Poisoned
        | FenceError::Storage { .. }
        | FenceError::Effect(_) => Reason::Undecided,
    }
}

#[cfg(test)]
mod tests;
