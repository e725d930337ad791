//! Leases: what the leader's clock decides, as entries for the log (SPEC 3).

mod arm;
pub mod clock;
mod deadlines;
mod decided;
pub(crate) mod proposer;
#[cfg(test)]
mod tests;
mod ticks;
mod timers;

pub use self::clock::{Extended, Hold, LeaseClock, LeaseConfig};
