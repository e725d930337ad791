//! A cluster for the length of one command: three `palisade serve` processes on this machine.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use palisade_client::{CallError, Client, ClientConfig};
use palisade_core::ids::{ClientName, LockName};
use palisade_host::Host;
use palisade_proto::v1;
use tokio::time::{Instant, sleep};

use crate::process::Process;

/// How many nodes.
pub(crate) const NODES: usize = 3;
/// From the start of the processes to a healthy cluster.
const READY_PATIENCE: Duration = Duration::from_secs(20);
/// Between two questions.
const LOOK: Duration = Duration::from_millis(20);
/// For one answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// From SIGTERM to SIGKILL.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// Three nodes and a client that looks at them. Dropped, the nodes are killed.
pub(crate) struct Cluster {
    nodes: Vec<Process>,
    /// How each was started.
    arguments: Vec<Vec<String>>,
    folder: PathBuf,
    endpoints: Vec<String>,
    client: Client,
}

/// Who leads.
pub(crate) struct Leader {
    pub(crate) name: String,
    pub(crate) term: u64,
}

impl Cluster {
    /// Starts the processes of a cluster called `name`; their data and logs are in `folder`.
    pub(crate) fn start(folder: &Path, name: &str) -> anyhow::Result<Self> {
        Self::start_with(folder, name, &[])
    }

    /// The same, each with these flags besides.
    pub(crate) fn start_with(folder: &Path, name: &str, flags: &[String]) -> anyhow::Result<Self> {
        let address = loopback();
        let ports = ports(address, 2 * NODES)?;
        let (clients, peers) = ports.split_at(NODES);
        let members: Vec<String> =
            peers.iter().enumerate().map(|(at, port)| format!("n{}={address}:{port}", at + 1)).collect();
        let (mut nodes, mut all_arguments) = (Vec::with_capacity(NODES), Vec::with_capacity(NODES));
        for (at, (client, peer)) in clients.iter().zip(peers).enumerate() {
            let node = format!("n{}", at + 1);
            let mut arguments = vec![
                "serve".to_owned(),
                format!("--name={node}"),
                format!("--cluster={name}"),
                format!("--members={}", members.join(",")),
                format!("--listen={address}:{client}"),
                format!("--peer-listen={address}:{peer}"),
                format!("--data-dir={}", folder.join(&node).display()),
            ];
            arguments.extend_from_slice(flags);
            nodes.push(Process::start(&node, &arguments, folder, false)?);
            all_arguments.push(arguments);
        }
        let endpoints: Vec<String> = clients.iter().map(|port| format!("{address}:{port}")).collect();
        let mut settings = ClientConfig::new(endpoints.clone());
        settings.name = ClientName::new(&format!("palisade {name}")).context("the client's name")?;
        settings.request_timeout = ANSWER_PATIENCE;
        let client = Client::new(settings, Host::system())?;
        Ok(Self { nodes, arguments: all_arguments, folder: folder.to_owned(), endpoints, client })
    }

    /// Where clients reach the nodes.
    pub(crate) fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// Waits until all nodes are in and one of them leads.
    pub(crate) async fn ready(&mut self) -> anyhow::Result<Leader> {
        let deadline = Instant::now() + READY_PATIENCE;
        loop {
            self.check()?;
            let last = match self.client.status(false).await {
                Ok(status) => match leader(&status) {
                    Some(leader) => return Ok(leader),
                    None => "no leader, or not all nodes are in".to_owned(),
                },
                Err(error) => error.to_string(),
            };
            if Instant::now() >= deadline {
                bail!("the cluster was not ready within {READY_PATIENCE:?}: {last}");
            }
            sleep(LOOK).await;
        }
    }

    /// Who holds the lock, who waits, and who held it before. Linearizable.
    pub(crate) async fn view(&self, lock: &LockName) -> Result<v1::LockView, CallError> {
        self.client.lock_view(lock).await
    }

