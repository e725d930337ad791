//! The replica over openraft: the handle that the server holds.

pub(crate) mod admission;
pub(crate) mod pulse;
mod start;
mod succession;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openraft::errors::{InitializeError, LinearizableReadError, RaftError};
use openraft::type_config::async_runtime::watch::WatchReceiver;
use openraft::{Instant as _, LinearizerOption, ReadPolicy, ServerState};
use palisade_core::command::{Command, Envelope};
use palisade_core::ids::{LogIndex, NodeId, Term, WallTime};
use palisade_core::table::LockTable;
use palisade_host::{Host, SharedClock, SharedNet};
use palisade_proto::raft::v1::peer_server::{Peer, PeerServer};
use parking_lot::Mutex;
use tokio::sync::watch as tokio_watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::admission::Admission;
use self::pulse::Heard;
use crate::codec::log::{COMMAND_BYTES_MAX, encode_command};
use crate::engine::Engine;
use crate::error::{ConfirmError, FoundError, ProposeError, ReplicaFailure, StartError, Stopped};
use crate::network::credentials::Credentials;
use crate::network::identify::Introduction;
use crate::network::intake::Intake;
use crate::network::server::PeerService;
use crate::replica::{
    Decided, Leadership, Observer, Outcome, PeerNode, Proposal, RaftStatus, ReplicaConfig, Role, Room, Sink,
};
use crate::snapshot_store::SnapshotStore;
use crate::state_machine::Shared;
use crate::types::{EncodedCommand, Raft, SinkResponder};

/// How long [`Replica::propose`] waits for a decision. A command that is older is as good as lost to its caller.
const PROPOSE_WAIT: Duration = Duration::from_secs(10);
/// Beside the wait for a proof of leadership, how many times as long its read index may take to be applied: a queue that
/// is long is no lost quorum.
const APPLY_WAITS: u32 = 4;
/// How long openraft may take to stop.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(5);

/// One node's replica. Clones share it.
#[derive(Clone)]
pub struct Replica {
    inner: Arc<Inner>,
}

struct Inner {
    raft: Raft,
    shared: Arc<Shared>,
    engine: Arc<dyn Engine>,
    credentials: Arc<Credentials>,
    node: NodeId,
    clock: SharedClock,
    net: SharedNet,
    election_max: Duration,
    admission: Admission,
    leadership: tokio_watch::Receiver<Leadership>,
    failed: tokio_watch::Receiver<Option<ReplicaFailure>>,
    introduction: Mutex<Introduction>,
    intake: Intake,
    heard: Arc<Heard>,
    pristine: AtomicBool,
    tasks: [JoinHandle<()>; 2],
}

impl Replica {
    /// Starts from what `engine` and `snapshots` hold. When this returns, everything that the node knew to be
    /// committed is applied.
    ///
    /// # Errors
    ///
    /// When the storage holds no identity or another node's, is damaged, or the settings do not fit together.
    pub async fn start(
        config: ReplicaConfig,
        host: Host,
        engine: Arc<dyn Engine>,
        snapshots: Arc<dyn SnapshotStore>,
        observer: Box<dyn Observer>,
    ) -> Result<Self, StartError> {
        start::start(config, host, engine, snapshots, observer).await
    }

    /// For what the log has room.
    pub fn room(&self) -> Room {
        self.inner.admission.room()
    }

    /// Bytes of commands that wait for their decision.
    pub fn undecided_bytes(&self) -> usize {
        self.inner.admission.undecided_bytes()
    }

    /// Hands proposals to the log, in order. Waits for room, never for the disk. Each outcome goes to its sink, from
    /// the apply loop, right after the observer saw the entry.
    ///
    /// A command above [`COMMAND_BYTES_MAX`] is not appended; the door refuses it before.
    ///
    /// # Errors
    ///
    /// When the replica has stopped; the sinks of what was not handed over have heard `Unknown`.
    pub async fn submit(&self, proposals: Vec<Proposal>) -> Result<(), Stopped> {
        let wall = WallTime(self.inner.clock.wall_micros());
        for Proposal { command, sink } in proposals {
            let bytes = encode_command(&Envelope { wall, node: self.inner.node, command });
            if bytes.len() > COMMAND_BYTES_MAX {
                tracing::error!(
                    bytes = bytes.len(),
                    max = COMMAND_BYTES_MAX,
                    "a command was too large for the log"
                );
                sink.answer(Outcome::NotAppended { leader: None });
                continue;
            }
            let admitted = self.inner.admission.admit(bytes.len(), sink).await.ok_or(Stopped)?;
            let responder = Some(SinkResponder::new(admitted));
            let written = self.inner.raft.client_write_ff(EncodedCommand { bytes }, responder).await;
            written.map_err(|_| Stopped)?;
        }
        Ok(())
    }

