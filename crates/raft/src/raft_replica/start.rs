//! Starting a replica: identity, storage, then openraft, which applies what is known to be committed.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use openraft::{Config, SnapshotPolicy};
use palisade_core::ids::NodeId;
use palisade_host::Host;
use parking_lot::Mutex;

use super::admission::Admission;
use super::pulse::{Heard, beat};
use super::watch::watch;
use super::{Inner, Replica};
use crate::engine::{Engine, Identity, LogPoint, Recovered};
use crate::error::{OpenError, StartError};
use crate::log_store::LogStore;
use crate::network::Patience;
use crate::network::client::Peers;
use crate::network::credentials::Credentials;
use crate::network::identify::Introduction;
use crate::network::intake::Intake;
use crate::replica::{Observer, ReplicaConfig};
use crate::snapshot_store::SnapshotStore;
use crate::state_machine::StateMachine;
use crate::types::Raft;

/// Entries in one append to a follower; its bytes are bounded apart.
const APPEND_ENTRIES_MAX: u64 = 4_096;
/// Entries that are purged at one time, so that purging is rare.
const PURGE_BATCH: u64 = 4_096;
/// How long a snapshot may take on its way to a follower, in milliseconds.
const SNAPSHOT_WAIT_MS: u64 = 120_000;

pub(super) async fn start(
    config: ReplicaConfig,
    host: Host,
    engine: Arc<dyn Engine>,
    snapshots: Arc<dyn SnapshotStore>,
    observer: Box<dyn Observer>,
) -> Result<Replica, StartError> {
    let raft_config = raft_config(&config)?;
    let identity = check_identity(&config, &*engine)?;
    let recovered = engine.load()?;
    let credentials = Arc::new(Credentials::new(identity.clone(), engine.clone()));
    let places = (engine.place(), snapshots.place());
    let (machine, shared) = StateMachine::open(snapshots, observer, credentials.clone()).await?;
    check_founding(&identity, &credentials.identity())?;
    let snapshot = machine.applied().map(LogPoint::from);
    check_end(&recovered, snapshot, places)?;
    let pristine = recovered.vote.is_none()
        && recovered.log.is_none()
        && recovered.purged.is_none()
        && snapshot.is_none();

    let patience = Patience::new(&config);
    let peers = Peers::new(host.net.clone(), credentials.clone(), patience, config.node.0);
    let log = LogStore::new(engine.clone(), recovered);
    let raft = Raft::new(config.node.0, Arc::new(raft_config), peers, log, machine).await;
    let raft = raft.map_err(|fatal| StartError::Raft(fatal.to_string()))?;
    let (leadership, failed, watcher) = watch(&raft, engine.failed());
    let heard = Arc::new(Heard::default());
    let beating = beat(raft.clone(), heard.clone(), leadership.clone(), config.heartbeat);
    let inner = Inner {
        raft,
        shared,
        engine,
        credentials,
        node: config.node,
        clock: host.clock,
        net: host.net,
        election_max: config.election_max,
        admission: Admission::new(),
        leadership,
        failed,
        introduction: Mutex::new(Introduction::default()),
        intake: Intake::default(),
        heard,
        pristine: AtomicBool::new(pristine),
        tasks: [watcher, beating],
    };
    Ok(Replica { inner: Arc::new(inner) })
}

fn raft_config(config: &ReplicaConfig) -> Result<Config, StartError> {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let raft = Config {
        cluster_name: config.cluster.to_string(),
        heartbeat_interval: millis(config.heartbeat),
        election_timeout_min: millis(config.election_min),
        election_timeout_max: millis(config.election_max),
        install_snapshot_timeout: SNAPSHOT_WAIT_MS,
        max_payload_entries: APPEND_ENTRIES_MAX,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(config.snapshot_every),
        max_in_snapshot_log_to_keep: config.keep_log,
        purge_batch_size: PURGE_BATCH.min(config.snapshot_every.max(1)),
        // An unreachable peer is tried again soon: followers wait for little more than this before they elect.
        backoff: "20ms 40ms ...200ms".to_owned(),
        // A leader that restarts is a follower first; a term has one leader and one process that leads it.
        enable_leader_restore: Some(false),
        enable_pre_vote: Some(true),
        ..Config::default()
    };
    raft.validate().map_err(|why| StartError::Config(why.to_string()))
}

fn check_identity(config: &ReplicaConfig, engine: &dyn Engine) -> Result<Identity, StartError> {
    let identity = engine.identity().ok_or(StartError::NoIdentity)?;
    if identity.node != config.node || identity.cluster != config.cluster {
        return Err(other(identity.node, &identity));
    }
    Ok(identity)
}

/// The snapshot belongs to the cluster that the log belongs to.
fn check_founding(recorded: &Identity, found: &Identity) -> Result<(), StartError> {
    match (recorded.cluster_id, found.cluster_id) {
        (Some(recorded_id), Some(found_id)) if recorded_id != found_id => Err(other(found.node, recorded)),
        _ => Ok(()),
    }
}

fn other(recorded: NodeId, identity: &Identity) -> StartError {
    StartError::OtherIdentity { recorded, cluster: identity.cluster.to_string() }
}

/// A log that ends before what it says is committed has lost its end.
fn check_end(
    recovered: &Recovered,
    snapshot: Option<LogPoint>,
    (log, snapshots): (PathBuf, PathBuf),
) -> Result<(), StartError> {
    let index = |point: Option<LogPoint>| point.map_or(0, |point| point.index);
    let last = recovered.log.map_or(0, |(_, last)| last);
    let end = last.max(index(recovered.purged)).max(index(snapshot));
    if index(recovered.committed) > end {
        let why =
            format!("entries up to {} were committed, but it ends at {end}", index(recovered.committed));
        return Err(OpenError::damaged(log, why).into());
    }
    if index(recovered.purged) > index(snapshot) {
        let why = format!(
            "the log below entry {} is gone, but the newest snapshot covers entries up to {} only",
            index(recovered.purged) + 1,
            index(snapshot)
        );
        return Err(OpenError::damaged(snapshots, why).into());
    }
    Ok(())
}
