//! The replicated log: openraft over a durable engine.
//!
//! The only crate that knows openraft, and, the resource's sled adapter aside, the only one that knows sled. Seen
//! from outside there is a [`Replica`]: it takes commands in order, keeps them on the disks of a majority, and applies
//! them to a [`LockTable`](palisade_core::table::LockTable), whose every step an [`Observer`] sees.
//!
//! Storage: [`engine`] (log, vote and identity), [`snapshot_store`] (snapshots). Their bytes: [`codec`]. What nodes
//! say to each other: `network`. openraft's generics are spelled in `types`, and nowhere else.

pub mod codec;
pub mod engine;
mod error;
mod flush_meter;
mod log_store;
mod log_window;
mod network;
mod off_reactor;
mod raft_replica;
mod replica;
mod runtime;
mod snapshot_data;
pub mod snapshot_store;
mod state_machine;
mod types;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod three_replicas;

pub use engine::memory::MemoryEngine;
pub use engine::{Engine, EngineKind, Identity, convert_log, save_identity};
pub use error::{
    ConfirmError, FoundError, IdentifyError, OpenError, ProposeError, ReplicaFailure, StartError, Stopped,
};
pub use flush_meter::{FlushMeter, FlushTimes};
pub use network::credentials::Credentials;
pub use network::identify::{Introduction, identify};
pub use raft_replica::Replica;
pub use replica::{
    Decided, Leadership, Observer, Outcome, PeerNode, Proposal, RaftStatus, ReplicaConfig, Role, Room, Sink,
};
pub use runtime::seed_randomness;
pub use snapshot_store::{FileSnapshots, MemorySnapshots, SnapshotStore};

/// Bytes of one encoded command, its version byte included. The door refuses what is larger.
pub use codec::log::COMMAND_BYTES_MAX;
