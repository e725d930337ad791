//! Looks at the nodes all the time, counts what happens to them, and tells how far it is.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use palisade_proto::v1;
use tokio::time::{Instant, sleep_until};

use super::flat::Flat;
use super::load::Shared;
use super::{LOOK, RETRY, SoakArgs, TELL};
use crate::cluster::Cluster;
use crate::commands::Failure;

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) cycles: u64,
    pub(super) checked: u64,
    pub(super) errors: u64,
    pub(super) killed: u64,
    pub(super) held_back: u64,
    /// Held back, and did not need a snapshot.
    pub(super) in_vain: u64,
    pub(super) snapshots_installed: u64,
    pub(super) log_restarts: u64,
    pub(super) leader_changes: u64,
}

pub(super) struct Onlooker {
    shared: Rc<Shared>,
    pub(super) flat: Flat,
    began: Instant,
    looked: Option<Instant>,
    told: (Instant, u64),
    totals: Totals,
    /// Of each node: snapshots and restarts that its present process told last.
    nodes: BTreeMap<String, [u64; 2]>,
    leader: Option<(String, u64)>,
}

impl Onlooker {
    pub(super) fn new(shared: Rc<Shared>, settles_in: Duration, arguments: &SoakArgs) -> Self {
        let now = Instant::now();
        Self {
            shared,
            flat: Flat::new(settles_in, arguments.snapshot_every, arguments.keep_log),
            began: now,
            looked: None,
            told: (now, 0),
            totals: Totals::default(),
            nodes: BTreeMap::new(),
            leader: None,
        }
    }

    pub(super) fn totals(&self) -> Totals {
        Totals {
            cycles: self.shared.cycles.get(),
            checked: self.shared.tokens.checked(),
            errors: self.shared.tasks.errors(),
            ..self.totals
        }
    }

    pub(super) fn killed(&mut self) {
        self.totals.killed += 1;
    }

    pub(super) fn held_back(&mut self, needed_snapshot: bool) {
        self.totals.held_back += 1;
        self.totals.in_vain += u64::from(!needed_snapshot);
    }

    /// Looks until then.
    ///
    /// # Errors
    ///
    /// When a node has ended.
    pub(super) async fn wait(&mut self, cluster: &mut Cluster, until: Instant) -> Result<(), Failure> {
        while Instant::now() < until {
            cluster.check()?;
            self.look(cluster).await;
            sleep_until(until.min(Instant::now() + RETRY * 10)).await;
        }
        Ok(())
    }

    /// What the cluster says now, if it says anything.
    pub(super) async fn look(&mut self, cluster: &Cluster) -> Option<v1::StatusAnswer> {
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK) {
            self.looked = Some(Instant::now());
            self.flat.look(cluster);
        }
        let status = cluster.status().await.ok();
        if let Some(status) = &status {
            self.saw(status);
        }
        if self.told.0.elapsed() >= TELL {
            self.tell_now();
        }
        status
    }

    fn saw(&mut self, status: &v1::StatusAnswer) {
        for node in status.nodes.iter().filter(|node| node.role != "unreachable") {
            let now = [node.snapshots_installed, node.log_restarts];
            let before = self.nodes.insert(node.name.clone(), now).unwrap_or_default();
            // A process that was killed counts from nothing.
            let [snapshots, restarts] = [0, 1].map(|at| match now[at] >= before[at] {
                true => now[at] - before[at],
                false => now[at],
            });
            self.totals.snapshots_installed += snapshots;
            self.totals.log_restarts += restarts;
        }
        let leader = status.leader.as_ref().filter(|leader| status.healthy && !leader.name.is_empty());
        if let Some(leader) = leader {
            let now = (leader.name.clone(), status.term);
            let before = self.leader.replace(now.clone());
            self.totals.leader_changes += u64::from(before.is_some_and(|before| before != now));
        }
    }

    fn tell_now(&mut self) {
        let cycles = self.shared.cycles.get();
        let per_second = (cycles - self.told.1) as f64 / self.told.0.elapsed().as_secs_f64();
        self.told = (Instant::now(), cycles);
        let mib = |of: fn(&super::flat::Size) -> u64| {
            let each = self.flat.last.iter().map(|size| (of(size) >> 20).to_string());
            each.collect::<Vec<_>>().join("/")
        };
        let Totals { killed, held_back, snapshots_installed, log_restarts, leader_changes, .. } = self.totals;
        say!(
            "{:>5} s  {cycles} grants, {per_second:.0}/s  memory {} MiB  disk {} MiB  killed {killed}  held back {held_back}  \
             snapshots {snapshots_installed}  log restarts {log_restarts}  leader changes {leader_changes}  lost {}",
            self.began.elapsed().as_secs(),
            mib(|size| size.memory),
            mib(|size| size.disk),
            self.shared.lost.get(),
        );
    }

    /// At the end.
    pub(super) fn tell(&self, kept: usize) {
        let (most, bound) = (self.flat.most(), self.flat.bound());
        say!(
            "{} commands; {kept} locks were held to the end; memory of a node at most {} MiB (bound {}), disk {} MiB (bound {})",
            2 * self.shared.cycles.get(),
            most.memory >> 20,
            bound.memory >> 20,
            most.disk >> 20,
            bound.disk >> 20,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, snapshots_installed: u64) -> v1::NodeStatus {
        v1::NodeStatus { name: name.to_owned(), snapshots_installed, ..v1::NodeStatus::default() }
    }

    #[tokio::test]
    async fn what_killed_processes_told_is_added_up() {
        let arguments = <SoakArgsOnly as clap::Parser>::parse_from(["soak"]).soak;
        let mut onlooker = Onlooker::new(Rc::default(), Duration::ZERO, &arguments);
        for (name, snapshots) in [("n1", 0), ("n1", 1), ("n2", 1), ("n1", 2), ("n1", 0), ("n1", 1)] {
            let leader = v1::Leader { name: "n3".to_owned(), ..v1::Leader::default() };
            let nodes = vec![node(name, snapshots)];
            let leader = Some(leader);
            onlooker.saw(&v1::StatusAnswer { nodes, leader, healthy: true, ..v1::StatusAnswer::default() });
        }
        assert_eq!((onlooker.totals.snapshots_installed, onlooker.totals.leader_changes), (4, 0));
    }

    #[derive(clap::Parser)]
    struct SoakArgsOnly {
        #[command(flatten)]
        soak: SoakArgs,
    }
}
