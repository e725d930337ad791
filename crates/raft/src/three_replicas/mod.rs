//! Three replicas that speak over real sockets, in one process; the stories are in `stories`. `overtaken` has one, and
//! plays its leader.

mod overtaken;
mod stories;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use palisade_core::command::{CloseSession, ClusterVersion, Command, Found, OpenSession};
use palisade_core::ids::{
    ClientName, ClusterId, ClusterName, Incarnation, LogIndex, Millis, NodeId, NodeName, Principal,
    SecretHash, SessionId,
};
use palisade_core::limits::Limits;
use palisade_core::reply::{Applied, EntryAt, Reply};
use palisade_core::table::LockTable;
use palisade_core::token::TokenBase;
use palisade_host::{Host, Incoming, Net, TcpNet, server};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tower::util::MapRequestLayer;

use crate::engine::{Engine, EngineKind, Identity, save_identity};
use crate::{
    ConfirmError, FileSnapshots, Introduction, MemoryEngine, MemorySnapshots, Observer, Outcome, PeerNode,
    Proposal, ProposeError, Replica, ReplicaConfig, ReplicaFailure, SnapshotStore, StartError, identify,
};

const PATIENCE: Duration = Duration::from_secs(30);

/// What a node's observer saw: the index of each command, and each time that the table was replaced.
#[derive(Clone, Default)]
struct Seen {
    commands: Arc<Mutex<Vec<u64>>>,
    installed: Arc<Mutex<usize>>,
}

impl Observer for Seen {
    fn applied(&mut self, at: EntryAt, _: &Command, _: &Applied, table: &LockTable) {
        assert_eq!(table.header().applied, at.index);
        self.commands.lock().push(at.index.0);
    }

    fn installed(&mut self, _: &LockTable) {
        *self.installed.lock() += 1;
    }
}

/// A node with its disk. Its address stays when it stops.
struct Node {
    id: NodeId,
    address: String,
    engine: Arc<dyn Engine>,
    memory: MemoryEngine,
    snapshots: MemorySnapshots,
    seen: Seen,
    /// Calls of peers, since it was made.
    calls: Arc<AtomicUsize>,
    running: Option<Running>,
}

