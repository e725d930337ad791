//! One node.

pub mod lease;
pub mod signer;
