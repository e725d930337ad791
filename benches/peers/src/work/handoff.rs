//! W2: sessions queue for one lock, and release it at once. A hand-off is from the release's call to the next grant seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use super::tasks::Tasks;
use crate::backend::{Ask, Backend, Session};
use crate::cluster::Cluster;
use crate::measure::Latencies;

const WARMUP: Duration = Duration::from_millis(800);
/// A waiter's patience.
const PATIENCE: Duration = Duration::from_secs(20);

/// The lock, as its users see it.
struct Shared {
    lock: String,
    common: Arc<Tasks>,
    epoch: Instant,
    /// Who believes to hold it.
    inside: AtomicU64,
    overlaps: AtomicU64,
    /// When it was last released, in nanoseconds of the epoch; 0 before.
    released: AtomicU64,
}

#[derive(Default)]
struct Grants {
    handoff: Latencies,
    wait: Latencies,
}

pub(crate) async fn handoff(
    backend: &Arc<dyn Backend>,
    cluster: &Cluster,
    sessions: usize,
    took: Duration,
    tag: &str,
) -> Result<Value> {
    let lock = format!("w2/{tag}");
    backend.prepare(std::slice::from_ref(&lock)).await?;
    let common = Arc::new(Tasks::default());
    let shared = Arc::new(Shared {
        lock,
        common: common.clone(),
        epoch: Instant::now(),
        inside: AtomicU64::default(),
        overlaps: AtomicU64::default(),
        released: AtomicU64::default(),
    });
    let mut running = Vec::new();
    for node in 0..sessions {
        running.push(tokio::spawn(turns(backend.open(node).await?, shared.clone())));
    }
    let measured = common.measure(backend.as_ref(), cluster, WARMUP, took).await?;
    let mut sum = Grants::default();
    let mut each = Vec::new();
    for task in running {
        let grants = task.await?;
        sum.handoff.add(&grants.handoff);
        sum.wait.add(&grants.wait);
        each.push(grants.wait.len());
    }
    Ok(json!({
        "m": measured,
        "handoff_us": sum.handoff.summary(),
        "wait_us": sum.wait.summary(),
        "overlaps": shared.overlaps.load(SeqCst),
        "errors": common.errors(),
        "error": common.error(),
        "fair_min": each.iter().min(),
        "fair_max": each.iter().max(),
    }))
}

impl Shared {
    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

async fn turns(session: Arc<dyn Session>, shared: Arc<Shared>) -> Grants {
    let mut grants = Grants::default();
    while shared.common.go_on() {
        let began = Instant::now();
        let granted = match tokio::time::timeout(PATIENCE, session.acquire(&shared.lock, Ask::Queue)).await {
            Ok(Ok(grant)) => grant,
            Ok(Err(error)) => {
                shared.common.failed(&error).await;
                continue;
            }
            Err(_) => {
                shared.common.failed(&anyhow!("not granted within {PATIENCE:?}")).await;
                continue;
            }
        };
        let (now, released) = (shared.now(), shared.released.load(SeqCst));
        if shared.inside.fetch_add(1, SeqCst) != 0 {
            shared.overlaps.fetch_add(1, SeqCst);
        }
        if shared.common.counted() {
            if released > 0 {
                grants.handoff.record(Duration::from_nanos(now.saturating_sub(released)));
            }
            grants.wait.record(began.elapsed());
        }
        shared.inside.fetch_sub(1, SeqCst);
        shared.released.store(shared.now(), SeqCst);
        if let Err(error) = session.release(granted).await {
            shared.common.failed(&error).await;
        }
    }
    grants
}
