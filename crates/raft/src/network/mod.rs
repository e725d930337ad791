//! What nodes say to each other: openraft's messages over the `Peer` service.
//!
//! Each pair of nodes has two connections, so that a follower that catches up does not delay heartbeats and votes:
//! appends and snapshots go over the one, everything small over the other.

pub(crate) mod client;
pub(crate) mod credentials;
pub(crate) mod identify;
pub(crate) mod intake;
mod outbound;
pub(crate) mod server;

use std::time::Duration;

use crate::replica::ReplicaConfig;

/// How long nodes wait for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// A vote, and anything else that is small.
    pub(crate) small: Duration,
    /// A stream that answers nothing for so long has ended. A follower answers only what is on its disk, so this
    /// leaves room for a slow one.
    pub(crate) stalled: Duration,
    /// A silent connection is dead after this time, and as long again.
    pub(crate) keepalive: Duration,
}

impl Patience {
    pub(crate) fn new(config: &ReplicaConfig) -> Self {
        Self {
            small: config.election_min,
            stalled: (config.election_max * 5).max(Duration::from_secs(1)),
            keepalive: (config.election_max * 2).max(Duration::from_millis(500)),
        }
    }
}
