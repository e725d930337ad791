//! The tables of the page, in Markdown: ratios within rounds first, since only neighbours in time can be compared.

use std::collections::BTreeMap;

use serde_json::Value;

use super::measured::Measured;
use super::measures::{Better, MEASURES, Measure, at};
use super::numbers::{Rounds, number, thousands};
use super::{about, targets};
use crate::measure::median;

pub(super) fn all(measured: &Measured, ours: &[String]) -> String {
    let labels = measured.labels();
    let (ours, peers): (Vec<String>, Vec<String>) =
        labels.into_iter().partition(|label| ours.contains(label));
    let mut sections = vec![about::machine(measured), targets::table(measured)];
    for own in &ours {
        sections.push(ratios(measured, own, &peers));
    }
    sections.push(medians(measured, &[ours, peers].concat()));
    sections.push(probes(&measured.probes));
    sections.push(list("Void, and why", &measured.void));
    sections.push(list("Errors in measurements that count", &measured.errors));
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

fn list(head: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = lines.iter().map(|line| format!("- {}", line.replace('\n', " "))).collect();
    format!("{head}:\n\n{}\n", lines.join("\n"))
}

/// A row's name, with the number of tasks where the workload has several.
pub(super) fn title(measure: &Measure, tasks: u64) -> String {
    match measure.workload {
        "w1" | "w1-leader" | "w5" => {
            let tasks = format!("{} {}", thousands(tasks as f64), if tasks == 1 { "task" } else { "tasks" });
            format!("{}, {tasks}", measure.name)
        }
        _ => measure.name.to_owned(),
    }
}

/// Every row: a measure, and a number of tasks that it was tried with.
fn rows(measured: &Measured) -> Vec<(&'static Measure, u64)> {
    let of = |measure: &'static Measure| {
        measured.tasks_of(measure.workload).into_iter().map(move |tasks| (measure, tasks))
    };
    MEASURES.iter().flat_map(of).collect()
}

fn ratios(measured: &Measured, own: &str, peers: &[String]) -> String {
    let row = |(measure, tasks): (&Measure, u64)| {
        let cells: Vec<Rounds> = peers.iter().map(|peer| measured.ratio(measure, tasks, own, peer)).collect();
        if cells.iter().all(Rounds::is_empty) {
            return None;
        }
        let cells: Vec<String> = cells.iter().map(Rounds::to_string).collect();
        let better = if measure.better == Better::More { "more" } else { "less" };
        Some(format!("| {} | {better} | {} |", title(measure, tasks), cells.join(" | ")))
    };
    let rows: Vec<String> = rows(measured).into_iter().filter_map(row).collect();
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
    let row = |(measure, tasks): (&Measure, u64)| {
        let cells: Vec<Rounds> = labels.iter().map(|label| measured.of(measure, tasks, label)).collect();
        if cells.iter().all(Rounds::is_empty) {
            return None;
        }
        let cells: Vec<String> = cells.iter().map(Rounds::middle).collect();
        let unit = if measure.unit.is_empty() { String::new() } else { format!(", {}", measure.unit) };
        Some(format!("| {}{unit} | {} |", title(measure, tasks), cells.join(" | ")))
    };
    let rows: Vec<String> = rows(measured).into_iter().filter_map(row).collect();
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
    fn a_measurement_that_failed_has_its_cell() {
        let mut measured = Measured::default();
        let line = |label: &str, what: Value| {
            let mut line = json!({ "workload": "w1", "tasks": 64, "backend": label, "round": 1 });
            for (name, value) in what.as_object().expect("an object") {
                line[name] = value.clone();
            }
            line
        };
        measured.add(line("palisade", json!({ "m": { "rate": 10.0, "units": 20 } })));
        measured.add(line("zk", json!({ "failed": "not ready" })));
        let text = all(&measured, &["palisade".to_owned()]);
        assert!(text.contains("| W1 cycles, 64 tasks | more | void |"), "{text}");
        assert!(text.contains("| W1 cycles, 64 tasks, /s | 10.0 | void |"), "{text}");
        assert!(text.contains("Void, and why:\n\n- zk w1 at 64, round 1: not ready\n"), "{text}");
    }
}
