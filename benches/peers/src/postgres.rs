//! Postgres, one node: a lease row with a counter for a token, or session advisory locks (no token, nothing durable).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use async_trait::async_trait;
use futures::future::join_all;
use tokio_postgres::{Client, NoTls, Statement};

use crate::backend::{Ask, Backend, Grant, KeepGroup, Session};

/// A row has no queue: whoever waits asks again so often.
const POLL: Duration = Duration::from_millis(1);
/// Rows of one insert.
const ROWS: usize = 500;

pub(crate) struct Postgres {
    /// As libpq has it.
    pub(crate) connection: String,
    /// Lease rows instead of advisory locks.
    pub(crate) rows: bool,
    pub(crate) ttl: Duration,
}

async fn connect(connection: &str) -> Result<Client> {
    let (client, driver) = tokio_postgres::connect(connection, NoTls).await?;
    tokio::spawn(async move {
        // Its end is seen by the client.
        let _ = driver.await;
    });
    Ok(client)
}

/// Whether it takes connections.
pub(crate) async fn ready(connection: &str) -> bool {
    connect(connection).await.is_ok()
}

fn key(lock: &str) -> i64 {
    let mut hasher = DefaultHasher::new();
    lock.hash(&mut hasher);
    hasher.finish().cast_signed()
}

#[async_trait]
impl Backend for Postgres {
    async fn open(&self, _node: usize) -> Result<Arc<dyn Session>> {
        let client = connect(&self.connection).await?;
        let ms = self.ttl.as_millis();
        let acquire = format!(
            "update leases set holder=$2, expires=clock_timestamp()+interval '{ms} ms', token=token+1 \
             where name=$1 and (holder is null or expires<clock_timestamp()) returning token"
        );
        Ok(Arc::new(PostgresSession {
            rows: self.rows,
            try_lock: client.prepare("select pg_try_advisory_lock($1)").await?,
            lock: client.prepare("select pg_advisory_lock($1)").await?,
            unlock: client.prepare("select pg_advisory_unlock($1)").await?,
            acquire: client.prepare(&acquire).await?,
            release: client
                .prepare("update leases set holder=null where name=$1 and token=$2 and holder is not null")
                .await?,
            check: client.prepare("select token from leases where name=$1 and holder is not null").await?,
            own: rand::random::<i64>(),
            client,
        }))
    }

    async fn prepare(&self, locks: &[String]) -> Result<()> {
        let client = connect(&self.connection).await?;
        client
            .batch_execute(
                "create table if not exists leases(name text primary key, holder bigint, expires timestamptz, \
                 token bigint not null default 0) with (fillfactor=50)",
            )
            .await?;
        for some in locks.chunks(ROWS) {
            let rows: Vec<String> = some.iter().map(|lock| format!("('{lock}')")).collect();
            let insert = format!("insert into leases(name) values {} on conflict do nothing", rows.join(","));
            client.batch_execute(&insert).await?;
        }
        Ok(())
    }

    async fn keep_group(&self, node: usize, count: usize, ttl: Duration) -> Result<Box<dyn KeepGroup>> {
        let run = rand::random::<u32>();
        let locks: Vec<String> = (0..count).map(|lease| format!("lease/{node}/{run}/{lease}")).collect();
        self.prepare(&locks).await?;
        let client = connect(&self.connection).await?;
        let renew = format!(
            "update leases set expires=clock_timestamp()+interval '{} ms' where name=$1 and token=0",
            ttl.as_millis()
        );
        let renew = client.prepare(&renew).await?;
        Ok(Box::new(PostgresLeases { client, renew, locks }))
    }

    async fn counters(&self) -> Vec<(String, f64)> {
        let counters = async {
            let client = connect(&self.connection).await?;
            let row = client
                .query_one(
                    "select wal_sync::float8, wal_write::float8, wal_bytes::float8, wal_sync_time::float8 \
                     from pg_stat_wal",
                    &[],
                )
                .await?;
            let names = ["wal_fsyncs", "wal_writes", "wal_bytes", "wal_sync_ms"];
            let counters = names.iter().enumerate();
            Ok::<_, anyhow::Error>(
                counters.map(|(at, name)| ((*name).to_owned(), row.get::<_, f64>(at))).collect(),
            )
        };
        counters.await.unwrap_or_default()
    }

    fn can_check(&self) -> bool {
        self.rows
    }
}

struct PostgresSession {
    client: Client,
    rows: bool,
    try_lock: Statement,
    lock: Statement,
    unlock: Statement,
    acquire: Statement,
    release: Statement,
    check: Statement,
    own: i64,
}

#[async_trait]
impl Session for PostgresSession {
    async fn acquire(&self, lock: &str, ask: Ask) -> Result<Grant> {
        let grant = |token| Grant { lock: lock.to_owned(), token, ..Grant::default() };
        if !self.rows {
            match ask {
                Ask::Queue => {
                    self.client.query_one(&self.lock, &[&key(lock)]).await?;
                }
                Ask::Free
                    if self.client.query_one(&self.try_lock, &[&key(lock)]).await?.get::<_, bool>(0) => {}
                Ask::Free => return Err(anyhow!("held")),
            }
            return Ok(grant(0));
        }
        loop {
            let row = self.client.query_opt(&self.acquire, &[&lock, &self.own]).await?;
            if let Some(row) = row {
                return Ok(grant(row.get::<_, i64>(0).unsigned_abs()));
            }
            if ask == Ask::Free {
                return Err(anyhow!("held"));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn release(&self, grant: Grant) -> Result<()> {
        if !self.rows {
            let unlocked: bool = self.client.query_one(&self.unlock, &[&key(&grant.lock)]).await?.get(0);
            return if unlocked { Ok(()) } else { Err(anyhow!("not held")) };
        }
        let rows = self.client.execute(&self.release, &[&grant.lock, &grant.token.cast_signed()]).await?;
        if rows == 1 { Ok(()) } else { Err(anyhow!("not the owner")) }
    }

    async fn check(&self, grant: &Grant) -> Result<bool> {
        let row = self.client.query_opt(&self.check, &[&grant.lock]).await?;
        Ok(row.is_some_and(|row| row.get::<_, i64>(0).unsigned_abs() == grant.token))
    }
}

struct PostgresLeases {
    client: Client,
    renew: Statement,
    locks: Vec<String>,
}

#[async_trait]
impl KeepGroup for PostgresLeases {
    fn len(&self) -> usize {
        self.locks.len()
    }

    async fn beat(&mut self, from: usize, to: usize) -> Result<u64> {
        let (client, renew) = (&self.client, &self.renew);
        let renewals =
            self.locks[from..to].iter().map(|lock| async move { client.execute(renew, &[lock]).await });
        let mut renewed = 0;
        for renewal in join_all(renewals).await {
            renewed += renewal?;
        }
        Ok(renewed)
    }
}
