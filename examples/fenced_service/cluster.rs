//! What a service needs to know of the cluster: its id, and the public keys of its nodes.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use axum::http::Request;
use palisade_core::ids::ClusterId;
use palisade_fence::keys::{KeyRefresh, KeySet, Pace};
use palisade_fence::verifier::Verifier;

use crate::http::send;

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

/// Fetches the keys again when the layer meets one that it does not know, and now and then.
pub(crate) fn refresh(
    mut endpoints: Vec<String>,
    verifier: Arc<Verifier>,
) -> std::io::Result<Arc<KeyRefresh>> {
    let runtime = tokio::runtime::Handle::current();
    let fetch = move || {
        // Another node first each time: one that is cut off may not know the newest.
        endpoints.rotate_left(1);
        let fetched = runtime.block_on(keys(&endpoints));
        fetched.inspect_err(|error| eprintln!("the keys were not fetched: {error:#}")).ok()
    };
    KeyRefresh::start(verifier, Pace::default(), fetch).map(Arc::new)
}
