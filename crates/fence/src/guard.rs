//! The guard of a resource: what stands between a holding and a write.
//!
//! It checks what the marks cannot (cluster, lock, slot, mode), lets the [`Adapter`] decide about the token in one step
//! with the write, and tells the holding when it was refused. It does not verify signatures: a
//! [`Presented`](crate::verifier::Presented) has been, and what a holder shows in its own process needs none.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use palisade_core::holding::Holding;
use palisade_core::ids::{ClientName, ClusterId, LockName, Slot};
use palisade_core::sequencer::issuer;
use palisade_core::token::Token;

use crate::adapters::{Adapter, InTransaction};
use crate::admit::HighWaterMark;
use crate::error::FenceError;
use crate::tally::Tally;
use crate::verifier::SignedFloor;

mod decision;

pub use crate::tally::{Counted, Counts};

pub(crate) use self::decision::{Act, Checked, floor_of, raised};

/// What a guard serves: one cluster, and the locks that guard this resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    cluster: ClusterId,
    locks: BTreeSet<LockName>,
    slots: u32,
    writers: Writers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writers {
    Exclusive,
    AlsoShared,
}

impl Scope {
    /// One lock, slot 0 only, exclusive writers only.
    pub fn new(cluster: ClusterId, lock: LockName) -> Self {
        Self { cluster, locks: BTreeSet::from([lock]), slots: 1, writers: Writers::Exclusive }
    }

    /// A further lock. Each has marks of its own: a write is fenced only against holders of the lock that it shows.
    #[must_use]
    pub fn and(mut self, lock: LockName) -> Self {
        self.locks.insert(lock);
        self
    }

    /// Of a semaphore: its capacity. Every slot beyond is refused.
    #[must_use]
    pub fn slots(mut self, capacity: u32) -> Self {
        self.slots = capacity;
        self
    }

    /// Shared holders may write too. They are fenced against exclusive holders only, not against one another (SPEC 2).
    #[must_use]
    pub fn shared_writers(mut self) -> Self {
        self.writers = Writers::AlsoShared;
        self
    }
}

/// What the cluster says about the lowest token that can still be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// It is this one.
    At(Token),
    /// Not known; the marks alone decide.
    MarksAlone,
    /// Not known, and nothing is to be admitted without it.
    Refuse,
}

/// A stale token was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection<'a> {
    /// Of which lock.
    pub lock: &'a LockName,
    /// Of which slot.
    pub slot: Slot,
    /// The refused token.
    pub presented: Token,
    /// The lowest token that is still accepted.
    pub mark: Token,
    /// Whose it is, where that is known.
    pub client: Option<&'a ClientName>,
    /// What proves who presented it, where there is such a thing.
    pub sequencer: Option<&'a str>,
}

/// Guards one resource.
pub struct Guard<A> {
    adapter: A,
    scope: Scope,
    issuer: String,
    floor: Box<FloorSource>,
    on_stale: Box<StaleHook>,
    tally: Arc<Tally>,
}

