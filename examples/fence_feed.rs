//! A resource that listens to a fence feed: it refuses a holder from its expiry on, before any successor has written.
//!
//! With `palisade dev` running:
//!
//! ```text
//! cargo run --example fence_feed -- orders/7
//! ```
//!
//! Each line of standard input is a token; it says whether a write under it is let through now. What it refuses it reports:
//! `palisade who orders/7` shows it.

use std::error::Error;
use std::io::BufRead;
use std::sync::Arc;

use palisade_client::{Client, ClientConfig, FeedFloor, FenceFeed, RejectionReporter};
use palisade_core::ids::{GuardName, LockName, LockPrefix, NameError};
use palisade_core::token::Token;
use palisade_fence::adapters::memory::MemoryResource;
use palisade_fence::guard::{Floor, Guard, Scope};
use palisade_fence::trusted::TrustedToken;
use palisade_host::Host;

type Orders = Guard<MemoryResource<Vec<u64>>>;

// docs/fence-feed.md shows this function.
fn listening(guard: Orders, feed: FenceFeed) -> Orders {
    guard.with_floors(move |lock, slot| match feed.floor(lock, slot) {
        // A lost feed still rejects what it knew to be over; Floor::Refuse here admits nobody while it is lost.
        FeedFloor::Known(floor) | FeedFloor::Lost(floor) => Floor::At(floor),
        // Before the first news. The marks of a store that has some decide alone; Floor::Refuse waits.
        FeedFloor::Unknown => Floor::MarksAlone,
    })
}

// docs/fencing.md shows this function.
/// Reports what is refused, once a second at most, until the reporter is dropped. No write waits for it.
fn reporting(client: &Client, orders: &Orders) -> Result<RejectionReporter, NameError> {
    let tally = Arc::clone(orders.tally());
    Ok(client.rejection_reporter(GuardName::new("orders-db")?, move || tally.take_rejections()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let lock = LockName::new(&std::env::args().nth(1).unwrap_or_else(|| "orders/7".to_owned()))?;
    let endpoints = std::env::var("PALISADE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:7170".to_owned());
    let client = Client::new(ClientConfig::new(endpoints.split(',')), Host::system())?;
    let feed = client.fence_feed(&LockPrefix::new("")?);
    feed.reached(0).await;
    let cluster = client.status(false).await?.cluster_id.parse()?;
    let orders =
        listening(Guard::new(MemoryResource::new(Vec::new()), Scope::new(cluster, lock.clone())), feed);
    let _reporter = reporting(&client, &orders)?;
    tokio::task::spawn_blocking(move || answer(&orders, &lock)).await??;
    Ok(())
}

fn answer(orders: &Orders, lock: &LockName) -> Result<(), std::io::Error> {
    for line in std::io::stdin().lock().lines() {
        let Some(token) = line?.trim().parse().ok().and_then(Token::new) else { continue };
        let written = orders.write(&TrustedToken::exclusive(lock.clone(), token), |orders| {
            orders.push(token.get());
            Ok(())
        });
        match written {
            Ok(()) => println!("written under {token}"),
            Err(refused) => println!("{refused}"),
        }
    }
    Ok(())
}
