//! W3: leases that are kept alive at a third of their TTL; then as fast as the service takes it.
//!
//! Where the client library keeps them alive by itself, the steady part only looks on: it renews one lease a second and
//! connection, for a latency, and counts what the library sent by the service's own counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use super::tasks::Tasks;
use crate::backend::{Backend, KeepGroup};
use crate::cluster::Cluster;
use crate::measure::{Latencies, Window, sample};

/// Connections.
const GROUPS: usize = 30;
/// Leases renewed at once while steady, and flat out.
const STEADY_STEP: usize = 8;
const FLAT_STEP: usize = 64;
const STEADY: Duration = Duration::from_secs(7);
const FLAT: Duration = Duration::from_secs(3);

struct Shared {
    common: Tasks,
    flat: AtomicBool,
    renewed: AtomicU64,
    lost: AtomicU64,
    period: Duration,
}

pub(crate) async fn keepalive(
    backend: &Arc<dyn Backend>,
    cluster: &Cluster,
    leases: usize,
    ttl: Duration,
) -> Result<Value> {
    let before = sample(&cluster.pids());
    let began = Instant::now();
    let opening: Vec<_> = (0..GROUPS)
        .map(|group| {
            let backend = backend.clone();
            tokio::spawn(async move { backend.keep_group(group, leases / GROUPS, ttl).await })
        })
        .collect();
    let mut groups = Vec::new();
    for group in opening {
        groups.push(group.await??);
    }
    let total: usize = groups.iter().map(|group| group.len()).sum();
    let open_s = began.elapsed().as_secs_f64();
    let shared = Arc::new(Shared {
        common: Tasks::default(),
        flat: AtomicBool::default(),
        renewed: AtomicU64::default(),
        lost: AtomicU64::default(),
        period: ttl / 3,
    });
    let running: Vec<_> =
        groups.into_iter().map(|group| tokio::spawn(beats(group, shared.clone()))).collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let steady = shared.measure(backend.as_ref(), cluster, STEADY).await;
    let memory = sample(&cluster.pids());
    shared.flat.store(true, Relaxed);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let flat = shared.measure(backend.as_ref(), cluster, FLAT).await;
    shared.common.stop();
    let mut latencies = Latencies::default();
    let mut lost_steady = 0;
    for task in running {
        let (beat, lost) = task.await?;
        latencies.add(&beat);
        lost_steady += lost;
    }
    Ok(json!({
        "leases": total,
        "open_s": open_s,
        "opens_per_s": total as f64 / open_s,
        "steady": steady,
        "flat": flat,
        "beat_us": latencies.summary(),
        "lost_steady": lost_steady,
        "lost": shared.lost.load(Relaxed),
        "errors": shared.common.errors(),
        "error": shared.common.error(),
        "kb_per_lease": (memory.pss_kb as f64 - before.pss_kb as f64) / total as f64,
    }))
}

impl Shared {
    async fn measure(&self, backend: &dyn Backend, cluster: &Cluster, took: Duration) -> Value {
        let window = Window::open(backend, cluster).await;
        let before = self.renewed.load(Relaxed);
        tokio::time::sleep(took).await;
        window.close(backend, self.renewed.load(Relaxed) - before).await
    }

    /// Renews `from..to`, and counts. How many were not renewed.
    async fn beat(&self, group: &mut dyn KeepGroup, from: usize, to: usize) -> u64 {
        let renewed = match group.beat(from, to).await {
            Ok(renewed) => renewed,
            Err(error) => {
                self.common.failed(&error).await;
                0
            }
        };
        let lost = ((to - from) as u64).saturating_sub(renewed);
        self.renewed.fetch_add(renewed, Relaxed);
        self.lost.fetch_add(lost, Relaxed);
        lost
    }
}

/// Latencies while steady, and how many leases were not renewed then.
async fn beats(mut group: Box<dyn KeepGroup>, shared: Arc<Shared>) -> (Latencies, u64) {
    let (mut latencies, mut lost) = (Latencies::default(), 0);
    let (step, period) = match group.keeps_itself() {
        true => (1, Duration::from_secs(1)),
        false => (STEADY_STEP, shared.period.mul_f64(STEADY_STEP as f64 / group.len() as f64)),
    };
    let mut next = 0;
    let mut turn = |step: usize, length: usize| {
        let (from, to) = (next, (next + step).min(length));
        next = if to == length { 0 } else { to };
        (from, to)
    };
    let mut tick = tokio::time::interval(period);
    while shared.common.go_on() && !shared.flat.load(Relaxed) {
        tick.tick().await;
        let (from, to) = turn(step, group.len());
        let began = Instant::now();
        lost += shared.beat(group.as_mut(), from, to).await;
        latencies.record(began.elapsed());
    }
    lost += group.lost();
    while shared.common.go_on() {
        let (from, to) = turn(FLAT_STEP, group.len());
        shared.beat(group.as_mut(), from, to).await;
    }
    (latencies, lost)
}
