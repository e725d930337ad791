//! What one node is told at its start: checked and typed.

use std::path::PathBuf;
use std::time::Duration;

use palisade_core::ids::{ClusterName, NodeName};
use palisade_core::limits::{Limits, TTL_MIN};
use palisade_raft::EngineKind;

use crate::rejections::RejectionLimits;
use crate::watches::WatchLimits;

/// Where the log, the vote and the snapshots live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// On disk, with the signing key.
    Disk {
        /// The data directory.
        directory: PathBuf,
        /// What keeps the log. None means what wrote it, and segments in a new directory.
        engine: Option<EngineKind>,
    },
    /// In memory: nothing survives the process. For `palisade dev` and tests.
    Memory,
}

/// An initial member, as each node's configuration lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InitialMember {
    /// Its name.
    pub name: NodeName,
    /// Where its peers reach it, `host:port`.
    pub peer_address: String,
}

/// How long leaders and candidates wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two heartbeats.
    pub heartbeat: Duration,
    /// The shortest random part of an election timeout.
    pub election_min: Duration,
    /// The longest; also a leader's lease.
    pub election_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(75),
            election_min: Duration::from_millis(150),
            election_max: Duration::from_millis(300),
        }
    }
}

impl Timing {
    /// The largest election timeout: leader lease plus the longest random wait (SPEC 1).
    pub fn election_timeout(self) -> Duration {
        self.election_max * 2
    }
}

/// Bounds that this node enforces at its door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorLimits {
    /// Unanswered requests of one stream, waits excluded; announced to the client.
    pub window: u32,
    /// Client streams of this node.
    pub streams_max: usize,
    /// Single calls in progress.
    pub calls_max: usize,
    /// Bytes of one message from a client.
    pub message_bytes_max: usize,
    /// Requests of one frame.
    pub frame_requests_max: usize,
    /// Sequencers of one check.
    pub check_items_max: usize,
    /// Signature verifications in progress.
    pub verifications_max: usize,
    /// Bytes of one body over HTTP.
    pub body_bytes_max: usize,
    /// Connections at the client port. One more is closed at once.
    pub connections_max: usize,
    /// Requests that one client address may send in a second; 0 is no bound.
    pub client_requests_per_second: u32,
    /// Reports of what resources refused that one client address may send in a second; 0 is no bound.
    pub reports_per_second: u32,
}

impl Default for DoorLimits {
    fn default() -> Self {
        Self {
            window: 4_096,
            streams_max: 10_000,
            calls_max: 4_096,
            message_bytes_max: 4 << 20,
            frame_requests_max: 4_096,
            check_items_max: 256,
            verifications_max: 64,
            body_bytes_max: 256 << 10,
            connections_max: 20_000,
            client_requests_per_second: 0,
            reports_per_second: 20,
        }
    }
}

impl DoorLimits {
    fn check(&self) -> Result<(), ConfigError> {
        let bounds = [
            ("--window", self.window as usize),
            ("--streams-max", self.streams_max),
            ("--calls-max", self.calls_max),
            ("--message-bytes-max", self.message_bytes_max),
            ("--frame-requests-max", self.frame_requests_max),
            ("--check-items-max", self.check_items_max),
            ("--verifications-max", self.verifications_max),
            ("--body-bytes-max", self.body_bytes_max),
            ("--connections-max", self.connections_max),
        ];
        let none = bounds.into_iter().find(|(_, bound)| *bound == 0);
        none.map_or(Ok(()), |(what, _)| Err(ConfigError::NoRoom(what)))
    }
}

/// Everything that a node is told.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// This node.
    pub name: NodeName,
    /// The same on every node.
    pub cluster: ClusterName,
    /// The initial members, this node among them; the same list on every node.
    pub members: Vec<InitialMember>,
    /// Where clients connect, `host:port`; port 0 takes a free one.
    pub listen: String,
    /// What clients are told; none means the address that it listens at.
    pub advertise: Option<String>,
    /// Where peers connect.
    pub peer_listen: String,
    /// Where metrics and health are served besides the client port.
    pub metrics_listen: Option<String>,
    /// Log, vote, snapshots.
    pub storage: Storage,
    /// Heartbeats and elections.
    pub timing: Timing,
    /// Bounds at the door.
    pub door: DoorLimits,
    /// Bounds of watching.
    pub watch: WatchLimits,
    /// Bounds of what resources report.
    pub rejections: RejectionLimits,
    /// Replicated bounds, used by the node that founds the cluster.
    pub limits: Limits,
    /// Entries between two snapshots.
    pub snapshot_every: u64,
    /// Entries kept behind a snapshot, for followers that are a little late.
    pub keep_log: u64,
    /// Listen beyond loopback without TLS and identities.
    pub insecure: bool,
}

