//! Three replicas on simulated network, time and disk: one seed gives one history, through a crash of the leader.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use palisade_core::command::{ClusterVersion, Command, Found, OpenSession};
use palisade_core::ids::{
    ClientName, ClusterId, ClusterName, Incarnation, Millis, NodeId, NodeName, Principal, SecretHash,
};
use palisade_core::limits::Limits;
use palisade_core::reply::{Applied, EntryAt};
use palisade_core::table::LockTable;
use palisade_core::token::TokenBase;
use palisade_host::{BoxFuture, BoxedIo, Host, Incoming, Listener, ManualClock, Net, SystemEntropy, server};
use palisade_raft::{
    Engine, Identity, MemoryEngine, MemorySnapshots, Observer, PeerNode, Replica, ReplicaConfig,
    save_identity, seed_randomness,
};

struct SimulatedNet;

impl Net for SimulatedNet {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener = turmoil::net::TcpListener::bind(address).await?;
            Ok(Box::new(SimulatedListener(listener)) as Box<dyn Listener>)
        })
    }

    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<BoxedIo>> {
        Box::pin(async move {
            let stream = turmoil::net::TcpStream::connect(address).await?;
            Ok(Box::new(stream) as BoxedIo)
        })
    }
}

struct SimulatedListener(turmoil::net::TcpListener);

