//! What was measured, by row, service and round; and what went wrong meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use super::measures::{Measure, at};
use super::numbers::Rounds;

/// Of the units of a measurement, how many may have failed: with more it is void.
const ERRORS_MAX: f64 = 0.01;

/// By workload, number of tasks and label: what each round measured.
#[derive(Default)]
pub(super) struct Measured {
    by_key: BTreeMap<(String, u64, String), BTreeMap<u64, Vec<Value>>>,
    /// What was tried, whatever came of it.
    tried: BTreeSet<(String, u64, String)>,
    rounds: BTreeSet<u64>,
    /// The machine and what ran on it, of the last line that tells.
    pub(super) machine: Option<Value>,
    /// Measurements that do not count, and why.
    pub(super) void: Vec<String>,
    /// Errors in those that do.
    pub(super) errors: Vec<String>,
    /// Of the disk and the loopback.
    pub(super) probes: Vec<Value>,
}

impl Measured {
    pub(super) fn read(files: &[PathBuf]) -> Result<Self> {
        let mut measured = Self::default();
        for file in files {
            let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
            for line in text.lines() {
                measured.add(serde_json::from_str(line).with_context(|| line.to_owned())?);
            }
        }
        Ok(measured)
    }

    pub(super) fn add(&mut self, line: Value) {
        let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let workload = word("workload");
        match workload.as_str() {
            "machine" => self.machine = Some(line),
            "disk" | "loopback" => self.probes.push(line),
            _ => {
                let tasks = line["tasks"].as_u64().unwrap_or(0);
                let round = line["round"].as_u64().unwrap_or(0);
                let named = format!("{} {workload} at {tasks}, round {round}", word("backend"));
                let key = (workload, tasks, word("backend"));
                self.tried.insert(key.clone());
                self.rounds.insert(round);
                if let Some(why) = fault(&line) {
                    self.void.push(format!("{named}: {why}"));
                    return;
                }
                if failed(&line) > 0.0 {
                    self.errors.push(format!("{named}: {}", errors(&line)));
                }
                self.by_key.entry(key).or_default().entry(round).or_default().push(line);
            }
        }
    }

    /// Numbers of tasks that a workload was tried with.
    pub(super) fn tasks_of(&self, workload: &str) -> Vec<u64> {
        let tasks: BTreeSet<u64> =
            self.tried.iter().filter(|key| key.0 == workload).map(|key| key.1).collect();
        tasks.into_iter().collect()
    }

    pub(super) fn labels(&self) -> Vec<String> {
        let labels: BTreeSet<&String> = self.tried.iter().map(|key| &key.2).collect();
        labels.into_iter().cloned().collect()
    }

    pub(super) fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// Any line of a workload, for the sizes that it names.
    pub(super) fn any(&self, workload: &str) -> Option<&Value> {
        let lines = self.by_key.iter().find(|(key, _)| key.0 == workload)?.1;
        lines.values().flatten().next()
    }

    /// The mean of each round.
    fn by_round(&self, measure: &Measure, tasks: u64, label: &str) -> BTreeMap<u64, f64> {
        let rounds = self.by_key.get(&(measure.workload.to_owned(), tasks, label.to_owned()));
        let means = rounds.into_iter().flatten().map(|(round, lines)| {
            let values: Vec<f64> = lines.iter().map(measure.read).filter(|value| value.is_finite()).collect();
            (*round, values.iter().sum::<f64>() / values.len() as f64)
        });
        means.filter(|(_, mean)| mean.is_finite()).collect()
    }

    /// Rounds without a measurement of what was tried in some round.
    fn void_rounds(&self, measure: &Measure, tasks: u64, label: &str) -> BTreeSet<u64> {
        let key = (measure.workload.to_owned(), tasks, label.to_owned());
        if !self.tried.contains(&key) {
            return BTreeSet::new();
        }
        let good = |round: &u64| self.by_key.get(&key).is_some_and(|rounds| rounds.contains_key(round));
        self.rounds.iter().filter(|round| !good(round)).copied().collect()
    }

