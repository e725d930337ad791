//! A holder that sends one request at a time, each a unary call: what is in the trace between a request and its answer
//! belongs to that request.

use std::time::Duration;

use palisade_proto::v1::{
    self, cluster_client::ClusterClient, locks_client::LocksClient, sessions_client::SessionsClient,
};
use palisade_testkit::cluster::ProcessCluster;

use super::within;

/// A node's answer to one call takes no longer, or the caller asks again.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// A session, and the node that is asked.
pub(crate) struct Holder {
    url: String,
    session: u64,
    secret: Vec<u8>,
    next: u64,
}

impl Holder {
    /// Opens a session at a node, as soon as the cluster takes one.
    pub(crate) async fn open(cluster: &ProcessCluster, node: usize) -> Self {
        let url = format!("http://{}", cluster.nodes()[node].client_address);
        let opened = within("a session opens", async {
            loop {
                match open(&url).await {
                    Ok(opened) => return opened,
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
        let opened = opened.await;
        Self { url, session: opened.session, secret: opened.secret, next: 1 }
    }

    /// Has another node asked from now on.
    pub(crate) fn go_to(&mut self, cluster: &ProcessCluster, node: usize) {
        self.url = format!("http://{}", cluster.nodes()[node].client_address);
    }

    /// Acquires a lock that is free; its token. An error is an unknown outcome.
    pub(crate) async fn acquire(&mut self, lock: &str) -> Result<u64, String> {
        let part = v1::AcquirePart { lock: lock.to_owned(), ..v1::AcquirePart::default() };
        let acquire = v1::Acquire {
            number: self.next,
            parts: vec![part],
            wait: Some(v1::Wait { kind: Some(v1::wait::Kind::None(true)) }),
            ..v1::Acquire::default()
        };
        self.next += 1;
        let call =
            v1::AcquireCall { session: self.session, secret: self.secret.clone(), acquire: Some(acquire) };
        let asked = async {
            let mut locks = LocksClient::connect(self.url.clone()).await.map_err(|why| why.to_string())?;
            let grant = locks.acquire(call).await.map_err(|status| status.to_string())?.into_inner();
            Ok(grant.parts.first().expect("a grant has a part").token)
        };
        tokio::time::timeout(ANSWER_WAIT, asked).await.unwrap_or_else(|_| Err("no answer".to_owned()))
    }

    /// Acquires `count` locks, one after the other; each name and its token.
    pub(crate) async fn acquire_many(&mut self, prefix: &str, count: usize) -> Vec<(String, u64)> {
        let mut held = Vec::new();
        for number in 0..count {
            let lock = format!("{prefix}-{number:04}");
            let token = self.acquire(&lock).await.expect("it is granted");
            held.push((lock, token));
        }
        held
    }

    /// The token under which a lock is held, as soon as the cluster tells.
    pub(crate) async fn token(&self, lock: &str) -> Option<u64> {
        within("a lock is read", async {
            loop {
                if let Some(view) = view(&self.url, lock).await {
                    let v1::slot_view::State::Held(tenure) = view.slots.first()?.state.clone()? else {
                        return None;
                    };
                    return Some(tenure.token);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await
    }
}

async fn open(url: &str) -> Result<v1::SessionOpened, String> {
    let mut sessions = SessionsClient::connect(url.to_owned()).await.map_err(|why| why.to_string())?;
    let open =
        v1::OpenSession { client: "a test".to_owned(), ttl_ms: 3_600_000, ..v1::OpenSession::default() };
    let opened = sessions.open(v1::OpenSessionCall { open: Some(open) });
    let opened = tokio::time::timeout(ANSWER_WAIT, opened).await.map_err(|_| "no answer".to_owned())?;
    Ok(opened.map_err(|status| status.to_string())?.into_inner())
}

async fn view(url: &str, lock: &str) -> Option<v1::LockView> {
    let mut locks = LocksClient::connect(url.to_owned()).await.ok()?;
    let asked = locks.get(v1::GetLock { lock: lock.to_owned() });
    Some(tokio::time::timeout(ANSWER_WAIT, asked).await.ok()?.ok()?.into_inner())
}

/// The node that leads, as a node says.
pub(crate) async fn leader(cluster: &ProcessCluster, asked: usize) -> Option<usize> {
    let url = format!("http://{}", cluster.nodes()[asked].client_address);
    let mut status = ClusterClient::connect(url).await.ok()?;
    let asked = status.status(v1::StatusRequest { local: true });
    let answer = tokio::time::timeout(ANSWER_WAIT, asked).await.ok()?.ok()?.into_inner();
    let leader = answer.leader?.name;
    cluster.nodes().iter().position(|node| node.name == leader)
}
