//! ZooKeeper: its lock recipe (an ephemeral, sequential child; watch the one before; delete).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use async_trait::async_trait;
use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error};

use crate::backend::{Ask, Backend, Grant, KeepGroup, Session, add};

/// Requests at one time while locks are prepared.
const PREPARING: usize = 128;
/// Connections at one time while leases are opened.
const OPENINGS: usize = 64;
/// Each node's figures, and what we call them.
const METRICS: [(&str, &str); 4] = [
    ("zk_cnt_fsynctime\t", "fsyncs"),
    ("zk_sum_fsynctime\t", "fsync_ms"),
    ("zk_cnt_proposal_latency\t", "proposals"),
    ("zk_sync_processor_batch_size\t", "batch"),
];

pub(crate) struct ZooKeeper {
    pub(crate) endpoints: Vec<String>,
    pub(crate) ttl: Duration,
}

fn persistent() -> CreateOptions<'static> {
    CreateMode::Persistent.with_acls(Acls::anyone_all())
}

/// Every folder above these locks, once.
fn folders(locks: &[String]) -> Vec<String> {
    let mut folders: Vec<String> = locks
        .iter()
        .flat_map(|lock| lock.match_indices('/').map(move |(at, _)| format!("/{}", &lock[..at])))
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

#[async_trait]
impl Backend for ZooKeeper {
    async fn open(&self, node: usize) -> Result<Arc<dyn Session>> {
        let endpoint = &self.endpoints[node % self.endpoints.len()];
        let client = Client::connector().with_session_timeout(self.ttl).connect(endpoint).await?;
        Ok(Arc::new(ZooKeeperSession { client }))
    }

    async fn prepare(&self, locks: &[String]) -> Result<()> {
        let client = Client::connect(&self.endpoints[0]).await?;
        let options = persistent();
        let fine = |made: Result<(), Error>| match made {
            Ok(()) | Err(Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        };
        for folder in folders(locks) {
            fine(client.mkdir(&folder, &options).await)?;
        }
        for some in locks.chunks(PREPARING) {
            let (client, options) = (&client, &options);
            let making = some.iter().map(|lock| async move {
                client.create(&format!("/{lock}"), b"", options).await.map(|_| ())
            });
            for made in join_all(making).await {
                fine(made)?;
            }
        }
        Ok(())
    }

    /// A ZooKeeper session is a connection: bare sockets, so that the client's side costs little.
    async fn keep_group(&self, node: usize, count: usize, ttl: Duration) -> Result<Box<dyn KeepGroup>> {
        let endpoint = &self.endpoints[node % self.endpoints.len()];
        let mut sockets = Vec::new();
        while sockets.len() < count {
            let openings = (0..(count - sockets.len()).min(OPENINGS)).map(|_| bare_session(endpoint, ttl));
            for socket in join_all(openings).await {
                sockets.push(socket?);
            }
        }
        Ok(Box::new(ZooKeeperLeases { sockets }))
    }

    async fn counters(&self) -> Vec<(String, f64)> {
        let mut counters = Vec::new();
        for endpoint in &self.endpoints {
            let body = four(endpoint, "mntr").await.unwrap_or_default();
            for (metric, name) in METRICS {
                let value = body.lines().find_map(|line| line.strip_prefix(metric)?.trim().parse().ok());
                if let Some(value) = value {
                    add(&mut counters, name, value);
                }
            }
        }
        counters
    }
}

async fn bare_session(endpoint: &str, ttl: Duration) -> Result<TcpStream> {
    let mut socket = TcpStream::connect(endpoint).await?;
    socket.set_nodelay(true)?;
    let mut connect = Vec::new();
    connect.extend_from_slice(&44i32.to_be_bytes());
    connect.extend_from_slice(&0i32.to_be_bytes()); // protocol
    connect.extend_from_slice(&0i64.to_be_bytes()); // last zxid
    connect.extend_from_slice(&i32::try_from(ttl.as_millis())?.to_be_bytes());
    connect.extend_from_slice(&0i64.to_be_bytes()); // session
    connect.extend_from_slice(&16i32.to_be_bytes());
    connect.extend_from_slice(&[0u8; 16]); // password
    socket.write_all(&connect).await?;
    let length = usize::try_from(socket.read_i32().await?)?;
    let mut answer = vec![0u8; length];
    socket.read_exact(&mut answer).await?;
    let granted = answer.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_be_bytes);
    ensure!(granted > 0, "the session was refused");
    Ok(socket)
}

/// A four-letter command.
async fn four(endpoint: &str, command: &str) -> Result<String> {
    let answer = async {
        let mut socket = TcpStream::connect(endpoint).await?;
        socket.write_all(command.as_bytes()).await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        Ok::<_, anyhow::Error>(answer)
    };
    tokio::time::timeout(Duration::from_secs(2), answer).await?
}

/// The number of the node that leads.
pub(crate) async fn leader(endpoints: &[String]) -> Result<usize> {
    for (node, endpoint) in endpoints.iter().enumerate() {
        if four(endpoint, "srvr").await.is_ok_and(|answer| answer.contains("Mode: leader")) {
            return Ok(node);
        }
    }
    Err(anyhow!("nobody leads"))
}

/// How many nodes serve.
pub(crate) async fn serving(endpoints: &[String]) -> usize {
    let mut serving = 0;
    for endpoint in endpoints {
        let answer = four(endpoint, "srvr").await.unwrap_or_default();
        serving += usize::from(answer.contains("Mode: leader") || answer.contains("Mode: follower"));
    }
    serving
}

struct ZooKeeperSession {
    client: Client,
}

#[async_trait]
impl Session for ZooKeeperSession {
    async fn acquire(&self, lock: &str, _ask: Ask) -> Result<Grant> {
        let folder = format!("/{lock}");
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let prefix = format!("{folder}/l-");
        let (stat, sequence) = self.client.create(&prefix, b"", &options).await?;
        let path = format!("{prefix}{sequence}");
        let own = &path[folder.len() + 1..];
        loop {
            let mut children = self.client.list_children(&folder).await?;
            children.sort();
            let place = children.iter().position(|child| child == own);
            match place.ok_or_else(|| anyhow!("the node is gone"))? {
                0 => break,
                place => {
                    let before = format!("{folder}/{}", children[place - 1]);
                    let (stat, watch) = self.client.check_and_watch_stat(&before).await?;
                    if stat.is_some() {
                        watch.changed().await;
                    }
                }
            }
        }
        let token = stat.czxid.unsigned_abs();
        Ok(Grant { lock: lock.to_owned(), key: path.into_bytes(), token, ..Grant::default() })
    }

    async fn release(&self, grant: Grant) -> Result<()> {
        self.client.delete(std::str::from_utf8(&grant.key)?, None).await?;
        Ok(())
    }

    async fn check(&self, grant: &Grant) -> Result<bool> {
        let path = std::str::from_utf8(&grant.key)?;
        // Sync and read go one behind the other on the connection, which keeps their order.
        let (synced, found) = tokio::join!(self.client.sync(path), self.client.check_stat(path));
        synced?;
        Ok(found?.is_some_and(|stat| stat.czxid.unsigned_abs() == grant.token))
    }
}

struct ZooKeeperLeases {
    sockets: Vec<TcpStream>,
}

#[async_trait]
impl KeepGroup for ZooKeeperLeases {
    fn len(&self) -> usize {
        self.sockets.len()
    }

    async fn beat(&mut self, from: usize, to: usize) -> Result<u64> {
        const PING: [u8; 12] = [0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11];
        for socket in &mut self.sockets[from..to] {
            socket.write_all(&PING).await?;
        }
        let mut renewed = 0;
        for socket in &mut self.sockets[from..to] {
            let length = usize::try_from(socket.read_i32().await?)?;
            let mut answer = vec![0u8; length];
            socket.read_exact(&mut answer).await?;
            renewed += 1;
        }
        Ok(renewed)
    }
}
