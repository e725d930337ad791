//! One Palisade node.
//!
//! [`Node`] builds and runs it from a [`ServerConfig`]. A client's frame comes in through `grpc`, goes through
//! `stream` to the leader (here, or over `forward`'s relay), where `coordinator` makes it proposals; answers leave
//! from the apply loop (`observer`, `waiters`). Time lives in `lease`, proof of leadership in `rounds`.
//! What happened to locks is told by `watches`, on every node.

pub mod config;
mod coordinator;
mod door;
mod error;
mod failure;
mod forward;
mod founding;
mod grpc;
mod http;
mod leadership;
pub mod lease;
pub mod metrics;
mod node;
mod observer;
mod rates;
mod rejections;
mod restart;
mod rounds;
mod signals;
pub mod signer;
mod single;
mod status;
mod storage;
mod stream;
mod waiters;
mod watches;

pub use config::{DoorLimits, InitialMember, ServerConfig, Storage, Timing};
pub use failure::{Failure, NodeError};
pub use founding::FoundingError;
pub use node::Node;
pub use rejections::RejectionLimits;
pub use restart::keep_running;
pub use storage::{Converted, NodeStorage, convert};
pub use watches::WatchLimits;

/// The engines that keep a log on disk.
pub use palisade_raft::EngineKind;