impl Listener for SimulatedListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxedIo, SocketAddr)>> {
        Box::pin(async move {
            let (stream, from) = self.0.accept().await?;
            Ok((Box::new(stream) as BoxedIo, from))
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// What happened: node, time, entry.
type History = Arc<Mutex<Vec<(u64, Duration, u64)>>>;

struct Seen {
    node: u64,
    history: History,
}

impl Observer for Seen {
    fn applied(&mut self, at: EntryAt, _: &Command, _: &Applied, _: &LockTable) {
        self.history.lock().expect("no panic").push((
            self.node,
            turmoil::sim_elapsed().unwrap_or_default(),
            at.index.0,
        ));
    }

    fn installed(&mut self, _: &LockTable) {}
}

#[derive(Clone)]
struct Node {
    id: u64,
    engine: Arc<Mutex<MemoryEngine>>,
    snapshots: MemorySnapshots,
    history: History,
    /// Set while the node runs.
    replica: Arc<Mutex<Option<Replica>>>,
}

impl Node {
    fn name(&self) -> String {
        format!("n{}", self.id)
    }

    async fn run(self) -> Result<(), Box<dyn std::error::Error>> {
        let engine: Arc<dyn Engine> = Arc::new(self.engine.lock().expect("no panic").clone());
        let (node, cluster) = (NodeId(self.id), ClusterName::new("simulated")?);
        if engine.identity().is_none() {
            let name = NodeName::new(&self.name())?;
            let identity =
                Identity { node, name, cluster: cluster.clone(), cluster_id: None, incarnation: None };
            save_identity(&engine, identity).await?;
        }
        let host = Host {
            clock: Arc::new(ManualClock::default()),
            net: Arc::new(SimulatedNet),
            entropy: Arc::new(SystemEntropy),
        };
        let listener = host.net.listen("0.0.0.0:7000").await?;
        let observer = Box::new(Seen { node: self.id, history: self.history });
        let config = ReplicaConfig::new(node, cluster);
        let replica = Replica::start(config, host, engine, Arc::new(self.snapshots), observer).await?;
        *self.replica.lock().expect("no panic") = Some(replica.clone());
        let router = server(Duration::from_secs(1)).add_service(replica.peer_server());
        Ok(router.serve_with_incoming(Incoming::new(listener)).await?)
    }
}

fn running(nodes: &[Node]) -> Vec<(usize, Replica)> {
    let replica = |node: &Node| node.replica.lock().expect("no panic").clone();
    nodes.iter().enumerate().filter_map(|(at, node)| Some((at, replica(node)?))).collect()
}

/// Proposes at whoever leads until it is decided.
async fn decide(nodes: &[Node], command: Command) -> usize {
    loop {
        for (at, replica) in running(nodes) {
            if replica.leadership().borrow().leads && replica.propose(command.clone()).await.is_ok() {
                return at;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn open(secret: u8) -> Command {
    Command::OpenSession(OpenSession {
        secret: SecretHash([secret; 32]),
        owner: Principal::anonymous(),
        client: ClientName::unnamed(),
        ttl: Millis(10_000),
        replaces: None,
    })
}

fn founding() -> Command {
    Command::Found(Found {
        cluster: ClusterId([7; 16]),
        name: ClusterName::new("simulated").expect("a name"),
        incarnation: Incarnation([8; 16]),
        limits: Limits::default(),
        token_base: TokenBase::default(),
        version: ClusterVersion::CURRENT,
        members: Vec::new(),
    })
}

/// tokio ends the tasks of a crashed node by shards of their ids, which count through the whole process; each history
/// begins at the same place in the shards.
fn align_task_ids() {
    const SHARDS: u64 = 1 << 10;
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let id = || runtime.spawn(async {}).id().to_string().parse::<u64>().expect("a task id is a number");
    while !id().is_multiple_of(SHARDS) {}
}

/// Decides a few commands, crashes the leader, decides some more, and waits until all agree.
fn history(seed: u64) -> Vec<(u64, Duration, u64)> {
    seed_randomness(seed);
    align_task_ids();
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .tick_duration(Duration::from_millis(1))
        .simulation_duration(Duration::from_secs(60))
        .build();
    let history = History::default();
    let node = |id| Node {
        id,
        engine: Arc::new(Mutex::new(MemoryEngine::new(Duration::from_millis(1)))),
        snapshots: MemorySnapshots::default(),
        history: history.clone(),
        replica: Arc::default(),
    };
    let nodes = [node(1), node(2), node(3)];
    for node in nodes.clone() {
        sim.host(node.name(), move || node.clone().run());
    }
    let crash = Arc::new(Mutex::new(None));
    let (leader, cluster) = (crash.clone(), nodes.clone());
    sim.client("client", async move {
        while running(&cluster).len() < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let member = |node: &Node| {
            let peer_address = format!("{}:7000", node.name());
            (NodeId(node.id), PeerNode { name: node.name(), peer_address, ..PeerNode::default() })
        };
        let members: BTreeMap<_, _> = cluster.iter().map(member).collect();
        running(&cluster)[0].1.found(members).await?;
        let mut leads = decide(&cluster, founding()).await;
        for secret in 0..20 {
            leads = decide(&cluster, open(secret)).await;
        }
        *leader.lock().expect("no panic") = Some(leads);
        for secret in 10..40 {
            decide(&cluster, open(secret)).await;
        }
        let counts =
            || running(&cluster).iter().map(|(_, node)| node.read(LockTable::session_count)).collect();
        loop {
            let counts: Vec<_> = counts();
            if counts == [40, 40, 40] {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let mut down = None;
    while !sim.step().expect("nothing fails") {
        if let Some(at) = crash.lock().expect("no panic").take() {
            let node: &Node = &nodes[at];
            *node.replica.lock().expect("no panic") = None;
            sim.crash(node.name());
            let reopened = node.engine.lock().expect("no panic").crash();
            *node.engine.lock().expect("no panic") = reopened;
            down = Some((at, sim.elapsed() + Duration::from_secs(2)));
        }
        if let Some((at, until)) = down
            && sim.elapsed() >= until
        {
            sim.bounce(nodes[at].name());
            down = None;
        }
    }
    history.lock().expect("no panic").clone()
}

#[test]
fn one_seed_gives_one_history_through_a_crash_of_the_leader() {
    let first = history(7);
    assert!(first.len() >= 3 * 41, "each node applied each command");
    assert_eq!(history(7), first);
    assert_ne!(history(8), first);
}
