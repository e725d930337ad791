//! One suite that every adapter passes.
//!
//! Each scenario is a function that panics with what went wrong; [`check`] runs them all, and in the end shows that they
//! fail where the same store is written past its guard. They work through verified sequencers and a real guard, so that
//! an adapter is tested as it is used. [`runs`] plays random histories of holders that are paused, cut off and have
//! their clocks set, over the same subjects.

mod cluster;
mod hazards;
pub mod runs;
mod scenarios;

use palisade_core::holding::Holding;

pub use self::cluster::SigningCluster;
pub use self::hazards::{
    clock_wrong_by_a_year, crash_before_the_commit, lost_marks, missing_token, past_the_guard,
    sequencer_before_a_takeover, slot_of_another_capacity, unknown_key,
};
pub use self::scenarios::{
    claim_then_stale, concurrent_racers, equal_token, forged_moves_no_mark, identical_bytes,
    impossible_tokens, locks_of_one_resource, marks_survive_reopening, other_cluster,
    raised_by_a_signed_floor, refused_once_refused_always, restored_cluster, shared_claim_and_write,
    slots_of_a_semaphore, stale_after_newer, wrong_lock,
};
use crate::admit::HighWaterMark;
use crate::error::FenceError;
use crate::guard::Scope;
use crate::verifier::SignedFloor;

/// A guarded resource under test: a list of lines.
///
/// What a resource cannot do it answers with None: the scenario is then left out, so say why where you return it.
pub trait Subject: Send + Sync + Sized {
    /// Raises the mark and changes nothing.
    fn claim(&self, holding: &dyn Holding) -> Result<(), FenceError>;

    /// Adds a line at the end, in one atomic step with the decision.
    fn append(&self, holding: &dyn Holding, line: &str) -> Result<(), FenceError>;

    /// Raises the mark to a floor that the cluster signed, with no holder about, and says what the mark is then.
    fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError>;

    /// The lines of all writes that took effect, in order.
    fn lines(&self) -> Vec<String>;

    /// Ends this user of the store and begins another over the same one, as after a restart. A resource whose data does
    /// not outlive its user gives itself back.
    fn reopen(self) -> Self;

    /// Adds a line as whoever knows of no guard would, past it: to show that the suite can fail.
    fn append_past_the_guard(&self, line: &str);

    /// Tries to add a line without any holding, by the way that callers have. None where the types leave no such way.
    fn append_bare(&self, line: &str) -> Option<Result<(), FenceError>>;

    /// Is admitted with a line, and dies before the commit; gives the next user of the store. None where the data dies
    /// with its user.
    fn die_before_the_commit(self, holding: &dyn Holding, line: &str) -> Option<Self>;

    /// Takes the marks away and leaves the data. None where they cannot be lost one without the other.
    fn lose_marks(self) -> Option<Self>;
}

/// Runs every scenario over resources that `make` makes new, each with the scope that it is given.
pub fn check<S: Subject>(make: impl Fn(Scope) -> S) {
    check_with(make, 1_000);
}

/// [`check`] with another number of racers than 1,000.
pub fn check_with<S: Subject>(make: impl Fn(Scope) -> S, racers: u64) {
    stale_after_newer(&make);
    equal_token(&make);
    claim_then_stale(&make);
    locks_of_one_resource(&make);
    wrong_lock(&make);
    slots_of_a_semaphore(&make);
    slot_of_another_capacity(&make);
    shared_claim_and_write(&make);
    sequencer_before_a_takeover(&make);
    other_cluster(&make);
    restored_cluster(&make);
    lost_marks(&make);
    missing_token(&make);
    impossible_tokens(&make);
    crash_before_the_commit(&make);
    marks_survive_reopening(&make);
    raised_by_a_signed_floor(&make);
    concurrent_racers(&make, racers);
    refused_once_refused_always(&make);
    unknown_key(&make);
    forged_moves_no_mark(&make);
    clock_wrong_by_a_year(&make);
    identical_bytes(&make);
    past_the_guard(&make);
}

#[cfg(test)]
mod tests;
