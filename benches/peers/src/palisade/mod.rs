//! Palisade by its own Rust client: each connection is a client with one session stream, as an application has it.
//!
//! Like every client by default it moves to the leader, wherever it began; with `stay` it keeps to its node, which
//! relays.

mod unary;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use async_trait::async_trait;
use futures::future::join_all;
use palisade_client::{Client, ClientConfig, Session as PalisadeSession, SessionState};
use palisade_core::ids::LockName;
use palisade_fence::keys::KeySet;
use palisade_fence::verifier::Verifier;
use palisade_host::{Host, TcpNet, channel};
use palisade_proto::v1;
use palisade_proto::v1::check_item::What;
use palisade_proto::v1::cluster_client::ClusterClient;
use tokio::time::timeout;

pub(crate) use unary::Unary;

use crate::backend::{Ask, Backend, Grant, KeepGroup, Session, add};
use crate::http;

/// Sessions that are opened at one time.
const OPENINGS: usize = 64;
/// One node's time to say how the cluster is.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a silent connection is probed.
const CONNECTION_KEEPALIVE: Duration = Duration::from_secs(2);

pub(crate) struct Palisade {
    /// Of the client ports.
    pub(crate) endpoints: Vec<String>,
    pub(crate) ttl: Duration,
    /// Keep to the node, which relays, instead of moving to the leader.
    pub(crate) stay: bool,
}

/// As the client library wants them: the given node first.
fn rotated(endpoints: &[String], node: usize) -> Vec<String> {
    let mut endpoints = endpoints.to_vec();
    let first = node % endpoints.len().max(1);
    endpoints.rotate_left(first);
    endpoints
}

impl Palisade {
    fn client(&self, node: usize, ttl: Duration) -> Result<Client> {
        let mut config = ClientConfig::new(rotated(&self.endpoints, node));
        config.follow_leader = !self.stay;
        config.ttl = ttl;
        Ok(Client::new(config, Host::system())?)
    }
}

#[async_trait]
impl Backend for Palisade {
    async fn open(&self, node: usize) -> Result<Arc<dyn Session>> {
        let client = self.client(node, self.ttl)?;
        let session = client.open_session().await?;
        Ok(Arc::new(StreamSession { client, session, verifier: tokio::sync::OnceCell::new() }))
    }

    async fn keep_group(&self, node: usize, count: usize, ttl: Duration) -> Result<Box<dyn KeepGroup>> {
        let client = self.client(node, ttl)?;
        let mut sessions = Vec::with_capacity(count);
        while sessions.len() < count {
            let openings = (0..(count - sessions.len()).min(OPENINGS)).map(|_| client.open_session());
            for session in join_all(openings).await {
                sessions.push(session?);
            }
        }
        Ok(Box::new(Sessions { sessions }))
    }

    async fn counters(&self) -> Vec<(String, f64)> {
        counters(&self.endpoints).await
    }
}

/// What the nodes count, over all of them.
async fn counters(endpoints: &[String]) -> Vec<(String, f64)> {
    let mut counters = Vec::new();
    for endpoint in endpoints {
        let body = http::get(endpoint, "/metrics").await.unwrap_or_default();
        for line in body.lines() {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Some(op) = name.strip_prefix("palisade_requests_total{op=\"") else { continue };
            if let Ok(value) = value.parse() {
                add(&mut counters, &format!("requests_{}", op.trim_end_matches("\"}")), value);
            }
        }
    }
    counters
}

struct StreamSession {
    client: Client,
    session: PalisadeSession,
    /// Of the cluster's keys.
    verifier: tokio::sync::OnceCell<Verifier>,
}

#[async_trait]
impl Session for StreamSession {
    async fn acquire(&self, lock: &str, ask: Ask) -> Result<Grant> {
        let asked = self.session.lock(LockName::new(lock)?);
        let asked = match ask {
            Ask::Free => asked.try_now(),
            Ask::Queue => asked,
        };
        let guard = asked.acquire().await?;
        let token = guard.token().get();
        Ok(Grant { lock: lock.to_owned(), token, guard: Some(guard), ..Grant::default() })
    }

