//! What was measured, for people and for scripts.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::GrantArgs;
use crate::output::{table, wide};

/// Longest latency that is told apart, in nanoseconds: a minute.
const LATENCY_MAX: u64 = 60_000_000_000;

/// Latencies of acquires, releases, and both together, in nanoseconds.
pub(super) struct Latencies {
    acquire: Histogram<u64>,
    release: Histogram<u64>,
    cycle: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { acquire: histogram(), release: histogram(), cycle: histogram() }
    }
}

/// Three digits.
#[allow(clippy::expect_used, reason = "the bounds are constants")]
fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_MAX, 3).expect("constant bounds that make a histogram")
}

impl Latencies {
    pub(super) fn record(&mut self, acquire: Duration, release: Duration) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.acquire.saturating_record(nanos(acquire));
        self.release.saturating_record(nanos(release));
        self.cycle.saturating_record(nanos(acquire + release));
    }

    fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.acquire, &other.acquire),
            (&mut self.release, &other.release),
            (&mut self.cycle, &other.cycle),
        ];
        for (sum, more) in pairs {
            // Of the same bounds, so nothing is left out.
            let _ = sum.add(more);
        }
    }
}

/// One measurement.
pub(super) struct Measured {
    pub(super) round: u32,
    pub(super) tasks: u32,
    pub(super) sessions: usize,
    pub(super) took: Duration,
    /// Cycles that ended while it was measured.
    pub(super) cycles: u64,
    /// Grants, those of the warm-up included.
    pub(super) checked: u64,
    /// Grants whose token was not above all before it.
    pub(super) not_rising: u64,
    pub(super) errors: u64,
    /// The last one.
    pub(super) error: Option<String>,
    pub(super) latencies: Latencies,
}

/// All measurements with one number of tasks.
struct Row {
    tasks: u32,
    sessions: usize,
    /// Grants a second, by round, slowest first.
    rates: Vec<f64>,
    errors: u64,
    latencies: Latencies,
}

impl Row {
    fn median(&self) -> f64 {
        self.rates.get(self.rates.len() / 2).copied().unwrap_or_default()
    }

    fn range(&self) -> (f64, f64) {
        let end = |rate: Option<&f64>| rate.copied().unwrap_or_default();
        (end(self.rates.first()), end(self.rates.last()))
    }
}

/// The answer of the command.
pub(super) struct Report {
    rows: Vec<Row>,
    rounds: u32,
    duration: Duration,
    checked: u64,
    not_rising: u64,
    error: Option<String>,
}

impl Report {
    pub(super) fn of(arguments: &GrantArgs, measured: Vec<Measured>) -> Self {
        let mut rows = BTreeMap::new();
        let (mut checked, mut not_rising, mut error) = (0, 0, None);
        let rounds = measured.last().map_or(0, |last| last.round);
        for one in measured {
            let row = rows.entry(one.tasks).or_insert_with(|| Row {
                tasks: one.tasks,
                sessions: one.sessions,
                rates: Vec::new(),
                errors: 0,
                latencies: Latencies::default(),
            });
            row.rates.push(one.cycles as f64 / one.took.as_secs_f64());
            row.rates.sort_by(f64::total_cmp);
            row.errors += one.errors;
            row.latencies.add(&one.latencies);
            checked += one.checked;
            not_rising += one.not_rising;
            error = one.error.or(error);
        }
        let rows = rows.into_values().collect();
        Self { rows, rounds, duration: arguments.duration, checked, not_rising, error }
    }

    /// Something was granted, and every token was above all before it.
    pub(super) fn tokens_rose(&self) -> bool {
        self.checked > 0 && self.not_rising == 0
    }

