//! The one integration test binary. Each suite is a module; what needs more than Rust is a target of its own.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod cli;
mod doors;
mod faults;
mod fences;
mod formats;
mod http;
mod live;
mod model;
mod table;
mod tidy;
mod watches;
