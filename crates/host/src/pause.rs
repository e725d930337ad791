//! How long this process stood still.

use std::time::Duration;

use crate::clock::Moment;

/// Compares when a task was to wake with when it did. Pure: it is handed the time.
#[derive(Clone, Copy, Debug, Default)]
pub struct PauseMeter {
    last: Option<Moment>,
}

impl PauseMeter {
    /// The task is awake, which was to sleep for `interval` at most; by how much later than it should be.
    pub fn tick(&mut self, now: Moment, interval: Duration) -> Duration {
        let late = self.last.map(|last| now.since(last).saturating_sub(interval));
        self.last = Some(now);
        late.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_what_exceeds_the_interval() {
        let (mut meter, tenth) = (PauseMeter::default(), Duration::from_millis(100));
        let start = Moment::from_nanos(1);
        assert_eq!(meter.tick(start, tenth), Duration::ZERO);
        assert_eq!(meter.tick(start + tenth, tenth), Duration::ZERO);
        assert_eq!(meter.tick(start + Duration::from_millis(5_200), tenth), Duration::from_secs(5));
        assert_eq!(meter.tick(start + Duration::from_millis(5_250), tenth), Duration::ZERO, "woken before");
    }
}
