//! How long this process stood still.

use std::time::Duration;

use crate::clock::Moment;

/// Compares when a task was to wake with when it did. Pure: it is handed the time.
#[derive(Clone, Copy, Debug)]
pub struct PauseMeter {
    interval: Duration,
    last: Option<Moment>,
}

impl PauseMeter {
    /// For a task that wakes each `interval`.
    pub fn new(interval: Duration) -> Self {
        Self { interval, last: None }
    }

    /// The task is awake; by how much later than it should be.
    pub fn tick(&mut self, now: Moment) -> Duration {
        let late = self.last.map(|last| now.since(last).saturating_sub(self.interval));
        self.last = Some(now);
        late.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_what_exceeds_the_interval() {
        let mut meter = PauseMeter::new(Duration::from_millis(100));
        let start = Moment::from_nanos(1);
        assert_eq!(meter.tick(start), Duration::ZERO);
        assert_eq!(meter.tick(start + Duration::from_millis(100)), Duration::ZERO);
        assert_eq!(meter.tick(start + Duration::from_millis(5_200)), Duration::from_secs(5));
    }
}
