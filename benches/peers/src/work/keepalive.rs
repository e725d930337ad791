//! W3: leases that are kept alive at a third of their TTL; then as fast as the service takes it.
//!
//! Where the client library keeps them alive by itself, the steady part only looks on, and counts the keepalives that are
//! due: one for each lease and third of the TTL, as the others make them. A library that makes more does so at its own
//! cost.

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
            // All groups together have all leases.
            let count = leases / GROUPS + usize::from(group < leases % GROUPS);
            tokio::spawn(async move { backend.keep_group(group, count, ttl).await })
        })
        .collect();
    let mut groups = Vec::new();
    for group in opening {
        groups.push(group.await??);
    }
    let total: usize = groups.iter().map(|group| group.len()).sum();
    let open_s = began.elapsed().as_secs_f64();
    let were_told = groups.iter().all(|group| group.was_told());
    let keep_themselves = groups.iter().all(|group| group.keeps_itself());
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
    let due = (total as f64 * STEADY.div_duration_f64(shared.period)) as u64;
    let steady = shared.measure(backend.as_ref(), cluster, STEADY, keep_themselves.then_some(due)).await;
    let memory = sample(&cluster.pids());
    shared.flat.store(true, Relaxed);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let flat = shared.measure(backend.as_ref(), cluster, FLAT, None).await;
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
        "opens_per_s": were_told.then_some(total as f64 / open_s),
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
    /// `due`: how many keepalives it takes, where they are not counted.
    async fn measure(
        &self,
        backend: &dyn Backend,
        cluster: &Cluster,
        took: Duration,
        due: Option<u64>,
    ) -> Value {
        let window = Window::open(backend, cluster).await;
        let before = self.renewed.load(Relaxed);
        tokio::time::sleep(took).await;
        window.close(backend, due.unwrap_or_else(|| self.renewed.load(Relaxed) - before)).await
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
    let mut next = 0;
    let mut turn = |step: usize, length: usize| {
        let (from, to) = (next, (next + step).min(length));
        next = if to == length { 0 } else { to };
        (from, to)
    };
    let mut tick = tokio::time::interval(shared.period.mul_f64(STEADY_STEP as f64 / group.len() as f64));
    while shared.common.go_on() && !shared.flat.load(Relaxed) {
        tick.tick().await;
        if group.keeps_itself() {
            continue;
        }
        let (from, to) = turn(STEADY_STEP, group.len());
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
