//! Operations that are due at fixed times, whether or not the ones before them have ended (an open loop).
//!
//! Whoever waits for an answer before it asks again asks less of a cluster that is slow, and leaves out the very times
//! that its users would have seen ("coordinated omission"). Here an operation's time counts from when it was due.

use std::cell::Cell;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The longest sleep of the thread, which ends after that.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// The shortest: what is due within it is told together, or the telling would take the processor from what is measured.
const SLEEP_MIN: Duration = Duration::from_micros(500);

/// So many operations a second. Dropped or closed, no more are due.
pub(super) struct Pace {
    began: Instant,
    rate: u32,
    /// Operations that are due and not begun.
    due: Arc<Semaphore>,
    begun: Cell<u64>,
}

impl Pace {
    /// The first is due now. A thread of its own keeps time: the runtime's timers know whole milliseconds only.
    pub(super) fn start(rate: u32) -> Self {
        let (began, due) = (Instant::now(), Arc::new(Semaphore::new(0)));
        let told = due.clone();
        thread::spawn(move || {
            let mut told_of = 0;
            while !told.is_closed() {
                let now = Instant::now();
                let due = (told_of..).take_while(|number| due_at(began, rate, *number) <= now).count();
                told.add_permits(due);
                told_of += due as u64;
                let left = due_at(began, rate, told_of).saturating_duration_since(now);
                thread::sleep(left.clamp(SLEEP_MIN, SLEEP_MAX));
            }
        });
        Self { began, rate, due, begun: Cell::new(0) }
    }

    /// When the next operation was due, once it is; none when the pace is closed.
    pub(super) async fn next(&self) -> Option<Instant> {
        self.due.acquire().await.ok()?.forget();
        let number = self.begun.get();
        self.begun.set(number + 1);
        Some(due_at(self.began, self.rate, number))
    }

    pub(super) fn close(&self) {
        self.due.close();
    }

    /// When those were due, before `end`, that nobody has begun.
    pub(super) fn left(&self, end: Instant) -> impl Iterator<Item = Instant> {
        let due = |number| due_at(self.began, self.rate, number);
        (self.begun.get()..).map(due).take_while(move |due| *due < end)
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.close();
    }
}

fn due_at(began: Instant, rate: u32, number: u64) -> Instant {
    began + Duration::from_secs_f64(number as f64 / f64::from(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_late_keeps_the_time_at_which_it_was_due() {
        let pace = Pace::start(1_000);
        let first = pace.next().await.unwrap();
        thread::sleep(Duration::from_millis(20));
        let second = pace.next().await.unwrap();
        assert_eq!(second - first, Duration::from_millis(1));
        assert!(second.elapsed() >= Duration::from_millis(19), "it was due long ago");
    }

    #[tokio::test]
    async fn what_nobody_began_is_told() {
        let pace = Pace::start(100);
        let first = pace.next().await.unwrap();
        pace.close();
        assert_eq!(pace.next().await, None);
        let left: Vec<Duration> =
            pace.left(first + Duration::from_millis(35)).map(|due| due - first).collect();
        assert_eq!(left, [10, 20, 30].map(Duration::from_millis));
    }
}