/// A node's tasks have a runtime of their own, so that all of them, connections included, end at once.
struct Running {
    replica: Replica,
    runtime: Option<Runtime>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn cluster() -> ClusterName {
    ClusterName::new("stories").expect("a name")
}

fn identity(id: NodeId) -> Identity {
    let name = NodeName::new(&format!("n{id}")).expect("a name");
    Identity { node: id, name, cluster: cluster(), cluster_id: None, incarnation: None }
}

fn config(id: NodeId) -> ReplicaConfig {
    // Wide enough for a loaded machine.
    ReplicaConfig {
        election_min: Duration::from_millis(300),
        election_max: Duration::from_millis(600),
        ..ReplicaConfig::new(id, cluster())
    }
}

async fn serve(replica: Replica, address: String, calls: Arc<AtomicUsize>) -> String {
    let listener = loop {
        // A port that was just let go may still be closing.
        match TcpNet.listen(&address).await {
            Ok(listener) => break listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let address = listener.local_addr().expect("it listens").to_string();
    let service = replica.peer_server();
    let counted = MapRequestLayer::new(move |request: http::Request<tonic::body::Body>| {
        calls.fetch_add(1, Ordering::Relaxed);
        request
    });
    let router = server(Duration::from_secs(5)).layer(counted).add_service(service);
    let incoming = Incoming::new(listener);
    tokio::spawn(async move { router.serve_with_incoming(incoming).await.expect("it serves") });
    address
}

impl Node {
    async fn start(id: u64, config: impl FnOnce(NodeId) -> ReplicaConfig) -> Self {
        let id = NodeId(id);
        let memory = MemoryEngine::new(Duration::from_micros(500));
        let engine: Arc<dyn Engine> = Arc::new(memory.clone());
        save_identity(&engine, identity(id)).await.expect("it is durable");
        let (snapshots, seen) = (MemorySnapshots::default(), Seen::default());
        let (address, calls) = ("127.0.0.1:0".into(), Arc::default());
        let mut node = Self { id, address, engine, memory, snapshots, seen, calls, running: None };
        node.run(config).await;
        node
    }

    async fn run(&mut self, config: impl FnOnce(NodeId) -> ReplicaConfig) {
        let (engine, snapshots) = (self.engine.clone(), Arc::new(self.snapshots.clone()));
        let observer = Box::new(self.seen.clone());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("threads can be made");
        let (config, address, calls) = (config(self.id), self.address.clone(), self.calls.clone());
        let started = runtime.spawn(async move {
            let replica = Replica::start(config, Host::system(), engine, snapshots, observer);
            let replica = replica.await.expect("it starts");
            (serve(replica.clone(), address, calls).await, replica)
        });
        let (address, replica) = started.await.expect("it starts");
        self.address = address;
        self.running = Some(Running { replica, runtime: Some(runtime) });
    }

    fn replica(&self) -> &Replica {
        &self.running.as_ref().expect("the node runs").replica
    }

    /// Takes the power away; what a restart finds is left.
    fn kill(&mut self) {
        self.memory = self.memory.crash();
        self.engine = Arc::new(self.memory.clone());
        self.running.take().expect("the node runs");
    }

    fn member(&self) -> (NodeId, PeerNode) {
        let node =
            PeerNode { name: self.id.to_string(), peer_address: self.address.clone(), ..PeerNode::default() };
        (self.id, node)
    }
}

async fn three(config: impl Fn(NodeId) -> ReplicaConfig) -> [Node; 3] {
    let nodes = [Node::start(1, &config).await, Node::start(2, &config).await, Node::start(3, &config).await];
    let members: BTreeMap<_, _> = nodes.iter().map(Node::member).collect();
    nodes[0].replica().found(members).await.expect("all are pristine");
    let leader = leader(&nodes).await;
    let found = decide(&nodes, founding()).await;
    assert_eq!(found, Reply::Done);
    assert!(nodes[leader].replica().view().header().founding.is_some());
    nodes
}

fn founding() -> Command {
    Command::Found(Found {
        cluster: ClusterId([7; 16]),
        name: cluster(),
        incarnation: Incarnation([8; 16]),
        limits: Limits::default(),
        token_base: TokenBase::default(),
        version: ClusterVersion::CURRENT,
        members: Vec::new(),
    })
}

fn open(secret: u64) -> Command {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&secret.to_le_bytes());
    Command::OpenSession(OpenSession {
        secret: SecretHash(hash),
        owner: Principal::anonymous(),
        client: ClientName::unnamed(),
        ttl: Millis(10_000),
        replaces: None,
    })
}

/// The running node that leads, once there is one that its quorum confirms.
async fn leader(nodes: &[Node]) -> usize {
    let found = async {
        loop {
            for (at, node) in nodes.iter().enumerate() {
                let Some(running) = &node.running else { continue };
                if running.replica.confirm_leadership(Duration::from_secs(1)).await.is_ok() {
                    return at;
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("a leader is elected")
}

/// Proposes at whoever leads until it is decided. The command can be repeated.
async fn decide(nodes: &[Node], command: Command) -> Reply {
    let decided = async {
        loop {
            let at = leader(nodes).await;
            match nodes[at].replica().propose(command.clone()).await {
                Ok(decided) => return decided.reply,
                Err(ProposeError::NotLeader { .. } | ProposeError::OutcomeUnknown) => {}
                Err(other) => panic!("{other}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, decided).await.expect("it is decided")
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("in vain: {what}"));
}

fn session(reply: &Reply) -> SessionId {
    match reply {
        Reply::SessionOpened { session, .. } => *session,
        other => panic!("{other:?}"),
    }
}