    async fn release(&self, grant: Grant) -> Result<()> {
        grant.guard.context("no guard")?.release().await?;
        Ok(())
    }

    async fn verify(&self, grant: &Grant) -> Result<()> {
        let guard = grant.guard.as_ref().context("no guard")?;
        let sequencer = guard.sequencer().await?;
        let verifier = self.verifier.get_or_try_init(|| async {
            let cluster = self.client.status(false).await?.cluster_id.parse().map_err(anyhow::Error::msg)?;
            Ok::<_, anyhow::Error>(Verifier::new(cluster, KeySet::from_jwks(&self.client.keys().await?)?))
        });
        let presented = verifier.await?.verify(&sequencer)?;
        ensure!(presented.statement().token == guard.token(), "the sequencer has another token");
        Ok(())
    }

    async fn check(&self, grant: &Grant) -> Result<bool> {
        let guard = grant.guard.as_ref().context("no guard")?;
        let acquisition = guard.acquisition();
        let plain = v1::PlainCheck {
            lock: grant.lock.clone(),
            slot: guard.slot().0,
            mode: v1::Mode::Exclusive.into(),
            token: grant.token,
            acquisition: Some(v1::AcquisitionId {
                session: acquisition.session.0,
                number: acquisition.number.0,
            }),
            grant_index: guard.grant_index(),
        };
        let item = v1::CheckItem { what: Some(What::Plain(plain)), lock: grant.lock.clone() };
        let verdicts = self.client.check(vec![item]).await?;
        Ok(verdicts.first().is_some_and(|verdict| verdict.state() == v1::verdict::State::Current))
    }
}

/// Sessions on one stream, which the client keeps alive by itself.
struct Sessions {
    sessions: Vec<PalisadeSession>,
}

#[async_trait]
impl KeepGroup for Sessions {
    fn len(&self) -> usize {
        self.sessions.len()
    }

    fn keeps_itself(&self) -> bool {
        true
    }

    fn lost(&self) -> u64 {
        self.sessions.iter().filter(|session| session.state() != SessionState::Active).count() as u64
    }

    async fn beat(&mut self, from: usize, to: usize) -> Result<u64> {
        let renewals = self.sessions[from..to].iter().map(PalisadeSession::renew_now);
        let mut renewed = 0;
        for renewal in join_all(renewals).await {
            renewal?;
            renewed += 1;
        }
        Ok(renewed)
    }
}

/// The cluster as one node sees it.
async fn status(endpoint: &str) -> Result<v1::StatusAnswer> {
    let channel = channel(Arc::new(TcpNet), endpoint, CONNECTION_KEEPALIVE)?;
    let mut cluster = ClusterClient::new(channel);
    let answer = timeout(STATUS_TIMEOUT, cluster.status(v1::StatusRequest { local: false })).await??;
    Ok(answer.into_inner())
}

/// The number of the node that leads. Nodes are named by their place, from `n0` on.
pub(crate) async fn leader(endpoints: &[String]) -> Result<usize> {
    let mut last = anyhow!("no node");
    for endpoint in endpoints {
        match status(endpoint).await {
            Ok(v1::StatusAnswer { leader: Some(leader), .. }) if !leader.name.is_empty() => {
                let node = leader.name.trim_start_matches('n').parse();
                return node.with_context(|| format!("an unknown leader, {}", leader.name));
            }
            Ok(_) => last = anyhow!("nobody leads"),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// How many nodes are there, when a majority answers.
pub(crate) async fn reachable(endpoints: &[String]) -> usize {
    match status(&endpoints[0]).await {
        Ok(status) if status.healthy => status.nodes.iter().filter(|node| node.role != "unreachable").count(),
        Ok(_) | Err(_) => 0,
    }
}
