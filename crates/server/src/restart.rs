//! A node whose log panicked starts again from its disk, in the same process.
//!
//! A log that panics is a defect of its implementation; what it made durable is whole, and a start reads it as after
//! `kill -9`. A storage that failed is another matter: the node ends, and guesses nothing (SPEC 11).

use std::collections::VecDeque;
use std::time::Duration;

use palisade_raft::ReplicaFailure;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::node::Node;

/// Restarts within [`RESTARTS_WITHIN`] before the node ends instead: a panic that comes back at once is not mended by
/// another start, and whoever watches the process is to know.
const RESTARTS_MAX: usize = 5;
/// In what time they are counted.
const RESTARTS_WITHIN: Duration = Duration::from_secs(60);

/// Runs `node` until `told` is ready, and hands it back. It starts again by itself when its log panicked.
///
/// # Errors
///
/// When it cannot go on.
pub async fn keep_running<T>(mut node: Node, told: impl Future<Output = T>) -> Result<(Node, T), Failure> {
    tokio::pin!(told);
    let mut restarts = Restarts::default();
    loop {
        let failure = tokio::select! {
            failure = node.failed() => failure,
            told = &mut told => return Ok((node, told)),
        };
        let panicked = failure == Failure::Replica(ReplicaFailure::Panicked);
        if !panicked || !node.is_on_disk() || !restarts.allow(Instant::now()) {
            return Err(failure);
        }
        tracing::error!(max = RESTARTS_MAX, within = ?RESTARTS_WITHIN, "the replicated log panicked; the node starts again");
        let began = Instant::now();
        node = node.start_again().await.map_err(|why| Failure::Restart(why.to_string()))?;
        tracing::info!(took = ?began.elapsed(), "started again from the disk");
    }
}

/// When the last ones were.
#[derive(Default)]
struct Restarts(VecDeque<Instant>);

impl Restarts {
    /// Whether one more is allowed; then it is counted.
    fn allow(&mut self, now: Instant) -> bool {
        while self.0.front().is_some_and(|oldest| now - *oldest >= RESTARTS_WITHIN) {
            self.0.pop_front();
        }
        let allowed = self.0.len() < RESTARTS_MAX;
        if allowed {
            self.0.push_back(now);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_panics_again_and_again_ends() {
        let (mut restarts, start) = (Restarts::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!((0..5).all(|second| restarts.allow(at(second))));
        assert!(!restarts.allow(at(30)));
        assert!(restarts.allow(at(60)), "the first one is a minute ago");
        assert!(!restarts.allow(at(60)));
    }
}
