//! The two holders: one that is frozen with its lease, and one that comes after it.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use palisade_client::{Client, ClientConfig, LockGuard, Session};
use palisade_core::ids::LockName;
use palisade_host::{Clock, Host, SystemClock};
use tokio::sync::oneshot;

use super::super::Failure;
use crate::child::Told;
use crate::exit::Exit;

/// A session, and the lock that it holds.
struct Held {
    client: Client,
    _session: Session,
    guard: LockGuard,
}

async fn acquire(config: ClientConfig, lock: LockName, patience: Duration) -> Result<(Held, Told), Failure> {
    let endpoints = config.endpoints.clone();
    let client = Client::new(config, Host::system())?;
    let session = client.open_session().await?;
    // Without a lock-delay: it would only make the drill longer.
    let asked = session.lock(lock).wait_for(patience).lock_delay(Duration::ZERO).with_sequencer();
    let guard = asked.acquire().await.map_err(|error| Failure::new(Exit::UNAVAILABLE, error))?;
    let safe_until = SystemClock.now() + guard.remaining().unwrap_or_default();
    let told = Told::of(std::iter::once(&guard), session.id(), endpoints, safe_until).await?;
    Ok((Held { client, _session: session, guard }, told))
}

/// A holder whose client has a thread and a runtime of its own, so that it can be stopped as a process is: from one moment
/// to the next nothing of it runs, nothing is renewed, and nothing is given back.
pub(super) struct First {
    freeze: oneshot::Sender<()>,
    thaw: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

/// The same, standing still. Dropped, its connection ends.
pub(super) struct Frozen {
    _thaw: mpsc::Sender<()>,
    _thread: JoinHandle<()>,
}

impl First {
    /// Acquires the lock, and keeps it.
    pub(super) async fn acquire(
        config: ClientConfig,
        lock: LockName,
        patience: Duration,
    ) -> Result<(Self, Told), Failure> {
        let (report, acquired) = oneshot::channel();
        let (freeze, frozen) = oneshot::channel::<()>();
        let (thaw, thawed) = mpsc::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let holds = move || {
            let held = runtime.block_on(async {
                match acquire(config, lock, patience).await {
                    Ok((held, told)) => {
                        // Whoever does not listen any longer has ended, and so does this thread.
                        let _ = report.send(Ok(told));
                        let _ = frozen.await;
                        Some(held)
                    }
                    Err(failure) => {
                        let _ = report.send(Err(failure));
                        None
                    }
                }
            });
            // Until everything is over: an end is all that is awaited.
            let _ = thawed.recv();
            drop(held);
        };
        let thread = std::thread::Builder::new().name("first holder".to_owned()).spawn(holds)?;
        let told = acquired.await.context("the first holder's thread ended")??;
        Ok((Self { freeze, thaw, thread }, told))
    }

    /// From now on it renews nothing.
    pub(super) fn freeze(self) -> Frozen {
        // A thread that has ended renews nothing either.
        let _ = self.freeze.send(());
        Frozen { _thaw: self.thaw, _thread: self.thread }
    }
}

/// The holder that comes after it.
pub(super) struct Second(Held);

impl Second {
    /// Waits for the lock, as long as `patience`.
    pub(super) async fn acquire(
        config: ClientConfig,
        lock: LockName,
        patience: Duration,
    ) -> Result<(Self, Told), Failure> {
        let (held, told) = acquire(config, lock, patience).await?;
        Ok((Self(held), told))
    }

    /// Whether it still holds the lock.
    pub(super) fn holds(&self) -> bool {
        self.0.guard.check().is_ok()
    }

    /// Frees the lock.
    pub(super) async fn release(self) {
        let Held { client, _session, guard } = self.0;
        if let Err(error) = guard.release().await {
            tracing::warn!(%error, "the second holder's release");
        }
        client.close().await;
    }
}
