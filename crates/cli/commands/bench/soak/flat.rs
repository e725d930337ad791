//! Memory and disk of the nodes, looked at every few seconds, and whether they stay flat.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::Cluster;

/// A node may grow beyond what all have had at the settled time by one part in so many,
const GROWTH_PARTS: u64 = 4;
/// and by so many bytes: a table that is copied while a snapshot is written, a spare segment.
const GROWTH_BYTES: u64 = 64 << 20;
/// Bytes of a segment of the log, and how many beside those that the kept entries fill: spare ones, the one that is written,
/// and one at each end that is needed in part.
const SEGMENT_BYTES: u64 = 8 << 20;
const SEGMENTS_BESIDE: u64 = 16 + 3;
/// Of one entry in the log; an acquire or a release of the soak takes less.
const ENTRY_BYTES: u64 = 256;
/// Snapshots of a node at one time: two that are kept and one that is written.
const SNAPSHOTS: u64 = 3;

/// What one node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) memory: u64,
    pub(super) disk: u64,
    /// The largest snapshot on its disk.
    snapshot: u64,
}

impl Size {
    fn most(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            disk: self.disk.max(other.disk),
            snapshot: self.snapshot.max(other.snapshot),
        }
    }
}

/// How the nodes grew.
pub(super) struct Flat {
    settled_at: Instant,
    /// Entries of the log that a node keeps, and those that come while a snapshot is written.
    entries: u64,
    /// The most of any node until it was settled.
    settled: Size,
    /// The most of any node since.
    since: Size,
    /// The most of any node since somebody asked.
    recent: Size,
    /// Of each node, when it was looked at last.
    pub(super) last: Vec<Size>,
}

impl Flat {
    pub(super) fn new(settles_in: Duration, snapshot_every: u64, keep_log: u64) -> Self {
        Self {
            settled_at: Instant::now() + settles_in,
            entries: keep_log + 2 * snapshot_every,
            settled: Size::default(),
            since: Size::default(),
            recent: Size::default(),
            last: Vec::new(),
        }
    }

    pub(super) fn look(&mut self, cluster: &Cluster) {
        let sizes = cluster.nodes().iter().map(|node| {
            let (disk, snapshot) = bytes_in(&cluster.data(node.name()));
            // A node that is just started anew, or cannot be seen, has none.
            Size { memory: node.memory().unwrap_or(0), disk, snapshot }
        });
        self.last = sizes.collect();
        let most = self.last.iter().copied().fold(Size::default(), Size::most);
        self.saw(most, Instant::now());
    }

    fn saw(&mut self, most: Size, now: Instant) {
        let until = if now < self.settled_at { &mut self.settled } else { &mut self.since };
        *until = until.most(most);
        self.recent = self.recent.most(most);
    }

    /// The most of any node since this was asked before.
    pub(super) fn take_most(&mut self) -> Size {
        std::mem::take(&mut self.recent)
    }

    /// The most of any node, at any time.
    pub(super) fn most(&self) -> Size {
        self.settled.most(self.since)
    }

    /// What no node may exceed once it was settled.
    pub(super) fn bound(&self) -> Size {
        let grown = |size: u64| size + size / GROWTH_PARTS + GROWTH_BYTES;
        let largest = self.most().snapshot;
        let segments = (self.entries * ENTRY_BYTES).div_ceil(SEGMENT_BYTES) + SEGMENTS_BESIDE;
        Size {
            memory: grown(self.settled.memory),
            disk: segments * SEGMENT_BYTES + SNAPSHOTS * largest,
            snapshot: largest,
        }
    }

    /// By how many bounds memory and disk were exceeded.
    pub(super) fn broken(&self) -> [u64; 2] {
        let (bound, most) = (self.bound(), self.most());
        [u64::from(self.since.memory > bound.memory), u64::from(most.disk > bound.disk)]
    }
}

/// All files below `folder`, and the largest snapshot. What is removed meanwhile is not there.
fn bytes_in(folder: &Path) -> (u64, u64) {
    let (mut all, mut largest) = (0, 0);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(about) = entry.metadata() else { continue };
        if about.is_dir() {
            let (bytes, snapshot) = bytes_in(&entry.path());
            (all, largest) = (all + bytes, snapshot.max(largest));
        } else {
            all += about.len();
            if entry.file_name().to_string_lossy().starts_with("snap-") {
                largest = largest.max(about.len());
            }
        }
    }
    (all, largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn size(memory: u64, disk: u64) -> Size {
        Size { memory: memory * MIB, disk: disk * MIB, snapshot: MIB }
    }

    #[tokio::test(start_paused = true)]
    async fn what_grows_after_it_was_settled_is_seen() {
        let mut flat = Flat::new(Duration::from_secs(10), 100_000, 20_000);
        flat.saw(size(80, 150), Instant::now());
        tokio::time::advance(Duration::from_secs(11)).await;
        flat.saw(size(163, 200), Instant::now());
        assert_eq!(flat.broken(), [0, 0], "a quarter, and 64 MiB");
        flat.saw(size(165, 400), Instant::now());
        assert_eq!(flat.broken(), [1, 1], "{:?}", flat.bound());
    }

    #[test]
    fn a_folder_is_as_large_as_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("snapshots");
        fs::create_dir(&inner).unwrap();
        fs::write(folder.path().join("log"), [0; 70]).unwrap();
        fs::write(inner.join("snap-1"), [0; 20]).unwrap();
        fs::write(inner.join("snap-2"), [0; 10]).unwrap();
        assert_eq!(bytes_in(folder.path()), (100, 20));
    }
}
