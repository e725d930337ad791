//! Acknowledged means: on the disk (SPEC 11). Nodes run under strace, and their system calls are the evidence.
//!
//! Needs: strace.
//!
//! A trace is an order of entries and returns, and that order is all that is judged: no clock, no size, no pause. Each
//! request carries a lock name that stands nowhere else, and the name is found in the bytes that the node read, in the
//! bytes that it wrote to its log, and nowhere by guess. The answer is found by connection and stream: HTTP/2 frames
//! are taken apart, so heartbeats, keepalives and window updates between them do no harm. Then: the request was read;
//! the write to the log was entered afterwards and returned; where it was not one that returns durable (`RWF_DSYNC`), an
//! `fdatasync` of the log was entered afterwards and returned 0; and only then did the first byte of the answer begin to
//! leave.
//!
//! - One voter: that is the client's answer (`one_voter`).
//! - A follower: appends are answered in order on one stream, so the answer to the n-th message is the n-th answer
//!   (`follower`).
//! - A voter: its vote is a record of its own in the log, found by term and candidate; of the calls that bear both, the
//!   last that was read before the write asked for it (`voter`).
//!
//! Every test runs over each engine that keeps a log on disk.
//!
//! Besides: whole files appear by flush, rename, flush (`files`); a failed flush ends the process and is never tried
//! again (`failed_flush`); damage is refused by name (`damage`). What is left out: whether the disk keeps its word.
//! `scripts/prove-durability.sh` takes the flush out and requires that the suite notices.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod damage;
mod failed_flush;
mod files;
mod follower;
mod holder;
mod http2;
mod one_voter;
mod strace;
mod trace;
mod voter;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use palisade_raft::EngineKind;
use palisade_testkit::cluster::ProcessCluster;

/// Anything that takes longer than this on any machine is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// Prepares nodes of the program under test, whose logs are kept by `kind`.
fn nodes(kind: EngineKind, count: usize) -> ProcessCluster {
    let cluster = ProcessCluster::new(Path::new(env!("CARGO_BIN_EXE_palisade")), count).expect("a cluster");
    told(cluster, kind, &[])
}

/// Has nodes get these arguments from their next start on.
fn told(cluster: ProcessCluster, kind: EngineKind, more: &[&str]) -> ProcessCluster {
    cluster.with_arguments(&[&["--storage", kind.as_str()], more].concat())
}

/// A node's data, as the system names it.
fn data(cluster: &ProcessCluster, node: usize) -> PathBuf {
    let directory = std::fs::canonicalize(cluster.directory()).expect("it is there");
    directory.join(&cluster.nodes()[node].name)
}

/// A node's log. What a test writes fits into the first of the segments.
fn log_file(cluster: &ProcessCluster, kind: EngineKind, node: usize) -> PathBuf {
    data(cluster, node).join(log_name(kind))
}

fn log_name(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Sled => "log/db",
        EngineKind::Segments => "log/segment-000000",
    }
}

/// Waits until `found` finds something.
async fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    within(what, async {
        loop {
            if let Some(found) = found() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

/// Waits for `future`, within bounds.
async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, future).await;
    done.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"))
}
