//! What was measured, as tables: ratios within rounds first, since only neighbours in time can be compared.

mod measures;
mod page;
mod tables;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub(crate) use measures::brief;

/// By workload, number of tasks and label: what each round measured.
#[derive(Default)]
struct Measured {
    by_key: BTreeMap<(String, u64, String), BTreeMap<u64, Vec<Value>>>,
    /// The machine and what ran on it, of the last line that tells.
    machine: Option<Value>,
    failures: Vec<String>,
    /// Of the disk and the loopback.
    probes: Vec<Value>,
}

impl Measured {
    fn read(files: &[PathBuf]) -> Result<Self> {
        let mut measured = Self::default();
        for file in files {
            let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
            for line in text.lines() {
                measured.add(serde_json::from_str(line).with_context(|| line.to_owned())?);
            }
        }
        Ok(measured)
    }

    fn add(&mut self, line: Value) {
        let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let workload = word("workload");
        match workload.as_str() {
            "machine" => self.machine = Some(line),
            "disk" | "loopback" => self.probes.push(line),
            _ if line.get("failed").is_some() => {
                self.failures.push(format!("{} {workload}: {}", word("backend"), word("failed")));
            }
            _ => {
                let key = (workload, line["tasks"].as_u64().unwrap_or(0), word("backend"));
                let round = line["round"].as_u64().unwrap_or(0);
                self.by_key.entry(key).or_default().entry(round).or_default().push(line);
            }
        }
    }

    fn rounds_of(&self, workload: &str, tasks: u64, label: &str) -> Option<&BTreeMap<u64, Vec<Value>>> {
        self.by_key.get(&(workload.to_owned(), tasks, label.to_owned()))
    }

    /// Numbers of tasks that a workload was measured with.
    fn tasks_of(&self, workload: &str) -> Vec<u64> {
        let mut tasks: Vec<u64> =
            self.by_key.keys().filter(|key| key.0 == workload).map(|key| key.1).collect();
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    }

    fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = self.by_key.keys().map(|key| key.2.clone()).collect();
        labels.sort();
        labels.dedup();
        labels
    }
}

/// Prints the tables, or puts them between the marks of a page.
pub(crate) fn run(files: &[PathBuf], ours: &[String], into: Option<&Path>) -> Result<()> {
    ensure!(!files.is_empty(), "name the files to report on");
    let tables = tables::all(&Measured::read(files)?, ours);
    match into {
        None => print!("{tables}"),
        Some(page) => {
            let text = fs::read_to_string(page).with_context(|| page.display().to_string())?;
            fs::write(page, page::filled(&text, &tables)?)?;
        }
    }
    Ok(())
}
