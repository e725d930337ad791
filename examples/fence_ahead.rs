//! A guard that makes floors durable and says so, so that a crashed holder's lock is granted before its lock-delay is over.
//!
//! With `palisade dev` running:
//!
//! ```text
//! cargo run --example fence_ahead -- orders/7 orders.json new
//! ```
//!
//! Without `new` it goes on with the marks that the file has.

use std::error::Error;
use std::sync::Arc;

use palisade_client::{Client, ClientConfig, FenceAhead, FenceFeed};
use palisade_core::ids::{GuardName, LockName};
use palisade_fence::adapters::file::FileResource;
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::keys::KeySet;
use palisade_fence::verifier::Verifier;
use palisade_host::Host;

// docs/fence-feed.md shows this function.
fn confirm(
    client: &Client,
    feed: &FenceFeed,
    orders: Arc<Guard<FileResource>>,
    verifier: Arc<Verifier>,
) -> Result<FenceAhead, Box<dyn Error>> {
    let name = GuardName::new("orders-db")?;
    Ok(client.fence_ahead(name, feed, move |floor| {
        let (orders, verifier) = (orders.clone(), verifier.clone());
        async move {
            let signed = verifier.floor(&floor.signed)?;
            let raised = tokio::task::spawn_blocking(move || orders.raise(&signed)).await;
            let mark = raised.map_err(FenceError::effect)??;
            println!("{} is guarded from {} on", floor.lock, mark.0);
            Ok::<_, FenceError>(())
        }
    }))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let lock = LockName::new(&arguments.next().unwrap_or_else(|| "orders/7".to_owned()))?;
    let path = arguments.next().unwrap_or_else(|| "orders.json".to_owned());
    let endpoints = std::env::var("PALISADE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:7170".to_owned());
    let client = Client::new(ClientConfig::new(endpoints.split(',')), Host::system())?;
    let cluster = client.status(false).await?.cluster_id.parse()?;
    let verifier = Arc::new(Verifier::new(cluster, KeySet::from_jwks(&client.keys().await?)?));
    let resource = match arguments.next().as_deref() {
        Some("new") => FileResource::create(&path)?,
        _ => FileResource::open(&path)?,
    };
    let orders = Arc::new(Guard::new(resource, Scope::new(cluster, lock.clone())));
    let feed = client.fence_feed_of(lock);
    let _confirms = confirm(&client, &feed, orders, verifier)?;
    std::future::pending().await
}
