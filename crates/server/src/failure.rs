//! Why a node did not start, and why a running one ended.

use std::io;
use std::path::PathBuf;

use palisade_raft::{EngineKind, OpenError, ReplicaFailure};

use crate::config::ConfigError;
use crate::founding::FoundingError;
use crate::signer::SignerError;

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The configuration contradicts itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Storage did not open.
    #[error(transparent)]
    Storage(#[from] OpenError),
    /// A file or directory of the node.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An address could not be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// Which.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The signing key.
    #[error(transparent)]
    Signer(#[from] SignerError),
    /// The replicated log.
    #[error(transparent)]
    Replica(#[from] palisade_raft::StartError),
    /// The data directory is of another node.
    #[error(
        "{path} holds the data of node {recorded} of cluster {cluster}; start it with that name and cluster, or give \
         this node a directory of its own",
        path = path.display()
    )]
    OtherNode {
        /// The data directory.
        path: PathBuf,
        /// The recorded name.
        recorded: String,
        /// The recorded cluster.
        cluster: String,
    },
    /// The log was written by another engine than the one that was asked for.
    #[error(
        "the log in {path} is kept by {found}, not by {asked}; leave --storage out, or stop the node and carry it over: \
         palisade storage convert --data-dir {path} --to {asked}",
        path = path.display()
    )]
    OtherEngine {
        /// The data directory.
        path: PathBuf,
        /// What keeps it.
        found: EngineKind,
        /// What was asked for.
        asked: EngineKind,
    },
    /// There is no log to convert.
    #[error("there is no log in {path}", path = path.display())]
    NoLog {
        /// The data directory.
        path: PathBuf,
    },
    /// gRPC reflection.
    #[error("the protocol's descriptors: {0}")]
    Descriptors(String),
}

/// Why a running node ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Storage or the replicated log failed: the node must not go on.
    #[error("the node stopped itself: {0}")]
    Replica(ReplicaFailure),
    /// The log panicked, and the node could not start again from its disk.
    #[error("the replicated log panicked, and did not start again: {0}")]
    Restart(String),
    /// It may not be part of the cluster.
    #[error(transparent)]
    Founding(#[from] FoundingError),
    /// A listener ended.
    #[error("a listener ended: {0}")]
    Listener(String),
}
