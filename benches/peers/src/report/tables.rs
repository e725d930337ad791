//! The tables, in Markdown.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Measured;
use super::measures::{Better, MEASURES, Measure, at};
use crate::measure::median;

/// Three digits or so.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "–".to_owned(),
        size if size >= 1_000.0 => thousands(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        size if size < 1e-6 => "0".to_owned(),
        _ => format!("{value:.4}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn all(measured: &Measured, ours: &[String]) -> String {
    let labels = measured.labels();
    let (ours, peers): (Vec<String>, Vec<String>) =
        labels.into_iter().partition(|label| ours.contains(label));
    let mut sections = vec![machine(measured)];
    for own in &ours {
        sections.push(ratios(measured, own, &peers));
    }
    sections.push(medians(measured, &[ours, peers].concat()));
    sections.push(probes(&measured.probes));
    if !measured.failures.is_empty() {
        sections.push(format!("Failed runs: {}.\n", measured.failures.join("; ")));
    }
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

fn machine(measured: &Measured) -> String {
    let Some(machine) = &measured.machine else { return String::new() };
    let word = |name: &str| machine[name].as_str().unwrap_or("unknown");
    let versions = machine["versions"].as_array().cloned().unwrap_or_default();
    let versions: Vec<&str> = versions.iter().filter_map(Value::as_str).collect();
    format!(
        "{} cores ({}), {} of memory, Linux {}, data on {}; {}. Versions: {}. Command:\n\n    {}\n",
        machine["cores"],
        word("processor"),
        word("memory"),
        word("kernel"),
        word("filesystem"),
        word("date"),
        versions.join("; "),
        word("command"),
    )
}

/// A row's name, with the number of tasks where there are several.
fn title(measured: &Measured, measure: &Measure, tasks: u64) -> String {
    if measured.tasks_of(measure.workload).len() > 1 {
        format!("{}, {tasks} {}", measure.name, if tasks == 1 { "task" } else { "tasks" })
    } else {
        measure.name.to_owned()
    }
}

/// The mean of each round.
fn by_round(rounds: &BTreeMap<u64, Vec<Value>>, measure: &Measure) -> BTreeMap<u64, f64> {
    let means = rounds.iter().map(|(round, lines)| {
        let values: Vec<f64> = lines.iter().map(measure.read).filter(|value| value.is_finite()).collect();
        (*round, values.iter().sum::<f64>() / values.len() as f64)
    });
    means.filter(|(_, mean)| mean.is_finite()).collect()
}

/// Round against round.
fn ratio(ours: &BTreeMap<u64, f64>, peer: &BTreeMap<u64, f64>) -> Option<String> {
    let ratios = ours.iter().filter_map(|(round, own)| Some(own / peer.get(round)?));
    let ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (!ratios.is_empty()).then(|| {
        format!("{} ({}–{}; {})", number(median(ratios.clone())), number(least), number(most), ratios.len())
    })
}

fn ratios(measured: &Measured, own: &str, peers: &[String]) -> String {
    let mut rows = Vec::new();
    for measure in MEASURES {
        for tasks in measured.tasks_of(measure.workload) {
            let Some(ours) = measured.rounds_of(measure.workload, tasks, own) else { continue };
            let ours = by_round(ours, measure);
            let cells: Vec<Option<String>> = peers
                .iter()
                .map(|peer| {
                    let peer = measured.rounds_of(measure.workload, tasks, peer)?;
                    ratio(&ours, &by_round(peer, measure))
                })
                .collect();
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let cells: Vec<String> = cells.into_iter().map(|cell| cell.unwrap_or("–".to_owned())).collect();
            let better = if measure.better == Better::More { "more" } else { "less" };
            rows.push(format!("| {} | {better} | {} |", title(measured, measure, tasks), cells.join(" | ")));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let head = peers.iter().map(|peer| format!("÷ {peer} ")).collect::<Vec<_>>().join("| ");
    format!(
        "**{own}**, divided by each peer within a round: median (least–most; rounds).\n\n\
         | {own} | better is | {head}|\n|---|---|{}\n{}\n",
        "---|".repeat(peers.len()),
        rows.join("\n")
    )
}

fn medians(measured: &Measured, labels: &[String]) -> String {
    let mut rows = Vec::new();
    for measure in MEASURES {
        for tasks in measured.tasks_of(measure.workload) {
            let cells: Vec<f64> = labels
                .iter()
                .map(|label| {
                    let rounds = measured.rounds_of(measure.workload, tasks, label);
                    median(
                        rounds
                            .map(|rounds| by_round(rounds, measure))
                            .unwrap_or_default()
                            .into_values()
                            .collect(),
                    )
                })
                .collect();
            if cells.iter().all(|cell| !cell.is_finite()) {
                continue;
            }
            let cells: Vec<String> = cells.into_iter().map(number).collect();
            let unit = if measure.unit.is_empty() { String::new() } else { format!(", {}", measure.unit) };
            rows.push(format!("| {}{unit} | {} |", title(measured, measure, tasks), cells.join(" | ")));
        }
    }
    format!(
        "Medians of the rounds. They say how large things are here; compare by the ratios.\n\n\
         | | {} |\n|---|{}\n{}\n",
        labels.join(" | "),
        "---|".repeat(labels.len()),
        rows.join("\n")
    )
}

fn probes(lines: &[Value]) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut by_name: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for line in lines {
        let name = match line["way"].as_str() {
            Some(way) => format!("{} × {} B, {way}", line["writers"], line["bytes"]),
            None => "loopback, 64 B and back".to_owned(),
        };
        if !names.contains(&name) {
            names.push(name.clone());
        }
        by_name.entry(name).or_default().push(line);
    }
    if names.is_empty() {
        return String::new();
    }
    let rows: Vec<String> = names
        .iter()
        .map(|name| {
            let of = |path: &str| {
                let lines = by_name.get(name).into_iter().flatten();
                number(median(lines.map(|line| at(line, path)).filter(|value| value.is_finite()).collect()))
            };
            format!(
                "| {name} | {} | {} | {} | {} | {} |",
                of("/syncs_per_s"),
                of("/us/p50"),
                of("/us/p99"),
                of("/cpu_us"),
                of("/dev_bytes")
            )
        })
        .collect();
    format!(
        "The bare disk (a write and a flush each) and the loopback, microseconds.\n\n\
         | | flushes/s | p50 | p99 | CPU | bytes to the disk |\n|---|---|---|---|---|---|\n{}\n",
        rows.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ratios_are_taken_within_a_round() {
        let mut measured = Measured::default();
        let mut add = |label: &str, round: u64, rate: f64| {
            measured.add(json!({ "workload": "w1", "tasks": 64, "backend": label, "round": round, "m": { "rate": rate } }));
        };
        // A machine that is twice as slow in the second round.
        (add)("ours", 1, 100.0);
        (add)("peer", 1, 10.0);
        (add)("ours", 2, 50.0);
        (add)("peer", 2, 5.0);
        (add)("ours", 3, 60.0);
        (add)("peer", 3, 5.0);
        (add)("ours", 4, 1_000.0);
        let text = ratios(&measured, "ours", &["peer".to_owned()]);
        assert!(text.contains("| W1 cycles | more | 10.0 (10.0–12.0; 3) |"), "{text}");
    }

    #[test]
    fn numbers_have_three_digits_or_so() {
        let written = [1_234_567.0, 0.017, 12.345, f64::NAN, 0.5].map(number);
        assert_eq!(written, ["1,234,567", "0.0170", "12.3", "–", "0.50"]);
    }
}
