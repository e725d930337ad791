//! Settings of a client: raw as given, checked once.

use std::path::PathBuf;
use std::time::Duration;

use palisade_core::ids::ClientName;
use palisade_core::limits::{TTL_DEFAULT, TTL_MAX, TTL_MIN};

use crate::deadline::{HoldDeadlines, Lease};

/// A connection to a silent node is given up after this and as long again, at least.
const CONNECTION_KEEPALIVE_MIN: Duration = Duration::from_millis(500);
/// And at most.
const CONNECTION_KEEPALIVE_MAX: Duration = Duration::from_secs(5);

/// Nobody is more patient than this; and points in time stay within the range of clocks.
const REQUEST_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// What a client is told.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Nodes, `host:port` of their client ports, tried in order.
    pub endpoints: Vec<String>,
    /// Shown to people and carried in sequencers.
    pub name: ClientName,
    /// Lease of the sessions that it opens; 2 s to 24 h, default 10 s.
    pub ttl: Duration,
    /// Bound on the combined error of two clock rates; default 0.01. A larger one makes leases end earlier here.
    pub drift: f64,
    /// How much earlier than the cluster this client stops believing in its lease. Default: TTL/10, at least 100 ms.
    pub margin: Option<Duration>,
    /// Whether to move over to the leader (default), or to stay with a node that relays.
    pub follow_leader: bool,
    /// A caller's patience until a request is *decided* (a wait for a lock does not count); default 10 s. What is
    /// undecided then is reported as unknown, and goes on in the background until it is decided.
    pub request_timeout: Duration,
    /// Where [`Client::resume_session`](crate::Client::resume_session) leaves what the next process needs in order to go on
    /// where this one stopped. One client has it at a time. None: nothing is left.
    pub state_file: Option<PathBuf>,
}

impl ClientConfig {
    /// With a state file: see [`Client::resume_session`](crate::Client::resume_session).
    pub fn state_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.state_file = Some(path.into());
        self
    }

    /// Defaults, and these nodes.
    pub fn new<I, S>(endpoints: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            name: ClientName::unnamed(),
            ttl: Duration::from_millis(TTL_DEFAULT.0),
            drift: 0.01,
            margin: None,
            follow_leader: true,
            request_timeout: Duration::from_secs(10),
            state_file: None,
        }
    }
}

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// No endpoint.
    #[error("no endpoint is configured: name at least one node, as host:port")]
    NoEndpoints,
    /// Not `host:port`.
    #[error("the endpoint {0:?} is not host:port")]
    Endpoint(String),
    /// Outside 2 s to 24 h.
    #[error("the TTL {0:?} is outside 2 s to 24 h")]
    Ttl(Duration),
    /// Not a share of 1.
    #[error("the drift bound {0} is not between 0 and 0.5")]
    Drift(f64),
    /// Nothing is left of the lease.
    #[error("the margin {margin:?} leaves less than half of the lease of {ttl:?}")]
    Margin {
        /// Of the lease.
        ttl: Duration,
        /// As configured.
        margin: Duration,
    },
    /// Zero.
    #[error("the request timeout is zero")]
    RequestTimeout,
    /// Another process has it, or it cannot be had.
    #[error("the state file {}: {message}", path.display())]
    StateFile {
        /// Where it is.
        path: PathBuf,
        /// For people.
        message: String,
    },
    /// Tasks need a runtime.
    #[error("a client is made inside a tokio runtime")]
    NoRuntime,
}

/// Checked settings.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) endpoints: Vec<String>,
    pub(crate) name: ClientName,
    pub(crate) ttl: Duration,
    pub(crate) follow_leader: bool,
    pub(crate) request_timeout: Duration,
    drift: f64,
    margin: Option<Duration>,
}

impl Settings {
    /// The lease of a session whose TTL the cluster confirmed.
    pub(crate) fn lease(&self, ttl: Duration) -> Lease {
        Lease::new(ttl, self.drift, self.margin)
    }

    /// Those of a hold that has bounds of its own.
    pub(crate) fn hold_deadlines(&self, most: Option<Duration>, every: Option<Duration>) -> HoldDeadlines {
        HoldDeadlines::new(self.drift, most, every)
    }

    /// How often a silent connection is probed: often enough to find a dead node and reach another within a lease.
    pub(crate) fn connection_keepalive(&self) -> Duration {
        (self.ttl / 6).clamp(CONNECTION_KEEPALIVE_MIN, CONNECTION_KEEPALIVE_MAX)
    }
}

impl TryFrom<ClientConfig> for Settings {
    type Error = ConfigError;

    fn try_from(config: ClientConfig) -> Result<Self, ConfigError> {
        if config.endpoints.is_empty() {
            return Err(ConfigError::NoEndpoints);
        }
        let endpoints = config.endpoints.iter().map(|text| endpoint(text)).collect::<Result<_, _>>()?;
        let millis = config.ttl.as_millis();
        if millis < TTL_MIN.0.into() || millis > TTL_MAX.0.into() {
            return Err(ConfigError::Ttl(config.ttl));
        }
        if !(0.0..=0.5).contains(&config.drift) {
            return Err(ConfigError::Drift(config.drift));
        }
        if let Some(margin) = config.margin
            && margin > config.ttl / 2
        {
            return Err(ConfigError::Margin { ttl: config.ttl, margin });
        }
        if config.request_timeout.is_zero() {
            return Err(ConfigError::RequestTimeout);
        }
        Ok(Self {
            endpoints,
            name: config.name,
            ttl: config.ttl,
            follow_leader: config.follow_leader,
            request_timeout: config.request_timeout.min(REQUEST_TIMEOUT_MAX),
            drift: config.drift,
            margin: config.margin,
        })
    }
}

fn endpoint(text: &str) -> Result<String, ConfigError> {
    let bare = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    let port = bare.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then_some(port));
    match port.map(str::parse::<u16>) {
        Some(Ok(_)) => Ok(bare.to_owned()),
        Some(Err(_)) | None => Err(ConfigError::Endpoint(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_host_and_port() {
        assert_eq!(endpoint("node-1:7400"), Ok("node-1:7400".to_owned()));
        assert_eq!(endpoint("http://[::1]:7400/"), Ok("[::1]:7400".to_owned()));
        for bad in ["node-1", ":7400", "node-1:port", "node-1:70000"] {
            assert_eq!(endpoint(bad), Err(ConfigError::Endpoint(bad.to_owned())));
        }
    }

    #[test]
    fn what_leaves_no_lease_is_refused() {
        let good = ClientConfig::new(["a:1"]);
        assert!(Settings::try_from(good.clone()).is_ok());
        let none = ClientConfig { endpoints: Vec::new(), ..good.clone() };
        assert_eq!(Settings::try_from(none).err(), Some(ConfigError::NoEndpoints));
        let short = ClientConfig { ttl: Duration::from_secs(1), ..good.clone() };
        assert!(matches!(Settings::try_from(short), Err(ConfigError::Ttl(_))));
        let wide = ClientConfig { margin: Some(Duration::from_secs(6)), ..good.clone() };
        assert!(matches!(Settings::try_from(wide), Err(ConfigError::Margin { .. })));
        let wild = ClientConfig { drift: 0.9, ..good };
        assert!(matches!(Settings::try_from(wild), Err(ConfigError::Drift(_))));
    }
}
