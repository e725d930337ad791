//! Watching, history and audit, on real nodes: what is told is told once, in order and without a gap, or it is said
//! that there is one; and what ended is known on every node, also after a restart.

mod histories;
mod idle;
mod old_positions;
mod slow_watcher;
mod who_moves;

use std::time::Duration;

use palisade_client::watch::{Filter, Position};
use palisade_client::{Watch, Watched};
use palisade_proto::v1;

use crate::live::{name, soon};

/// A lock alone.
fn of_lock(lock: &str) -> Filter {
    Filter::Lock(name(lock))
}

/// All locks whose names begin so.
fn below(prefix: &str) -> Filter {
    Filter::Prefix(prefix.to_owned())
}

/// The next news; a node that is there says something every second.
async fn next(watch: &mut Watch) -> Watched {
    soon("the watch goes on", watch.next()).await.unwrap()
}

/// The position of a watch that has begun.
async fn begun(watch: &mut Watch) -> Position {
    assert_eq!(next(watch).await, Watched::Progress);
    watch.position().unwrap()
}

/// The next entry, past progress marks.
async fn entry(watch: &mut Watch) -> v1::WatchEntry {
    loop {
        match next(watch).await {
            Watched::Entry(entry) => return entry,
            Watched::Progress => {}
            Watched::Snapshot { missing, .. } => panic!("a snapshot, since {missing:?}"),
        }
    }
}

/// A session whose lease outlasts what a test does to the cluster.
const TTL: Duration = Duration::from_secs(60);
