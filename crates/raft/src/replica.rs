//! What the server and a replica say to each other.

use std::fmt;
use std::time::Duration;

use palisade_core::command::Command;
use palisade_core::ids::{ClusterName, LogIndex, NodeId, SessionId, Term};
use palisade_core::reply::{Applied, EntryAt, Reply};
use palisade_core::table::LockTable;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::flush_meter::FlushTimes;

/// How a replica keeps time and log.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// This node.
    pub node: NodeId,
    /// The cluster that it belongs to.
    pub cluster: ClusterName,
    /// How often a leader shows that it is there.
    pub heartbeat: Duration,
    /// The shortest random wait before an election.
    pub election_min: Duration,
    /// The longest random wait, and the leader's lease: a follower waits for their sum at most (SPEC 1).
    pub election_max: Duration,
    /// Entries between two snapshots.
    pub snapshot_every: u64,
    /// Entries that stay in the log below a snapshot, so that a follower a little behind needs none.
    pub keep_log: u64,
}

impl ReplicaConfig {
    /// The defaults, for `node` of `cluster`.
    pub fn new(node: NodeId, cluster: ClusterName) -> Self {
        Self { node, cluster, ..Self::default() }
    }
}

impl Default for ReplicaConfig {
    #[allow(clippy::expect_used)]
    fn default() -> Self {
        Self {
            node: NodeId(0),
            cluster: ClusterName::new("palisade").expect("a constant that is a name"),
            heartbeat: Duration::from_millis(50),
            election_min: Duration::from_millis(150),
            election_max: Duration::from_millis(300),
            snapshot_every: 500_000,
            keep_log: 200_000,
        }
    }
}

/// A member, as the replicated membership knows it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
pub struct PeerNode {
    /// Its name.
    pub name: String,
    /// Where its peers reach it, `host:port`.
    pub peer_address: String,
    /// Where clients reach it, `host:port`.
    pub client_address: String,
}

/// Sees everything that is applied. Called from the apply loop: it must not block, nor call back into the replica.
pub trait Observer: Send + 'static {
    /// Called for each command in log order, before its own reply is delivered.
    fn applied(&mut self, at: EntryAt, command: &Command, applied: &Applied, table: &LockTable);
    /// A snapshot replaced the table: the leader sent it, or the node started from it. Everything known from before
    /// is to be read again.
    fn installed(&mut self, table: &LockTable);
}

/// A command, and where its outcome goes.
pub struct Proposal {
    /// What is asked.
    pub command: Command,
    /// Who hears.
    pub sink: Sink,
}

/// Hears the outcome of one proposal, exactly once: dropped without an answer, it hears that the outcome is unknown.
pub struct Sink(Option<Box<dyn FnOnce(Outcome) + Send>>);

impl Sink {
    /// Calls `f` with the outcome, from the apply loop where there is one. It must not block.
    pub fn new(f: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self(Some(Box::new(f)))
    }

    /// A sink, and where its outcome comes out.
    pub fn oneshot() -> (Self, oneshot::Receiver<Outcome>) {
        let (sender, receiver) = oneshot::channel();
        let sink = Self::new(move |outcome| {
            // Nobody waits any more: the caller gave up, and will repeat.
            let _ = sender.send(outcome);
        });
        (sink, receiver)
    }

    pub(crate) fn answer(mut self, outcome: Outcome) {
        if let Some(f) = self.0.take() {
            f(outcome);
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f(Outcome::Unknown);
        }
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink(..)")
    }
}

/// What became of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// On the disks of a majority, and applied.
    Decided(Decided),
    /// Never appended; safe to repeat at the leader.
    NotAppended {
        /// Who leads, as far as this node knows. None as well when this node leads, but no quorum has answered it
        /// lately: a new leader takes nothing up before its first round.
        leader: Option<NodeId>,
    },
    /// It may have happened, or may yet happen.
    Unknown,
}

/// The decision on one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The entry.
    pub index: LogIndex,
    /// The answer.
    pub reply: Reply,
    /// The session that the command renews (SPEC 3).
    pub renewed: Option<SessionId>,
}

/// For what the log has room. Who is refused for want of it was never appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// For all.
    All,
    /// For what work under way needs to go on and to end.
    WorkUnderWay,
    /// For what keeps leases, and what ends them.
    Leases,
}

/// Who leads, as this node knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The term that this node is in.
    pub term: Term,
    /// The leader of that term.
    pub leader: Option<NodeId>,
    /// Whether this node took over the lead. It may have lost it without knowing: proof is
    /// [`confirm_leadership`](crate::Replica::confirm_leadership), and nothing else.
    pub leads: bool,
}

/// What a node is in its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Leads.
    Leader,
    /// Votes, and follows.
    Follower,
    /// Asks for votes.
    Candidate,
    /// Follows without a vote.
    Learner,
}

/// A node's own view of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaftStatus {
    /// The term that this node is in.
    pub term: Term,
    /// What it is there.
    pub role: Role,
    /// The leader of that term.
    pub leader: Option<NodeId>,
    /// The last entry of its log.
    pub last_log: LogIndex,
    /// The last entry that it knows to be committed.
    pub committed: LogIndex,
    /// The last entry that its table has applied.
    pub applied: LogIndex,
    /// The last entry that its newest snapshot covers.
    pub snapshot: LogIndex,
    /// How long its disk takes.
    pub flush: FlushTimes,
}