    /// What one service measured.
    pub(super) fn of(&self, measure: &Measure, tasks: u64, label: &str) -> Rounds {
        let values = self.by_round(measure, tasks, label).into_values().collect();
        Rounds { values, void: self.void_rounds(measure, tasks, label).len() }
    }

    /// One service divided by another, round by round.
    pub(super) fn ratio(&self, measure: &Measure, tasks: u64, own: &str, peer: &str) -> Rounds {
        let (ours, theirs) = (self.by_round(measure, tasks, own), self.by_round(measure, tasks, peer));
        let ratios = ours.iter().filter_map(|(round, own)| Some(own / theirs.get(round)?));
        let values: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
        let tried =
            |label: &str| self.tried.contains(&(measure.workload.to_owned(), tasks, label.to_owned()));
        let void = match tried(own) && tried(peer) {
            true => &self.void_rounds(measure, tasks, own) | &self.void_rounds(measure, tasks, peer),
            false => BTreeSet::new(),
        };
        Rounds { values, void: void.len() }
    }
}

/// What failed in a measurement: requests, renewals.
fn failed(line: &Value) -> f64 {
    let of = |name: &str| line[name].as_f64().unwrap_or(0.0);
    of("errors") + of("lost_steady")
}

fn errors(line: &Value) -> String {
    format!("{} of {:.0}; {}", failed(line), units(line), line["error"].as_str().unwrap_or_default())
}

fn units(line: &Value) -> f64 {
    let units = [at(line, "/m/units"), at(line, "/steady/units")];
    units.into_iter().find(|units| units.is_finite()).unwrap_or(1.0)
}

/// Why a measurement does not count.
fn fault(line: &Value) -> Option<String> {
    if let Some(why) = line.get("failed") {
        return Some(why.as_str().unwrap_or("failed").to_owned());
    }
    match line["overlaps"].as_u64() {
        None | Some(0) => {}
        Some(overlaps) => return Some(format!("held by two at a time, {overlaps} times")),
    }
    (failed(line) > ERRORS_MAX * units(line)).then(|| format!("errors, {}", errors(line)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::measures::CYCLES;
    use super::*;

    fn line(label: &str, round: u64, more: Value) -> Value {
        let mut line = json!({ "workload": "w1", "tasks": 64, "backend": label, "round": round });
        for (name, value) in more.as_object().expect("an object") {
            line[name] = value.clone();
        }
        line
    }

    fn rate(label: &str, round: u64, rate: f64) -> Value {
        line(label, round, json!({ "m": { "rate": rate, "units": 1_000 } }))
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let mut measured = Measured::default();
        // A machine that is twice as slow in the second round.
        for (round, own, peer) in [(1, 100.0, 10.0), (2, 50.0, 5.0), (3, 60.0, 5.0)] {
            measured.add(rate("ours", round, own));
            measured.add(rate("peer", round, peer));
        }
        measured.add(rate("ours", 4, 1_000.0));
        let ratio = measured.ratio(&CYCLES, 64, "ours", "peer");
        assert_eq!(ratio.to_string(), "10.0 (10.0–12.0; 3, 1 void)");
        assert!(measured.ratio(&CYCLES, 64, "ours", "other").is_empty());
    }

    #[test]
    fn what_failed_is_void_and_told() {
        let mut measured = Measured::default();
        measured.add(rate("ours", 1, 10.0));
        measured.add(line("ours", 2, json!({ "failed": "no leader" })));
        measured.add(line("ours", 3, json!({ "m": { "rate": 99.0, "units": 1_000 }, "errors": 11 })));
        measured.add(line("ours", 4, json!({ "m": { "rate": 99.0, "units": 1_000 }, "overlaps": 1 })));
        measured.add(line("ours", 5, json!({ "m": { "rate": 10.0, "units": 1_000 }, "errors": 10 })));
        assert_eq!(measured.of(&CYCLES, 64, "ours").to_string(), "10.0 (10.0–10.0; 2, 3 void)");
        assert_eq!(measured.void.len(), 3);
        assert_eq!(measured.void[0], "ours w1 at 64, round 2: no leader");
        assert_eq!(measured.errors.len(), 1);
    }
}
