//! The seeded schedule: which faults strike, when, and how long. One at a time, so that a majority comes back.

use std::time::Duration;

use turmoil::Sim;

use super::nodes::{self, Nodes};
use super::{World, draw};

/// The first fault strikes after this: by then the cluster is founded.
const QUIET: Duration = Duration::from_secs(2);

pub(crate) struct Schedule {
    seed: u64,
    nodes: usize,
    clients: usize,
    until: Duration,
    next: Duration,
    count: u64,
    current: Option<(Fault, Duration)>,
    /// What struck so far.
    pub(crate) struck: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A node hears and is heard by no peer, but by its clients.
    CutFromPeers { node: usize },
    /// A node hears peers and clients no more.
    CutOff { node: usize },
    /// A node hears its peers, and they do not hear it.
    Muted { node: usize },
    /// The power of a node goes, with what was not flushed.
    Crash { node: usize },
    /// The power of all goes at once.
    CrashAll,
    /// A node stands still: what it sends and gets is held back, and its clock jumps when it wakes.
    Freeze { node: usize },
    /// A client stands still the same way.
    FreezeClient { client: usize },
}

impl Schedule {
    pub(crate) fn new(world: &World) -> Self {
        Self {
            seed: world.scenario.seed,
            nodes: world.scenario.nodes,
            clients: world.scenario.clients,
            until: world.scenario.hurt,
            next: QUIET,
            count: 0,
            current: None,
            struck: Vec::new(),
        }
    }

    /// Strikes or heals, when it is time.
    pub(crate) fn act(&mut self, sim: &mut Sim<'_>, nodes: &Nodes) {
        let now = sim.elapsed();
        if let Some((fault, heal)) = self.current {
            if now >= heal {
                self.heal(sim, nodes, fault);
                self.current = None;
                self.next = now + self.time(200, 1_500);
            }
            return;
        }
        if now < self.next || now >= self.until {
            return;
        }
        self.count += 1;
        let fault = self.choose();
        let lasts = self.time(300, 5_000).min(self.until.saturating_sub(now).max(Duration::from_millis(1)));
        self.struck.push(format!("{:.3}s {fault:?} for {lasts:?}", now.as_secs_f64()));
        self.strike(sim, nodes, fault);
        self.current = Some((fault, now + lasts));
    }

    fn number(&self, purpose: u64, below: u64) -> u64 {
        draw(self.seed ^ self.count.wrapping_mul(0x517c_c1b7_2722_0a95), purpose) % below
    }

    fn time(&self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.number(3, most - least))
    }

    fn choose(&self) -> Fault {
        let node = self.number(1, self.nodes as u64) as usize;
        let client = self.number(1, self.clients as u64) as usize;
        match self.number(2, 12) {
            0..=2 => Fault::CutFromPeers { node },
            3 => Fault::CutOff { node },
            4 => Fault::Muted { node },
            5..=6 => Fault::Crash { node },
            7 => Fault::CrashAll,
            8..=9 => Fault::Freeze { node },
            _ => Fault::FreezeClient { client },
        }
    }

    fn peers(&self, node: usize) -> Vec<String> {
        (0..self.nodes).filter(|peer| *peer != node).map(nodes::name).collect()
    }

    fn everybody_but(&self, node: usize) -> Vec<String> {
        let clients = (0..self.clients).map(super::clients::name);
        self.peers(node).into_iter().chain(clients).collect()
    }

    fn strike(&self, sim: &mut Sim<'_>, nodes: &Nodes, fault: Fault) {
        match fault {
            Fault::CutFromPeers { node } => {
                self.peers(node)
                    .iter()
                    .for_each(|peer| sim.partition(nodes::name(node).as_str(), peer.as_str()));
            }
            Fault::CutOff { node } => {
                let others = self.everybody_but(node);
                others.iter().for_each(|other| sim.partition(nodes::name(node).as_str(), other.as_str()));
            }
            Fault::Muted { node } => {
                let peers = self.peers(node);
                peers.iter().for_each(|peer| sim.partition_oneway(nodes::name(node).as_str(), peer.as_str()));
            }
            Fault::Crash { node } => nodes.crash(sim, node),
            Fault::CrashAll => (0..self.nodes).for_each(|node| nodes.crash(sim, node)),
            Fault::Freeze { node } => {
                let others = self.everybody_but(node);
                others.iter().for_each(|other| sim.hold(nodes::name(node).as_str(), other.as_str()));
            }
            Fault::FreezeClient { client } => {
                let name = super::clients::name(client);
                (0..self.nodes).for_each(|node| sim.hold(name.as_str(), nodes::name(node).as_str()));
            }
        }
    }

    fn heal(&self, sim: &mut Sim<'_>, nodes: &Nodes, fault: Fault) {
        match fault {
            Fault::CutFromPeers { node } => {
                self.peers(node)
                    .iter()
                    .for_each(|peer| sim.repair(nodes::name(node).as_str(), peer.as_str()));
            }
            Fault::CutOff { node } => {
                let others = self.everybody_but(node);
                others.iter().for_each(|other| sim.repair(nodes::name(node).as_str(), other.as_str()));
            }
            Fault::Muted { node } => {
                let peers = self.peers(node);
                peers.iter().for_each(|peer| sim.repair_oneway(nodes::name(node).as_str(), peer.as_str()));
            }
            Fault::Crash { node } => nodes.restart(sim, node),
            Fault::CrashAll => (0..self.nodes).for_each(|node| nodes.restart(sim, node)),
            Fault::Freeze { node } => {
                let others = self.everybody_but(node);
                others.iter().for_each(|other| sim.release(nodes::name(node).as_str(), other.as_str()));
                nodes.stood_still(node, Duration::from_millis(500));
            }
            Fault::FreezeClient { client } => {
                let name = super::clients::name(client);
                (0..self.nodes).for_each(|node| sim.release(name.as_str(), nodes::name(node).as_str()));
            }
        }
    }
}
