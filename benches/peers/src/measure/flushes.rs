//! Exact counts of flushes, by the kernel's own tracing: far cheaper than `strace`, which stops a process at each call.
//!
//! Needs root and a mounted tracefs; without them there are no counts.

use std::collections::HashSet;
use std::fs;

use super::process::tree;

const FOLDER: &str = "/sys/kernel/tracing";
const CALLS: [&str; 5] = ["fsync", "fdatasync", "msync", "sync_file_range", "pwritev2"];
/// Of these only the calls that return durable: a write that is its own flush (`RWF_DSYNC`, `RWF_SYNC`).
const DURABLE: (&str, &str) = ("pwritev2", "flags & 6");
/// Of the kernel's buffer, each processor.
const BUFFER_KB: &str = "16384";

fn switch(on: bool) -> bool {
    let on = if on { "1" } else { "0" };
    CALLS
        .iter()
        .all(|call| fs::write(format!("{FOLDER}/events/syscalls/sys_enter_{call}/enable"), on).is_ok())
}

/// Counts from now on. Whether it can.
pub(super) fn start() -> bool {
    let _ = fs::write(format!("{FOLDER}/buffer_size_kb"), BUFFER_KB);
    let _ = fs::write(format!("{FOLDER}/trace"), "");
    let (call, filter) = DURABLE;
    fs::write(format!("{FOLDER}/events/syscalls/sys_enter_{call}/filter"), filter).is_ok() && switch(true)
}

/// The calls of these processes and of all below them since the start, by name.
pub(super) fn stop(roots: &[u32]) -> Vec<(String, f64)> {
    switch(false);
    let mut threads = HashSet::new();
    for pid in tree(roots) {
        let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.extend(entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok()));
    }
    let trace = fs::read(format!("{FOLDER}/trace")).unwrap_or_default();
    let trace = String::from_utf8_lossy(&trace);
    let calls = trace.lines().filter_map(call).filter(|(thread, _)| threads.contains(thread));
    let mut counts = [0.0; CALLS.len()];
    for (_, name) in calls {
        if let Some(at) = CALLS.iter().position(|call| *call == name) {
            counts[at] += 1.0;
        }
    }
    let counted = CALLS.iter().zip(counts).filter(|(_, count)| *count > 0.0);
    counted.map(|(call, count)| (format!("sys_{call}"), count)).collect()
}

/// Thread and call of a line such as `  name-4711  [001] ..... 12.5: sys_fdatasync(fd: 3)`.
fn call(line: &str) -> Option<(u32, &str)> {
    let (thread, rest) = line.split_once(" [")?;
    let thread = thread.trim_end().rsplit('-').next()?.parse().ok()?;
    let name = rest.split("sys_").nth(1)?.split('(').next()?;
    Some((thread, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_trace_names_thread_and_call() {
        let line = "     tokio-rt-4711    [001] ..... 12.500000: sys_fdatasync(fd: 3)";
        assert_eq!(call(line), Some((4711, "fdatasync")));
        assert_eq!(call("# tracer: nop"), None);
    }
}
