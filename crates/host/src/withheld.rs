//! CPU time that this process wanted and did not get, where Linux tells it.

use std::fs;
use std::time::Duration;

/// Totals since some moment in the past; only differences mean anything. Zero where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// While the CPU quota of this process's control group was used up.
    pub throttled: Duration,
    /// Taken from this machine by the one that it runs on, all its CPUs together.
    pub stolen: Duration,
}

impl Withheld {
    /// What came on top since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            throttled: self.throttled.saturating_sub(before.throttled),
            stolen: self.stolen.saturating_sub(before.stolen),
        }
    }

    /// Reads the counters of the system.
    pub(crate) fn read() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let stats = stat_files(&groups).into_iter().find_map(|path| fs::read_to_string(path).ok());
        let throttled = stats.as_deref().and_then(throttled).unwrap_or_default();
        let stolen = fs::read_to_string("/proc/stat").ok().as_deref().and_then(stolen).unwrap_or_default();
        Self { throttled, stolen }
    }
}

/// Where the counters of a process's group are, from its `/proc/self/cgroup`: version 2 first, then version 1; and for
/// both the root, which is the group's own folder as a container sees it.
fn stat_files(groups: &str) -> Vec<String> {
    let path_of = |wanted: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            wanted(controllers).then(|| path.trim_end_matches('/').to_owned())
        })
    };
    let second = path_of(&|controllers| controllers.is_empty());
    let first = path_of(&|controllers| controllers.split(',').any(|controller| controller == "cpu"));
    let mut files = Vec::new();
    for (root, path) in [("/sys/fs/cgroup", second), ("/sys/fs/cgroup/cpu", first)] {
        let Some(path) = path else { continue };
        files.push(format!("{root}{path}/cpu.stat"));
        files.push(format!("{root}/cpu.stat"));
    }
    files
}

/// From `cpu.stat`: microseconds in version 2, nanoseconds in version 1.
fn throttled(stats: &str) -> Option<Duration> {
    stats.lines().find_map(|line| {
        let (name, number) = line.split_once(' ')?;
        let number = number.trim().parse().ok()?;
        match name {
            "throttled_usec" => Some(Duration::from_micros(number)),
            "throttled_time" => Some(Duration::from_nanos(number)),
            _ => None,
        }
    })
}

/// From `/proc/stat`: the eighth number of the first line, in hundredths of a second on every Linux.
fn stolen(stats: &str) -> Option<Duration> {
    let fields = stats.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: u64 = fields.into_iter().nth(7)?.parse().ok()?;
    Some(Duration::from_millis(ticks.saturating_mul(10)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_are_read() {
        assert_eq!(throttled("nr_throttled 2\nthrottled_usec 1500\n"), Some(Duration::from_micros(1_500)));
        assert_eq!(throttled("nr_throttled 2\nthrottled_time 1500000\n"), Some(Duration::from_micros(1_500)));
        assert_eq!(throttled("usage_usec 7\n"), None);
        let files = stat_files("4:memory:/a\n1:cpu,cpuacct:/b/c\n0::/d\n");
        assert_eq!(files[0], "/sys/fs/cgroup/d/cpu.stat");
        assert_eq!(files[2], "/sys/fs/cgroup/cpu/b/c/cpu.stat");
    }

    #[test]
    fn stolen_time_is_the_eighth_number() {
        let stats = "cpu  390518 0 41911 56059 1465 0 465 3394 0 0\ncpu0 1 2\n";
        assert_eq!(stolen(stats), Some(Duration::from_millis(33_940)));
        assert_eq!(stolen(""), None);
    }
}
