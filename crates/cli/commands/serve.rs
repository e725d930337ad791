//! `palisade serve`: one node, until it is told to stop or cannot go on.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use palisade_core::ids::{ClusterName, NodeName};
use palisade_host::Host;
use palisade_server::{
    DoorLimits, EngineKind, InitialMember, Node, RejectionLimits, ServerConfig, Storage, Timing, WatchLimits,
    keep_running,
};
use tokio::signal::unix::{SignalKind, signal};

use super::Failure;
use crate::args::{duration, member};
use crate::exit::Exit;

/// `palisade serve`
#[derive(Debug, Args)]
#[command(
    after_help = "Example, the first of three nodes (the others differ in --name, the addresses and --data-dir):
  palisade serve --name n1 --members n1=10.0.0.1:7171,n2=10.0.0.2:7171,n3=10.0.0.3:7171 \\
      --listen 10.0.0.1:7170 --peer-listen 10.0.0.1:7171 --data-dir /var/lib/palisade --insecure

Exit codes: 0 stopped by a signal, 1 cannot go on (its data, its disk, its membership), 2 wrong settings, 3 an address is taken."
)]
pub(crate) struct ServeArgs {
    /// This node, as in the list of members
    #[arg(long, env = "PALISADE_NAME", value_parser = NodeName::new)]
    pub(crate) name: NodeName,
    /// The cluster; the same on every node
    #[arg(long, env = "PALISADE_CLUSTER", default_value = "palisade", value_parser = ClusterName::new)]
    pub(crate) cluster: ClusterName,
    /// The initial members, name=host:port of each one's peer port; the same list on every node
    #[arg(long, env = "PALISADE_MEMBERS", required = true, value_delimiter = ',', value_parser = member)]
    pub(crate) members: Vec<InitialMember>,
    /// Where clients connect (gRPC and HTTP)
    #[arg(long, env = "PALISADE_LISTEN", default_value = "127.0.0.1:7170")]
    pub(crate) listen: String,
    /// What clients are told to connect to; without it, the address that it listens at
    #[arg(long, env = "PALISADE_ADVERTISE")]
    pub(crate) advertise: Option<String>,
    /// Where peers connect
    #[arg(long, env = "PALISADE_PEER_LISTEN", default_value = "127.0.0.1:7171")]
    pub(crate) peer_listen: String,
    /// Serve metrics and health here as well
    #[arg(long, env = "PALISADE_METRICS_LISTEN")]
    pub(crate) metrics_listen: Option<String>,
    /// Log, vote, snapshots and signing key of this node
    #[arg(long, env = "PALISADE_DATA_DIR")]
    pub(crate) data_dir: PathBuf,
    /// Listen beyond loopback although this version has neither TLS nor identities
    #[arg(long, env = "PALISADE_INSECURE")]
    pub(crate) insecure: bool,
    /// Log one line for each grant, end and rejection (target `audit`)
    #[arg(long, env = "PALISADE_AUDIT")]
    pub(crate) audit: bool,
    /// How often a leader shows that it is there
    #[arg(long, value_parser = duration, default_value = "75ms", help_heading = "Timing")]
    pub(crate) heartbeat: Duration,
    /// The shortest random part of an election timeout
    #[arg(long, value_parser = duration, default_value = "150ms", help_heading = "Timing")]
    pub(crate) election_min: Duration,
    /// The longest, and a leader's lease: a lost leader is replaced within about twice this
    #[arg(long, value_parser = duration, default_value = "300ms", help_heading = "Timing")]
    pub(crate) election_max: Duration,
    /// What keeps the log, segments or sled; without it, what wrote it, and segments in a new data directory
    #[arg(long, env = "PALISADE_STORAGE", help_heading = "Storage")]
    pub(crate) storage: Option<EngineKind>,
    /// Entries between two snapshots
    #[arg(long, default_value_t = 500_000, help_heading = "Storage")]
    pub(crate) snapshot_every: u64,
    /// Entries kept behind a snapshot
    #[arg(long, default_value_t = 200_000, help_heading = "Storage")]
    pub(crate) keep_log: u64,
    /// Watch streams that this node serves at a time
    #[arg(long, default_value_t = WatchLimits::default().streams_max, help_heading = "Watching")]
    pub(crate) watches_max: usize,
    /// Events of locks that this node keeps for watchers that come back
    #[arg(long, default_value_t = WatchLimits::default().events_kept_max, help_heading = "Watching")]
    pub(crate) events_kept: usize,
    /// Events that wait for one watcher; past it, its stream is cut
    #[arg(long, default_value_t = WatchLimits::default().buffer_max, help_heading = "Watching")]
    pub(crate) watch_buffer: usize,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// What this node takes at its door. Each bound has its own error, and none met by a client harms another's lease.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Connections at the client port; one more is closed at once
    #[arg(long, env = "PALISADE_CONNECTIONS_MAX", default_value_t = DoorLimits::default().connections_max)]
    connections_max: usize,
    /// Session streams; one more is RESOURCE_EXHAUSTED
    #[arg(long, env = "PALISADE_STREAMS_MAX", default_value_t = DoorLimits::default().streams_max)]
    streams_max: usize,
    /// Single calls in progress, waits included; one more is OVERLOADED
    #[arg(long, env = "PALISADE_CALLS_MAX", default_value_t = DoorLimits::default().calls_max)]
    calls_max: usize,
    /// Unanswered requests of one stream, waits excluded; one more ends the stream
    #[arg(long, env = "PALISADE_WINDOW", default_value_t = DoorLimits::default().window)]
    window: u32,
    /// Requests of one frame; one more ends the stream
    #[arg(long, env = "PALISADE_FRAME_REQUESTS_MAX", default_value_t = DoorLimits::default().frame_requests_max)]
    frame_requests_max: usize,
    /// Bytes of one gRPC message from a client; one more is OUT_OF_RANGE
    #[arg(long, env = "PALISADE_MESSAGE_BYTES_MAX", default_value_t = DoorLimits::default().message_bytes_max)]
    message_bytes_max: usize,
    /// Bytes of one body over HTTP; one more is TOO_LARGE
    #[arg(long, env = "PALISADE_BODY_BYTES_MAX", default_value_t = DoorLimits::default().body_bytes_max)]
    body_bytes_max: usize,
    /// Sequencers of one check; one more is BAD_ARGUMENT
    #[arg(long, env = "PALISADE_CHECK_ITEMS_MAX", default_value_t = DoorLimits::default().check_items_max)]
    check_items_max: usize,
    /// Checks whose signatures are verified at one time; one more is OVERLOADED
    #[arg(long, env = "PALISADE_VERIFICATIONS_MAX", default_value_t = DoorLimits::default().verifications_max)]
    verifications_max: usize,
    /// Requests that one client address may send in a second; one more is RATE_LIMITED. 0 is no bound. Keepalives of streams are not counted
    #[arg(long, env = "PALISADE_CLIENT_REQUESTS_PER_SECOND", default_value_t = DoorLimits::default().client_requests_per_second)]
    client_requests_per_second: u32,
    /// Reports of what resources refused that one client address may send in a second; one more is RATE_LIMITED. 0 is no bound
    #[arg(long, env = "PALISADE_REPORTS_PER_SECOND", default_value_t = DoorLimits::default().reports_per_second)]
    reports_per_second: u32,
    /// Stale holders that are remembered of such reports; the one not refused for the longest time is forgotten first
    #[arg(long, env = "PALISADE_REJECTIONS_KEPT", default_value_t = RejectionLimits::default().kept_max)]
    rejections_kept: usize,
    /// Refusals of one stale holder by one resource within 10 s that are called a storm
    #[arg(long, env = "PALISADE_STORM_REFUSALS", default_value_t = RejectionLimits::default().storm_refusals)]
    storm_refusals: u64,
}

