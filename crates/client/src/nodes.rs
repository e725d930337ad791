//! Which node a long stream goes to: any of them, and the next one when its own is gone.

use std::sync::Arc;
use std::time::Duration;

use palisade_host::channel;
use tokio::time::sleep;
use tonic::Status;
use tonic::transport::Channel;

use crate::client::ClientHandle;

/// Shortest rest after every node was tried.
const REST_MIN: Duration = Duration::from_millis(50);
/// Longest.
const REST_MAX: Duration = Duration::from_secs(1);

/// The nodes of the configuration, and at which one a stream is.
pub(crate) struct Nodes {
    pub(crate) handle: Arc<ClientHandle>,
    at: usize,
    /// Nodes that were tried in vain since one last said something.
    failures: usize,
}

impl Nodes {
    pub(crate) fn new(handle: Arc<ClientHandle>) -> Self {
        // Not all of them at the first.
        let draw = usize::try_from(handle.host.entropy.number() % (1 << 16)).unwrap_or(0);
        let at = draw % handle.settings.endpoints.len();
        Self { handle, at, failures: 0 }
    }

    /// The present one.
    pub(crate) fn endpoint(&self) -> &str {
        self.handle.settings.endpoints.get(self.at).map_or("", String::as_str)
    }

    /// A connection to it.
    pub(crate) fn channel(&self) -> Result<Channel, Status> {
        let settings = &self.handle.settings;
        channel(self.handle.host.net.clone(), self.endpoint(), settings.connection_keepalive())
            .map_err(|error| Status::unavailable(error.to_string()))
    }

    /// The present one said something.
    pub(crate) fn heard(&mut self) {
        self.failures = 0;
    }

    /// The next one.
    pub(crate) fn move_on(&mut self) {
        self.at = (self.at + 1) % self.handle.settings.endpoints.len();
    }

    /// Whether there is another one.
    pub(crate) fn has_others(&self) -> bool {
        self.handle.settings.endpoints.len() > 1
    }

    /// The present one was tried in vain: rests whenever all of them were.
    pub(crate) async fn rest(&mut self) {
        let count = self.handle.settings.endpoints.len();
        self.failures += 1;
        if self.failures.is_multiple_of(count) {
            let rest = REST_MIN.saturating_mul(1 << (self.failures / count).min(8));
            sleep(rest.min(REST_MAX)).await;
        }
    }
}
