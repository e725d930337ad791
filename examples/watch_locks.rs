//! Watches locks below a prefix, and says what happens to them.
//!
//! With `palisade dev` running:
//!
//! ```text
//! cargo run --example watch_locks -- orders/
//! ```

use std::error::Error;

use palisade_client::watch::{Filter, From, Watched};
use palisade_client::{Client, ClientConfig};
use palisade_host::Host;

// docs/watching.md shows this function.
async fn watch(client: &Client, prefix: &str) -> Result<(), Box<dyn Error>> {
    let mut watch = client.watch(Filter::Prefix(prefix.to_owned()), From::Snapshot);
    loop {
        match watch.next().await? {
            Watched::Snapshot { locks, .. } => println!("{} locks are in use", locks.len()),
            Watched::Entry(entry) => {
                for event in entry.events {
                    println!("{}: {:?} {}, token {}", entry.index, event.kind(), event.lock, event.token);
                }
            }
            Watched::Progress => {} // nothing else happened up to watch.position()
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let prefix = std::env::args().nth(1).unwrap_or_default();
    let endpoints = std::env::var("PALISADE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:7170".to_owned());
    let client = Client::new(ClientConfig::new(endpoints.split(',')), Host::system())?;
    watch(&client, &prefix).await
}