    /// An error with the end of its log, if a node has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        self.nodes.iter_mut().try_for_each(Process::check)
    }

    /// One node's process.
    pub(crate) fn node(&mut self, name: &str) -> anyhow::Result<&mut Process> {
        let node = self.nodes.iter_mut().find(|node| node.name() == name);
        node.with_context(|| format!("there is no node {name}"))
    }

    /// Waits for the end of a node that was told to end, and starts it again with the data that it left.
    pub(crate) async fn start_again(&mut self, name: &str) -> anyhow::Result<()> {
        let at = self.nodes.iter().position(|node| node.name() == name);
        let at = at.with_context(|| format!("there is no node {name}"))?;
        self.nodes.remove(at).end(STOP_PATIENCE).await?;
        self.nodes.insert(at, Process::start(name, &self.arguments[at], &self.folder, false)?);
        Ok(())
    }

    /// The processes, in the order of their names.
    pub(crate) fn nodes(&self) -> &[Process] {
        &self.nodes
    }

    /// Where a node keeps its data.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What the nodes say of the cluster and of themselves.
    pub(crate) async fn status(&self) -> Result<v1::StatusAnswer, CallError> {
        self.client.status(false).await
    }

    /// Kills all nodes at once, as a power failure would, and starts them again with the data that they left.
    pub(crate) async fn kill_and_start_again(&mut self) -> anyhow::Result<()> {
        self.nodes.iter().try_for_each(Process::kill)?;
        let names: Vec<String> = self.nodes.iter().map(|node| node.name().to_owned()).collect();
        for node in std::mem::take(&mut self.nodes) {
            node.end(STOP_PATIENCE).await?;
        }
        for (name, arguments) in names.iter().zip(&self.arguments) {
            self.nodes.push(Process::start(name, arguments, &self.folder, false)?);
        }
        Ok(())
    }

    /// Where each node keeps its data.
    pub(crate) fn data_folders(&self) -> Vec<PathBuf> {
        self.nodes.iter().map(|node| self.folder.join(node.name())).collect()
    }

    /// Memory of each node that is its own, in bytes; none where `/proc` does not say it.
    pub(crate) fn memory(&self) -> Option<Vec<u64>> {
        self.nodes.iter().map(Process::memory).collect()
    }

    /// Processor time that each node has used.
    pub(crate) fn cpu_each(&self) -> Option<Vec<Duration>> {
        self.nodes.iter().map(Process::cpu).collect()
    }

    /// Processor time that the nodes have used.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        self.nodes.iter().map(Process::cpu).sum()
    }

    /// How many errors the nodes have logged.
    pub(crate) fn errors(&self) -> usize {
        self.nodes.iter().map(Process::errors).sum()
    }

    /// Ends the nodes in order, as an operator would.
    pub(crate) async fn stop(self) {
        for node in &self.nodes {
            // One that has ended already needs no signal.
            let _ = node.terminate();
        }
        for node in self.nodes {
            let name = node.name().to_owned();
            if let Err(error) = node.end(STOP_PATIENCE).await {
                tracing::warn!(node = name, %error, "could not be ended");
            }
        }
    }
}

fn leader(status: &v1::StatusAnswer) -> Option<Leader> {
    let leader = status.leader.as_ref().filter(|leader| !leader.name.is_empty())?;
    let answering = status.nodes.iter().filter(|node| node.role != "unreachable").count();
    (status.healthy && answering == NODES).then(|| Leader { name: leader.name.clone(), term: status.term })
}

/// An address of this process alone where all of 127/8 is ours, so that nothing else on the machine is in the way.
fn loopback() -> IpAddr {
    if cfg!(target_os = "linux") {
        let [_, high, middle, low] = std::process::id().to_be_bytes();
        // Neither 127.0.0.x, where services listen, nor the broadcast address.
        return Ipv4Addr::new(127, 64 | (high & 0x3f), middle, low).into();
    }
    Ipv4Addr::LOCALHOST.into()
}

/// Ports that are free now.
fn ports(address: IpAddr, count: usize) -> anyhow::Result<Vec<u16>> {
    let held: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind((address, 0)))
        .collect::<Result<_, _>>()
        .with_context(|| format!("looking for free ports on {address}"))?;
    held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
