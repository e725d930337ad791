//! How long the disk took for its last flushes.

use std::time::Duration;

use parking_lot::Mutex;

/// Flushes that are remembered for the percentiles.
const REMEMBERED: usize = 1_024;

/// Counts flushes and remembers how long the last ones took.
#[derive(Debug)]
pub struct FlushMeter {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    count: u64,
    micros: Vec<u32>,
}

/// What a [`FlushMeter`] has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushTimes {
    /// Flushes since the start.
    pub count: u64,
    /// Median of the last 1,024, in microseconds.
    pub p50_micros: u64,
    /// 99th percentile of the last 1,024, in microseconds.
    pub p99_micros: u64,
}

impl Default for FlushMeter {
    fn default() -> Self {
        Self { state: Mutex::new(State { count: 0, micros: Vec::with_capacity(REMEMBERED) }) }
    }
}

impl FlushMeter {
    /// One more flush.
    pub fn record(&self, took: Duration) {
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let mut state = self.state.lock();
        let at = usize::try_from(state.count % REMEMBERED as u64).unwrap_or(0);
        match state.micros.get_mut(at) {
            Some(slot) => *slot = micros,
            None => state.micros.push(micros),
        }
        state.count += 1;
    }

    /// Count and percentiles.
    pub fn times(&self) -> FlushTimes {
        let (count, mut micros) = {
            let state = self.state.lock();
            (state.count, state.micros.clone())
        };
        micros.sort_unstable();
        let at = |percent: usize| micros.get((micros.len() * percent / 100).min(micros.len().max(1) - 1));
        let micros_at = |percent| at(percent).copied().map_or(0, u64::from);
        FlushTimes { count, p50_micros: micros_at(50), p99_micros: micros_at(99) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_last_flushes() {
        let meter = FlushMeter::default();
        assert_eq!(meter.times(), FlushTimes::default());
        for _ in 0..REMEMBERED {
            meter.record(Duration::from_secs(1));
        }
        for micros in 1..=1_024 {
            meter.record(Duration::from_micros(micros));
        }
        assert_eq!(meter.times(), FlushTimes { count: 2_048, p50_micros: 513, p99_micros: 1_014 });
    }
}
