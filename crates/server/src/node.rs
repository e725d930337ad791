//! One node: built, run, drained. The tasks and their order of death.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use palisade_core::ids::NodeId;
use palisade_host::{Host, Incoming};
use palisade_proto::raft::v1::relay_server::RelayServer;
use palisade_raft::{Introduction, Observer, Replica, ReplicaConfig};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::{ServerConfig, Storage};
use crate::coordinator::{Coordinator, CoordinatorParts};
use crate::door::Door;
use crate::failure::{Failure, NodeError};
use crate::forward::RelayService;
use crate::founding;
use crate::grpc;
use crate::http::{self, Http};
use crate::leadership;
use crate::lease::{LeaseClock, LeaseConfig, proposer};
use crate::metrics::Metrics;
use crate::observer::ApplyObserver;
use crate::rates::Rates;
use crate::signer::Signer;
use crate::storage::{self, NodeStorage};
use crate::stream::Router;

/// A silent client connection is found dead within twice this.
const CLIENT_KEEPALIVE: Duration = Duration::from_secs(10);
/// A silent peer connection is found dead within twice this.
const PEER_KEEPALIVE: Duration = Duration::from_secs(2);
/// How long a stopping leader tries to hand the lead over.
const HAND_OVER_WAIT: Duration = Duration::from_secs(2);
/// How long answers under way may take to leave.
const DRAIN_WAIT: Duration = Duration::from_millis(300);
/// How old an answer of gRPC's health service may be. HTTP's `/readyz` looks each time.
const HEALTH_LOOK: Duration = Duration::from_millis(250);

/// A running node.
pub struct Node {
    client_address: SocketAddr,
    peer_address: SocketAddr,
    coordinator: Arc<Coordinator>,
    router: Arc<Router>,
    replica: Replica,
    tasks: JoinSet<()>,
    listeners: CancellationToken,
    failure: watch::Receiver<Option<Failure>>,
}

impl Node {
    /// Starts a node with the storage that its configuration names.
    pub async fn start(config: ServerConfig, host: Host) -> Result<Self, NodeError> {
        config.check()?;
        let storage = NodeStorage::open(&config.storage)?;
        Self::start_on(config, host, storage).await
    }

    /// Starts a node on storage that is open already.
    pub async fn start_on(config: ServerConfig, host: Host, storage: NodeStorage) -> Result<Self, NodeError> {
        Self::start_watched(config, host, storage, Extras::default()).await
    }

