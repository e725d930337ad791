//! How many commands a second one node decides, with every one of them on its disk.
//!
//! `cargo run --release -p palisade-raft --example throughput [outstanding] [seconds]`

use std::error::Error;
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
use palisade_host::Host;
use palisade_raft::{
    FileSnapshots, Identity, Observer, Outcome, PeerNode, Proposal, Replica, ReplicaConfig, Sink, open_sled,
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
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let outstanding = arguments.next().transpose()?.unwrap_or(256);
    let seconds = arguments.next().transpose()?.unwrap_or(5);
    let dir = tempfile::TempDir::new_in(".")?;
    let replica = start(dir.path()).await?;
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
    let count = decided.load(Ordering::Relaxed);
    println!(
        "{outstanding} outstanding: {:.0} commands/s; {:?}",
        count as f64 / took.as_secs_f64(),
        replica.status()
    );
    // A sink whose command is undecided at the stop would hear `Unknown`.
    let _all = room.acquire_many(u32::try_from(outstanding)?).await?;
    replica.shutdown().await;
    Ok(())
}

async fn start(dir: &std::path::Path) -> Result<Replica, Box<dyn Error>> {
    let (node, cluster) = (NodeId(1), ClusterName::new("throughput")?);
    let engine = open_sled(&dir.join("log"))?;
    let name = NodeName::new("n1")?;
    let identity = Identity { node, name, cluster: cluster.clone(), cluster_id: None, incarnation: None };
    save_identity(&engine, identity).await?;
    let snapshots = Arc::new(FileSnapshots::open(&dir.join("snapshots"))?);
    let config = ReplicaConfig::new(node, cluster.clone());
    let replica = Replica::start(config, Host::system(), engine, snapshots, Box::new(Nobody)).await?;
    replica.found([(node, PeerNode::default())].into()).await?;
    replica.leadership().wait_for(|leadership| leadership.leads).await?;
    let found = Found {
        cluster: ClusterId([1; 16]),
        name: cluster,
        incarnation: Incarnation([1; 16]),
        limits: Limits::default(),
        token_base: TokenBase::default(),
        version: ClusterVersion::CURRENT,
        members: Vec::new(),
    };
    replica.propose(Command::Found(found)).await?;
    Ok(replica)
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