    /// Proposes one command and waits for its decision, 10 s at most.
    ///
    /// # Errors
    ///
    /// Each says whether the command may have taken effect.
    pub async fn propose(&self, command: Command) -> Result<Decided, ProposeError> {
        if self.room() == Room::Leases {
            return Err(ProposeError::Overloaded);
        }
        let wall = WallTime(self.inner.clock.wall_micros());
        let bytes = encode_command(&Envelope { wall, node: self.inner.node, command });
        if bytes.len() > COMMAND_BYTES_MAX {
            return Err(ProposeError::TooLarge { bytes: bytes.len(), max: COMMAND_BYTES_MAX });
        }
        let (sink, outcome) = Sink::oneshot();
        let decided = async {
            let admitted = self.inner.admission.admit(bytes.len(), sink).await.ok_or(Stopped)?;
            let responder = Some(SinkResponder::new(admitted));
            let written = self.inner.raft.client_write_ff(EncodedCommand { bytes }, responder).await;
            written.map_err(|_| ProposeError::OutcomeUnknown)?;
            match outcome.await {
                Ok(Outcome::Decided(decided)) => Ok(decided),
                Ok(Outcome::NotAppended { leader }) => Err(ProposeError::NotLeader { leader }),
                Ok(Outcome::Unknown) | Err(_) => Err(ProposeError::OutcomeUnknown),
            }
        };
        tokio::time::timeout(PROPOSE_WAIT, decided).await.unwrap_or(Err(ProposeError::OutcomeUnknown))
    }

    /// Proves leadership by a quorum round that begins after this call (Ongaro 2014, section 6.4), and waits until
    /// the round's read index is applied here. Never relies on a clock.
    ///
    /// # Errors
    ///
    /// When this node does not lead, or the proof did not come within `wait`, or its read index was not applied within
    /// four times as long.
    pub async fn confirm_leadership(&self, wait: Duration) -> Result<LogIndex, ConfirmError> {
        let until = Instant::now() + wait;
        let option = LinearizerOption::from(ReadPolicy::ReadIndex).with_wait_timeout(wait);
        let proof = tokio::time::timeout_at(until, self.inner.raft.get_read_linearizer(option)).await;
        let index = match proof.map_err(|_| ConfirmError::NoQuorum)? {
            Ok(linearizer) => linearizer.read_log_id().index(),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => {
                return Err(ConfirmError::NotLeader { leader: forward.leader_id.map(NodeId) });
            }
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {
                return Err(ConfirmError::NoQuorum);
            }
            Err(RaftError::Fatal(_)) => return Err(Stopped.into()),
        };
        let mut applied = self.inner.shared.applied.subscribe();
        match tokio::time::timeout(wait * APPLY_WAITS, applied.wait_for(|applied| *applied >= index)).await {
            Ok(Ok(_)) => Ok(LogIndex(index)),
            Ok(Err(_)) => Err(Stopped.into()),
            Err(_) => Err(ConfirmError::NoQuorum),
        }
    }

    /// Who leads. Changes only when term, leader or lead do.
    pub fn leadership(&self) -> tokio_watch::Receiver<Leadership> {
        self.inner.leadership.clone()
    }

    /// On a leader: how long ago it sent what a quorum acknowledged last. None on any other node.
    pub fn quorum_age(&self) -> Option<Duration> {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        if !metrics.state.is_leader() {
            return None;
        }
        if metrics.membership_config.voter_ids().count() == 1 {
            return Some(Duration::ZERO);
        }
        Some(metrics.last_quorum_acked.as_ref().map_or(Duration::MAX, |acked| acked.elapsed()))
    }

    /// Reads the table. Apply waits meanwhile, so `f` is short.
    pub fn read<R>(&self, f: impl FnOnce(&LockTable) -> R) -> R {
        f(&self.inner.shared.table.lock())
    }