impl LimitArgs {
    fn door(&self) -> DoorLimits {
        DoorLimits {
            window: self.window,
            streams_max: self.streams_max,
            calls_max: self.calls_max,
            message_bytes_max: self.message_bytes_max,
            frame_requests_max: self.frame_requests_max,
            check_items_max: self.check_items_max,
            verifications_max: self.verifications_max,
            body_bytes_max: self.body_bytes_max,
            connections_max: self.connections_max,
            client_requests_per_second: self.client_requests_per_second,
            reports_per_second: self.reports_per_second,
        }
    }

    fn rejections(&self) -> RejectionLimits {
        RejectionLimits { kept_max: self.rejections_kept, storm_refusals: self.storm_refusals }
    }
}

impl ServeArgs {
    fn config(&self) -> ServerConfig {
        let mut config = ServerConfig::new(self.name.clone(), self.cluster.clone(), self.members.clone());
        config.listen = self.listen.clone();
        config.advertise = self.advertise.clone();
        config.peer_listen = self.peer_listen.clone();
        config.metrics_listen = self.metrics_listen.clone();
        config.storage = Storage::Disk { directory: self.data_dir.clone(), engine: self.storage };
        config.insecure = self.insecure;
        config.timing = Timing {
            heartbeat: self.heartbeat,
            election_min: self.election_min,
            election_max: self.election_max,
        };
        config.snapshot_every = self.snapshot_every;
        config.keep_log = self.keep_log;
        config.watch.streams_max = self.watches_max;
        config.watch.events_kept_max = self.events_kept;
        config.watch.buffer_max = self.watch_buffer;
        config.door = self.limits.door();
        config.rejections = self.limits.rejections();
        config
    }
}

/// A huge page of 2 MB behind every few small allocations makes a third of what a node takes of memory.
fn small_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages stay on");
    }
}

pub(crate) async fn run(arguments: &ServeArgs) -> Result<Exit, Failure> {
    small_pages();
    if arguments.members.len() == 1 {
        tracing::warn!("one voter survives nothing: the loss of this node loses every lock");
    }
    let node = Node::start(arguments.config(), Host::system()).await?;
    tracing::info!(
        node = %arguments.name,
        id = node.id().0,
        clients = %node.client_address(),
        peers = %node.peer_address(),
        data = %arguments.data_dir.display(),
        version = env!("CARGO_PKG_VERSION"),
        "started"
    );
    until_told(node).await
}

/// Runs until a signal asks for the end, or the node cannot go on.
async fn until_told(node: Node) -> Result<Exit, Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let told = async {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    };
    // A log that failed may be in any state: nothing is flushed or handed over, a restart recovers.
    let (node, signal) = keep_running(node, told).await?;
    tracing::info!(signal, "stops");
    node.stop().await;
    Ok(Exit::OK)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use crate::args::Cli;

    #[test]
    fn the_page_for_operators_has_every_flag() {
        let page = include_str!("../../../docs/operations.md");
        let cli = Cli::command();
        let serve = cli.find_subcommand("serve").unwrap();
        for flag in serve.get_arguments().filter(|flag| !flag.is_global_set()) {
            let long = flag.get_long().unwrap();
            let row =
                page.lines().find(|line| line.starts_with("| ") && line.contains(&format!("`--{long}`")));
            let row = row.unwrap_or_else(|| panic!("no row for --{long}"));
            if let Some(variable) = flag.get_env().and_then(|name| name.to_str()?.strip_prefix("PALISADE_")) {
                assert!(row.contains(&format!("`{variable}`")), "--{long} and {variable}");
            }
        }
    }
}
