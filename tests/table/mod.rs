//! What the lock table can do, on real nodes: over single calls, streams and HTTP, and over lost leaders. What each
//! means is told by the stories beside the table itself (`crates/core/src/table`).

mod hand_over;
mod operators;
mod overdue;
mod permits;
mod shared;
mod take_over;
mod watching;

use std::time::Duration;

use palisade_proto::v1;

use crate::live::{Caller, Live, open_session};

/// A lease that outlasts what a test does to the cluster, and starts over with each leader.
const TTL: Duration = Duration::from_secs(60);

/// A session that calls this node.
async fn caller(live: &Live, node: usize, client: &str) -> Caller {
    let session = open_session(live.channel(node), TTL, client).await;
    Caller::new(live.channel(node), &session)
}

fn part(lock: &str) -> v1::AcquirePart {
    v1::AcquirePart { lock: lock.to_owned(), lock_delay_ms: Some(0), ..v1::AcquirePart::default() }
}

fn acquire(number: u64, parts: Vec<v1::AcquirePart>, wait: v1::wait::Kind) -> v1::Acquire {
    let wait = Some(v1::Wait { kind: Some(wait) });
    v1::Acquire { number, parts, wait, ..v1::Acquire::default() }
}

fn slots(grant: &v1::Grant) -> Vec<(&str, u32)> {
    grant.parts.iter().map(|part| (part.lock.as_str(), part.slot)).collect()
}
