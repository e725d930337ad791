//! Another client, which the load of a story must not harm: one session that acquires and releases at a fixed rate.
//!
//! It has a thread, a runtime and a connection of its own. A cycle begins when it is due, whether or not those before have
//! ended, and its time counts from then: neither this process's own work nor a slow answer hides what the cluster did.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow};
use palisade_client::{Client, ClientConfig, Session};
use palisade_core::ids::LockName;
use palisade_host::Host;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::super::pace::Pace;
use super::super::report::Latencies;

/// Cycles that are due each second.
const RATE: u32 = 100;
/// Locks, taken in turn: that many cycles can be under way at one time.
const LOCKS: usize = 64;
/// For one cycle.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running probe.
pub(super) struct Probe {
    shared: Arc<Shared>,
    running: Option<JoinHandle<anyhow::Result<()>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    cycles: Mutex<Vec<Cycle>>,
    /// The last one of each lock.
    tokens: Mutex<BTreeMap<LockName, u64>>,
    not_rising: AtomicU64,
    errors: AtomicU64,
}

#[derive(Clone, Copy)]
struct Cycle {
    due: Instant,
    took: Duration,
}

impl Probe {
    /// Begins at once.
    pub(super) fn start(settings: ClientConfig) -> Self {
        let shared = Arc::new(Shared::default());
        let probing = shared.clone();
        let running = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(probe(settings, &probing))
        });
        Self { shared, running: Some(running) }
    }

    /// Latencies of the cycles that were due between the two.
    pub(super) fn between(&self, from: Instant, to: Instant) -> Latencies {
        let mut latencies = Latencies::default();
        for cycle in self.shared.cycles.lock().iter().filter(|cycle| from <= cycle.due && cycle.due < to) {
            latencies.record(cycle.took);
        }
        latencies
    }

    /// The worst cycle that was under way between the two.
    pub(super) fn worst(&self, from: Instant, to: Instant) -> Duration {
        let cycles = self.shared.cycles.lock();
        let during = cycles.iter().filter(|cycle| cycle.due < to && cycle.due + cycle.took > from);
        during.map(|cycle| cycle.took).max().unwrap_or_default()
    }

    pub(super) fn cycles(&self) -> u64 {
        self.shared.cycles.lock().len() as u64
    }

    pub(super) fn not_rising(&self) -> u64 {
        self.shared.not_rising.load(Ordering::Relaxed)
    }

    pub(super) fn errors(&self) -> u64 {
        self.shared.errors.load(Ordering::Relaxed)
    }

    /// Ends it.
    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let Some(running) = self.running.take() else { return Ok(()) };
        let ended = tokio::task::spawn_blocking(move || running.join()).await?;
        ended.map_err(|_| anyhow::anyhow!("the probe's thread panicked"))?
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

async fn probe(settings: ClientConfig, shared: &Arc<Shared>) -> anyhow::Result<()> {
    let client = Client::new(settings, Host::system())?;
    let session = client.open_session().await?;
    let name = |at: usize| LockName::new(&format!("scale/probe/{}/{at}", std::process::id()));
    let locks: Vec<LockName> =
        (0..LOCKS).map(name).collect::<Result<_, _>>().context("the name of a lock")?;
    let (pace, mut running) = (Pace::start(RATE), JoinSet::new());
    for lock in locks.iter().cycle() {
        let Some(due) = pace.next().await else { break };
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        let (session, lock, shared) = (session.clone(), lock.clone(), shared.clone());
        running.spawn(async move {
            let ended = timeout(PATIENCE, cycle(&session, &lock)).await;
            shared.ended(due, &lock, ended.unwrap_or_else(|_| Err(anyhow!("no answer within {PATIENCE:?}"))));
        });
        while running.try_join_next().is_some() {}
    }
    while running.join_next().await.is_some() {}
    drop(session);
    client.close().await;
    Ok(())
}

impl Shared {
    fn ended(&self, due: Instant, lock: &LockName, token: anyhow::Result<u64>) {
        match token {
            Ok(token) => {
                let last = self.tokens.lock().insert(lock.clone(), token).unwrap_or_default();
                self.not_rising.fetch_add(u64::from(token <= last), Ordering::Relaxed);
            }
            Err(error) => {
                tracing::warn!(%error, "a cycle of the probe failed");
                self.errors.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.cycles.lock().push(Cycle { due, took: due.elapsed() });
    }
}

/// Takes a lock and releases it; the token that it had.
pub(super) async fn cycle(session: &Session, lock: &LockName) -> anyhow::Result<u64> {
    let guard = session.lock(lock.clone()).acquire().await?;
    let token = guard.token().get();
    guard.release().await?;
    Ok(token)
}
