//! A node's log panics under load, as openraft's does in its issue 2116: the node comes back from its disk by itself, in
//! the same process, within a failover's time, and nothing that was acknowledged is lost.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use palisade_core::ids::{ClusterName, NodeName};
use palisade_host::Host;
use palisade_raft::engine::{Done, LogPoint, Record, Recovered, SavedVote};
use palisade_raft::{Engine, FlushMeter, Identity, OpenError, Replica};
use palisade_server::{Failure, InitialMember, Node, NodeStorage, ServerConfig, Storage, keep_running};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::load::Load;
use crate::live::{Live, PATIENCE, eventually};

/// The node that panics; the others are processes.
const OURS: usize = 2;
/// From the panic to a node that follows or leads again. An election takes 0.6 s at most, and reading a small log less; the
/// rest is for machines that are busy with other tests.
const BACK_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_whose_log_panics_comes_back_by_itself() {
    let mut live = Live::prepare(3);
    let ours = Ours::start(&mut live).await;
    if live.leader().await == OURS {
        assert!(ours.replica.transfer_leadership(PATIENCE).await, "another node is up");
    }
    panics_under_load(&live, ours).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_log_panics_comes_back_by_itself() {
    let mut live = Live::prepare(3);
    let ours = Ours::start(&mut live).await;
    loop {
        let (leader, term) = live.leader_and_term().await;
        if leader == OURS {
            break;
        }
        // Not told to end: it would choose its successor.
        live.cluster.kill(leader);
        live.leader_after(term).await;
        live.cluster.start_node(leader).unwrap();
        live.node_ready(leader).await;
    }
    panics_under_load(&live, ours).await;
}

async fn panics_under_load(live: &Live, ours: Ours) {
    let load = Load::start(live, 6, 3).await;
    ours.panics.store(true, Ordering::Relaxed);
    comes_back(live).await;
    load.progress().await;
    load.check().await;
    load.finish().await;
    ours.stop().await;
}

/// Our node, run as `palisade serve` runs one.
struct Ours {
    /// Of its first start.
    replica: Replica,
    panics: Arc<AtomicBool>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<Node, Failure>>,
}

impl Ours {
    /// With two others, which are processes.
    async fn start(live: &mut Live) -> Self {
        live.cluster.start_node(0).unwrap();
        live.cluster.start_node(1).unwrap();
        let panics = Arc::new(AtomicBool::new(false));
        let config = config(live);
        let mut storage = NodeStorage::open(&config.storage).unwrap();
        storage.engine = Arc::new(Panicking { engine: storage.engine, panics: panics.clone() });
        let node = Node::start_on(config, Host::system(), storage).await.unwrap();
        let replica = node.replica().clone();
        let (stop, told) = oneshot::channel::<()>();
        let running = tokio::spawn(async move { Ok(keep_running(node, told).await?.0) });
        live.ready().await;
        Self { replica, panics, stop, running }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap().unwrap().stop().await;
    }
}

fn config(live: &Live) -> ServerConfig {
    let members = live.cluster.nodes().iter().map(|node| InitialMember {
        name: NodeName::new(&node.name).unwrap(),
        peer_address: node.peer_address.clone(),
    });
    let ours = &live.cluster.nodes()[OURS];
    let name = NodeName::new(&ours.name).unwrap();
    let mut config = ServerConfig::new(name, ClusterName::new("test").unwrap(), members.collect());
    config.listen = ours.client_address.clone();
    config.peer_listen = ours.peer_address.clone();
    config.storage = Storage::Disk { directory: live.cluster.data_directory(OURS), engine: None };
    config
}

/// Waits until our node has started again, and follows or leads what the others decide.
async fn comes_back(live: &Live) {
    let began = Instant::now();
    eventually("the node is back", async || {
        let status = live.status(OURS).await?;
        let own = status.nodes.first()?;
        (own.log_restarts == 1 && status.healthy).then_some(())
    })
    .await;
    assert!(began.elapsed() < BACK_WITHIN, "{:?}", began.elapsed());
}

/// A log that panics in the middle of openraft when it is told to.
struct Panicking {
    engine: Arc<dyn Engine>,
    panics: Arc<AtomicBool>,
}

impl Engine for Panicking {
    fn append(&self, first: u64, records: Vec<Record>, done: Done) {
        assert!(!self.panics.load(Ordering::Relaxed), "planted");
        self.engine.append(first, records, done);
    }

    fn place(&self) -> PathBuf {
        self.engine.place()
    }

    fn identity(&self) -> Option<Identity> {
        self.engine.identity()
    }

    fn load(&self) -> Result<Recovered, OpenError> {
        self.engine.load()
    }

    fn truncate_after(&self, last: Option<u64>) {
        self.engine.truncate_after(last);
    }

    fn purge_to(&self, point: LogPoint) {
        self.engine.purge_to(point);
    }

    fn save_vote(&self, vote: SavedVote, done: Done) {
        self.engine.save_vote(vote, done);
    }

    fn save_committed(&self, committed: Option<LogPoint>) {
        self.engine.save_committed(committed);
    }

    fn save_identity(&self, identity: Identity, done: Done) {
        self.engine.save_identity(identity, done);
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>> {
        self.engine.read(range, bytes_max)
    }

    fn blocks(&self) -> bool {
        self.engine.blocks()
    }

    fn flushes(&self) -> &FlushMeter {
        self.engine.flushes()
    }

    fn failed(&self) -> watch::Receiver<Option<String>> {
        self.engine.failed()
    }

    fn close(&self) {
        self.engine.close();
    }
}
