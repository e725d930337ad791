//! The adapters of stores that are not part of the program: PostgreSQL and Redis, real servers that are started here, in
//! a folder of their own and on a socket in it; and object stores.
//!
//! Needs: psql (and the server that comes with it), redis-server.
//!
//! `PALISADE_STORE_RUNS` sets how many random runs each server plays (50 without it).
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod object;
mod pages;
mod postgres;
mod redis;
mod server;

use palisade_fence::conformance::Subject;
use palisade_fence::conformance::runs::check;
use palisade_fence::guard::Scope;

fn random_runs<S: Subject>(name: &str, make: impl Fn(Scope) -> S) {
    let runs = std::env::var("PALISADE_STORE_RUNS").map_or(50, |runs| runs.parse().unwrap());
    let (guarded, past) = check(make, runs);
    println!("{name}: {guarded:?}");
    println!("{name}, past the guard: {past:?}");
}
