//! At most three at a time, over all processes: a semaphore.
//!
//! With `palisade dev` running:
//!
//! ```text
//! cargo run --example semaphore
//! ```
//!
//! Six tasks want one of three slots. Start it twice, and the twelve share the three.

use std::error::Error;
use std::time::Duration;

use palisade_client::{AcquireError, Client, ClientConfig, Session};
use palisade_core::ids::LockName;
use palisade_host::Host;

/// Whoever asks for the lock names the same number.
const SLOTS: u32 = 3;

async fn export(session: &Session, task: u32) -> Result<(), Box<dyn Error>> {
    let lock = LockName::new("exports")?;
    let wait = Duration::from_secs(60);
    match session.lock(lock).capacity(SLOTS).wait_for(wait).acquire().await {
        Ok(guard) => {
            println!("task {task} has slot {} under token {}", guard.slot(), guard.token());
            tokio::time::sleep(Duration::from_secs(1)).await; // the work
            guard.release().await?;
        }
        Err(error @ AcquireError::TimedOut { .. }) => println!("task {task}: {error}"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoints = std::env::var("PALISADE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:7170".to_owned());
    let client = Client::new(ClientConfig::new(endpoints.split(',')), Host::system())?;
    let session = client.open_session().await?;
    let (a, b, c, d, e, f) = tokio::join!(
        export(&session, 1),
        export(&session, 2),
        export(&session, 3),
        export(&session, 4),
        export(&session, 5),
        export(&session, 6),
    );
    for outcome in [a, b, c, d, e, f] {
        outcome?;
    }
    session.close().await?;
    client.close().await;
    Ok(())
}