    /// Starts again from its disk, at the same addresses, after its log panicked: what `kill -9` and a start would do, but
    /// for the process. Streams end; their clients ask again under the same numbers, here or elsewhere.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_again(self) -> Result<Self, NodeError> {
        let Self { client_address, peer_address, coordinator, router, replica, mut tasks, listeners, .. } =
            self;
        router.end_all(&tonic::Status::unavailable("this node starts again; go to another"));
        coordinator.watches.stop();
        listeners.cancel();
        replica.shutdown().await;
        tasks.shutdown().await;
        let mut config = (*coordinator.config).clone();
        config.listen = client_address.to_string();
        config.peer_listen = peer_address.to_string();
        let (host, log_restarts) = (coordinator.host.clone(), coordinator.metrics.log_restarts() + 1);
        drop((coordinator, router, replica));
        let storage = NodeStorage::open(&config.storage)?;
        Self::start_watched(config, host, storage, Extras { tap: None, log_restarts }).await
    }

    /// Starts a node whose every applied entry `tap` sees as well, for checks over what happened.
    pub async fn start_tapped(
        config: ServerConfig,
        host: Host,
        storage: NodeStorage,
        tap: Box<dyn Observer>,
    ) -> Result<Self, NodeError> {
        Self::start_watched(config, host, storage, Extras { tap: Some(tap), log_restarts: 0 }).await
    }

    async fn start_watched(
        config: ServerConfig,
        host: Host,
        storage: NodeStorage,
        Extras { tap, log_restarts }: Extras,
    ) -> Result<Self, NodeError> {
        config.check()?;
        let config = Arc::new(config);
        let node = storage::identity(&config, &host, &storage).await?;
        let signer = match &config.storage {
            Storage::Disk { directory, .. } => Signer::open(directory, &*host.entropy)?,
            Storage::Memory => Signer::drawn(&*host.entropy)?,
        };
        let client_listener = listen(&host, &config.listen).await?;
        let peer_listener = listen(&host, &config.peer_listen).await?;
        let client_address = local(&config.listen, client_listener.local_addr())?;
        let peer_address = local(&config.peer_listen, peer_listener.local_addr())?;
        let advertised = config.advertise.clone().unwrap_or_else(|| client_address.to_string());

        let metrics = Arc::new(Metrics::new());
        metrics.log_restarted(log_restarts);
        let parts = CoordinatorParts {
            config: config.clone(),
            host: host.clone(),
            node,
            metrics,
            signer,
            clock: LeaseClock::new(LeaseConfig::default()),
        };
        let coordinator = Coordinator::new(parts);
        let router = Arc::new(Router::new());
        let replica_config = ReplicaConfig {
            node,
            cluster: config.cluster.clone(),
            heartbeat: config.timing.heartbeat,
            election_min: config.timing.election_min,
            election_max: config.timing.election_max,
            snapshot_every: config.snapshot_every,
            keep_log: config.keep_log,
        };
        let observer = Box::new(ApplyObserver { coordinator: coordinator.clone(), tap });
        let replica =
            Replica::start(replica_config, host.clone(), storage.engine, storage.snapshots, observer).await?;
        coordinator.set_replica(replica.clone());
        replica.set_identify(Introduction { members: founding::list(&config), client_address: advertised });

        let (failed, failure) = watch::channel(None);
        let mut node = Self {
            client_address,
            peer_address,
            coordinator,
            router,
            replica,
            tasks: JoinSet::new(),
            listeners: CancellationToken::new(),
            failure,
        };
        node.serve_peers(peer_listener, failed.clone());
        node.serve_clients(client_listener, failed.clone())?;
        if let Some(address) = &config.metrics_listen {
            let listener = listen(&host, address).await?;
            node.serve_metrics(listener, failed.clone());
        }
        node.run_tasks(failed);
        Ok(node)
    }

    fn serve_peers(&mut self, listener: Box<dyn palisade_host::Listener>, failed: Failed) {
        let relay = RelayService { coordinator: self.coordinator.clone(), replica: self.replica.clone() };
        let relay = RelayServer::new(relay)
            .max_decoding_message_size(crate::forward::MESSAGE_BYTES_MAX)
            .max_encoding_message_size(crate::forward::MESSAGE_BYTES_MAX);
        let server = palisade_host::server(PEER_KEEPALIVE)
            .add_service(self.replica.peer_server())
            .add_service(relay)
            .serve_with_incoming_shutdown(Incoming::new(listener), self.listeners.clone().cancelled_owned());
        self.tasks.spawn(report(server, failed, "peers"));
    }

    fn serve_clients(
        &mut self,
        listener: Box<dyn palisade_host::Listener>,
        failed: Failed,
    ) -> Result<(), NodeError> {
        let limits = self.coordinator.config.door;
        let door = Door {
            coordinator: self.coordinator.clone(),
            router: self.router.clone(),
            replica: self.replica.clone(),
            calls: Arc::new(Semaphore::new(limits.calls_max)),
            keepalives: Arc::new(Semaphore::new(limits.calls_max)),
            rates: Arc::new(Rates::new(limits.client_requests_per_second)),
            reports: Arc::new(Rates::new(limits.reports_per_second)),
        };
        let (health, health_service) = tonic_health::server::health_reporter();
        let routes = grpc::routes(&door).map_err(|why| NodeError::Descriptors(why.to_string()))?;
        let routes = routes.add_service(health_service).into_axum_router().merge(http::calls(&door));
        let routes = http::paced(routes, door).merge(http::routes(self.http()));
        let server = palisade_host::server(CLIENT_KEEPALIVE)
            .accept_http1(true)
            .add_routes(routes.into())
            .serve_with_incoming_shutdown(
                Incoming::at_most(limits.connections_max, listener),
                self.listeners.clone().cancelled_owned(),
            );
        self.tasks.spawn(report(server, failed, "clients"));
        self.tasks.spawn(report_health(self.coordinator.clone(), self.router.clone(), health));
        Ok(())
    }

    fn serve_metrics(&mut self, listener: Box<dyn palisade_host::Listener>, failed: Failed) {
        let server = palisade_host::server(CLIENT_KEEPALIVE)
            .accept_http1(true)
            .add_routes(http::metrics_routes(self.http()).into())
            .serve_with_incoming_shutdown(Incoming::new(listener), self.listeners.clone().cancelled_owned());
        self.tasks.spawn(report(server, failed, "metrics"));
    }

    fn run_tasks(&mut self, failed: Failed) {
        let (coordinator, router, replica) = (&self.coordinator, &self.router, &self.replica);
        let metrics = coordinator.metrics.clone();
        let rounds = coordinator.rounds.clone();
        let wait = coordinator.config.timing.election_timeout();
        self.tasks.spawn(rounds.run(replica.clone(), wait, move |took| metrics.round(took)));
        self.tasks.spawn(proposer::run(coordinator.clone()));
        self.tasks.spawn(coordinator.watches.clone().run());
        self.tasks.spawn(leadership::run(coordinator.clone(), router.clone(), replica.clone()));
        let (config, host, node) = (coordinator.config.clone(), coordinator.host.clone(), coordinator.node);
        let joining = replica.clone();
        let refused = failed.clone();
        self.tasks.spawn(async move {
            if let Err(why) = founding::join(&config, &host, &joining, node).await {
                refused.send_replace(Some(Failure::Founding(why)));
            }
        });
        let mut broken = replica.failed();
        self.tasks.spawn(async move {
            while broken.changed().await.is_ok() {
                if let Some(why) = broken.borrow().clone() {
                    failed.send_replace(Some(Failure::Replica(why)));
                }
            }
        });
    }

    fn http(&self) -> Http {
        Http {
            coordinator: self.coordinator.clone(),
            router: self.router.clone(),
            replica: self.replica.clone(),
        }
    }

    /// Where clients reach it.
    pub fn client_address(&self) -> SocketAddr {
        self.client_address
    }

    /// Where peers reach it.
    pub fn peer_address(&self) -> SocketAddr {
        self.peer_address
    }

    /// Its id.
    pub fn id(&self) -> NodeId {
        self.coordinator.node
    }

    /// Its part of the replicated log, for tests that look inside.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Whether a start finds again what it was told.
    pub(crate) fn is_on_disk(&self) -> bool {
        matches!(self.coordinator.config.storage, Storage::Disk { .. })
    }

    /// Whether it serves clients, itself or by its relay.
    pub fn is_ready(&self) -> bool {
        http::is_ready(&self.coordinator, &self.router)
    }

    /// Whether it leads and serves.
    pub fn serves(&self) -> bool {
        self.coordinator.serving().is_some()
    }

    /// Returns when the node cannot go on, and why.
    pub async fn failed(&mut self) -> Failure {
        loop {
            if let Some(failure) = self.failure.borrow_and_update().clone() {
                return failure;
            }
            if self.failure.changed().await.is_err() {
                return Failure::Listener("the node's tasks are gone".to_owned());
            }
        }
    }

    /// Stops: hands the lead over, lets answers under way leave, closes the listeners and then the log.
    pub async fn stop(mut self) {
        if self.serves() && self.replica.members().len() > 1 {
            let moved = self.replica.transfer_leadership(HAND_OVER_WAIT).await;
            tracing::info!(node = %self.coordinator.config.name, moved, "handed the lead over");
        }
        tokio::time::sleep(DRAIN_WAIT).await;
        self.router.end_all(&tonic::Status::unavailable("this node stops; go to another"));
        self.coordinator.watches.stop();
        self.listeners.cancel();
        tokio::time::sleep(DRAIN_WAIT).await;
        self.replica.shutdown().await;
        self.tasks.shutdown().await;
    }
}

