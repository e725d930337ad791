//! A cluster of real processes on loopback, and how a test speaks with it.
//!
//! Few such clusters run at a time: each is three processes that flush to the disk, and a machine that is busy with ten
//! of them tells about the machine, not about the program. Every wait here is for a condition, and has a deadline.

pub(crate) mod example;
mod http;
mod job;
mod raw;
mod script;
mod service;
mod unary;

use std::future::Future;
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use palisade_client::{Client, ClientConfig, LockGuard, Session};
use palisade_core::ids::LockName;
use palisade_host::Host;
use palisade_proto::v1;
use palisade_proto::v1::cluster_client::ClusterClient;
use palisade_testkit::cluster::ProcessCluster;
use tonic::transport::Channel;

pub(crate) use example::example;
pub(crate) use http::{Http, get, post, post_as};
pub(crate) use job::Job;
pub(crate) use raw::{
    Raw, RawSession, Seen, acknowledges, acquire, error_name, no_wait, open_session, release, while_session,
};
pub(crate) use script::{SECRET, Script};
pub(crate) use unary::{Caller, insist, status_name};

pub(crate) use service::Service;

/// Clusters that run at the same time.
const CLUSTERS_MAX: u32 = 2;
/// Whatever a healthy cluster does, it does within this, on the slowest machine that runs the tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at a condition.
const LOOK: Duration = Duration::from_millis(20);
/// A stopped process answers nothing; a node that runs answers at once.
const STATUS_WAIT: Duration = Duration::from_millis(500);

static RUNNING: Mutex<u32> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// The right to run a cluster.
pub(crate) struct Turn;

impl Turn {
    /// Waits for it. One test takes one, lest two wait for each other.
    pub(crate) fn wait() -> Self {
        let running = RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut running = ENDED
            .wait_while(running, |running| *running >= CLUSTERS_MAX)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *running += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}

/// A cluster, and a way to each of its nodes.
pub(crate) struct Live {
    pub(crate) cluster: ProcessCluster,
    channels: Vec<Channel>,
    // Given up after the processes are gone: fields drop in order.
    _turn: Turn,
}

impl Live {
    /// A cluster of `count` nodes, none of which runs yet.
    pub(crate) fn prepare(count: usize) -> Self {
        Self::prepare_with(count, &[])
    }

    fn prepare_with(count: usize, flags: &[&str]) -> Self {
        let turn = Turn::wait();
        let binary = Path::new(env!("CARGO_BIN_EXE_palisade"));
        let cluster =
            ProcessCluster::new(binary, count).unwrap().with_arguments(&[&["--audit"], flags].concat());
        let channels = cluster.endpoints().iter().map(|address| channel(address)).collect();
        Self { cluster, channels, _turn: turn }
    }

    /// A cluster of `count` nodes, all of which serve.
    pub(crate) async fn start(count: usize) -> Self {
        Self::start_with(count, &[]).await
    }

    /// The same, with more flags for each.
    pub(crate) async fn start_with(count: usize, flags: &[&str]) -> Self {
        let mut live = Self::prepare_with(count, flags);
        live.cluster.start_all().unwrap();
        live.ready().await;
        live
    }

    /// Waits until every node serves.
    pub(crate) async fn ready(&self) {
        for node in 0..self.cluster.nodes().len() {
            self.node_ready(node).await;
        }
    }

    /// Waits until a node serves.
    pub(crate) async fn node_ready(&self, node: usize) {
        eventually("the node serves", async || {
            get(self.address(node), "/readyz").await.is_some_and(|answer| answer.status == 200).then_some(())
        })
        .await;
    }

    /// Where clients reach a node.
    pub(crate) fn address(&self, node: usize) -> &str {
        &self.cluster.nodes()[node].client_address
    }

    /// A connection to one node alone.
    pub(crate) fn channel(&self, node: usize) -> Channel {
        self.channels[node].clone()
    }

