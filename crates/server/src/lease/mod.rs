//! Leases: what the leader's clock decides, as entries for the log (SPEC 3).

pub mod clock;
pub(crate) mod proposer;
#[cfg(test)]
mod tests;
mod timers;

pub use self::clock::{Extended, Hold, LeaseClock, LeaseConfig};
