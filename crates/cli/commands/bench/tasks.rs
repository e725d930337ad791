//! What the tasks of one measurement have in common: when they count, when they stop, and what went wrong.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::time::Duration;

use anyhow::anyhow;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::Timing;
use crate::commands::Failure;
use crate::exit::Exit;

/// After an error, so that a cluster without a leader is not hammered.
const REST: Duration = Duration::from_millis(20);
/// How long the last operations may take once a measurement is over, beside the patience of a single request.
const LAST: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Tasks {
    began: Cell<Option<Instant>>,
    ended: Cell<Option<Instant>>,
    stop: Cell<bool>,
    errors: Cell<u64>,
    error: RefCell<Option<String>>,
}

impl Tasks {
    pub(super) fn go_on(&self) -> bool {
        !self.stop.get()
    }

    /// Whether what was due, or ended, then belongs to the measurement.
    pub(super) fn counts(&self, at: Instant) -> bool {
        self.began.get().is_some_and(|began| began <= at) && self.ended.get().is_none_or(|ended| at < ended)
    }

    pub(super) fn begin(&self) {
        self.began.set(Some(Instant::now()));
    }

    pub(super) fn stop(&self) {
        self.ended.set(Some(Instant::now()));
        self.stop.set(true);
    }

    /// Lets the tasks run for the warm-up, counts, and stops them.
    pub(super) async fn measure(&self, timing: &Timing) {
        sleep(timing.warmup).await;
        self.begin();
        sleep(timing.duration).await;
        self.stop();
    }

    /// When the measurement ended; now, before that.
    pub(super) fn end(&self) -> Instant {
        self.ended.get().unwrap_or_else(Instant::now)
    }

    /// So many in the time of the measurement, for each second.
    pub(super) fn per_second(&self, count: u64) -> f64 {
        let took = self.began.get().map_or(Duration::ZERO, |began| self.end() - began);
        count as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    pub(super) async fn failed(&self, error: impl Display) {
        self.errors.set(self.errors.get() + 1);
        *self.error.borrow_mut() = Some(error.to_string());
        sleep(REST).await;
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors.get()
    }

    /// The last one.
    pub(super) fn error(&self) -> Option<String> {
        self.error.borrow().clone()
    }
}

/// One more.
pub(super) fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// Waits for the tasks, which were told to stop.
pub(super) async fn end(running: Vec<JoinHandle<()>>, patience: Duration) -> Result<(), Failure> {
    let patience = patience + LAST;
    let all = async {
        for task in running {
            task.await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    match timeout(patience, all).await {
        Ok(ended) => Ok(ended?),
        Err(_) => {
            Err(Failure::new(Exit::UNAVAILABLE, anyhow!("the last requests did not end within {patience:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_falls_between_begin_and_stop_counts() {
        let tasks = Tasks::default();
        let before = Instant::now();
        assert!(!tasks.counts(before));
        sleep(Duration::from_secs(1)).await;
        tasks.begin();
        let within = Instant::now();
        sleep(Duration::from_secs(2)).await;
        assert!(tasks.go_on());
        tasks.stop();
        assert!(!tasks.go_on());
        assert!(tasks.counts(within));
        assert!(!tasks.counts(before) && !tasks.counts(Instant::now()));
        assert_eq!(tasks.per_second(10), 5.0);
    }
}
