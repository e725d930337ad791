//! openraft's generics, spelled nowhere else.

use std::fmt;

use bytes::Bytes;
use openraft::batch::InlineBatch;
use openraft::impls::BoxedErrorSource;
use openraft::raft::ClientWriteResult;
use openraft::raft::responder::Responder;
use openraft::vote::leader_id_std::{CommittedLeaderId, LeaderId};
use openraft::{EntryPayload, OptionalSend, RaftTypeConfig};
use serde::{Deserialize, Serialize};

use crate::raft_replica::admission::Admitted;
use crate::replica::{Decided, Outcome, PeerNode};
use crate::runtime::Runtime;
use crate::snapshot_data::SnapshotData;
use crate::state_machine::StateMachine;

/// Palisade's choice of openraft's types. One leader a term, as in Raft.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Types;

impl RaftTypeConfig for Types {
    type D = EncodedCommand;
    type R = ApplyResult;
    type NodeId = u64;
    type Node = PeerNode;
    type Term = u64;
    type LeaderId = LeaderId<u64, u64>;
    type Vote = openraft::Vote<Self::LeaderId>;
    type Payload = Payload;
    type Entry = Entry;
    type AsyncRuntime = Runtime;
    type Responder<T>
        = SinkResponder<T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type ErrorSource = BoxedErrorSource;
}

pub(crate) type Payload = EntryPayload<EncodedCommand, u64, PeerNode>;
pub(crate) type Entry = openraft::Entry<CommittedLeaderId<u64>, Payload>;
pub(crate) type LogId = openraft::LogId<CommittedLeaderId<u64>>;
pub(crate) type Vote = openraft::Vote<LeaderId<u64, u64>>;
pub(crate) type Membership = openraft::Membership<u64, PeerNode>;
pub(crate) type StoredMembership = openraft::StoredMembership<CommittedLeaderId<u64>, u64, PeerNode>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<CommittedLeaderId<u64>, u64, PeerNode>;
pub(crate) type Snapshot = openraft::Snapshot<CommittedLeaderId<u64>, u64, PeerNode, SnapshotData>;
pub(crate) type Raft = openraft::Raft<Types, StateMachine>;
pub(crate) type AppendRequest = openraft::raft::AppendEntriesRequest<Types>;
pub(crate) type AppendResult = openraft::raft::StreamAppendResult<Types>;
pub(crate) type RpcError = openraft::errors::RPCError<Types>;
pub(crate) type RaftFailure = openraft::errors::RaftError<Types>;
pub(crate) type ClientWriteError = openraft::errors::ClientWriteError<Types>;

pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId { leader_id: CommittedLeaderId::new(term), index }
}

/// A command as its proposer encoded it: version byte, envelope. Encoded once, for the disk and for every follower.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EncodedCommand {
    pub(crate) bytes: Bytes,
}

impl fmt::Debug for EncodedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command of {} bytes", self.bytes.len())
    }
}

impl fmt::Display for EncodedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What apply hands to the proposer; nothing for blank and membership entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ApplyResult {
    pub(crate) decided: Option<Decided>,
}

/// Carries an answer of openraft to a sink. Dropped, the sink hears that the outcome is unknown.
pub(crate) struct SinkResponder<T> {
    admitted: Admitted,
    deliver: fn(Admitted, T),
}

impl SinkResponder<ClientWriteResult<Types>> {
    pub(crate) fn new(admitted: Admitted) -> Self {
        Self { admitted, deliver }
    }
}

impl<T: OptionalSend + 'static> Responder<Types, T> for SinkResponder<T> {
    fn on_complete(self, result: T) {
        (self.deliver)(self.admitted, result);
    }
}

/// openraft's nesting ends here: `ForwardToLeader` was never appended, all else that fails is unknown.
fn deliver(admitted: Admitted, result: ClientWriteResult<Types>) {
    let outcome = match result {
        Ok(response) => match response.data.decided {
            Some(decided) => Outcome::Decided(decided),
            None => Outcome::Unknown,
        },
        Err(ClientWriteError::ForwardToLeader(forward)) => {
            Outcome::NotAppended { leader: forward.leader_id.map(palisade_core::ids::NodeId) }
        }
        Err(
            ClientWriteError::LogEntryDiscarded(_)
            | ClientWriteError::ChangeMembershipError(_)
            | ClientWriteError::PreconditionFailed(_),
        ) => Outcome::Unknown,
    };
    admitted.answer(outcome);
}
