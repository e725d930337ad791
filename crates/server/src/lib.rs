//! One node.

pub mod lease;
