//! The floor's client: one connection, requests numbered, answers in any order.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use async_trait::async_trait;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::{ACQUIRE, ANSWER, BEAT, CHECK, CHECK_QUORUM, RELEASE, REQUEST, Request, number};
use crate::backend::{Ask, Backend, Grant, KeepGroup, Session};

const READ_BYTES: usize = 64 << 10;

static IDS: AtomicU64 = AtomicU64::new(1);

fn next_id() -> u64 {
    IDS.fetch_add(1, Ordering::Relaxed)
}

pub(crate) struct Floor {
    pub(crate) endpoint: String,
    /// Checks after a round trip to a majority.
    pub(crate) quorum_read: bool,
}

/// Who waits for which answer: status and token.
type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<(u64, u64)>>>>;

struct Connection {
    requests: mpsc::UnboundedSender<Request>,
    waiting: Waiting,
}

impl Connection {
    async fn open(endpoint: &str) -> Result<Self> {
        let stream = TcpStream::connect(endpoint).await?;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        let (requests, outgoing) = mpsc::unbounded_channel();
        let waiting = Waiting::default();
        tokio::spawn(write(writer, outgoing));
        tokio::spawn(read(reader, waiting.clone()));
        Ok(Self { requests, waiting })
    }

    async fn call(&self, operation: u8, holder: u64, token: u64, lock: &str) -> Result<(u64, u64)> {
        let id = next_id();
        let mut request = [0; REQUEST];
        request[..8].copy_from_slice(&id.to_le_bytes());
        request[8] = operation;
        request[16..24].copy_from_slice(&holder.to_le_bytes());
        request[24..32].copy_from_slice(&token.to_le_bytes());
        let (mut left, mut right) = (0xcbf2_9ce4_8422_2325_u64, 0x9e37_79b9_7f4a_7c15_u64);
        for byte in lock.bytes() {
            left = (left ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            right = (right.rotate_left(7) ^ u64::from(byte)).wrapping_mul(0x2545_f491_4f6c_dd1d);
        }
        request[32..40].copy_from_slice(&left.to_le_bytes());
        request[40..48].copy_from_slice(&right.to_le_bytes());
        let (reply, answer) = oneshot::channel();
        self.waiting.lock().insert(id, reply);
        self.requests.send(request).map_err(|_| anyhow!("the connection was closed"))?;
        Ok(answer.await?)
    }
}

async fn write(mut writer: OwnedWriteHalf, mut requests: mpsc::UnboundedReceiver<Request>) {
    let mut bytes = Vec::new();
    while let Some(request) = requests.recv().await {
        bytes.clear();
        bytes.extend_from_slice(&request);
        while let Ok(request) = requests.try_recv() {
            bytes.extend_from_slice(&request);
        }
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read(mut reader: OwnedReadHalf, waiting: Waiting) {
    let mut bytes = vec![0; READ_BYTES];
    let mut filled = 0;
    loop {
        match reader.read(&mut bytes[filled..]).await {
            Ok(0) | Err(_) => break,
            Ok(more) => filled += more,
        }
        let whole = filled / ANSWER * ANSWER;
        let mut waiting = waiting.lock();
        for answer in bytes[..whole].chunks(ANSWER) {
            if let Some(reply) = waiting.remove(&number(answer, 0)) {
                let _ = reply.send((number(answer, 8), number(answer, 16)));
            }
        }
        drop(waiting);
        bytes.copy_within(whole..filled, 0);
        filled -= whole;
    }
    waiting.lock().clear();
}

#[async_trait]
impl Backend for Floor {
    async fn open(&self, _node: usize) -> Result<Arc<dyn Session>> {
        let connection = Connection::open(&self.endpoint).await?;
        Ok(Arc::new(FloorSession { connection, check: if self.quorum_read { CHECK_QUORUM } else { CHECK } }))
    }

    async fn keep_group(&self, _node: usize, count: usize, _ttl: Duration) -> Result<Box<dyn KeepGroup>> {
        let connection = Connection::open(&self.endpoint).await?;
        Ok(Box::new(FloorLeases { connection, leases: (0..count).map(|_| next_id()).collect() }))
    }
}

struct FloorSession {
    connection: Connection,
    check: u8,
}

#[async_trait]
impl Session for FloorSession {
    async fn acquire(&self, lock: &str, _ask: Ask) -> Result<Grant> {
        let holder = next_id();
        let (_, token) = self.connection.call(ACQUIRE, holder, 0, lock).await?;
        Ok(Grant { lock: lock.to_owned(), key: holder.to_le_bytes().to_vec(), token, ..Grant::default() })
    }

    async fn release(&self, grant: Grant) -> Result<()> {
        let holder = number(&grant.key, 0);
        let (status, _) = self.connection.call(RELEASE, holder, grant.token, &grant.lock).await?;
        ensure!(status == 0, "not the owner");
        Ok(())
    }

    async fn check(&self, grant: &Grant) -> Result<bool> {
        let (status, _) = self.connection.call(self.check, 0, grant.token, &grant.lock).await?;
        Ok(status == 0)
    }
}

struct FloorLeases {
    connection: Connection,
    leases: Vec<u64>,
}

#[async_trait]
impl KeepGroup for FloorLeases {
    fn len(&self) -> usize {
        self.leases.len()
    }

    /// It knows a lease from its first keepalive on.
    fn was_told(&self) -> bool {
        false
    }

    async fn beat(&mut self, from: usize, to: usize) -> Result<u64> {
        let renewals = self.leases[from..to].iter().map(|lease| self.connection.call(BEAT, *lease, 0, ""));
        let mut renewed = 0;
        for renewal in join_all(renewals).await {
            renewed += u64::from(renewal?.0 == 0);
        }
        Ok(renewed)
    }
}
