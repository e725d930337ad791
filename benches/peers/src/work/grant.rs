//! W1: every task acquires and releases a lock of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use super::tasks::Tasks;
use super::{connections_for, open};
use crate::backend::{Ask, Backend, Session};
use crate::cluster::Cluster;
use crate::measure::Latencies;

const WARMUP: Duration = Duration::from_millis(800);

/// Where the connections go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Over all nodes. One task alone talks to the leader: the best case.
    Spread,
    Leader,
}

#[derive(Default)]
struct Cycles {
    acquire: Latencies,
    release: Latencies,
    cycle: Latencies,
}

pub(crate) async fn grant(
    backend: &Arc<dyn Backend>,
    cluster: &Cluster,
    tasks: usize,
    took: Duration,
    place: Place,
    tag: &str,
) -> Result<Value> {
    let leader = cluster.leader().await?;
    let locks: Vec<String> = (0..tasks).map(|task| format!("w1/{tag}/{task}")).collect();
    backend.prepare(&locks).await?;
    let connections = connections_for(tasks);
    let node = (tasks == 1 || place == Place::Leader).then_some(leader);
    let sessions = open(backend.as_ref(), connections, node).await?;
    let common = Arc::new(Tasks::default());
    let running: Vec<_> = locks
        .into_iter()
        .enumerate()
        .map(|(task, lock)| tokio::spawn(cycles(sessions[task % connections].clone(), lock, common.clone())))
        .collect();
    let measured = common.measure(backend.as_ref(), cluster, WARMUP, took).await?;
    let mut sum = Cycles::default();
    for task in running {
        let cycles = task.await?;
        sum.acquire.add(&cycles.acquire);
        sum.release.add(&cycles.release);
        sum.cycle.add(&cycles.cycle);
    }
    Ok(json!({
        "m": measured,
        "conns": connections,
        "acquire_us": sum.acquire.summary(),
        "release_us": sum.release.summary(),
        "cycle_us": sum.cycle.summary(),
        "errors": common.errors(),
        "error": common.error(),
    }))
}

async fn cycles(session: Arc<dyn Session>, lock: String, common: Arc<Tasks>) -> Cycles {
    let mut cycles = Cycles::default();
    while common.go_on() {
        let began = Instant::now();
        let cycle = async {
            let grant = session.acquire(&lock, Ask::Free).await?;
            let granted = Instant::now();
            session.release(grant).await?;
            Ok::<_, anyhow::Error>(granted)
        };
        match cycle.await {
            Ok(granted) => {
                let ended = Instant::now();
                if common.counted() {
                    cycles.acquire.record(granted - began);
                    cycles.release.record(ended - granted);
                    cycles.cycle.record(ended - began);
                }
            }
            Err(error) => common.failed(&error).await,
        }
    }
    cycles
}
