//! The nodes of a simulation: the product's server on a simulated host, with storage that outlives a crash.

use std::sync::Arc;
use std::time::Duration;

use palisade_core::command::Command;
use palisade_core::ids::{ClusterName, NodeName};
use palisade_core::reply::{Applied, EntryAt};
use palisade_core::table::LockTable;
use palisade_raft::{MemoryEngine, MemorySnapshots, Observer};
use palisade_server::{InitialMember, Node, NodeStorage, ServerConfig};
use parking_lot::Mutex;
use turmoil::Sim;

use super::{Skew, World, draw, host};
use crate::history::History;

/// A flush takes so long.
const FLUSH: Duration = Duration::from_millis(2);
/// Client port of every node.
const CLIENT_PORT: u16 = 7_170;
/// Peer port of every node.
const PEER_PORT: u16 = 7_171;

pub(crate) struct Nodes {
    world: World,
    list: Vec<SimNode>,
}

struct SimNode {
    name: String,
    engine: Arc<Mutex<Arc<MemoryEngine>>>,
    snapshots: Arc<MemorySnapshots>,
    skew: Arc<Skew>,
    starts: Arc<Mutex<u64>>,
}

/// The name of a node's host.
pub(crate) fn name(node: usize) -> String {
    format!("n{}", node + 1)
}

/// Where clients reach a node.
pub(crate) fn client_address(node: usize) -> String {
    format!("{}:{CLIENT_PORT}", name(node))
}

impl Nodes {
    pub(crate) fn new(world: &World) -> Self {
        let list = (0..world.scenario.nodes).map(|node| SimNode {
            name: name(node),
            engine: Arc::new(Mutex::new(Arc::new(MemoryEngine::new(FLUSH)))),
            snapshots: Arc::new(MemorySnapshots::default()),
            skew: Arc::default(),
            starts: Arc::default(),
        });
        Self { world: world.clone(), list: list.collect() }
    }

    pub(crate) fn start(&self, sim: &mut Sim<'_>) {
        for (number, node) in self.list.iter().enumerate() {
            let seed = draw(self.world.scenario.seed, number as u64 + 1);
            let (engine, snapshots) = (node.engine.clone(), node.snapshots.clone());
            let (skew, starts) = (node.skew.clone(), node.starts.clone());
            let (history, count) = (self.world.history.clone(), self.world.scenario.nodes);
            sim.host(node.name.as_str(), move || {
                let storage = NodeStorage { engine: engine.lock().clone(), snapshots: snapshots.clone() };
                let (skew, starts) = (skew.clone(), starts.clone());
                let history = history.clone();
                async move {
                    let life = {
                        let mut starts = starts.lock();
                        *starts += 1;
                        *starts
                    };
                    let tap = Tap { node: name(number), history };
                    let host = host(draw(seed, life), skew);
                    let config = config(number, count)?;
                    let mut node = Node::start_tapped(config, host, storage, Box::new(tap)).await?;
                    Err::<(), _>(node.failed().await.into())
                }
            });
        }
    }

    /// The power goes: what was not flushed is lost.
    pub(crate) fn crash(&self, sim: &mut Sim<'_>, node: usize) {
        sim.crash(self.list[node].name.as_str());
        let mut engine = self.list[node].engine.lock();
        *engine = Arc::new(engine.crash());
    }

    pub(crate) fn restart(&self, sim: &mut Sim<'_>, node: usize) {
        sim.bounce(self.list[node].name.as_str());
    }

    /// The node's clock finds that it stood still for `time`.
    pub(crate) fn stood_still(&self, node: usize, time: Duration) {
        self.list[node].skew.add(time);
    }
}

fn config(node: usize, count: usize) -> Result<ServerConfig, Box<dyn std::error::Error>> {
    let members = (0..count).map(|member| {
        Ok(InitialMember {
            name: NodeName::new(&name(member))?,
            peer_address: format!("{}:{PEER_PORT}", name(member)),
        })
    });
    let members = members.collect::<Result<Vec<_>, palisade_core::ids::NameError>>()?;
    let mut config = ServerConfig::new(NodeName::new(&name(node))?, ClusterName::new("sim")?, members);
    config.listen = format!("0.0.0.0:{CLIENT_PORT}");
    config.advertise = Some(client_address(node));
    config.peer_listen = format!("0.0.0.0:{PEER_PORT}");
    config.insecure = true;
    // Small, so that snapshots happen.
    config.snapshot_every = 400;
    config.keep_log = 200;
    Ok(config)
}

/// Reports every entry to the history, and now and then the whole state.
struct Tap {
    node: String,
    history: Arc<Mutex<History>>,
}

/// States are compared at every index that this divides.
const COMPARE_EVERY: u64 = 64;

impl Observer for Tap {
    fn applied(&mut self, at: EntryAt, _: &Command, applied: &Applied, table: &LockTable) {
        let mut history = self.history.lock();
        history.applied(&self.node, at.index, &applied.events);
        if at.index.0.is_multiple_of(COMPARE_EVERY) {
            history.state(&self.node, table);
        }
    }

    fn installed(&mut self, table: &LockTable) {
        self.history.lock().state(&self.node, table);
    }
}