/// What a start knows beside configuration and storage.
#[derive(Default)]
struct Extras {
    tap: Option<Box<dyn Observer>>,
    /// How often this process started it again.
    log_restarts: u64,
}

type Failed = watch::Sender<Option<Failure>>;

async fn report(
    server: impl Future<Output = Result<(), tonic::transport::Error>>,
    failed: Failed,
    what: &'static str,
) {
    if let Err(why) = server.await {
        failed.send_replace(Some(Failure::Listener(format!("{what}: {why}"))));
    }
}

async fn report_health(
    coordinator: Arc<Coordinator>,
    router: Arc<Router>,
    health: tonic_health::server::HealthReporter,
) {
    const SERVICES: [&str; 6] = [
        "",
        "palisade.v1.Sessions",
        "palisade.v1.Locks",
        "palisade.v1.Sequencers",
        "palisade.v1.Watches",
        "palisade.v1.Cluster",
    ];
    let mut before = None;
    loop {
        let ready = http::is_ready(&coordinator, &router);
        if before != Some(ready) {
            let status = if ready {
                tonic_health::ServingStatus::Serving
            } else {
                tonic_health::ServingStatus::NotServing
            };
            for service in SERVICES {
                health.set_service_status(service, status).await;
            }
            before = Some(ready);
        }
        tokio::time::sleep(HEALTH_LOOK).await;
    }
}

async fn listen(host: &Host, address: &str) -> Result<Box<dyn palisade_host::Listener>, NodeError> {
    let listener = host.net.listen(address).await;
    listener.map_err(|source| NodeError::Listen { address: address.to_owned(), source })
}

fn local(address: &str, found: io::Result<SocketAddr>) -> Result<SocketAddr, NodeError> {
    found.map_err(|source| NodeError::Listen { address: address.to_owned(), source })
}
