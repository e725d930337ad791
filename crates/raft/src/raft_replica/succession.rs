//! How the lead passes from one node to the next without waiting for a timeout: handed over by a leader that stops, and
//! taken up when the leader's process is gone.
//!
//! A follower leaves a silent leader in peace until its lease and a random time have passed, for silence proves nothing:
//! a leader may be slow, or its machine may stall. A machine that answers that nobody listens at the leader's address says
//! more: the process has ended, and one that starts again begins as a follower. So this node gives up its own share of
//! that leader's lease and asks the others for a pre-vote. Who has seen the same agrees; whoever still hears the leader
//! refuses. No lease is ever a proof (SPEC 3), so a mistake here costs a change of leader and nothing else.

use std::cmp::Reverse;
use std::io::ErrorKind;
use std::time::Duration;

use openraft::Instant as _;
use openraft::raft::TransferLeaderRequest;
use openraft::type_config::async_runtime::watch::WatchReceiver;
use palisade_core::ids::NodeId;
use tokio::time::{Instant, sleep, timeout};

use super::Replica;
use crate::replica::Leadership;
use crate::types::Vote;

/// A machine that is there refuses a connection at once.
const DIAL_WAIT: Duration = Duration::from_millis(100);
/// Between the candidacies of two followers that saw the same, so that they do not split the votes.
const STAGGER: Duration = Duration::from_millis(25);
/// Between two pre-votes: the others need a moment to see what this node saw.
const AGAIN: Duration = Duration::from_millis(20);

impl Replica {
    /// The connection to `leader` broke, or could not be made. Elects without waiting for its lease to run out if its
    /// machine says that nobody listens there any more; otherwise does nothing. Returns when there is nothing more to do,
    /// after an election timeout at most. A caller that sees the leadership change may drop it.
    pub async fn leader_lost(&self, leader: NodeId) {
        let before = *self.inner.leadership.borrow();
        if before.leads || before.leader != Some(leader) || !self.refuses_connections(leader).await {
            return;
        }
        let Some(rank) = self.rank_without(leader) else { return };
        let Some(vote) = self.vote_for(before, leader) else { return };
        // Named as a transfer to the very leader that is gone, this ends the lease here and does nothing else.
        let forget = TransferLeaderRequest::new(vote, leader.0, None);
        if !matches!(self.inner.raft.handle_transfer_leader(forget).await, Ok(Ok(()))) {
            return;
        }
        tracing::info!(term = before.term.0, leader = leader.0, "the leader's process is gone");
        let until = Instant::now() + self.inner.election_max;
        sleep(STAGGER * rank).await;
        while *self.inner.leadership.borrow() == before && Instant::now() < until {
            if self.inner.raft.trigger().elect(true).await.is_err() {
                return;
            }
            sleep(AGAIN).await;
        }
    }

    /// Whether the machine of `node` says that nobody listens at its address.
    async fn refuses_connections(&self, node: NodeId) -> bool {
        let members = self.members();
        let Some((_, peer, _)) = members.into_iter().find(|(id, _, _)| *id == node) else { return false };
        match timeout(DIAL_WAIT, self.inner.net.connect(&peer.peer_address)).await {
            Ok(Err(error)) => error.kind() == ErrorKind::ConnectionRefused,
            Ok(Ok(_)) | Err(_) => false,
        }
    }

    /// This node's place among the voters beside `leader`; none without a vote.
    fn rank_without(&self, leader: NodeId) -> Option<u32> {
        let voters = self.members().into_iter().filter(|(id, _, votes)| *votes && *id != leader);
        let mut ids: Vec<NodeId> = voters.map(|(id, _, _)| id).collect();
        ids.sort_unstable();
        ids.iter().position(|id| *id == self.inner.node).and_then(|at| u32::try_from(at).ok())
    }

    /// The vote by which `leader` leads, if it is in force still.
    fn vote_for(&self, known: Leadership, leader: NodeId) -> Option<Vote> {
        let vote = self.inner.raft.metrics().borrow_watched().vote;
        let id = vote.leader_id();
        (vote.committed && id.term == known.term.0 && id.voted_for == leader.0).then_some(vote)
    }

    /// Moves the lead to another voter, those with the longest logs first, for a stop without a gap. Says whether this
    /// node stopped leading within `wait`.
    pub async fn transfer_leadership(&self, wait: Duration) -> bool {
        let mut leadership = self.inner.leadership.clone();
        let transfer = async {
            for to in self.successors().into_iter().cycle() {
                if self.inner.raft.trigger().transfer_leader(to).await.is_err() {
                    return false;
                }
                // A voter whose disk stalls does not take it up in time; the next one may.
                let moved = leadership.wait_for(|leadership| !leadership.leads);
                match timeout(self.inner.election_max, moved).await {
                    Ok(Ok(_)) => return true,
                    Ok(Err(_)) => return false,
                    Err(_) => {}
                }
            }
            false
        };
        timeout(wait, transfer).await.unwrap_or(false)
    }

    /// The other voters: those with the longest logs first, and of those the ones that answered last.
    fn successors(&self) -> Vec<u64> {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let Some(matched) = metrics.replication.as_ref() else { return Vec::new() };
        let heard = metrics.heartbeat.as_ref();
        let voters = metrics.membership_config.voter_ids().filter(|id| *id != self.inner.node.0);
        let mut others: Vec<u64> = voters.collect();
        others.sort_by_key(|id| {
            let silence = heard.and_then(|heard| heard.get(id)?.as_ref().map(|at| at.elapsed()));
            (Reverse(matched.get(id).copied().flatten()), silence.unwrap_or(Duration::MAX))
        });
        others
    }
}
