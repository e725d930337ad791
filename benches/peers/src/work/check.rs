//! W5: every task asks again and again whether the token of a lock that it holds is still the current one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use super::tasks::Tasks;
use super::{connections_for, open};
use crate::backend::{Ask, Backend, Grant, Session};
use crate::cluster::Cluster;
use crate::measure::Latencies;

const WARMUP: Duration = Duration::from_millis(500);

pub(crate) async fn check(
    backend: &Arc<dyn Backend>,
    cluster: &Cluster,
    tasks: usize,
    took: Duration,
    tag: &str,
) -> Result<Value> {
    let leader = cluster.leader().await?;
    let locks: Vec<String> = (0..tasks).map(|task| format!("w5/{tag}/{task}")).collect();
    backend.prepare(&locks).await?;
    let connections = connections_for(tasks);
    let sessions = open(backend.as_ref(), connections, (tasks == 1).then_some(leader)).await?;
    let common = Arc::new(Tasks::default());
    let mut running = Vec::new();
    for (task, lock) in locks.into_iter().enumerate() {
        let session = sessions[task % connections].clone();
        let grant = session.acquire(&lock, Ask::Free).await?;
        session.verify(&grant).await?;
        running.push(tokio::spawn(checks(session, grant, common.clone())));
    }
    let measured = common.measure(backend.as_ref(), cluster, WARMUP, took).await?;
    let mut sum = Latencies::default();
    for task in running {
        sum.add(&task.await?);
    }
    let (errors, error) = (common.errors(), common.error());
    Ok(json!({ "m": measured, "check_us": sum.summary(), "errors": errors, "error": error }))
}

async fn checks(session: Arc<dyn Session>, grant: Grant, common: Arc<Tasks>) -> Latencies {
    let mut latencies = Latencies::default();
    while common.go_on() {
        let began = Instant::now();
        match session.check(&grant).await {
            Ok(true) if common.counted() => latencies.record(began.elapsed()),
            Ok(true) => {}
            Ok(false) => common.failed(&anyhow!("a lock that is held was called stale")).await,
            Err(error) => common.failed(&error).await,
        }
    }
    if let Err(error) = session.release(grant).await {
        common.failed(&error).await;
    }
    latencies
}
