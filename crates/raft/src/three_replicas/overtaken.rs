//! A second snapshot that comes while the first one is installed, with entries between them and an election, as it may to a
//! node that is far behind: openraft's issue 2116.

use std::path::PathBuf;

use bytes::Bytes;
use futures_util::StreamExt;
use openraft::EntryPayload;

use super::*;
use crate::codec::snapshot::write_snapshot;
use crate::error::OpenError;
use crate::snapshot_data::SnapshotData;
use crate::snapshot_store::WriteSnapshot;
use crate::types::{
    AppendRequest, Entry, Membership, Snapshot, SnapshotMeta, StoredMembership, Vote, log_id,
};

/// How long a snapshot takes to the disk.
const SLOW: Duration = Duration::from_millis(500);
/// For a message to be taken up.
const TAKEN_UP: Duration = Duration::from_millis(60);
/// The last entry that a snapshot covers, the last of those that follow it, and the last of the second snapshot.
const FIRST: u64 = 20;
const ENTRIES: u64 = 30;
const SECOND: u64 = 40;

/// A disk that takes its time.
struct SlowSnapshots(MemorySnapshots);

impl SnapshotStore for SlowSnapshots {
    fn place(&self) -> PathBuf {
        self.0.place()
    }

    fn newest(&self) -> Result<Option<Bytes>, OpenError> {
        self.0.newest()
    }

    fn read(&self, index: u64) -> Result<Option<Bytes>, OpenError> {
        self.0.read(index)
    }

    fn save(&self, index: u64, write: WriteSnapshot<'_>) -> Result<(), OpenError> {
        std::thread::sleep(SLOW);
        self.0.save(index, write)
    }

    fn blocks(&self) -> bool {
        true
    }
}

async fn start(memory: &MemoryEngine, snapshots: &MemorySnapshots) -> Replica {
    let engine: Arc<dyn Engine> = Arc::new(memory.clone());
    if engine.identity().is_none() {
        save_identity(&engine, identity(NodeId(2))).await.expect("it is durable");
    }
    let snapshots = Arc::new(SlowSnapshots(snapshots.clone()));
    let observer = Box::new(Seen::default());
    Replica::start(config(NodeId(2)), Host::system(), engine, snapshots, observer).await.expect("it starts")
}

fn members() -> Membership {
    let nodes: BTreeMap<u64, PeerNode> = (1..=3).map(|id| (id, PeerNode::default())).collect();
    Membership::new(vec![nodes.keys().copied().collect()], nodes).expect("voters with nodes")
}

fn elected(term: u64) -> Vote {
    Vote::new_committed(term, 1)
}

/// What a leader of `term` sends after the entry `prev` of the first.
fn append(term: u64, prev: u64, entries: Vec<Entry>) -> AppendRequest {
    AppendRequest { vote: elected(term), prev_log_id: Some(log_id(1, prev)), entries, leader_commit: None }
}

fn entries() -> Vec<Entry> {
    let entry = |index| Entry { log_id: log_id(1, index), payload: EntryPayload::Blank };
    (FIRST + 1..=ENTRIES).map(entry).collect()
}

fn snapshot(term: u64, last: u64) -> Snapshot {
    let last_membership = StoredMembership::new(Some(log_id(1, 0)), members());
    let meta = SnapshotMeta { last_log_id: Some(log_id(term, last)), last_membership };
    let mut bytes = Vec::new();
    write_snapshot(&meta, &LockTable::default(), &mut bytes).expect("memory takes it");
    Snapshot { meta, snapshot: SnapshotData::here(bytes.into()) }
}

/// Sends, and gives it time to be taken up.
async fn send<T: Send + 'static>(sent: impl Future<Output = T> + Send + 'static) {
    tokio::spawn(sent);
    tokio::time::sleep(TAKEN_UP).await;
}

async fn heartbeat(replica: &Replica, prev: u64) {
    let raft = replica.raft().clone();
    send(async move { raft.append_entries(append(2, prev, Vec::new())).await }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_installed_before_entries_and_the_next_one_come() {
    let replica = start(&MemoryEngine::new(Duration::ZERO), &MemorySnapshots::default()).await;
    let to = replica.clone();
    send(async move { to.intake().snapshot(to.raft(), elected(1), snapshot(1, FIRST)).await }).await;
    let to = replica.clone();
    send(async move {
        let appends = to.intake().appends(futures_util::stream::iter([append(1, FIRST, entries())]));
        to.raft().stream_append(appends).collect::<Vec<_>>().await
    })
    .await;
    heartbeat(&replica, FIRST + 5).await;
    heartbeat(&replica, ENTRIES).await;
    replica.intake().snapshot(replica.raft(), elected(2), snapshot(2, SECOND)).await.expect("the log runs");
    assert_eq!(replica.status().applied, LogIndex(SECOND));
    assert_eq!(*replica.failed().borrow(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_wait_for_a_snapshot_whose_leader_went_away() {
    let replica = start(&MemoryEngine::new(Duration::ZERO), &MemorySnapshots::default()).await;
    let to = replica.clone();
    let call = tokio::spawn(async move {
        // Its answer is never asked for.
        let _ = to.intake().snapshot(to.raft(), elected(1), snapshot(1, FIRST)).await;
    });
    tokio::time::sleep(TAKEN_UP).await;
    call.abort();
    let appends = replica.intake().appends(futures_util::stream::iter([append(1, FIRST, entries())]));
    let mut appends = std::pin::pin!(appends);
    assert!(appends.next().await.is_some());
    assert_eq!(replica.status().applied, LogIndex(FIRST), "they were let in before the snapshot");
}

/// Once this fails, openraft has mended it, and the intake has nothing to guard any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_overtakes_entries_ends_the_log_and_its_node_hears_and_starts_again() {
    let (memory, snapshots) = (MemoryEngine::new(Duration::ZERO), MemorySnapshots::default());
    let replica = start(&memory, &snapshots).await;
    let raft = replica.raft().clone();
    send(async move { raft.install_full_snapshot(elected(1), snapshot(1, FIRST)).await }).await;
    let raft = replica.raft().clone();
    send(async move { raft.append_entries(append(1, FIRST, entries())).await }).await;
    heartbeat(&replica, FIRST + 5).await;
    heartbeat(&replica, ENTRIES).await;
    let raft = replica.raft().clone();
    send(async move { raft.install_full_snapshot(elected(2), snapshot(2, SECOND)).await }).await;

    let mut failed = replica.failed();
    let why = tokio::time::timeout(PATIENCE, failed.wait_for(Option::is_some)).await.expect("it ends");
    assert_eq!(*why.expect("the replica is there"), Some(ReplicaFailure::Panicked));
    replica.shutdown().await;

    let replica = start(&memory.crash(), &snapshots).await;
    assert!(replica.status().applied >= LogIndex(FIRST), "what was durable is there");
    replica.intake().snapshot(replica.raft(), elected(2), snapshot(2, SECOND)).await.expect("the log runs");
    assert_eq!(replica.status().applied, LogIndex(SECOND));
}
