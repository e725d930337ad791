//! What can go wrong, told so that one can act on it. openraft's nesting ends in this crate.

use std::io;
use std::path::PathBuf;

use palisade_core::ids::NodeId;

use crate::codec::DecodeError;

/// The replica has stopped, or was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this node has stopped")]
pub struct Stopped;

/// Why a replica ended by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaFailure {
    /// The storage failed, or holds what this build cannot apply. Starting again would not help.
    #[error("{0}")]
    Storage(String),
    /// The replicated log panicked. The storage did not fail: it holds what it would hold after `kill -9`.
    #[error("the replicated log panicked")]
    Panicked,
}

/// Why a proposal brought no decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Never appended; safe to repeat at the leader.
    #[error("this node does not lead, or no quorum answers it")]
    NotLeader {
        /// Who does, as far as this node knows. None as well when this node leads, but no quorum has answered it
        /// lately: a new leader takes nothing up before its first round.
        leader: Option<NodeId>,
    },
    /// Never appended: too much waits already.
    #[error("too many commands wait for the log; try again later")]
    Overloaded,
    /// Never appended: larger than [`COMMAND_BYTES_MAX`](crate::COMMAND_BYTES_MAX).
    #[error("the command has {bytes} bytes; at most {max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// It may have happened, or may yet happen. Repeat it under its number.
    #[error("the outcome is unknown; repeat the request under the same number")]
    OutcomeUnknown,
    /// This node has stopped; what was not answered is unknown.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why leadership could not be proved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfirmError {
    /// This node does not lead.
    #[error("this node does not lead")]
    NotLeader {
        /// Who does, as far as this node knows.
        leader: Option<NodeId>,
    },
    /// No quorum answered in time, or its read index was not applied in time.
    #[error("no quorum answered in time")]
    NoQuorum,
    /// This node has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why no cluster was founded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoundError {
    /// This node has a vote, a log or a snapshot.
    #[error("this node is already part of a cluster")]
    NotPristine,
    /// The list of members does not name this node.
    #[error("the list of members does not name this node")]
    NotAMember,
    /// This node has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why storage did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error("{path} is in use by another process: {why}", path = path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// It could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What it holds is not what was written.
    #[error(
        "{path} is damaged: {why}. This node may have confirmed what it no longer holds, so it \
         must not go on under its id: move the data directory away, start the node under a new name, add it to the \
         cluster and remove the old member",
        path = path.display()
    )]
    Damaged {
        /// Which file or directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Written by a newer version.
    #[error("{path} was written by a newer version of Palisade: {source}", path = path.display())]
    Newer {
        /// Which file or directory.
        path: PathBuf,
        /// What was found.
        source: DecodeError,
    },
}

impl OpenError {
    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    pub(crate) fn damaged(path: impl Into<PathBuf>, why: impl ToString) -> Self {
        Self::Damaged { path: path.into(), why: why.to_string() }
    }

    pub(crate) fn decode(path: impl Into<PathBuf>, source: DecodeError) -> Self {
        match source {
            DecodeError::Newer { .. } => Self::Newer { path: path.into(), source },
            DecodeError::Damaged { .. } | DecodeError::TooLarge { .. } => Self::damaged(path, source),
        }
    }
}

/// Why a replica did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Storage did not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The engine holds no identity. It is made durable first, so that no node answers under an id that it may forget.
    #[error("the storage holds no identity of this node")]
    NoIdentity,
    /// The engine holds the data of another node or cluster.
    #[error("the storage belongs to node {recorded} of cluster {cluster}, not to this node")]
    OtherIdentity {
        /// The node id that is recorded.
        recorded: NodeId,
        /// The cluster name that is recorded.
        cluster: String,
    },
    /// Settings that do not fit together.
    #[error("the settings do not fit together: {0}")]
    Config(String),
    /// openraft did not start.
    #[error("the replicated log did not start: {0}")]
    Raft(String),
}

/// Why a peer did not say who it is.
#[derive(Debug, thiserror::Error)]
pub enum IdentifyError {
    /// It could not be reached, or did not answer in time.
    #[error("{address} did not answer: {why}")]
    Unreachable {
        /// Where it should be.
        address: String,
        /// What went wrong.
        why: String,
    },
    /// It answered, and refused.
    #[error("{address} refused: {why}")]
    Refused {
        /// Where it is.
        address: String,
        /// What it said.
        why: String,
    },
}
