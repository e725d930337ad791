//! What Palisade's clients and nodes speak: the generated messages, and their conversion to core types.
//!
//! No rule lives here: `convert` turns a message into a checked core type, or refuses it.

pub mod convert;

/// The client protocol, version 1.
#[allow(missing_docs, clippy::all, unreachable_pub)]
pub mod v1 {
    tonic::include_proto!("palisade.v1");
}

/// The protocol between nodes, version 1.
pub mod raft {
    /// Version 1.
    #[allow(missing_docs, clippy::all, unreachable_pub)]
    pub mod v1 {
        tonic::include_proto!("palisade.raft.v1");
    }
}

/// The descriptors of every service here, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/palisade.bin"));
