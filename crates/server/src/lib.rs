//! One node.

pub mod lease;
pub mod metrics;
pub mod signer;
