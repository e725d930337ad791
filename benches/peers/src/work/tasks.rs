//! What the tasks of one measurement have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use serde_json::Value;

use crate::backend::Backend;
use crate::cluster::Cluster;
use crate::measure::Window;

/// After an error, so that a service without a leader is not hammered.
const REST: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(super) struct Tasks {
    stop: AtomicBool,
    counts: AtomicBool,
    done: AtomicU64,
    errors: AtomicU64,
    error: Mutex<String>,
}

impl Tasks {
    pub(super) fn go_on(&self) -> bool {
        !self.stop.load(Relaxed)
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Whether what has just been done falls into the measurement; if so, it is counted.
    pub(super) fn counted(&self) -> bool {
        let counted = self.counts.load(Relaxed) && self.go_on();
        if counted {
            self.done.fetch_add(1, Relaxed);
        }
        counted
    }

    pub(super) async fn failed(&self, error: &anyhow::Error) {
        self.errors.fetch_add(1, Relaxed);
        *self.error.lock() = format!("{error:#}");
        tokio::time::sleep(REST).await;
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors.load(Relaxed)
    }

    /// The last one.
    pub(super) fn error(&self) -> String {
        self.error.lock().clone()
    }

    /// Lets the tasks run for `warmup`, measures for `took`, and stops them.
    pub(super) async fn measure(
        self: &Arc<Self>,
        backend: &dyn Backend,
        cluster: &Cluster,
        warmup: Duration,
        took: Duration,
    ) -> Result<Value> {
        tokio::time::sleep(warmup).await;
        let window = Window::open(backend, cluster).await;
        self.counts.store(true, Relaxed);
        tokio::time::sleep(took).await;
        let measured = window.close(backend, self.done.load(Relaxed)).await;
        self.stop();
        Ok(measured)
    }
}
