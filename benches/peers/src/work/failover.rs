//! W4: the leader is killed or stopped under load. How long until a grant whose request began after that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::backend::{Ask, Backend, Session};
use crate::cluster::{Cluster, NODES};

/// Connections to each node, and tasks for each.
const CONNECTIONS: usize = 2;
const TASKS: usize = 4;
/// Lock names of a task: one that an attempt left undecided is not asked for again.
const NAMES: usize = 64;
/// An attempt is given up after this.
const PATIENCE: Duration = Duration::from_millis(250);
/// Of load, before the signal.
const WARMUP: Duration = Duration::from_secs(2);
/// Longest wait for half the rate to be back.
const RECOVERY: Duration = Duration::from_secs(35);
/// The rate is that of so long.
const RATE_SECS: f64 = 1.0;

/// Seconds of the epoch: when the request began, and when the grant was seen.
type Granted = (f64, f64);

struct Shared {
    epoch: Instant,
    stop: AtomicBool,
    granted: Mutex<Vec<Granted>>,
}

impl Shared {
    fn now(&self) -> f64 {
        self.epoch.elapsed().as_secs_f64()
    }

    /// Grants seen in the time of a rate before `end`, whose requests began after `after`.
    fn rate(&self, end: f64, after: f64) -> f64 {
        let granted = self.granted.lock();
        let counted =
            granted.iter().filter(|(began, seen)| *seen > end - RATE_SECS && *seen <= end && *began > after);
        counted.count() as f64 / RATE_SECS
    }
}

pub(crate) async fn failover(
    backend: &Arc<dyn Backend>,
    cluster: &mut Cluster,
    signal: Signal,
    tag: &str,
) -> Result<Value> {
    let tasks = NODES * CONNECTIONS * TASKS;
    let leader = cluster.leader().await?;
    let names: Vec<Vec<String>> =
        (0..tasks).map(|task| (0..NAMES).map(|name| format!("w4/{tag}/{task}-{name}")).collect()).collect();
    backend.prepare(&names.concat()).await?;
    let mut sessions = Vec::new();
    for connection in 0..NODES * CONNECTIONS {
        sessions.push(backend.open(connection % NODES).await?);
    }
    let shared =
        Arc::new(Shared { epoch: Instant::now(), stop: AtomicBool::default(), granted: Mutex::default() });
    let running: Vec<_> = names
        .into_iter()
        .enumerate()
        .map(|(task, names)| {
            tokio::spawn(attempts(sessions[task % sessions.len()].clone(), names, shared.clone()))
        })
        .collect();
    tokio::time::sleep(WARMUP).await;
    let signalled = shared.now();
    cluster.signal(leader, signal)?;
    let before = shared.rate(signalled, 0.0);
    while shared.now() < signalled + RECOVERY.as_secs_f64() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = shared.now();
        if now > signalled + 1.5 && shared.rate(now, signalled) >= before / 2.0 {
            break;
        }
    }
    shared.stop.store(true, Relaxed);
    for task in running {
        task.await?;
    }
    drop(sessions);
    if signal == Signal::STOP {
        cluster.signal(leader, Signal::CONT)?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        cluster.ready().await?;
    } else {
        cluster.restart(leader).await?;
    }
    let mut granted = std::mem::take(&mut *shared.granted.lock());
    granted.sort_by(|left, right| left.1.total_cmp(&right.1));
    story(&granted, signalled, before)
}

/// `granted`: in the order in which they were seen.
fn story(granted: &[Granted], signalled: f64, before: f64) -> Result<Value> {
    let first = granted.iter().find(|(began, _)| *began > signalled).map(|(_, seen)| *seen);
    let first = first.with_context(|| format!("no grant within {RECOVERY:?} of the signal"))?;
    // From just before the signal on.
    let silences = granted.windows(2).filter(|pair| pair[1].1 > signalled - 0.1);
    let silence = silences.map(|pair| pair[1].1 - pair[0].1).fold(0.0, f64::max);
    Ok(json!({ "first_grant_s": first - signalled, "gap_s": silence, "rate_before": before }))
}

async fn attempts(session: Arc<dyn Session>, names: Vec<String>, shared: Arc<Shared>) {
    let mut name = 0;
    while !shared.stop.load(Relaxed) {
        let began = shared.now();
        let asked = session.acquire(&names[name % NAMES], Ask::Free);
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(grant)) => {
                shared.granted.lock().push((began, shared.now()));
                let released = tokio::time::timeout(PATIENCE, session.release(grant)).await;
                name += usize::from(!matches!(released, Ok(Ok(()))));
            }
            Ok(Err(_)) => {
                name += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(_) => name += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_grant_is_of_a_request_that_began_after_the_signal() {
        let granted = [(0.0, 0.5), (0.9, 1.2), (1.1, 3.0), (3.0, 3.1)];
        let told = story(&granted, 1.0, 10.0).expect("a grant after the signal");
        assert_eq!(told["first_grant_s"], 2.0);
        assert_eq!(told["gap_s"], 1.8);
        assert!(story(&granted, 4.0, 10.0).is_err());
    }
}
