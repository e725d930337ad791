//! What is read off the lines.

use serde_json::Value;

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
pub(super) struct Measure {
    pub(super) workload: &'static str,
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) better: Better,
    pub(super) read: fn(&Value) -> f64,
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
    let calls = ["sys_fsync", "sys_fdatasync", "sys_msync", "sys_sync_file_range"];
    calls.iter().filter_map(|call| line["m"]["per_unit"][call].as_f64()).sum()
}

use Better::{Less, More};

pub(super) const MEASURES: &[Measure] = &[
    row("w1", "W1 cycles", "/s", More, |line| at(line, "/m/rate")),
    row("w1", "W1 cycle p50", "ms", Less, |line| ms(line, "/cycle_us/p50")),
    row("w1", "W1 cycle p99", "ms", Less, |line| ms(line, "/cycle_us/p99")),
    row("w1", "W1 server CPU a cycle", "ms", Less, |line| at(line, "/m/srv_cpu_per_1k")),
    row("w1", "W1 client CPU a cycle", "ms", Less, |line| at(line, "/m/cli_cpu_per_1k")),
    row("w1", "W1 flushes a cycle, all nodes", "", Less, flushes),
    row("w1", "W1 bytes to the disk a cycle", "KB", Less, |line| at(line, "/m/dev_write_b_per") / 1_000.0),
    row("w1", "W1 memory of all nodes", "MB", Less, |line| at(line, "/m/srv_pss_mb")),
    row("w1-leader", "W1 cycles, all connections at the leader", "/s", More, |line| at(line, "/m/rate")),
    row("w2", "W2 hand-offs", "/s", More, |line| at(line, "/m/rate")),
    row("w2", "W2 hand-off p50", "ms", Less, |line| ms(line, "/handoff_us/p50")),
    row("w2", "W2 hand-off p99", "ms", Less, |line| ms(line, "/handoff_us/p99")),
    row("w2", "W2 flushes a hand-off, all nodes", "", Less, flushes),
    row("w3", "W3 server CPU of keepalives", "cores", Less, |line| at(line, "/steady/srv_cores")),
    row("w3", "W3 keepalives, flat out", "/s", More, |line| at(line, "/flat/rate")),
    row("w3", "W3 leases opened", "/s", More, |line| at(line, "/opens_per_s")),
    row("w3", "W3 memory of all nodes a lease", "KB", Less, |line| at(line, "/kb_per_lease")),
    row("w4-kill", "W4 SIGKILL of the leader to the first new grant", "s", Less, first_grant),
    row("w4-stop", "W4 SIGSTOP of the leader to the first new grant", "s", Less, first_grant),
    row("w5", "W5 checks", "/s", More, |line| at(line, "/m/rate")),
    row("w5", "W5 check p50", "ms", Less, |line| ms(line, "/check_us/p50")),
    row("w5", "W5 check p99", "ms", Less, |line| ms(line, "/check_us/p99")),
    row("w5", "W5 server CPU a check", "ms", Less, |line| at(line, "/m/srv_cpu_per_1k")),
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
        .map(|(measure, value)| {
            format!("{} {} {}", &measure.name[3..], super::tables::number(value), measure.unit)
        })
        .collect();
    let errors = match line["errors"].as_u64() {
        None | Some(0) => String::new(),
        Some(errors) => format!("; {errors} ERRORS, {}", word("error")),
    };
    format!("{head}: {}{errors}", values.join(", "))
}
