//! How many commands a second one node decides, or three, with every command on the disks of a majority.
//!
//! The nodes share this process and its disk, and speak over loopback.
//! `cargo run --release -p palisade-raft --example throughput [outstanding] [seconds] [nodes] [--storage segments|sled]`

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use palisade_core::command::{
    Acquire, AcquirePart, Cancel, ClusterVersion, Command, Found, LockDelay, OpenSession, Wait,
};
use palisade_core::ids::{
    AcquisitionId, ClientName, ClusterId, ClusterName, Incarnation, LockName, Millis, NodeId, NodeName,
    Principal, RequestNumber, SecretHash, SessionId,
};
use palisade_core::limits::Limits;
use palisade_core::mode::Mode;
use palisade_core::reply::{Applied, EntryAt, Reply};
use palisade_core::table::LockTable;
use palisade_core::token::TokenBase;
use palisade_host::{Host, Incoming, server};
use palisade_raft::{
    EngineKind, FileSnapshots, Identity, Observer, Outcome, PeerNode, Proposal, Replica, ReplicaConfig, Sink,
    save_identity,
};
use tokio::sync::Semaphore;
use tokio::time::Instant;

struct Nobody;

impl Observer for Nobody {
    fn applied(&mut self, _: EntryAt, _: &Command, _: &Applied, _: &LockTable) {}
    fn installed(&mut self, _: &LockTable) {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let engine: EngineKind = match words.iter().position(|word| word == "--storage") {
        Some(at) => words.drain(at..).nth(1).ok_or("--storage needs a name")?.parse()?,
        None => EngineKind::default(),
    };
    let mut arguments = words.iter().map(|word| word.parse::<usize>());
    let outstanding = arguments.next().transpose()?.unwrap_or(256);
    let seconds = arguments.next().transpose()?.unwrap_or(5);
    let count = arguments.next().transpose()?.unwrap_or(1);
    let dir = tempfile::TempDir::new_in(".")?;
    let mut nodes = Vec::new();
    for id in 1..=count as u64 {
        nodes.push(start(engine, NodeId(id), &dir.path().join(id.to_string())).await?);
    }
    let replica = found(&nodes).await?;
    let session = open(&replica).await?;

    let room = Arc::new(Semaphore::new(outstanding));
    let decided = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut number = 0;
    while began.elapsed() < Duration::from_secs(seconds as u64) {
        let first = room.clone().acquire_owned().await?;
        let mut permits = vec![first];
        while let (true, Ok(permit)) = (permits.len() < 64, room.clone().try_acquire_owned()) {
            permits.push(permit);
        }
        let proposals = permits.into_iter().map(|permit| {
            number += 1;
            let decided = decided.clone();
            let sink = Sink::new(move |outcome| {
                assert!(matches!(outcome, Outcome::Decided(_)), "{outcome:?}");
                decided.fetch_add(1, Ordering::Relaxed);
                drop(permit);
            });
            Proposal { command: command(session, number), sink }
        });
        replica.submit(proposals.collect()).await?;
    }
    let took = began.elapsed();
    let total = decided.load(Ordering::Relaxed);
    println!(
        "{outstanding} outstanding: {:.0} commands/s; {:?}",
        total as f64 / took.as_secs_f64(),
        replica.status()
    );
    // A sink whose command is undecided at the stop would hear `Unknown`.
    let _all = room.acquire_many(u32::try_from(outstanding)?).await?;
    for (_, _, replica) in nodes {
        replica.shutdown().await;
    }
    Ok(())
}

/// A node that serves its peers, and where.
async fn start(
    engine: EngineKind,
    node: NodeId,
    dir: &Path,
) -> Result<(NodeId, PeerNode, Replica), Box<dyn Error>> {
    let cluster = ClusterName::new("throughput")?;
    let engine = engine.open(&dir.join("log"))?;
    let name = NodeName::new(&node.to_string())?;
    let identity = Identity { node, name, cluster: cluster.clone(), cluster_id: None, incarnation: None };
    save_identity(&engine, identity).await?;
    let snapshots = Arc::new(FileSnapshots::open(&dir.join("snapshots"))?);
    let config = ReplicaConfig::new(node, cluster);
    let host = Host::system();
    let listener = host.net.listen("127.0.0.1:0").await?;
    let replica = Replica::start(config, host, engine, snapshots, Box::new(Nobody)).await?;
    let member = PeerNode { peer_address: listener.local_addr()?.to_string(), ..PeerNode::default() };
    let router = server(Duration::from_secs(5)).add_service(replica.peer_server());
    tokio::spawn(router.serve_with_incoming(Incoming::new(listener)));
    Ok((node, member, replica))
}

/// Founds the cluster, and answers its leader.
async fn found(nodes: &[(NodeId, PeerNode, Replica)]) -> Result<Replica, Box<dyn Error>> {
    let (_, _, replica) = nodes.first().ok_or("a cluster has a node")?;
    let members = nodes.iter().map(|(node, member, _)| (*node, member.clone()));
    replica.found(members.collect()).await?;
    replica.leadership().wait_for(|leadership| leadership.leads).await?;
    // A new leader takes nothing up before a quorum has answered it.
    replica.confirm_leadership(Duration::from_secs(5)).await?;
    let found = Found {
        cluster: ClusterId([1; 16]),
        name: ClusterName::new("throughput")?,
        incarnation: Incarnation([1; 16]),
        limits: Limits::default(),
        token_base: TokenBase::default(),
        version: ClusterVersion::CURRENT,
        members: Vec::new(),
    };
    replica.propose(Command::Found(found)).await?;
    Ok(replica.clone())
}

async fn open(replica: &Replica) -> Result<SessionId, Box<dyn Error>> {
    let open = OpenSession {
        secret: SecretHash([1; 32]),
        owner: Principal::anonymous(),
        client: ClientName::new("throughput")?,
        ttl: Millis(10_000),
        replaces: None,
    };
    match replica.propose(Command::OpenSession(open)).await?.reply {
        Reply::SessionOpened { session, .. } => Ok(session),
        other => Err(format!("{other:?}").into()),
    }
}

/// Acquires and releases in turn, on a thousand locks.
fn command(session: SessionId, number: u64) -> Command {
    let acquire = number.div_ceil(2);
    let id = AcquisitionId { session, number: RequestNumber(acquire) };
    if number.is_multiple_of(2) {
        // The token is not known here; the cancel frees what the acquisition holds, whatever it is.
        return Command::Cancel(Cancel { acquisition: id });
    }
    let part = AcquirePart {
        lock: LockName::new(&format!("lock/{}", acquire % 1_000)).unwrap_or_else(|_| unreachable!()),
        mode: Mode::Exclusive,
        capacity: 1,
        permits: 1,
        delay: LockDelay::Default(Millis(0)),
        fenced_by: Vec::new(),
    };
    Command::Acquire(Acquire {
        session,
        number: Some(id.number),
        mark: RequestNumber(acquire.saturating_sub(1_000)),
        parts: vec![part],
        wait: Wait::Try,
        owner: None,
    })
}
