//! Latencies, kept with three digits.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Map, Value};

/// Longest latency that is told apart, in nanoseconds: a minute.
const LATENCY_MAX: u64 = 60_000_000_000;

/// Names and shares of what is told of them; the maximum is told besides.
pub(super) const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// How long something took, each time.
pub(in super::super) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    #[allow(clippy::expect_used, reason = "the bounds are constants")]
    fn default() -> Self {
        Self(Histogram::new_with_max(LATENCY_MAX, 3).expect("constant bounds that make a histogram"))
    }
}

impl Latencies {
    pub(in super::super) fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn add(&mut self, other: &Self) {
        // Of the same bounds, so nothing is left out.
        let _ = self.0.add(&other.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In seconds.
    pub(super) fn at(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1e9
    }

    /// In seconds.
    pub(super) fn max(&self) -> f64 {
        self.0.max() as f64 / 1e9
    }

    /// For people, in milliseconds.
    pub(super) fn millis(&self, quantile: f64) -> String {
        if self.is_empty() { "-".to_owned() } else { format!("{:.2}", self.at(quantile) * 1e3) }
    }

    /// Names and values of all that is told, in seconds.
    pub(super) fn told(&self) -> impl Iterator<Item = (&'static str, f64)> {
        QUANTILES.into_iter().map(|(name, at)| (name, self.at(at))).chain([("max", self.max())])
    }

    pub(super) fn json(&self) -> Value {
        if self.is_empty() {
            return Value::Null;
        }
        let told = self.told().map(|(name, seconds)| (name.to_owned(), seconds.into()));
        Value::Object(told.collect::<Map<_, _>>())
    }
}
