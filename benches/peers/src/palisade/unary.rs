//! Palisade without its client and its stream: one gRPC call a request, as a script in any language would make it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use palisade_host::{TcpNet, channel};
use palisade_proto::v1;
use palisade_proto::v1::check_item::What;
use palisade_proto::v1::locks_client::LocksClient;
use palisade_proto::v1::sequencers_client::SequencersClient;
use palisade_proto::v1::sessions_client::SessionsClient;
use parking_lot::Mutex;
use tonic::transport::Channel;

use super::{CONNECTION_KEEPALIVE, counters};
use crate::backend::{Ask, Backend, Grant, KeepGroup, Session};

pub(crate) struct Unary {
    /// Of the client ports.
    pub(crate) endpoints: Vec<String>,
    pub(crate) ttl: Duration,
}

#[async_trait]
impl Backend for Unary {
    async fn open(&self, node: usize) -> Result<Arc<dyn Session>> {
        let endpoint = &self.endpoints[node % self.endpoints.len()];
        let channel = channel(Arc::new(TcpNet), endpoint, CONNECTION_KEEPALIVE)?;
        let ttl_ms = u64::try_from(self.ttl.as_millis())?;
        let client = "bench-peers".to_owned();
        let open = v1::OpenSession { ttl_ms, client, ..v1::OpenSession::default() };
        let mut sessions = SessionsClient::new(channel.clone());
        let opened = sessions.open(v1::OpenSessionCall { open: Some(open) }).await?.into_inner();
        let (session, secret) = (opened.session, opened.secret);
        let keepalive = v1::KeepAliveCall { session, secret: secret.clone() };
        let period = self.ttl / 3;
        tokio::spawn(async move {
            while sessions.keep_alive(keepalive.clone()).await.is_ok() {
                tokio::time::sleep(period).await;
            }
        });
        Ok(Arc::new(UnarySession { channel, session, secret, numbers: Mutex::default() }))
    }

    async fn keep_group(&self, _node: usize, _count: usize, _ttl: Duration) -> Result<Box<dyn KeepGroup>> {
        bail!("keepalives of many sessions belong on a stream")
    }

    async fn counters(&self) -> Vec<(String, f64)> {
        counters(&self.endpoints).await
    }
}

/// The numbers of a session's acquires.
#[derive(Default)]
struct Numbers {
    last: u64,
    /// Whose outcome is not known yet.
    undecided: BTreeSet<u64>,
}

impl Numbers {
    /// The next number, and the mark that goes with it.
    fn next(&mut self) -> (u64, u64) {
        self.last += 1;
        self.undecided.insert(self.last);
        (self.last, self.undecided.first().copied().unwrap_or(self.last))
    }
}

struct UnarySession {
    channel: Channel,
    session: u64,
    secret: Vec<u8>,
    numbers: Mutex<Numbers>,
}

/// The acquisition's number, as it stands in a grant's key.
fn number_of(grant: &Grant) -> Result<u64> {
    Ok(u64::from_le_bytes(grant.key.as_slice().try_into().context("a key is a number")?))
}

impl UnarySession {
    fn id(&self, number: u64) -> Option<v1::AcquisitionId> {
        Some(v1::AcquisitionId { session: self.session, number })
    }
}

#[async_trait]
impl Session for UnarySession {
    async fn acquire(&self, lock: &str, ask: Ask) -> Result<Grant> {
        let (number, mark) = self.numbers.lock().next();
        let kind = match ask {
            Ask::Free => v1::wait::Kind::None(true),
            Ask::Queue => v1::wait::Kind::Session(true),
        };
        let part = v1::AcquirePart {
            lock: lock.to_owned(),
            mode: v1::Mode::Exclusive.into(),
            ..v1::AcquirePart::default()
        };
        let wait = Some(v1::Wait { kind: Some(kind) });
        let acquire = v1::Acquire { number, mark, parts: vec![part], wait, ..v1::Acquire::default() };
        let call =
            v1::AcquireCall { session: self.session, secret: self.secret.clone(), acquire: Some(acquire) };
        let granted = LocksClient::new(self.channel.clone()).acquire(call).await?.into_inner();
        self.numbers.lock().undecided.remove(&number);
        let token = granted.parts.first().context("a grant of nothing")?.token;
        let key = number.to_le_bytes().to_vec();
        Ok(Grant { lock: lock.to_owned(), key, token, ..Grant::default() })
    }

    async fn release(&self, grant: Grant) -> Result<()> {
        let acquisition = self.id(number_of(&grant)?);
        let release =
            v1::Release { acquisition, lock: grant.lock, token: grant.token, ..v1::Release::default() };
        let call =
            v1::ReleaseCall { session: self.session, secret: self.secret.clone(), release: Some(release) };
        let released = LocksClient::new(self.channel.clone()).release(call).await?.into_inner();
        ensure!(released.ended() == v1::Ended::Released, "it had ended before: {:?}", released.ended());
        Ok(())
    }

    async fn check(&self, grant: &Grant) -> Result<bool> {
        let plain = v1::PlainCheck {
            lock: grant.lock.clone(),
            mode: v1::Mode::Exclusive.into(),
            token: grant.token,
            acquisition: self.id(number_of(grant)?),
            ..v1::PlainCheck::default()
        };
        let item = v1::CheckItem { what: Some(What::Plain(plain)), lock: grant.lock.clone() };
        let check = v1::Check { items: vec![item] };
        let answer = SequencersClient::new(self.channel.clone()).check(check).await?.into_inner();
        Ok(answer.verdicts.first().is_some_and(|verdict| verdict.state() == v1::verdict::State::Current))
    }
}
