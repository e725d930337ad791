//! etcd: the v3lock Lock and Unlock calls, or the recipe of its Go client's `concurrency.Mutex`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use async_trait::async_trait;
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, EventType, GetOptions, LeaseKeepAliveStream, LeaseKeeper,
    LockOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse, WatchOptions,
};
use futures::future::join_all;

use crate::backend::{Ask, Backend, Grant, KeepGroup, Session, add};
use crate::http;

/// Requests at one time while leases are opened.
const OPENINGS: usize = 64;

pub(crate) struct Etcd {
    pub(crate) endpoints: Vec<String>,
    /// The Lock call instead of the recipe.
    pub(crate) call: bool,
    pub(crate) ttl: Duration,
}

struct EtcdSession {
    client: Client,
    lease: i64,
    call: bool,
}

async fn connect(endpoint: &str) -> Result<Client> {
    let options = ConnectOptions::new().with_connect_timeout(Duration::from_secs(3));
    Ok(Client::connect([format!("http://{endpoint}")], Some(options)).await?)
}

fn seconds(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX)
}

/// Each node's metrics, and what we call them.
const METRICS: [(&str, &str); 6] = [
    ("etcd_disk_wal_fsync_duration_seconds_count ", "wal_fsyncs"),
    ("etcd_disk_wal_fsync_duration_seconds_sum ", "wal_fsync_s"),
    ("etcd_disk_backend_commit_duration_seconds_count ", "bolt_commits"),
    ("etcd_disk_backend_commit_duration_seconds_sum ", "bolt_commit_s"),
    ("etcd_server_proposals_committed_total ", "proposals_applied_nodes"),
    ("etcd_network_peer_sent_bytes_total", "peer_bytes"),
];

#[async_trait]
impl Backend for Etcd {
    async fn open(&self, node: usize) -> Result<Arc<dyn Session>> {
        let mut client = connect(&self.endpoints[node % self.endpoints.len()]).await?;
        let lease = client.lease_grant(seconds(self.ttl), None).await?.id();
        // The session's keepalive, as a client library runs it.
        let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
        let period = self.ttl / 3;
        tokio::spawn(async move {
            while keeper.keep_alive().await.is_ok() && matches!(answers.message().await, Ok(Some(_))) {
                tokio::time::sleep(period).await;
            }
        });
        Ok(Arc::new(EtcdSession { client, lease, call: self.call }))
    }

    async fn keep_group(&self, node: usize, count: usize, ttl: Duration) -> Result<Box<dyn KeepGroup>> {
        let client = connect(&self.endpoints[node % self.endpoints.len()]).await?;
        let mut leases = Vec::new();
        while leases.len() < count {
            let openings = (0..(count - leases.len()).min(OPENINGS)).map(|_| {
                let mut client = client.lease_client();
                async move { client.grant(seconds(ttl), None).await.map(|answer| answer.id()) }
            });
            for lease in join_all(openings).await {
                leases.push(lease?);
            }
        }
        // One stream for all leases of the connection, as its Go client does.
        let (keeper, answers) = client.lease_client().keep_alive(leases[0]).await?;
        Ok(Box::new(EtcdLeases { keeper, answers, leases, _client: client }))
    }

    async fn counters(&self) -> Vec<(String, f64)> {
        let mut counters = Vec::new();
        for endpoint in &self.endpoints {
            let body = http::get(endpoint, "/metrics").await.unwrap_or_default();
            for (metric, name) in METRICS {
                let values = body.lines().filter(|line| line.starts_with(metric));
                for value in values.filter_map(|line| line.rsplit(' ').next()?.parse().ok()) {
                    add(&mut counters, name, value);
                }
            }
        }
        counters
    }
}

/// The number of the node that leads, if they agree on one.
pub(crate) async fn leader(endpoints: &[String]) -> Result<usize> {
    for (node, endpoint) in endpoints.iter().enumerate() {
        let status = async {
            let status = connect(endpoint).await?.status().await?;
            Ok::<_, anyhow::Error>((status.leader(), status.header().map_or(0, |header| header.member_id())))
        };
        if let Ok(Ok((leader, own))) = tokio::time::timeout(Duration::from_secs(2), status).await
            && leader != 0
            && leader == own
        {
            return Ok(node);
        }
    }
    Err(anyhow!("nobody leads"))
}

/// How many nodes say that they are well.
pub(crate) async fn healthy(endpoints: &[String]) -> usize {
    let mut healthy = 0;
    for endpoint in endpoints {
        let answer = tokio::time::timeout(Duration::from_secs(1), http::get(endpoint, "/health")).await;
        healthy += usize::from(matches!(answer, Ok(Ok(body)) if body.contains("true")));
    }
    healthy
}

