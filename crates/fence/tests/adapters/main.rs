//! The adapters that need no server, each through the suite and through random runs.
//!
//! `PALISADE_FENCE_RUNS` sets how many runs each store plays (1,000 without it).
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod file;
mod grpc;
mod memory;
mod pages;
mod service;
mod sled;
mod sqlite;

use palisade_fence::conformance::Subject;
use palisade_fence::conformance::runs::check;
use palisade_fence::guard::Scope;
use tempfile::TempDir;

fn random_runs<S: Subject>(name: &str, make: impl Fn(Scope) -> S) {
    let runs = std::env::var("PALISADE_FENCE_RUNS").map_or(1_000, |runs| runs.parse().unwrap());
    let (guarded, past) = check(make, runs);
    println!("{name}: {guarded:?}");
    println!("{name}, past the guard: {past:?}");
}

/// In memory where the machine has such a folder: a thousand runs flush ten thousand times.
fn folder() -> TempDir {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}