/// What a configuration has wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// This node must be a member.
    #[error("node {0} is not in the list of initial members; add {0}=host:port to it, on every node")]
    NotAMember(NodeName),
    /// A name stands twice.
    #[error("{0} stands twice in the list of initial members")]
    MemberTwice(NodeName),
    /// Raft needs an odd number.
    #[error("{0} initial members; one, three or five are allowed (one survives nothing)")]
    MemberCount(usize),
    /// An address is not `host:port`.
    #[error("{what} {address:?} is not host:port")]
    Address {
        /// Which.
        what: &'static str,
        /// As given.
        address: String,
    },
    /// Beyond loopback.
    #[error(
        "{what} {address} is reachable from other machines, and this version has neither TLS nor identities; \
         listen at 127.0.0.1, or pass --insecure if the network is trusted"
    )]
    Exposed {
        /// Which.
        what: &'static str,
        /// As given.
        address: String,
    },
    /// A bound that lets nothing through.
    #[error("{0} is 0, and would let nothing through")]
    NoRoom(&'static str),
    /// Timings that cannot work together.
    #[error("timing: {0}")]
    Timing(&'static str),
}

impl ServerConfig {
    /// A node with defaults, in memory.
    pub fn new(name: NodeName, cluster: ClusterName, members: Vec<InitialMember>) -> Self {
        Self {
            name,
            cluster,
            members,
            listen: "127.0.0.1:0".into(),
            advertise: None,
            peer_listen: "127.0.0.1:0".into(),
            metrics_listen: None,
            storage: Storage::Memory,
            timing: Timing::default(),
            door: DoorLimits::default(),
            watch: WatchLimits::default(),
            rejections: RejectionLimits::default(),
            limits: Limits::default(),
            snapshot_every: 500_000,
            keep_log: 200_000,
            insecure: false,
        }
    }

    /// Checks what the fields say together.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !self.members.iter().any(|member| member.name == self.name) {
            return Err(ConfigError::NotAMember(self.name.clone()));
        }
        for (at, member) in self.members.iter().enumerate() {
            if self.members[..at].iter().any(|earlier| earlier.name == member.name) {
                return Err(ConfigError::MemberTwice(member.name.clone()));
            }
            host_of("peer address", &member.peer_address)?;
        }
        if !matches!(self.members.len(), 1 | 3 | 5) {
            return Err(ConfigError::MemberCount(self.members.len()));
        }
        let listens = [
            ("--listen", Some(&self.listen)),
            ("--peer-listen", Some(&self.peer_listen)),
            ("--metrics-listen", self.metrics_listen.as_ref()),
        ];
        for (what, address) in listens {
            let Some(address) = address else { continue };
            let host = host_of(what, address)?;
            if !self.insecure && !is_loopback(host) {
                return Err(ConfigError::Exposed { what, address: address.clone() });
            }
        }
        self.door.check()?;
        if self.rejections.storm_refusals == 0 {
            return Err(ConfigError::NoRoom("--storm-refusals"));
        }
        let timing = self.timing;
        if timing.heartbeat.is_zero() || timing.election_min < timing.heartbeat * 2 {
            return Err(ConfigError::Timing("the least election timeout must be at least two heartbeats"));
        }
        if timing.election_max <= timing.election_min {
            return Err(ConfigError::Timing("the largest election timeout must be above the least"));
        }
        if timing.election_timeout() * 3 > Duration::from_millis(TTL_MIN.0) {
            return Err(ConfigError::Timing("three election timeouts must fit into the shortest lease, 2 s"));
        }
        Ok(())
    }
}

fn host_of<'a>(what: &'static str, address: &'a str) -> Result<&'a str, ConfigError> {
    let bad = || ConfigError::Address { what, address: address.to_owned() };
    let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
    port.parse::<u16>().map_err(|_| bad())?;
    if host.is_empty() { Err(bad()) } else { Ok(host) }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ServerConfig {
        let name = |text: &str| NodeName::new(text).expect("a name");
        let member = |text: &str, port: u16| InitialMember {
            name: name(text),
            peer_address: format!("127.0.0.1:{port}"),
        };
        let members = vec![member("n1", 1), member("n2", 2), member("n3", 3)];
        ServerConfig::new(name("n1"), ClusterName::new("c").expect("a name"), members)
    }

    #[test]
    fn three_members_on_loopback_are_fine() {
        assert_eq!(config().check(), Ok(()));
    }

    #[test]
    fn beyond_loopback_needs_the_word_insecure() {
        let mut exposed = config();
        exposed.listen = "0.0.0.0:7170".into();
        assert!(matches!(exposed.check(), Err(ConfigError::Exposed { what: "--listen", .. })));
        exposed.insecure = true;
        assert_eq!(exposed.check(), Ok(()));
    }

    #[test]
    fn lists_that_cannot_be_are_refused() {
        let mut two = config();
        two.members.pop();
        assert_eq!(two.check(), Err(ConfigError::MemberCount(2)));
        let mut stranger = config();
        stranger.name = NodeName::new("n9").expect("a name");
        assert!(matches!(stranger.check(), Err(ConfigError::NotAMember(_))));
        let mut twice = config();
        twice.members[2].name = twice.members[1].name.clone();
        assert!(matches!(twice.check(), Err(ConfigError::MemberTwice(_))));
    }

    #[test]
    fn timings_must_fit_the_shortest_lease() {
        let mut slow = config();
        slow.timing.election_max = Duration::from_secs(2);
        assert!(matches!(slow.check(), Err(ConfigError::Timing(_))));
    }
}
