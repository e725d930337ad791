//! What is done to a follower: it is killed, or held back until the leader has purged what it would need.

use std::time::Duration;

use anyhow::{Context, anyhow};
use palisade_proto::v1;
use tokio::time::{Instant, sleep};

use super::{Onlooker, PATIENCE, RETRY};
use crate::cluster::Cluster;
use crate::commands::Failure;
use crate::exit::Exit;

/// Entries that a node purges at one time: its log may reach so far below `--keep-log`.
const PURGE_BATCH: u64 = 4_096;
/// How long a killed node stays away, every other time.
const AWAY: Duration = Duration::from_secs(5);
/// How long a node is held back at least. A leader keeps what it is sending: it gives up a silent follower after a second
/// and a half, tries again for as long, and purges in between.
const HELD_MIN: Duration = Duration::from_secs(6);
/// How long a node is held back at most, to be behind far enough.
const HELD_MAX: Duration = Duration::from_secs(50);

/// Takes turns: killed and started at once, held back, killed and away for a while, held back.
pub(super) struct Faults {
    done: u32,
    keep_log: u64,
}

impl Faults {
    pub(super) fn new(keep_log: u64) -> Self {
        Self { done: 0, keep_log }
    }

    /// Does the next thing, and waits until the node is back: it has applied what was committed when it came back.
    pub(super) async fn next(
        &mut self,
        cluster: &mut Cluster,
        onlooker: &mut Onlooker,
    ) -> Result<(), Failure> {
        let turn = self.done;
        self.done += 1;
        let status = settled(cluster, onlooker).await?;
        // The two followers in turn, each killed and held back.
        let followers: Vec<&v1::NodeStatus> =
            status.nodes.iter().filter(|node| node.role == "follower").collect();
        let follower = followers.get(turn as usize / 2 % 2).context("two followers")?.name.clone();
        if turn % 2 == 1 {
            return self.hold_back(cluster, onlooker, &follower).await;
        }
        cluster.node(&follower)?.kill()?;
        if turn % 4 == 2 {
            sleep(AWAY).await;
        }
        cluster.start_again(&follower).await?;
        onlooker.killed();
        caught_up(cluster, onlooker, &follower).await?;
        Ok(())
    }

    async fn hold_back(
        &self,
        cluster: &mut Cluster,
        onlooker: &mut Onlooker,
        follower: &str,
    ) -> Result<(), Failure> {
        let before = node(&cluster.status().await?, follower)?.clone();
        cluster.node(follower)?.stop().await?;
        let began = Instant::now();
        while began.elapsed() < HELD_MAX {
            if let Some(status) = onlooker.look(cluster).await
                && began.elapsed() >= HELD_MIN
                && let Some(leader) = status.nodes.iter().find(|node| node.role == "leader")
                && leader.snapshot.saturating_sub(self.keep_log + PURGE_BATCH) > before.applied
            {
                break;
            }
            sleep(RETRY).await;
        }
        cluster.node(follower)?.go_on()?;
        let after = caught_up(cluster, onlooker, follower).await?;
        onlooker.held_back(after.snapshots_installed > before.snapshots_installed);
        Ok(())
    }
}

/// A leader and two followers.
pub(super) async fn settled(
    cluster: &mut Cluster,
    onlooker: &mut Onlooker,
) -> Result<v1::StatusAnswer, Failure> {
    within("a leader and two followers", cluster, onlooker, |status| {
        let of = |role: &str| status.nodes.iter().filter(|node| node.role == role).count();
        (of("leader") == 1 && of("follower") == 2).then(|| status.clone())
    })
    .await
}

/// The node, once it has applied what was committed when this was called.
async fn caught_up(
    cluster: &mut Cluster,
    onlooker: &mut Onlooker,
    name: &str,
) -> Result<v1::NodeStatus, Failure> {
    let mut goal = None;
    within("the node that came back has caught up", cluster, onlooker, |status| {
        let committed = status.nodes.iter().map(|node| node.committed).max().unwrap_or(0);
        let goal = *goal.get_or_insert(committed);
        let node = node(status, name).ok()?;
        (node.role != "unreachable" && node.applied >= goal).then(|| node.clone())
    })
    .await
}

fn node<'a>(status: &'a v1::StatusAnswer, name: &str) -> Result<&'a v1::NodeStatus, Failure> {
    let found = status.nodes.iter().find(|node| node.name == name);
    Ok(found.with_context(|| format!("there is no node {name}"))?)
}

async fn within<T>(
    what: &str,
    cluster: &mut Cluster,
    onlooker: &mut Onlooker,
    mut look: impl FnMut(&v1::StatusAnswer) -> Option<T>,
) -> Result<T, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        cluster.check()?;
        if let Some(status) = onlooker.look(cluster).await
            && let Some(found) = look(&status)
        {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            return Err(Failure::new(Exit::NO, anyhow!("not within {PATIENCE:?}: {what}")));
        }
        sleep(RETRY).await;
    }
}