    pub(super) fn lines(&self) -> String {
        let header = [
            "TASKS",
            "SESSIONS",
            "GRANTS/S",
            "RANGE",
            "CYCLE p50",
            "p99",
            "p99.9",
            "ACQUIRE p50",
            "p99",
            "RELEASE p50",
            "p99",
            "ERRORS",
        ];
        let rows = self.rows.iter().map(|row| {
            let (low, high) = row.range();
            let Latencies { acquire, release, cycle } = &row.latencies;
            [
                row.tasks.to_string(),
                row.sessions.to_string(),
                format!("{:.0}", row.median()),
                format!("{low:.0}-{high:.0}"),
                millis(cycle, 0.5),
                millis(cycle, 0.99),
                millis(cycle, 0.999),
                millis(acquire, 0.5),
                millis(acquire, 0.99),
                millis(release, 0.5),
                millis(release, 0.99),
                row.errors.to_string(),
            ]
        });
        let mut text = table(&header, rows);
        let rounds = match self.rounds {
            1 => "one round".to_owned(),
            rounds => format!("median of {rounds} rounds"),
        };
        text.push_str(&format!("\n\n{rounds} of {:?} each; latencies in milliseconds\n", self.duration));
        if let Some(error) = &self.error {
            text.push_str(&format!("last error: {error}\n"));
        }
        text.push_str(&match self.not_rising {
            0 => format!("checked {} grants: tokens rise", self.checked),
            wrong => format!("checked {} grants: {wrong} TOKENS DID NOT RISE", self.checked),
        });
        text
    }

    pub(super) fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "tasks": row.tasks,
                    "sessions": row.sessions,
                    "grants_per_second": row.median(),
                    "grants_per_second_by_round": row.rates,
                    "cycle_seconds": seconds(&row.latencies.cycle),
                    "acquire_seconds": seconds(&row.latencies.acquire),
                    "release_seconds": seconds(&row.latencies.release),
                    "errors": wide(row.errors),
                })
            })
            .collect();
        json!({
            "rows": rows,
            "rounds": self.rounds,
            "round_seconds": self.duration.as_secs_f64(),
            "grants_checked": wide(self.checked),
            "tokens_not_rising": wide(self.not_rising),
            "tokens_rise": self.tokens_rose(),
            "last_error": self.error,
        })
    }
}

fn millis(histogram: &Histogram<u64>, quantile: f64) -> String {
    format!("{:.2}", histogram.value_at_quantile(quantile) as f64 / 1e6)
}

fn seconds(histogram: &Histogram<u64>) -> Value {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e9;
    json!({
        "p50": at(0.5),
        "p90": at(0.9),
        "p99": at(0.99),
        "p999": at(0.999),
        "max": histogram.max() as f64 / 1e9,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::commands::bench::{BenchArgs, What};

    fn arguments() -> GrantArgs {
        let cli = Cli::try_parse_from(["palisade", "bench", "grant"]).unwrap();
        let Command::Bench(BenchArgs { what: What::Grant(arguments) }) = cli.command else {
            panic!("another command")
        };
        arguments
    }

    fn measured(round: u32, cycles: u64, not_rising: u64) -> Measured {
        let mut latencies = Latencies::default();
        latencies.record(Duration::from_millis(2), Duration::from_millis(1));
        Measured {
            round,
            tasks: 64,
            sessions: 6,
            took: Duration::from_secs(1),
            cycles,
            checked: cycles,
            not_rising,
            errors: 0,
            error: None,
            latencies,
        }
    }

    #[test]
    fn the_median_round_counts() {
        let report =
            Report::of(&arguments(), vec![measured(1, 900, 0), measured(2, 100, 0), measured(3, 500, 0)]);
        assert_eq!(report.json()["rows"][0]["grants_per_second"], 500.0);
        let text = report.lines();
        assert!(text.ends_with("checked 1500 grants: tokens rise"), "{text}");
        assert!(text.contains("100-900"), "{text}");
        assert!(report.tokens_rose());
    }

    #[test]
    fn one_token_that_did_not_rise_is_a_no() {
        let report = Report::of(&arguments(), vec![measured(1, 900, 1)]);
        assert!(!report.tokens_rose());
        assert!(report.lines().contains("1 TOKENS DID NOT RISE"));
    }

    #[test]
    fn a_run_without_grants_proves_nothing() {
        assert!(!Report::of(&arguments(), vec![measured(1, 0, 0)]).tokens_rose());
    }
}