    /// What a node says of the cluster by itself; none when it does not answer.
    pub(crate) async fn status(&self, node: usize) -> Option<v1::StatusAnswer> {
        let mut client = ClusterClient::new(self.channel(node));
        let asked = client.status(v1::StatusRequest { local: true });
        Some(tokio::time::timeout(STATUS_WAIT, asked).await.ok()?.ok()?.into_inner())
    }

    /// The node that says of itself that it leads and serves, and its term. A stopped one says nothing.
    pub(crate) async fn leader_now(&self) -> Option<(usize, u64)> {
        let mut found = None;
        for node in 0..self.channels.len() {
            let Some(status) = self.status(node).await else { continue };
            let here = status.healthy && status.leader.is_some_and(|leader| leader.here);
            if here && found.is_none_or(|(_, term)| term < status.term) {
                found = Some((node, status.term));
            }
        }
        found
    }

    /// Waits for a leader, and its term.
    pub(crate) async fn leader_and_term(&self) -> (usize, u64) {
        eventually("there is a leader", async || self.leader_now().await).await
    }

    /// Waits for a leader.
    pub(crate) async fn leader(&self) -> usize {
        self.leader_and_term().await.0
    }

    /// Waits for the leader of a term after `term`.
    pub(crate) async fn leader_after(&self, term: u64) -> usize {
        let later = async || self.leader_now().await.filter(|(_, newer)| *newer > term);
        eventually("there is a new leader", later).await.0
    }

    /// Two nodes that follow.
    pub(crate) async fn followers(&self) -> [usize; 2] {
        let leader = self.leader().await;
        let mut others = (0..self.channels.len()).filter(|node| *node != leader);
        [others.next().unwrap(), others.next().unwrap()]
    }

    /// A client of the whole cluster.
    pub(crate) fn client(&self, ttl: Duration) -> Client {
        let mut config = ClientConfig::new(self.cluster.endpoints());
        config.ttl = ttl;
        Client::new(config, Host::system()).unwrap()
    }

    /// A client of one node, which stays with it.
    pub(crate) fn client_of(&self, node: usize) -> Client {
        let mut config = ClientConfig::new([self.address(node)]);
        config.follow_leader = false;
        Client::new(config, Host::system()).unwrap()
    }

    /// A stream to one node, with nothing between the test and the protocol.
    pub(crate) async fn raw(&self, node: usize) -> Raw {
        eventually("the node takes a stream", async || Raw::connect(self.channel(node)).await).await
    }

    /// Stops a process, and waits until it stands.
    pub(crate) async fn pause(&self, node: usize) {
        self.cluster.pause(node);
        let pid = self.cluster.pid(node).unwrap();
        eventually("the process stands still", async || stands(pid).then_some(())).await;
    }
}

/// Whether every thread of a process is stopped.
#[cfg(target_os = "linux")]
fn stands(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.filter_map(Result::ok).all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

/// Elsewhere nothing tells.
#[cfg(not(target_os = "linux"))]
fn stands(_: u32) -> bool {
    true
}

/// A connection to one node, made again after each loss.
pub(crate) fn channel(address: &str) -> Channel {
    palisade_host::channel(Host::system().net, address, Duration::from_secs(5)).unwrap()
}

/// Looks until there is something, for [`PATIENCE`].
pub(crate) async fn eventually<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    within(PATIENCE, what, look).await
}

/// Looks until there is something.
async fn within<T>(patience: Duration, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits for something that happens by itself.
pub(crate) async fn soon<T>(what: &str, waited: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, waited).await.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"))
}

pub(crate) fn name(lock: &str) -> LockName {
    LockName::new(lock).unwrap()
}

/// Acquires a lock, waiting for it.
pub(crate) async fn hold(session: &Session, lock: &str) -> LockGuard {
    soon("the lock is granted", session.lock(name(lock)).acquire()).await.unwrap()
}

/// Who holds a lock: session, number and token.
pub(crate) fn holder(view: &v1::LockView) -> Option<(v1::AcquisitionId, u64)> {
    let Some(v1::slot_view::State::Held(tenure)) = &view.slots.first()?.state else { return None };
    Some((tenure.holders.first()?.acquisition?, tenure.token))
}