type FloorSource = dyn Fn(&LockName, Slot) -> Floor + Send + Sync;
type StaleHook = dyn Fn(&Rejection<'_>) + Send + Sync;

impl<A> Guard<A> {
    /// Guards what `adapter` keeps, by its marks alone.
    pub fn new(adapter: A, scope: Scope) -> Self {
        Self {
            adapter,
            issuer: issuer(scope.cluster),
            scope,
            floor: Box::new(|_, _| Floor::MarksAlone),
            on_stale: Box::new(|_| ()),
            tally: Arc::default(),
        }
    }

    /// Asks `floor` before each decision: a fence feed rejects a stale holder before any successor has written (SPEC 7).
    #[must_use]
    pub fn with_floors(mut self, floor: impl Fn(&LockName, Slot) -> Floor + Send + Sync + 'static) -> Self {
        self.floor = Box::new(floor);
        self
    }

    /// Counts in a tally that others of this resource count in as well. What it has counted so far stays behind.
    #[must_use]
    pub fn counted_in(mut self, tally: Arc<Tally>) -> Self {
        self.tally = tally;
        self
    }

    /// Calls `report` with each refusal of a stale token: for logs. For the coordinator, see [`Tally::take_rejections`].
    #[must_use]
    pub fn on_stale(mut self, report: impl Fn(&Rejection<'_>) + Send + Sync + 'static) -> Self {
        self.on_stale = Box::new(report);
        self
    }

    /// What was decided so far, in all.
    pub fn counts(&self) -> Counts {
        self.tally.counts()
    }

    /// What was decided so far, by lock and client, and what was refused and not reported yet.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// The counts in the text format of Prometheus, for a resource to expose: `palisade_fence_decisions_total` and more.
    pub fn metrics(&self) -> String {
        self.tally.metrics()
    }

    /// What is guarded: to read it without a claim.
    pub fn adapter(&self) -> &A {
        &self.adapter
    }
}

impl<A: Adapter> Guard<A> {
    /// Raises the mark, in either mode, and changes nothing else: a new holder's first act.
    ///
    /// From then on no earlier holder's write lands. Without it, one can land between the new holder's read and its first
    /// write (SPEC 8).
    pub fn claim(&self, holding: &(impl Holding + ?Sized)) -> Result<HighWaterMark, FenceError> {
        self.claim_and_read(holding, |_| Ok(()))?;
        Ok(HighWaterMark(holding.token()))
    }

    /// Raises the mark, in either mode, then reads: what is read can no longer change behind this holder's back.
    pub fn claim_and_read<R>(
        &self,
        holding: &(impl Holding + ?Sized),
        read: impl FnOnce(&A::Data<'_>) -> Result<R, FenceError>,
    ) -> Result<R, FenceError> {
        self.admit(holding, Act::Claim, |data| read(data))
    }

    /// Admits the holding's token and runs `effect`, in one atomic step; runs nothing where the token is stale.
    pub fn write<R>(
        &self,
        holding: &(impl Holding + ?Sized),
        effect: impl FnOnce(&mut A::Data<'_>) -> Result<R, FenceError>,
    ) -> Result<R, FenceError> {
        self.admit(holding, Act::Write, effect)
    }

    /// Raises the mark to a floor that the cluster signed, unless it is higher already, and says what it is then. It is
    /// durable wherever the data is: so a guard may confirm the floor of a lock-delay (SPEC 5, fence-ahead), and a store
    /// without marks may start (SPEC 8).
    pub fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        let key = self.check_floor(floor)?;
        raised(self.adapter.admit_with(&key, None, floor.statement().floor, |_| Ok(())), floor)
    }

    /// The present mark of a lock and slot.
    pub fn mark(&self, lock: &LockName, slot: Slot) -> Result<Option<HighWaterMark>, FenceError> {
        self.adapter.mark(&self.key(lock, slot))
    }

    /// An operator's way out of a poisoned mark, and the way to give a store that lost its marks the tokens of the present
    /// holders. Lower than the token of an earlier holder that may still run, it admits that holder's writes.
    pub fn reset_mark(
        &self,
        lock: &LockName,
        slot: Slot,
        mark: Option<HighWaterMark>,
    ) -> Result<(), FenceError> {
        self.adapter.reset_mark(&self.key(lock, slot), mark)
    }

    fn admit<R>(
        &self,
        holding: &(impl Holding + ?Sized),
        act: Act,
        effect: impl FnOnce(&mut A::Data<'_>) -> Result<R, FenceError>,
    ) -> Result<R, FenceError> {
        let mut ran = false;
        let checked = self.check(holding, act);
        let floor = floor_of(&checked);
        let outcome = checked.and_then(|Checked { key, floor }| {
            self.adapter.admit_with(&key, floor, holding.token(), |data| {
                ran = true;
                effect(data)
            })
        });
        // An effect may report another resource's refusal: that says nothing about this holding here.
        let refused = if ran { None } else { outcome.as_ref().err() };
        self.decided(holding, act, floor, refused);
        outcome
    }
}

impl<A: InTransaction> Guard<A> {
    /// Raises the mark, in either mode, in a transaction of your own: before anything is read in it.
    ///
    /// It counts once the transaction is committed.
    pub fn claim_in(
        &self,
        transaction: &A::Transaction<'_>,
        holding: &(impl Holding + ?Sized),
    ) -> Result<(), FenceError> {
        self.enter(transaction, holding, Act::Claim)
    }

    /// Admits a write in a transaction of your own, before its first statement. Where it is refused, roll back.
    ///
    /// The mark is raised, and an older holder shut out, when the transaction is committed.
    pub fn admit_in(
        &self,
        transaction: &A::Transaction<'_>,
        holding: &(impl Holding + ?Sized),
    ) -> Result<(), FenceError> {
        self.enter(transaction, holding, Act::Write)
    }

    /// Raises the mark to a floor that the cluster signed, in a transaction of your own.
    ///
    /// It counts once the transaction is committed: confirm nothing before.
    pub fn raise_in(
        &self,
        transaction: &A::Transaction<'_>,
        floor: &SignedFloor,
    ) -> Result<HighWaterMark, FenceError> {
        let key = self.check_floor(floor)?;
        raised(self.adapter.admit_in(transaction, &key, None, floor.statement().floor), floor)
    }

    fn enter(
        &self,
        transaction: &A::Transaction<'_>,
        holding: &(impl Holding + ?Sized),
        act: Act,
    ) -> Result<(), FenceError> {
        let checked = self.check(holding, act);
        let floor = floor_of(&checked);
        let outcome = checked.and_then(|Checked { key, floor }| {
            self.adapter.admit_in(transaction, &key, floor, holding.token())
        });
        self.decided(holding, act, floor, outcome.as_ref().err());
        outcome
    }
}

impl<A: fmt::Debug> fmt::Debug for Guard<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("scope", &self.scope)
            .field("adapter", &self.adapter)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
