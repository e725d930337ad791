//! Test kit of Palisade: clusters of real processes, a simulated host, and checks over what happened.
//!
//! Never linked into the product.

pub mod cluster;
pub mod history;
pub mod sim;
