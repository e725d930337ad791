//! In place of the library of this name, which openraft counts its batches with.
//!
//! That one makes tables of the boundaries of sixteen scales at its first use, of which openraft uses one: 27 MB in each
//! node, as much as everything else that a node keeps under load. Here are the parts of its interface that openraft
//! calls, over one scale whose boundaries are computed. Nothing of the product reads the numbers.

use std::fmt;
use std::marker::PhantomData;

/// Bits below the highest one that tell two buckets apart: values are known to a quarter.
const BITS: u32 = 2;
const GROUP: usize = 1 << BITS;
/// Values below `GROUP` have a bucket of their own; then each power of two has `GROUP` of them.
const BUCKETS: usize = (u64::BITS - BITS + 1) as usize * GROUP;

/// How often values of each size were recorded. The parameter stands for what the other library keeps beside its
/// slots; openraft keeps nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram<T = ()> {
    /// As far as any value came.
    counts: Vec<u64>,
    slots: PhantomData<T>,
}

impl<T> Histogram<T> {
    /// An empty one.
    pub fn new() -> Self {
        Self { counts: Vec::new(), slots: PhantomData }
    }

    /// Counts `value`.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts `value` so many times.
    pub fn record_n(&mut self, value: u64, times: u64) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += times;
    }

    /// The usual percentiles: of each the least value of its bucket.
    pub fn percentile_stats(&self) -> PercentileStats {
        let samples: u64 = self.counts.iter().sum();
        let least = |permille: u64| self.least_at((samples * permille).div_ceil(1_000).max(1));
        PercentileStats {
            samples,
            p0_1: least(1),
            p1: least(10),
            p5: least(50),
            p10: least(100),
            p50: least(500),
            p90: least(900),
            p99: least(990),
            p99_9: least(999),
        }
    }

    /// The least value of the bucket of the value at `rank`, counted from 1.
    fn least_at(&self, rank: u64) -> u64 {
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map_or(0, least)
    }
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

fn bucket(value: u64) -> usize {
    if value < GROUP as u64 {
        return value as usize;
    }
    let power = value.ilog2();
    let within = (value >> (power - BITS)) as usize & (GROUP - 1);
    (power - BITS + 1) as usize * GROUP + within
}

fn least(bucket: usize) -> u64 {
    debug_assert!(bucket < BUCKETS);
    if bucket < GROUP {
        return bucket as u64;
    }
    ((GROUP + bucket % GROUP) as u64) << (bucket / GROUP - 1)
}

/// Values that so many of a hundred are not above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PercentileStats {
    /// How many values there were.
    pub samples: u64,
    /// The thousandth.
    pub p0_1: u64,
    /// The hundredth.
    pub p1: u64,
    /// Five of a hundred.
    pub p5: u64,
    /// Ten of a hundred.
    pub p10: u64,
    /// The median.
    pub p50: u64,
    /// Ninety of a hundred.
    pub p90: u64,
    /// All but the hundredth.
    pub p99: u64,
    /// All but the thousandth.
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, p50, p90, p99, p99_9, .. } = self;
        write!(f, "[samples: {samples}, P50: {p50}, P90: {p90}, P99: {p99}, P99.9: {p99_9}]")
    }
}

/// Several histograms under their names.
#[derive(Debug, Clone, Default)]
pub struct AsciiChart {
    rows: Vec<(String, PercentileStats)>,
}

impl AsciiChart {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more.
    #[must_use]
    pub fn add(mut self, name: impl Into<String>, histogram: Histogram) -> Self {
        self.rows.push((name.into(), histogram.percentile_stats()));
        self
    }

    /// A line for each.
    pub fn detailed(&self) -> String {
        self.rows.iter().map(|(name, stats)| format!("{name}: {stats}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_begins_where_the_one_before_ends() {
        for bucket_before in 0..BUCKETS - 1 {
            let begins = least(bucket_before + 1);
            assert_eq!((bucket(begins), bucket(begins - 1)), (bucket_before + 1, bucket_before));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::<()>::new();
        assert_eq!(histogram.percentile_stats().p50, 0);
        for value in 1..=100 {
            histogram.record(value);
        }
        histogram.record_n(50, 0);
        let stats = histogram.percentile_stats();
        assert_eq!((stats.samples, stats.p1, stats.p50, stats.p99), (100, 1, 48, 96));
    }
}
