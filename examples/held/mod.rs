//! How a job comes to its lock: it acquires it, or `palisade lock` or `palisade drill` did, and handed the proof down.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use palisade_client::{Client, ClientConfig, LockGuard, Session};
use palisade_core::holding::Holding;
use palisade_core::ids::{ClusterId, LockName};
use palisade_fence::error::FenceError;
use palisade_fence::guard::Scope;
use palisade_fence::keys::KeySet;
use palisade_fence::verifier::{Presented, Verifier};
use palisade_host::Host;

/// Exit code of a job that was refused as stale.
const REFUSED: u8 = 4;

/// Which lock, and where it is from.
#[derive(Debug, Args)]
pub(crate) struct LockArguments {
    /// Acquire this lock, in place of a proof that was handed down
    #[arg(long, value_parser = LockName::new)]
    lock: Option<LockName>,
    /// The proof of holding a lock; `palisade lock` and `palisade drill` set it
    #[arg(long, env = "PALISADE_SEQUENCER", hide_env_values = true, required_unless_present = "lock")]
    sequencer: Option<String>,
    /// Nodes
    #[arg(long, env = "PALISADE_ENDPOINTS", value_delimiter = ',', default_value = "127.0.0.1:7170")]
    endpoints: Vec<String>,
    /// Lease of a lock that it acquires itself, in seconds
    #[arg(long, default_value_t = 10)]
    ttl: u64,
}

/// A lock that is held for as long as this exists.
pub(crate) struct Held {
    client: Client,
    lock: Lock,
    /// Which cluster granted it.
    pub(crate) cluster: ClusterId,
}

enum Lock {
    /// Kept alive in the background.
    Own(Session, LockGuard),
    HandedDown(Presented),
}

impl Held {
    /// Waits for the lock, if it is to be acquired.
    pub(crate) async fn take(arguments: &LockArguments) -> anyhow::Result<Self> {
        let mut config = ClientConfig::new(&arguments.endpoints);
        config.ttl = Duration::from_secs(arguments.ttl);
        let client = Client::new(config, Host::system())?;
        // In earnest the cluster's id belongs into the settings of whoever guards: it tells true nodes from others.
        let cluster = client.status(false).await?.cluster_id.parse().map_err(anyhow::Error::msg)?;
        let lock = match &arguments.lock {
            Some(lock) => {
                let session = client.open_session().await?;
                // No lock-delay: what the job writes to is fenced.
                let guard = session.lock(lock.clone()).lock_delay(Duration::ZERO).acquire().await?;
                Lock::Own(session, guard)
            }
            None => {
                let keys = KeySet::from_jwks(&client.keys().await?)?;
                let sequencer = arguments.sequencer.as_deref().context("neither a lock nor a sequencer")?;
                Lock::HandedDown(Verifier::new(cluster, keys).verify(sequencer)?)
            }
        };
        let held = Self { client, lock, cluster };
        println!("{} is held under token {}", held.holding().lock(), held.holding().token());
        Ok(held)
    }

    /// What a resource must know of cluster and lock.
    pub(crate) fn scope(&self) -> Scope {
        Scope::new(self.cluster, self.holding().lock().clone())
    }

    /// What is shown to resources.
    pub(crate) fn holding(&self) -> &dyn Holding {
        match &self.lock {
            Lock::Own(_, guard) => guard,
            Lock::HandedDown(presented) => presented,
        }
    }

    /// After the work. Whoever handed the lock down releases it.
    pub(crate) async fn release(self) -> anyhow::Result<()> {
        if let Lock::Own(session, guard) = self.lock {
            guard.release().await?;
            session.close().await?;
        }
        self.client.close().await;
        Ok(())
    }
}

/// 0 where all was written, 4 where a resource refused the token, 1 for anything else, such as a lock that was lost.
pub(crate) fn exit_code(outcome: &anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.downcast_ref::<FenceError>().is_some_and(FenceError::is_stale) => {
            println!("refused: {error}");
            ExitCode::from(REFUSED)
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
