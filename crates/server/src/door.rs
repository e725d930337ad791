//! What every door needs, whatever is spoken at it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::Extensions;
use palisade_core::ids::Principal;
use palisade_proto::v1;
use palisade_raft::Replica;
use tokio::sync::Semaphore;

use crate::coordinator::Coordinator;
use crate::error;
use crate::rates::Rates;
use crate::stream::Router;

/// What every door needs.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) router: Arc<Router>,
    pub(crate) replica: Replica,
    /// Single calls in progress.
    pub(crate) calls: Arc<Semaphore>,
    /// Single keepalives in progress: waits that take all the calls there may be take none of these.
    pub(crate) keepalives: Arc<Semaphore>,
    /// How often each client may ask.
    pub(crate) rates: Arc<Rates>,
    /// How often each may report what a resource refused.
    pub(crate) reports: Arc<Rates>,
}

impl Door {
    /// Who calls. Until identities exist, everybody is the same.
    pub(crate) fn principal(&self) -> Principal {
        Principal::anonymous()
    }

    /// Lets so many requests of a client pass, or says when to repeat them.
    pub(crate) fn admit(&self, client: Option<IpAddr>, count: usize) -> Result<(), v1::Error> {
        let Some(client) = client else { return Ok(()) };
        let now = self.coordinator.host.clock.now();
        let taken = self.rates.take(client, count, now);
        taken.map_err(|wait| error::rate_limited(self.rates.bound(), "requests", wait))
    }

    /// The same of reports of what a resource refused.
    pub(crate) fn admit_reports(&self, client: Option<IpAddr>, count: usize) -> Result<(), v1::Error> {
        let Some(client) = client else { return Ok(()) };
        let now = self.coordinator.host.clock.now();
        let taken = self.reports.take(client, count, now);
        taken.map_err(|wait| error::rate_limited(self.reports.bound(), "reports of rejections", wait))
    }
}

/// Where a call comes from, as the transport knows it.
pub(crate) fn client_of(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<SocketAddr>().map(SocketAddr::ip)
}
