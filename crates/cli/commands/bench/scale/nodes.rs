//! What is seen of the nodes from outside: processor time, memory, and snapshots in the making.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cluster::Cluster;

/// Between two looks at the folders of snapshots.
const LOOK: Duration = Duration::from_millis(2);

/// Processor time of the nodes since a moment.
pub(super) struct Cpu {
    since: Instant,
    each: Option<Vec<Duration>>,
}

impl Cpu {
    pub(super) fn now(cluster: &Cluster) -> Self {
        Self { since: Instant::now(), each: cluster.cpu_each() }
    }

    /// Of each node since then, in seconds.
    fn used(&self, cluster: &Cluster) -> Option<Vec<f64>> {
        let before = self.each.as_ref()?.iter();
        let used = before.zip(cluster.cpu_each()?).map(|(before, after)| after.saturating_sub(*before));
        Some(used.map(|used| used.as_secs_f64()).collect())
    }

    /// Cores that the busiest node used, and all of them together.
    pub(super) fn cores(&self, cluster: &Cluster) -> Option<(f64, f64)> {
        let (used, time) = (self.used(cluster)?, self.since.elapsed().as_secs_f64());
        let most = used.iter().copied().fold(0.0, f64::max);
        Some((most / time, used.iter().sum::<f64>() / time))
    }

    /// Of all nodes, in seconds.
    pub(super) fn all(&self, cluster: &Cluster) -> Option<f64> {
        Some(self.used(cluster)?.iter().sum())
    }
}

/// What one object takes on the node where it takes most, in bytes.
pub(super) fn bytes_each(before: Option<&Vec<u64>>, cluster: &Cluster, objects: usize) -> Option<f64> {
    let after = cluster.memory()?;
    let grown = before?.iter().zip(after).map(|(before, after)| after.saturating_sub(*before));
    grown.max().map(|grown| grown as f64 / objects.max(1) as f64)
}

/// A snapshot of one node: when its file was begun, and when it was there as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) begun: Instant,
    pub(super) done: Option<Instant>,
}

/// Watches the nodes' folders for new snapshots. Dropped, it stops.
pub(super) struct Snapshots {
    stop: Arc<AtomicBool>,
    made: Arc<Mutex<BTreeMap<PathBuf, Made>>>,
    nodes: usize,
}

impl Snapshots {
    /// Those that are there already do not count.
    pub(super) fn watch(cluster: &Cluster) -> Self {
        let folders: Vec<PathBuf> =
            cluster.data_folders().iter().map(|data| data.join("snapshots")).collect();
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(BTreeMap::new())));
        let nodes = folders.len();
        let known: Vec<PathBuf> = folders.iter().flat_map(|folder| files(folder)).collect();
        let (stopped, seen) = (stop.clone(), made.clone());
        thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for file in folders.iter().flat_map(|folder| files(folder)) {
                    if !known.contains(&file) {
                        look(&mut seen.lock(), &file, Instant::now());
                    }
                }
                thread::sleep(LOOK);
            }
        });
        Self { stop, made, nodes }
    }

    /// Whether each node has made one.
    pub(super) fn all_made(&self) -> bool {
        self.made.lock().values().filter(|made| made.done.is_some()).count() >= self.nodes
    }

    /// From when the first was begun, until the last was there; and the longest that one took.
    pub(super) fn span(&self) -> Option<(Instant, Instant, Duration)> {
        let made = self.made.lock();
        let begun = made.values().map(|made| made.begun).min()?;
        let done = made.values().filter_map(|made| made.done).max()?;
        let longest = made.values().filter_map(|made| Some(made.done? - made.begun)).max()?;
        Some((begun, done, longest))
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// A file is written under a name of its own, and renamed when it is whole.
fn look(made: &mut BTreeMap<PathBuf, Made>, file: &Path, now: Instant) {
    let is_part = file.extension().is_some_and(|extension| extension == "tmp");
    let one = made.entry(file.with_extension("")).or_insert(Made { begun: now, done: None });
    if !is_part && one.done.is_none() {
        one.done = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_done_when_its_part_has_the_final_name() {
        let (mut made, begun) = (BTreeMap::new(), Instant::now());
        let (part, whole) = (Path::new("n1/snapshots/snap-7.tmp"), Path::new("n1/snapshots/snap-7"));
        look(&mut made, part, begun);
        assert_eq!(made[whole], Made { begun, done: None });
        let done = begun + Duration::from_secs(1);
        look(&mut made, whole, done);
        look(&mut made, whole, done + LOOK);
        assert_eq!(made[whole], Made { begun, done: Some(done) });
    }
}
