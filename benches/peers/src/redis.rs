//! Redis, one node: SET NX PX and an owner-checked delete. No token, no failover: a bound on efficiency.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use async_trait::async_trait;
use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Client, Script, cmd};

use crate::backend::{Ask, Backend, Grant, KeepGroup, Session};

/// It has no queue: whoever waits asks again so often.
const POLL: Duration = Duration::from_millis(1);
const DELETE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
const RENEW: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";

static OWNERS: AtomicU64 = AtomicU64::new(1);

pub(crate) struct Redis {
    pub(crate) endpoint: String,
    pub(crate) ttl: Duration,
}

impl Redis {
    async fn connect(&self) -> Result<MultiplexedConnection> {
        let client = Client::open(format!("redis://{}/", self.endpoint))?;
        Ok(client.get_multiplexed_async_connection().await?)
    }
}

fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

#[async_trait]
impl Backend for Redis {
    async fn open(&self, _node: usize) -> Result<Arc<dyn Session>> {
        let connection = self.connect().await?;
        Ok(Arc::new(RedisSession { connection, ttl_ms: millis(self.ttl), delete: Script::new(DELETE) }))
    }

    async fn keep_group(&self, node: usize, count: usize, ttl: Duration) -> Result<Box<dyn KeepGroup>> {
        let mut connection = self.connect().await?;
        let ttl_ms = millis(ttl);
        let mut keys = Vec::with_capacity(count);
        for _ in 0..count {
            let key = format!("lease/{node}/{}", OWNERS.fetch_add(1, Ordering::Relaxed));
            let () =
                cmd("SET").arg(&key).arg("me").arg("PX").arg(ttl_ms).query_async(&mut connection).await?;
            keys.push(key);
        }
        Ok(Box::new(RedisLeases { connection, keys, ttl_ms, renew: Script::new(RENEW) }))
    }
}

struct RedisSession {
    connection: MultiplexedConnection,
    ttl_ms: u64,
    delete: Script,
}

#[async_trait]
impl Session for RedisSession {
    async fn acquire(&self, lock: &str, ask: Ask) -> Result<Grant> {
        let owner = OWNERS.fetch_add(1, Ordering::Relaxed).to_string();
        let mut connection = self.connection.clone();
        loop {
            let mut set = cmd("SET");
            set.arg(lock).arg(&owner).arg("NX").arg("PX").arg(self.ttl_ms);
            let answer: Option<String> = set.query_async(&mut connection).await?;
            if answer.is_some() {
                return Ok(Grant { lock: lock.to_owned(), key: owner.into_bytes(), ..Grant::default() });
            }
            if ask == Ask::Free {
                return Err(anyhow!("held"));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn release(&self, grant: Grant) -> Result<()> {
        let mut connection = self.connection.clone();
        let mut delete = self.delete.key(&grant.lock);
        let deleted: i64 = delete.arg(&grant.key[..]).invoke_async(&mut connection).await?;
        if deleted == 1 { Ok(()) } else { Err(anyhow!("not the owner")) }
    }

    async fn check(&self, grant: &Grant) -> Result<bool> {
        let mut connection = self.connection.clone();
        let owner: Option<Vec<u8>> = cmd("GET").arg(&grant.lock).query_async(&mut connection).await?;
        Ok(owner.as_deref() == Some(&grant.key[..]))
    }
}

struct RedisLeases {
    connection: MultiplexedConnection,
    keys: Vec<String>,
    ttl_ms: u64,
    renew: Script,
}

#[async_trait]
impl KeepGroup for RedisLeases {
    fn len(&self) -> usize {
        self.keys.len()
    }

    async fn beat(&mut self, from: usize, to: usize) -> Result<u64> {
        let renewals = self.keys[from..to].iter().map(|key| {
            let mut connection = self.connection.clone();
            let mut renew = self.renew.key(key);
            renew.arg("me").arg(self.ttl_ms);
            async move { renew.invoke_async::<u64>(&mut connection).await }
        });
        let mut renewed = 0;
        for renewal in join_all(renewals).await {
            renewed += renewal?;
        }
        Ok(renewed)
    }
}
