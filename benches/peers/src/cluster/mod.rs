//! Starts and ends the services: on loopback only, each with its own defaults, by their own processes only.

mod commands;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{etcd, palisade, postgres, zookeeper};

pub(crate) use commands::Programs;

/// Nodes of a cluster, where the service has one.
pub(crate) const NODES: usize = 3;
/// From the start of the processes to a cluster that serves.
const READY: Duration = Duration::from_secs(60);
/// For a service to end by itself.
const ENDING: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    Etcd,
    ZooKeeper,
    RedisAlways,
    RedisEverySecond,
    Postgres,
    Floor,
    Palisade,
}

impl Service {
    fn nodes(self) -> usize {
        match self {
            Self::RedisAlways | Self::RedisEverySecond | Self::Postgres => 1,
            Self::Etcd | Self::ZooKeeper | Self::Floor | Self::Palisade => NODES,
        }
    }

    /// Whether another node takes over when the leader is lost.
    pub(crate) fn can_fail_over(self) -> bool {
        matches!(self, Self::Etcd | Self::ZooKeeper | Self::Palisade)
    }

    /// Where clients connect, by node.
    pub(crate) fn endpoints(self) -> Vec<String> {
        (0..self.nodes()).map(|node| commands::endpoint(self, node)).collect()
    }
}

pub(crate) struct Cluster {
    service: Service,
    folder: PathBuf,
    programs: Programs,
    nodes: Vec<Option<Child>>,
}

impl Cluster {
    /// Starts a new one with its data below `data`, and waits until it serves.
    pub(crate) async fn start(service: Service, data: &Path, programs: Programs) -> Result<Self> {
        (0..service.nodes()).try_for_each(|node| commands::is_free(service, node))?;
        let folder = data.join(format!("{service:?}"));
        // Of an earlier run that was interrupted.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let folder = folder.canonicalize()?;
        let mut cluster = Self { service, folder, programs, nodes: Vec::new() };
        for node in 0..service.nodes() {
            let child = cluster.spawn(node, Life::First)?;
            cluster.nodes.push(Some(child));
        }
        cluster.ready().await?;
        Ok(cluster)
    }

    /// Of all its data.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn spawn(&self, node: usize, life: Life) -> Result<Child> {
        let folder = self.folder.join(format!("n{node}"));
        fs::create_dir_all(&folder)?;
        let log = File::options().create(true).append(true).open(self.folder.join(format!("n{node}.log")))?;
        let words = commands::command(self.service, node, &folder, &self.programs, life)?;
        // No server outlives this program, however it ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(words);
        command.current_dir("/").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().with_context(|| format!("setpriv, for node {node} of {:?}", self.service))
    }

    /// Waits until every node serves.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        let until = Instant::now() + READY;
        while Instant::now() < until {
            if self.serves().await {
                tokio::time::sleep(Duration::from_millis(500)).await;
                return self.runs();
            }
            self.runs()?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("{:?} was not ready within {READY:?}; see {}", self.service, self.folder.display())
    }

    /// An error when a node ended: what serves at its address then is somebody else's.
    fn runs(&mut self) -> Result<()> {
        for (node, child) in self.nodes.iter_mut().enumerate() {
            if let Some(child) = child
                && let Some(status) = child.try_wait()?
            {
                bail!("node {node} of {:?} ended with {status}; see {}", self.service, self.folder.display());
            }
        }
        Ok(())
    }

    async fn serves(&self) -> bool {
        let endpoints = self.service.endpoints();
        match self.service {
            Service::Etcd => {
                etcd::healthy(&endpoints).await == NODES && etcd::leader(&endpoints).await.is_ok()
            }
            Service::ZooKeeper => {
                zookeeper::serving(&endpoints).await == NODES && zookeeper::leader(&endpoints).await.is_ok()
            }
            Service::Palisade => palisade::reachable(&endpoints).await == NODES,
            Service::Postgres => postgres::ready(&endpoints[0]).await,
            // A follower of the floor takes one connection, its leader's.
            Service::Floor | Service::RedisAlways | Service::RedisEverySecond => {
                tokio::net::TcpStream::connect(&endpoints[0]).await.is_ok()
            }
        }
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.nodes.iter().flatten().map(Child::id).collect()
    }

    /// The number of the node that leads.
    pub(crate) async fn leader(&self) -> Result<usize> {
        let endpoints = self.service.endpoints();
        match self.service {
            Service::Etcd => etcd::leader(&endpoints).await,
            Service::ZooKeeper => zookeeper::leader(&endpoints).await,
            Service::Palisade => palisade::leader(&endpoints).await,
            Service::RedisAlways | Service::RedisEverySecond | Service::Postgres | Service::Floor => Ok(0),
        }
    }

    pub(crate) fn signal(&self, node: usize, signal: Signal) -> Result<()> {
        let child = self.nodes[node].as_ref().context("the node does not run")?;
        let pid = Pid::from_raw(i32::try_from(child.id())?).context("no process has the number 0")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Ends what is left of a node, starts it again with its data, and waits until all serve.
    pub(crate) async fn restart(&mut self, node: usize) -> Result<()> {
        if let Some(mut child) = self.nodes[node].take() {
            // It may have ended already.
            let _ = child.kill();
            child.wait()?;
        }
        self.nodes[node] = Some(self.spawn(node, Life::Later)?);
        self.ready().await
    }

    /// Ends all nodes and removes their data.
    pub(crate) async fn stop(mut self) {
        // Postgres calls SIGINT its fast shutdown.
        let signal = if self.service == Service::Postgres { Signal::INT } else { Signal::TERM };
        for node in 0..self.nodes.len() {
            let _ = self.signal(node, signal);
        }
        let until = Instant::now() + ENDING;
        for child in self.nodes.iter_mut().flatten() {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Which start of a node it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    First,
    Later,
}
