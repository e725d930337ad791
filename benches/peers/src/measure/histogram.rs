//! Latencies.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// Longest latency that is told apart, nanoseconds: two minutes.
const LATENCY_MAX: u64 = 120_000_000_000;

/// A histogram of latencies, three digits each.
pub(crate) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    #[allow(clippy::expect_used, reason = "the bounds are constants")]
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("constant bounds that make a histogram"))
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        // Of the same bounds, so nothing is left out.
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len()
    }

    /// In microseconds.
    pub(crate) fn summary(&self) -> Value {
        let quantile = |share| self.0.value_at_quantile(share) as f64 / 1_000.0;
        json!({
            "n": self.0.len(),
            "mean": self.0.mean() / 1_000.0,
            "p50": quantile(0.5),
            "p95": quantile(0.95),
            "p99": quantile(0.99),
            "max": self.0.max() as f64 / 1_000.0,
        })
    }
}

/// Not a number when there is none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }
}