    /// The table as it is now. The copy is made when either side changes.
    pub fn view(&self) -> LockTable {
        self.inner.shared.table.lock().clone()
    }

    /// The node's own view of the log.
    pub fn status(&self) -> RaftStatus {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let index = |id: &Option<crate::types::LogId>| LogIndex(id.map_or(0, |id| id.index));
        RaftStatus {
            term: Term(metrics.vote.leader_id().term),
            role: match metrics.state {
                ServerState::Leader => Role::Leader,
                ServerState::Candidate => Role::Candidate,
                ServerState::Follower => Role::Follower,
                ServerState::Learner | ServerState::Shutdown => Role::Learner,
            },
            leader: metrics.current_leader.map(NodeId),
            last_log: LogIndex(metrics.last_log_index.unwrap_or(0)),
            committed: index(&metrics.local_committed),
            applied: LogIndex(*self.inner.shared.applied.borrow()),
            snapshot: index(&metrics.snapshot),
            flush: self.inner.engine.flushes().times(),
        }
    }

    /// The members, and whether each votes.
    pub fn members(&self) -> Vec<(NodeId, PeerNode, bool)> {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let votes = |id: &u64| membership.voter_ids().any(|voter| voter == *id);
        membership.nodes().map(|(id, node)| (NodeId(*id), node.clone(), votes(id))).collect()
    }

    /// Founds a cluster of `members`, this node among them. Called on one node alone, and only when all are pristine.
    ///
    /// # Errors
    ///
    /// When this node is not pristine, or not among them.
    pub async fn found(&self, members: BTreeMap<NodeId, PeerNode>) -> Result<(), FoundError> {
        let members: BTreeMap<u64, PeerNode> = members.into_iter().map(|(id, node)| (id.0, node)).collect();
        match self.inner.raft.initialize(members).await {
            Ok(()) => {
                self.inner.pristine.store(false, Ordering::Relaxed);
                Ok(())
            }
            Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Err(FoundError::NotPristine),
            Err(RaftError::APIError(InitializeError::NotInMembers(_))) => Err(FoundError::NotAMember),
            Err(RaftError::Fatal(_)) => Err(Stopped.into()),
        }
    }

    /// Whether this node has no vote, no log and no snapshot.
    pub fn is_pristine(&self) -> bool {
        if !self.inner.pristine.load(Ordering::Relaxed) {
            return false;
        }
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let pristine = metrics.last_log_index.is_none()
            && metrics.snapshot.is_none()
            && metrics.vote.leader_id().term == 0;
        self.inner.pristine.store(pristine, Ordering::Relaxed);
        pristine
    }

    /// Answers peers. Mounted on the peer listener.
    pub fn peer_server(&self) -> PeerServer<impl Peer + use<>> {
        PeerService::server(self.clone())
    }

    /// What this node says of itself beside what the replica knows, when asked who it is.
    pub fn set_identify(&self, introduction: Introduction) {
        *self.inner.introduction.lock() = introduction;
    }

    pub(crate) fn introduction(&self) -> Introduction {
        self.inner.introduction.lock().clone()
    }

    /// What a call to a peer must carry, and what one from a peer must show. For other services on the peer listener.
    pub fn credentials(&self) -> &Arc<Credentials> {
        &self.inner.credentials
    }

    pub(crate) fn intake(&self) -> &Intake {
        &self.inner.intake
    }

    pub(crate) fn heard(&self) -> &Arc<Heard> {
        &self.inner.heard
    }

    pub(crate) fn raft(&self) -> &Raft {
        &self.inner.raft
    }

    /// Becomes `Some` when the storage or the log has failed: this replica is of no use any more.
    pub fn failed(&self) -> tokio_watch::Receiver<Option<ReplicaFailure>> {
        self.inner.failed.clone()
    }

    /// Stops, and waits until the storage is closed.
    pub async fn shutdown(&self) {
        self.inner.admission.close();
        if tokio::time::timeout(SHUTDOWN_WAIT, self.inner.raft.shutdown()).await.is_err() {
            tracing::warn!("the replicated log did not stop in time");
        }
        let engine = self.inner.engine.clone();
        if engine.blocks() {
            // A panic of the engine was reported through `failed`.
            let _ = tokio::task::spawn_blocking(move || engine.close()).await;
        } else {
            engine.close();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
