//! What a service needs to know of the cluster: its id, and the public keys of its nodes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use axum::http::Request;
use palisade_core::ids::ClusterId;
use palisade_fence::keys::KeySet;
use palisade_fence::verifier::Verifier;
use tokio::sync::Notify;

use crate::http::send;

/// Between two fetches of the keys: whoever invents key ids makes no more of them.
const FETCH_EVERY: Duration = Duration::from_secs(2);

/// The id, from the first node that answers. In earnest it belongs into the service's settings: see `--cluster`.
pub(crate) async fn id(endpoints: &[String]) -> anyhow::Result<ClusterId> {
    let status: serde_json::Value = serde_json::from_str(&get(endpoints, "/v1/status?local=true").await?)?;
    let id = status["cluster_id"].as_str().context("the node says no cluster_id")?;
    id.parse().map_err(anyhow::Error::msg)
}

/// The keys, from the first node that answers.
pub(crate) async fn keys(endpoints: &[String]) -> anyhow::Result<KeySet> {
    Ok(KeySet::from_jwks(&get(endpoints, "/.well-known/jwks.json").await?)?)
}

async fn get(endpoints: &[String], path: &str) -> anyhow::Result<String> {
    let mut failed = anyhow!("no endpoints");
    for address in endpoints {
        match send(address, Request::get(path).body(String::new())?).await {
            Ok((200, body)) => return Ok(body),
            Ok((status, body)) => failed = anyhow!("{address}{path}: {status} {body}"),
            Err(error) => failed = error.context(format!("{address}{path}")),
        }
    }
    Err(failed)
}

/// Fetches the keys again when asked to.
#[derive(Clone)]
pub(crate) struct Keys(Arc<Notify>);

impl Keys {
    /// Hands what it fetches to `verifier`, for as long as the service runs.
    pub(crate) fn keep(endpoints: Vec<String>, verifier: Arc<Verifier>) -> Self {
        let asked = Arc::new(Notify::new());
        let keys = Self(Arc::clone(&asked));
        tokio::spawn(async move {
            loop {
                asked.notified().await;
                match self::keys(&endpoints).await {
                    Ok(keys) => verifier.replace_keys(keys),
                    Err(error) => eprintln!("the keys were not fetched: {error:#}"),
                }
                tokio::time::sleep(FETCH_EVERY).await;
            }
        });
        keys
    }

    /// Returns at once; asked many times, it fetches once.
    pub(crate) fn ask_again(&self) {
        self.0.notify_one();
    }
}
