//! One of several processes works; the others wait, and know where it is.
//!
//! With `palisade dev` running, in three terminals:
//!
//! ```text
//! cargo run --example elect -- 10.0.0.1:80
//! cargo run --example elect -- 10.0.0.2:80
//! cargo run --example elect
//! ```
//!
//! The first works, the second waits, the third watches. End the first (Ctrl-C): it resigns, and the second works at once.
//! Kill it (`kill -9`): the second works when the lease has ended and the lock-delay has passed.

use std::error::Error;
use std::time::Duration;

use palisade_client::{Client, ClientConfig, Election, Leadership};
use palisade_core::ids::LockName;
use palisade_host::Host;

async fn work(leadership: &Leadership) {
    let mut stop = std::pin::pin!(leadership.suspended());
    for step in 1.. {
        tokio::select! {
            state = &mut stop => return println!("stopped: {state:?}"),
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        if leadership.check().is_err() {
            return; // and the resource decides, by the token
        }
        println!("step {step} under token {}", leadership.token());
    }
}

// docs/holder.md shows this function.
async fn lead(client: &Client, election: &Election, address: &str) -> Result<(), Box<dyn Error>> {
    let session = client.open_session().await?;
    loop {
        let leadership = election.campaign(&session, address.as_bytes()).await?;
        tokio::select! {
            () = work(&leadership) => {}
            ended = tokio::signal::ctrl_c() => {
                ended?;
                leadership.resign().await?; // the work has stopped
                return Ok(session.close().await?);
            }
        }
    }
}

async fn watch(election: &Election) -> Result<(), Box<dyn Error>> {
    let mut observer = election.observe();
    loop {
        match observer.next().await? {
            Some(leader) => {
                println!("{} leads under token {}", String::from_utf8_lossy(&leader.value), leader.token);
            }
            None => println!("nobody leads"),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoints = std::env::var("PALISADE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:7170".to_owned());
    let client = Client::new(ClientConfig::new(endpoints.split(',')), Host::system())?;
    let election = client.election(LockName::new("orders/leader")?);
    match std::env::args().nth(1) {
        Some(address) => lead(&client, &election, &address).await?,
        None => watch(&election).await?,
    }
    client.close().await;
    Ok(())
}
