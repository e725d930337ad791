//! openraft's own suite over every engine.

use std::sync::Arc;
use std::time::Duration;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use palisade_core::command::Command;
use palisade_core::ids::{ClusterName, NodeId, NodeName};
use palisade_core::reply::{Applied, EntryAt};
use palisade_core::table::LockTable;
use tempfile::TempDir;

use crate::engine::{Engine, EngineKind, Identity};
use crate::log_store::LogStore;
use crate::network::credentials::Credentials;
use crate::snapshot_store::{FileSnapshots, MemorySnapshots, SnapshotStore};
use crate::state_machine::StateMachine;
use crate::types::Types;
use crate::{MemoryEngine, Observer};

struct Nobody;

impl Observer for Nobody {
    fn applied(&mut self, _: EntryAt, _: &Command, _: &Applied, _: &LockTable) {}
    fn installed(&mut self, _: &LockTable) {}
}

async fn store(engine: Arc<dyn Engine>, snapshots: Arc<dyn SnapshotStore>) -> (LogStore, StateMachine) {
    let identity = Identity {
        node: NodeId(0),
        name: NodeName::new("a").expect("a name"),
        cluster: ClusterName::new("c").expect("a name"),
        cluster_id: None,
        incarnation: None,
    };
    let recovered = engine.load().expect("it loads");
    let credentials = Arc::new(Credentials::new(identity, engine.clone()));
    let (machine, _) = StateMachine::open(snapshots, Box::new(Nobody), credentials).await.expect("it opens");
    (LogStore::new(engine, recovered), machine)
}

struct OnDisk(EngineKind);

impl StoreBuilder<Types, LogStore, StateMachine, TempDir> for OnDisk {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<Types>> {
        let dir = TempDir::new().expect("a directory");
        let engine = self.0.open(&dir.path().join("log")).expect("it opens");
        let snapshots = FileSnapshots::open(&dir.path().join("snapshots")).expect("it opens");
        let (log, machine) = store(engine, Arc::new(snapshots)).await;
        Ok((dir, log, machine))
    }
}

struct InMemory(Duration);

impl StoreBuilder<Types, LogStore, StateMachine> for InMemory {
    async fn build(&self) -> Result<((), LogStore, StateMachine), StorageError<Types>> {
        let (log, machine) =
            store(Arc::new(MemoryEngine::new(self.0)), Arc::new(MemorySnapshots::default())).await;
        Ok(((), log, machine))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_keep_what_openraft_asks_of_a_store() {
    Suite::test_all(OnDisk(EngineKind::Segments)).await.expect("it conforms");
}

#[tokio::test(flavor = "multi_thread")]
async fn sled_keeps_what_openraft_asks_of_a_store() {
    Suite::test_all(OnDisk(EngineKind::Sled)).await.expect("it conforms");
}

#[tokio::test]
async fn memory_keeps_what_openraft_asks_of_a_store() {
    Suite::test_all(InMemory(Duration::ZERO)).await.expect("it conforms");
}

#[tokio::test(start_paused = true)]
async fn slow_memory_keeps_what_openraft_asks_of_a_store() {
    Suite::test_all(InMemory(Duration::from_millis(2))).await.expect("it conforms");
}