impl EtcdSession {
    async fn lock(&self, lock: &str) -> Result<Grant> {
        let options = LockOptions::new().with_lease(self.lease);
        let answer = self.client.lock_client().lock(lock, Some(options)).await?;
        let token = answer.header().map_or(0, |header| header.revision()).unsigned_abs();
        Ok(Grant { lock: lock.to_owned(), key: answer.key().to_vec(), token, ..Grant::default() })
    }

    /// `Mutex.Lock` of clientv3/concurrency.
    async fn recipe(&self, lock: &str) -> Result<Grant> {
        let prefix = format!("{lock}/");
        let key = format!("{prefix}{:x}", self.lease);
        let by_creation =
            |order| GetOptions::new().with_prefix().with_sort(SortTarget::Create, order).with_limit(1);
        let owner = || TxnOp::get(prefix.clone(), Some(by_creation(SortOrder::Ascend)));
        let put = TxnOp::put(key.clone(), "", Some(PutOptions::new().with_lease(self.lease)));
        let txn = Txn::new()
            .when(vec![Compare::create_revision(key.clone(), CompareOp::Equal, 0)])
            .and_then(vec![put, owner()])
            .or_else(vec![TxnOp::get(key.clone(), None), owner()]);
        let mut kv = self.client.kv_client();
        let answer = kv.txn(txn).await?;
        let first = |op: Option<&TxnOpResponse>| match op {
            Some(TxnOpResponse::Get(found)) => found.kvs().first().map(|pair| pair.create_revision()),
            _ => None,
        };
        let ops = answer.op_responses();
        let own = match answer.succeeded() {
            true => answer.header().map_or(0, |header| header.revision()),
            false => first(ops.first()).unwrap_or(0),
        };
        let mut waits = first(ops.get(1)).is_some_and(|owner| owner != own);
        while waits {
            let before = by_creation(SortOrder::Descend).with_max_create_revision(own - 1);
            let found = kv.get(prefix.clone(), Some(before)).await?;
            let Some(predecessor) = found.kvs().first() else { break };
            let revision = found.header().map_or(0, |header| header.revision());
            waits = self.gone(predecessor.key(), revision).await?;
        }
        Ok(Grant {
            lock: lock.to_owned(),
            key: key.into_bytes(),
            token: own.unsigned_abs(),
            ..Grant::default()
        })
    }

    /// Waits until `key`, seen at `revision`, is deleted.
    async fn gone(&self, key: &[u8], revision: i64) -> Result<bool> {
        let options = WatchOptions::new().with_start_revision(revision + 1);
        let mut watch = self.client.watch_client().watch(key, Some(options)).await?;
        while let Some(message) = watch.message().await? {
            if message.events().iter().any(|event| event.event_type() == EventType::Delete) {
                break;
            }
        }
        Ok(true)
    }
}

#[async_trait]
impl Session for EtcdSession {
    async fn acquire(&self, lock: &str, _ask: Ask) -> Result<Grant> {
        if self.call { self.lock(lock).await } else { self.recipe(lock).await }
    }

    async fn release(&self, grant: Grant) -> Result<()> {
        if self.call {
            self.client.lock_client().unlock(grant.key).await?;
        } else {
            self.client.kv_client().delete(grant.key, None).await?;
        }
        Ok(())
    }

    async fn check(&self, grant: &Grant) -> Result<bool> {
        let found = self.client.kv_client().get(grant.key.clone(), None).await?;
        Ok(found.kvs().first().is_some_and(|pair| pair.create_revision().unsigned_abs() <= grant.token))
    }
}

struct EtcdLeases {
    keeper: LeaseKeeper,
    answers: LeaseKeepAliveStream,
    leases: Vec<i64>,
    _client: Client,
}

#[async_trait]
impl KeepGroup for EtcdLeases {
    fn len(&self) -> usize {
        self.leases.len()
    }

    async fn beat(&mut self, from: usize, to: usize) -> Result<u64> {
        let leases = self.leases[from..to].to_vec();
        let count = leases.len();
        let sender = self.keeper.sender.clone();
        let send = async move {
            for id in leases {
                LeaseKeeper { id, sender: sender.clone() }.keep_alive().await?;
            }
            Ok::<_, anyhow::Error>(())
        };
        let answers = &mut self.answers;
        let receive = async move {
            let mut renewed = 0;
            for _ in 0..count {
                let answer = answers.message().await?.ok_or_else(|| anyhow!("the stream was closed"))?;
                renewed += u64::from(answer.ttl() > 0);
            }
            Ok::<u64, anyhow::Error>(renewed)
        };
        let (sent, renewed) = tokio::join!(send, receive);
        sent?;
        renewed
    }
}
