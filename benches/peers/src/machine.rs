//! The machine and what ran on it, as one line of a result.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cluster::Programs;

fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
    value.map_or("unknown", |(_, value)| value.trim()).to_owned()
}

/// The first line that a program prints, when it runs.
fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let line = String::from_utf8_lossy(&text).lines().next()?.trim().to_owned();
    // Redis goes on with its build.
    Some(line.split(" sha=").next().unwrap_or_default().to_owned())
}

/// The kind of file system below `folder`.
fn filesystem(folder: &str) -> Option<String> {
    let output = Command::new("df").args(["--output=fstype", folder]).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().nth(1)?.trim().to_owned())
}

/// `command`: what was typed.
pub(crate) fn line(programs: &Programs, data: &Path, command: &str) -> Result<Value> {
    let memory_kb: f64 =
        field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(f64::NAN);
    let palisade = programs.palisade.display().to_string();
    let zookeeper = first_line("dpkg-query", &["-W", "-f", "ZooKeeper ${Version}", "zookeeper"]);
    let versions = [
        first_line(&palisade, &["--version"]),
        first_line("git", &["describe", "--always", "--dirty"]).map(|commit| format!("commit {commit}")),
        first_line(&programs.etcd, &["--version"]).map(|line| line.replace(" Version:", "")),
        zookeeper.filter(|text| text.starts_with("ZooKeeper")),
        first_line("java", &["-version"]),
        first_line("redis-server", &["--version"]),
        first_line("/usr/lib/postgresql/15/bin/postgres", &["--version"]),
    ];
    let versions: Vec<String> = versions.into_iter().flatten().collect();
    let data = data.display().to_string();
    Ok(json!({
        "workload": "machine",
        "cores": std::thread::available_parallelism()?,
        "processor": field("/proc/cpuinfo", "model name"),
        "memory": format!("{:.0} GiB", memory_kb / f64::from(1 << 20)),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        "filesystem": filesystem(&data),
        "date": first_line("date", &["-u", "+%Y-%m-%d"]),
        "versions": versions,
        "command": command,
    }))
}
