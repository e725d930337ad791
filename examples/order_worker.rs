//! A worker that sends orders to `fenced_service`, as the holder of a lock.
//!
//! ```text
//! palisade lock orders/shard-7 -- order_worker 127.0.0.1:8080 "an order"        the wrapper holds the lock
//! order_worker 127.0.0.1:8080 --lock orders/shard-7 < orders                    it holds the lock itself
//! ```
//!
//! It claims, and then sends each order; those on stdin where none is given, one a line. Like most programs it acts on what
//! it believes: whether it still holds the lock is for the service to say. Exit codes: 0 all were taken, 4 the
//! service refused one, 1 anything else.

#[path = "fenced_service/http.rs"]
mod http;

use std::io::BufRead;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::http::Request;
use clap::Parser;
use palisade_client::{Client, ClientConfig, LockGuard, Session};
use palisade_core::ids::LockName;
use palisade_fence::service::SEQUENCER_HEADER;
use palisade_host::Host;

/// What a stale holder is answered.
const STALE: u16 = 412;

/// Sends orders under a lock.
#[derive(Debug, Parser)]
struct Arguments {
    /// The service, host:port
    service: String,
    /// Orders; without any, those on stdin
    orders: Vec<String>,
    /// Only claim, and send nothing
    #[arg(long, conflicts_with = "claimed")]
    claim: bool,
    /// Only send: it was claimed before
    #[arg(long)]
    claimed: bool,
    /// The proof of holding the lock; `palisade lock` sets it
    #[arg(long, env = "PALISADE_SEQUENCER", hide_env_values = true, required_unless_present = "lock")]
    sequencer: Option<String>,
    /// Acquire this lock, in place of a proof
    #[arg(long, value_parser = LockName::new, conflicts_with = "sequencer")]
    lock: Option<LockName>,
    /// Nodes, where it acquires the lock
    #[arg(long, env = "PALISADE_ENDPOINTS", value_delimiter = ',', default_value = "127.0.0.1:7170")]
    endpoints: Vec<String>,
}

/// A lock of its own, with a short lease and no lock-delay: the service is fenced.
async fn acquire(endpoints: &[String], lock: LockName) -> anyhow::Result<(Session, LockGuard)> {
    let mut config = ClientConfig::new(endpoints);
    config.ttl = Duration::from_secs(2);
    let session = Client::new(config, Host::system())?.open_session().await?;
    let held = session.lock(lock).lock_delay(Duration::ZERO).with_sequencer().acquire().await?;
    Ok((session, held))
}

struct Worker {
    service: String,
    sequencer: String,
}

impl Worker {
    /// Whether it was taken; false where the service knows a newer holder.
    async fn send(&self, path: &str, body: &str) -> anyhow::Result<bool> {
        let request = Request::post(path).header(SEQUENCER_HEADER, &self.sequencer).body(body.to_owned())?;
        match http::send(&self.service, request).await? {
            (200, _) => Ok(true),
            (STALE, why) => {
                println!("refused: {why}");
                Ok(false)
            }
            (status, why) => bail!("{path}: {status} {why}"),
        }
    }

    async fn order(&self, order: &str) -> anyhow::Result<bool> {
        let taken = self.send("/orders", order).await?;
        if taken {
            println!("written: {order}");
        }
        Ok(taken)
    }
}

async fn work(arguments: Arguments) -> anyhow::Result<bool> {
    let own = match arguments.lock {
        Some(lock) => Some(acquire(&arguments.endpoints, lock).await?),
        None => None,
    };
    let sequencer = match (&own, arguments.sequencer) {
        (Some((_, held)), _) => held.sequencer().await?,
        (None, sequencer) => {
            sequencer.context("no sequencer: run it under `palisade lock`, or with --lock")?
        }
    };
    let worker = Worker { service: arguments.service, sequencer };
    if !arguments.claimed {
        if !worker.send("/claim", "").await? {
            return Ok(false);
        }
        println!("claimed");
    }
    for order in &arguments.orders {
        if !worker.order(order).await? {
            return Ok(false);
        }
    }
    if arguments.orders.is_empty() && !arguments.claim {
        for order in std::io::stdin().lock().lines() {
            if !worker.order(&order?).await? {
                return Ok(false);
            }
        }
    }
    if let Some((session, held)) = own {
        held.release().await?;
        session.close().await?;
    }
    Ok(true)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    match work(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(4),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
