//! A service that verifies sequencers offline, and two holders that send orders to it, one after the other.
//!
//! With `palisade dev` running: `cargo run --example offline_check`. For brevity everything is in one process; the
//! service half uses nothing but `palisade-fence`.

use std::error::Error;

use palisade_client::{Client, ClientConfig};
use palisade_core::ids::{ClusterId, LockName};
use palisade_fence::adapters::memory::MemoryResource;
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::keys::{KeyError, KeySet};
use palisade_fence::verifier::Verifier;
use palisade_host::Host;

type Orders = Guard<MemoryResource<Vec<String>>>;

/// At the start, and again, rate-limited, after `FenceError::UnknownKey`.
fn verifier(cluster: ClusterId, jwks: &str) -> Result<Verifier, KeyError> {
    Ok(Verifier::new(cluster, KeySet::from_jwks(jwks)?))
}

/// For each request. No call to the cluster; the write is what decides.
fn handle(verifier: &Verifier, orders: &Orders, sequencer: &str, order: &str) -> Result<usize, FenceError> {
    let presented = verifier.verify(sequencer)?;
    orders.write(&presented, |orders| {
        orders.push(order.to_owned());
        Ok(orders.len())
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoints = std::env::var("PALISADE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:7170".to_owned());
    let client = Client::new(ClientConfig::new(endpoints.split(',')), Host::system())?;
    let lock = LockName::new("orders/shard-7")?;

    let cluster = client.status(false).await?.cluster_id.parse()?;
    let verifier = verifier(cluster, &client.keys().await?)?;
    let orders = Orders::new(MemoryResource::default(), Scope::new(cluster, lock.clone()));

    let session = client.open_session().await?;
    let mut sequencers = Vec::new();
    for who in ["first", "second"] {
        let held = session.lock(lock.clone()).with_sequencer().acquire().await?;
        let sequencer = held.sequencer().await?;
        println!("the {who} holder's order: {} in the book", handle(&verifier, &orders, &sequencer, who)?);
        sequencers.push(sequencer);
        held.release().await?;
    }
    // The first one's request was long on its way.
    match handle(&verifier, &orders, &sequencers[0], "late") {
        Err(error) if error.is_stale() => println!("the first holder again: {error}"),
        other => println!("the first holder again: {other:?}"),
    }
    client.close().await;
    Ok(())
}
