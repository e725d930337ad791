//! Processor time, memory and bytes of processes, as the kernel counts them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

/// Bytes of a sector, as the kernel counts them for every disk.
const SECTOR: u64 = 512;

/// What processes used since they began.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sample {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    /// Written to disks on their account.
    pub(crate) write_bytes: u64,
    /// Proportional set size.
    pub(crate) pss_kb: u64,
    /// Of it, what no file backs: without programs and mapped data.
    pub(crate) anon_kb: u64,
    pub(crate) threads: u64,
}

impl Sample {
    pub(crate) fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

/// What the machine used since it began.
#[derive(Clone, Copy, Default)]
pub(crate) struct Machine {
    pub(crate) busy_s: f64,
    pub(crate) stolen_s: f64,
    /// Written to the disk that holds the data.
    pub(crate) write_bytes: u64,
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn ticks() -> f64 {
    clock_ticks_per_second() as f64
}

/// The words of a process's `stat` behind its name.
fn stat(pid: u32) -> Vec<String> {
    let stat = read(&format!("/proc/{pid}/stat"));
    let behind = stat.rfind(')').and_then(|at| stat.get(at + 2..)).unwrap_or_default();
    behind.split(' ').map(str::to_owned).collect()
}

/// These processes and all below them (Postgres forks for each connection).
pub(crate) fn tree(roots: &[u32]) -> BTreeSet<u32> {
    let mut found: BTreeSet<u32> = roots.iter().copied().collect();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    let parents: Vec<(u32, u32)> =
        pids.filter_map(|pid| Some((pid, stat(pid).get(1)?.parse().ok()?))).collect();
    loop {
        let before = found.len();
        for (pid, parent) in &parents {
            if found.contains(parent) {
                found.insert(*pid);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn value(line: &str, name: &str) -> u64 {
    let value = line.strip_prefix(name).map(|value| value.trim().trim_end_matches(" kB"));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// What the trees below `roots` used.
pub(crate) fn sample(roots: &[u32]) -> Sample {
    let mut sum = Sample::default();
    for pid in tree(roots) {
        let stat = stat(pid);
        let number = |at: usize| stat.get(at).and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
        sum.user_s += number(11) / ticks();
        sum.system_s += number(12) / ticks();
        sum.threads += number(17) as u64;
        let io = read(&format!("/proc/{pid}/io"));
        sum.write_bytes += io.lines().map(|line| value(line, "write_bytes:")).sum::<u64>();
        let memory = read(&format!("/proc/{pid}/smaps_rollup"));
        let of = |name: &str| memory.lines().map(|line| value(line, name)).sum::<u64>();
        sum.pss_kb += of("Pss:");
        sum.anon_kb += of("Pss_Anon:");
    }
    sum
}

/// Seconds of processor time that this process, the load generator, used.
pub(crate) fn cpu_of_this_process() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// Of the machine, and of the disk below `data`.
pub(crate) fn sample_of_the_machine(data: &Path) -> Machine {
    let stat = read("/proc/stat");
    let words = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let used: Vec<f64> = words.map(|word| word.parse().unwrap_or(0.0)).collect();
    let of = |at: usize| used.get(at).copied().unwrap_or(0.0) / ticks();
    Machine {
        busy_s: of(0) + of(1) + of(2) + of(5) + of(6),
        stolen_s: of(7),
        write_bytes: sectors_written(data).unwrap_or(0) * SECTOR,
    }
}

fn sectors_written(data: &Path) -> Option<u64> {
    let device = rustix::fs::stat(data).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let disks = read("/proc/diskstats");
    let mut disks = disks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let disk = disks.find(|words| {
        words.first().and_then(|word| word.parse().ok()) == Some(major)
            && words.get(1).and_then(|word| word.parse().ok()) == Some(minor)
    })?;
    disk.get(9)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_memory_and_belongs_to_its_tree() {
        let own = std::process::id();
        assert!(tree(&[own]).contains(&own));
        let sample = sample(&[own]);
        assert!(sample.pss_kb > sample.anon_kb && sample.anon_kb > 0 && sample.threads > 0);
    }
}
