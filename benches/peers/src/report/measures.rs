//! What is read off the lines.

use serde_json::Value;

use super::numbers::number;

/// Where a number stands in a line.
pub(super) fn at(line: &Value, path: &str) -> f64 {
    line.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

/// Which numbers are good.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
}

/// One row of the tables for each number of tasks.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    pub(super) workload: &'static str,
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) better: Better,
    pub(super) read: fn(&Value) -> f64,
}

impl Measure {
    /// The name without that of its workload.
    fn short(&self) -> &str {
        self.name
            .split_once(' ')
            .filter(|(first, _)| first.starts_with('W'))
            .map_or(self.name, |(_, rest)| rest)
    }
}

/// Microseconds to milliseconds.
fn ms(line: &Value, path: &str) -> f64 {
    at(line, path) / 1_000.0
}

/// Over all nodes; not a number where flushes could not be counted.
fn flushes(line: &Value) -> f64 {
    if line.pointer("/m/flushes_counted") != Some(&Value::Bool(true)) {
        return f64::NAN;
    }
    let calls = ["sys_fsync", "sys_fdatasync", "sys_msync", "sys_sync_file_range", "sys_pwritev2"];
    calls.iter().filter_map(|call| line["m"]["per_unit"][call].as_f64()).sum()
}

use Better::{Less, More};

pub(super) const CYCLES: Measure = row("w1", "W1 cycles", "/s", More, |line| at(line, "/m/rate"));
pub(super) const CYCLE_P99: Measure = row("w1", "W1 cycle p99", "ms", Less, |line| ms(line, "/cycle_us/p99"));
pub(super) const CYCLE_CPU: Measure =
    row("w1", "W1 server CPU a cycle", "ms", Less, |line| at(line, "/m/srv_cpu_per_1k"));
pub(super) const CYCLE_FLUSHES: Measure = row("w1", "W1 flushes a cycle, all nodes", "", Less, flushes);
pub(super) const HANDOFFS: Measure = row("w2", "W2 hand-offs", "/s", More, |line| at(line, "/m/rate"));
pub(super) const KEEPALIVE_CPU: Measure =
    row("w3", "W3 server CPU for 1,000 keepalives", "ms", Less, |line| {
        at(line, "/steady/srv_cpu_per_1k") * 1_000.0
    });
pub(super) const OPENED: Measure = row("w3", "W3 leases opened", "/s", More, |line| at(line, "/opens_per_s"));
pub(super) const KILLED: Measure =
    row("w4-kill", "W4 SIGKILL of the leader to the first new grant", "s", Less, first_grant);
pub(super) const STOPPED: Measure =
    row("w4-stop", "W4 SIGSTOP of the leader to the first new grant", "s", Less, first_grant);
pub(super) const CHECKS: Measure = row("w5", "W5 checks", "/s", More, |line| at(line, "/m/rate"));
pub(super) const MEMORY: Measure =
    row("memory", "Memory of all nodes after the run", "MB", Less, |line| at(line, "/pss_mb"));

pub(super) const MEASURES: &[Measure] = &[
    CYCLES,
    row("w1", "W1 cycle p50", "ms", Less, |line| ms(line, "/cycle_us/p50")),
    CYCLE_P99,
    CYCLE_CPU,
    row("w1", "W1 client CPU a cycle", "ms", Less, |line| at(line, "/m/cli_cpu_per_1k")),
    CYCLE_FLUSHES,
    row("w1", "W1 bytes to the disk a cycle", "KB", Less, |line| at(line, "/m/dev_write_b_per") / 1_000.0),
    row("w1", "W1 memory of all nodes", "MB", Less, |line| at(line, "/m/srv_pss_mb")),
    row("w1-leader", "W1 cycles, all connections at the leader", "/s", More, |line| at(line, "/m/rate")),
    HANDOFFS,
    row("w2", "W2 hand-off p50", "ms", Less, |line| ms(line, "/handoff_us/p50")),
    row("w2", "W2 hand-off p99", "ms", Less, |line| ms(line, "/handoff_us/p99")),
    row("w2", "W2 flushes a hand-off, all nodes", "", Less, flushes),
    KEEPALIVE_CPU,
    row("w3", "W3 keepalives, flat out", "/s", More, |line| at(line, "/flat/rate")),
    OPENED,
    row("w3", "W3 memory of all nodes a lease", "KB", Less, |line| at(line, "/kb_per_lease")),
    KILLED,
    row("w4-kill", "W4 SIGKILL, longest silence", "s", Less, |line| at(line, "/gap_s")),
    STOPPED,
    row("w4-stop", "W4 SIGSTOP, longest silence", "s", Less, |line| at(line, "/gap_s")),
    CHECKS,
    row("w5", "W5 check p50", "ms", Less, |line| ms(line, "/check_us/p50")),
    row("w5", "W5 check p99", "ms", Less, |line| ms(line, "/check_us/p99")),
    row("w5", "W5 server CPU a check", "ms", Less, |line| at(line, "/m/srv_cpu_per_1k")),
    MEMORY,
    row("memory", "Of it, what no file backs", "MB", Less, |line| at(line, "/anon_mb")),
];

fn first_grant(line: &Value) -> f64 {
    at(line, "/first_grant_s")
}

const fn row(
    workload: &'static str,
    name: &'static str,
    unit: &'static str,
    better: Better,
    read: fn(&Value) -> f64,
) -> Measure {
    Measure { workload, name, unit, better, read }
}

/// One line for whoever watches the run.
pub(crate) fn brief(line: &Value) -> String {
    let word = |name: &str| line[name].as_str().unwrap_or_default();
    let head =
        format!("{} {} tasks={} round={}", word("backend"), word("workload"), line["tasks"], line["round"]);
    if line.get("failed").is_some() {
        return format!("{head} FAILED {}", word("failed"));
    }
    let measures = MEASURES.iter().filter(|measure| measure.workload == word("workload"));
    let values: Vec<String> = measures
        .map(|measure| (measure, (measure.read)(line)))
        .filter(|(_, value)| value.is_finite())
        .map(|(measure, value)| format!("{} {} {}", measure.short(), number(value), measure.unit))
        .collect();
    let errors = match line["errors"].as_u64() {
        None | Some(0) => String::new(),
        Some(errors) => format!("; {errors} ERRORS, {}", word("error")),
    };
    format!("{head}: {}{errors}", values.join(", "))
}
