//! What a service offers to be driven by the workloads.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use palisade_client::LockGuard;

/// What an acquire expects to find.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// The lock is expected to be free.
    Free,
    /// Queues until it is granted.
    Queue,
}

/// A held lock.
#[derive(Default)]
pub(crate) struct Grant {
    pub(crate) lock: String,
    /// What the service calls the holder by, where it needs it again.
    pub(crate) key: Vec<u8>,
    /// What orders holders (etcd's revision, ZooKeeper's czxid, a row's counter, a log index); 0 where there is none.
    pub(crate) token: u64,
    /// Of Palisade's client, which releases by it.
    pub(crate) guard: Option<LockGuard>,
}

/// One connection with one session or lease on it. Several tasks share a session.
#[async_trait]
pub(crate) trait Session: Send + Sync {
    async fn acquire(&self, lock: &str, ask: Ask) -> Result<Grant>;

    async fn release(&self, grant: Grant) -> Result<()>;

    /// What a resource does once with a token that is new to it, before it asks about it again and again.
    async fn verify(&self, _grant: &Grant) -> Result<()> {
        Ok(())
    }

    /// Whether the token is still the current one. Never from stale state.
    async fn check(&self, grant: &Grant) -> Result<bool>;
}

/// Leases that are kept alive over one connection, or, where the service forces it, over one connection a lease.
#[async_trait]
pub(crate) trait KeepGroup: Send + Sync {
    fn len(&self) -> usize;

    /// Whether the client library keeps them alive by itself, so that the workload only looks on.
    fn keeps_itself(&self) -> bool {
        false
    }

    /// Whether the service was told of each lease when it was opened.
    fn was_told(&self) -> bool {
        true
    }

    /// Leases that are lost by now, where the client library tells.
    fn lost(&self) -> u64 {
        0
    }

    /// Renews the leases `from..to`; how many the service confirmed.
    async fn beat(&mut self, from: usize, to: usize) -> Result<u64>;
}

#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// Connects to a node (its number is taken modulo their count) and opens a session there.
    async fn open(&self, node: usize) -> Result<Arc<dyn Session>>;

    /// Makes what the locks need beforehand: parent nodes, rows.
    async fn prepare(&self, _locks: &[String]) -> Result<()> {
        Ok(())
    }

    /// `count` leases with this TTL on connections to `node`.
    async fn keep_group(&self, node: usize, count: usize, ttl: Duration) -> Result<Box<dyn KeepGroup>>;

    /// The service's own counters (flushes and the like), which only rise.
    async fn counters(&self) -> Vec<(String, f64)> {
        Vec::new()
    }

    fn can_check(&self) -> bool {
        true
    }
}

/// Adds to the counter of this name.
pub(crate) fn add(counters: &mut Vec<(String, f64)>, name: &str, value: f64) {
    match counters.iter_mut().find(|(known, _)| known == name) {
        Some((_, sum)) => *sum += value,
        None => counters.push((name.to_owned(), value)),
    }
}
