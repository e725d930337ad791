//! Appends a line to a file that is guarded by a lock: a paused holder's line is refused.
//!
//! With `palisade dev` running:
//!
//! ```text
//! cargo run --example fenced_file -- orders.txt new      # the first time: a file that has no marks yet
//! cargo run --example fenced_file -- orders.txt
//! ```

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use palisade_client::{Client, ClientConfig};
use palisade_core::ids::LockName;
use palisade_fence::adapters::file::FileResource;
use palisade_fence::guard::{Guard, Scope};
use palisade_host::Host;

// README.md shows this function.
async fn append(client: &Client, file: FileResource) -> Result<(), Box<dyn Error>> {
    let lock = LockName::new("orders/shard-7")?;
    let cluster = client.status(false).await?.cluster_id.parse()?;
    let orders = Guard::new(file, Scope::new(cluster, lock.clone()));

    let session = client.open_session().await?; // kept alive in the background
    let held = session.lock(lock).wait_for(Duration::from_secs(30)).acquire().await?;
    let seen = orders.claim_and_read(&held, |file| file.read())?; // raises the mark, then reads
    let line = format!("line after {} bytes, token {}\n", seen.len(), held.token());
    orders.write(&held, |file| file.append(line.as_bytes()))?; // Err(Stale) once a newer holder was here
    held.release().await?;
    Ok(session.close().await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file? See the top of this example")?;
    let file = match arguments.next().as_deref() {
        Some("new") => FileResource::create(&path)?,
        Some(_) | None => FileResource::open(&path)?,
    };
    let endpoints = std::env::var("PALISADE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:7170".to_owned());
    let client = Client::new(ClientConfig::new(endpoints.split(',')), Host::system())?;
    append(&client, file).await?;
    client.close().await;
    print!("{}", std::fs::read_to_string(Path::new(&path))?);
    Ok(())
}
