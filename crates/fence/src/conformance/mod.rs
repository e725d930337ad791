//! One suite that every adapter passes.
//!
//! Each scenario is a function that panics with what went wrong; [`check`] runs them all. They work through verified
//! sequencers and a real guard, so that an adapter is tested as it is used.

mod cluster;
mod scenarios;

use palisade_core::holding::Holding;

pub use self::cluster::SigningCluster;
pub use self::scenarios::{
    claim_then_stale, concurrent_racers, equal_token, forged_moves_no_mark, identical_bytes,
    impossible_tokens, locks_of_one_resource, marks_survive_reopening, other_cluster,
    refused_once_refused_always, restored_cluster, shared_claim_and_write, slots_of_a_semaphore,
    stale_after_newer, wrong_lock,
};
use crate::error::FenceError;
use crate::guard::Scope;

/// A guarded resource under test: a list of lines.
pub trait Subject: Send + Sync {
    /// Raises the mark and changes nothing.
    fn claim(&self, holding: &dyn Holding) -> Result<(), FenceError>;

    /// Adds a line at the end, in one atomic step with the decision.
    fn append(&self, holding: &dyn Holding, line: &str) -> Result<(), FenceError>;

    /// The lines of all writes that took effect, in order.
    fn lines(&self) -> Vec<String>;

    /// Ends this user of the store and begins another over the same one, as after a restart. A resource whose data does
    /// not outlive its user gives itself back.
    fn reopen(self) -> Self;
}

/// Runs every scenario over resources that `make` makes new, each with the scope that it is given.
pub fn check<S: Subject>(make: impl Fn(Scope) -> S) {
    stale_after_newer(&make);
    equal_token(&make);
    claim_then_stale(&make);
    locks_of_one_resource(&make);
    wrong_lock(&make);
    slots_of_a_semaphore(&make);
    shared_claim_and_write(&make);
    other_cluster(&make);
    restored_cluster(&make);
    marks_survive_reopening(&make);
    impossible_tokens(&make);
    refused_once_refused_always(&make);
    forged_moves_no_mark(&make);
    identical_bytes(&make);
    concurrent_racers(&make, 1_000);
}

#[cfg(test)]
mod tests;
