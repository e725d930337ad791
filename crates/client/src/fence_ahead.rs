//! Fence-ahead: a resource's guard makes a floor durable and says so, and the rest of a lock-delay is skipped (SPEC 5).
//!
//! It hears of delays that ask for its word over a fence feed, also of those that were open before it started. Repeating a
//! confirmation is safe, and one that comes late changes nothing; so whatever fails is tried again for as long as the
//! delay is open. A guard that cannot confirm costs the normal delay, no more.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use palisade_core::ids::{GuardName, LockName, Slot};
use palisade_core::token::Token;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::Client;
use crate::fence_feed::{Asked, FenceFeed, Task};

/// After a failure, and when the news of a confirmation stays away.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Floors that are made durable at the same time.
const AT_ONCE: usize = 16;

/// A floor that is to be made durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloorToRaise {
    /// Of which lock.
    pub lock: LockName,
    /// Of which slot.
    pub slot: Slot,
    /// The least that the lock-delay asks for.
    pub asked: Token,
    /// A floor at or above it, as the cluster signed it: for `Verifier::floor` and `Guard::raise`.
    pub signed: String,
}

/// Confirms for one guard, until it is dropped.
pub struct FenceAhead {
    _task: Task,
}

impl fmt::Debug for FenceAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceAhead").finish_non_exhaustive()
    }
}

impl Client {
    /// Confirms floors for the guard that holders name in `fenced_by`: `raise` makes each durable, and only then is it
    /// confirmed. After it returned `Ok`, the resource must accept nothing below, also after a restart.
    ///
    /// The guard must cover *everything* that the locks protect which name it. It hears of the locks of `feed`.
    pub fn fence_ahead<F, R, E>(&self, guard: GuardName, feed: &FenceFeed, raise: F) -> FenceAhead
    where
        F: Fn(FloorToRaise) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        let confirmer = Arc::new(Confirmer { client: self.clone(), guard, raise });
        let task = self.handle.runtime.spawn(confirmer.run(feed.clone()));
        FenceAhead { _task: Task(task.abort_handle()) }
    }
}

struct Confirmer<F> {
    client: Client,
    guard: GuardName,
    raise: F,
}

impl<F, R, E> Confirmer<F>
where
    F: Fn(FloorToRaise) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), E>> + Send + 'static,
    E: fmt::Display + Send + 'static,
{
    async fn run(self: Arc<Self>, feed: FenceFeed) {
        loop {
            let all = |feed: &FenceFeed| Some(feed.asked_of(&self.guard)).filter(|asked| !asked.is_empty());
            let asked = feed.wait_for(all).await;
            let mut running = JoinSet::new();
            for one in asked.clone() {
                if running.len() >= AT_ONCE {
                    running.join_next().await;
                }
                running.spawn(self.clone().answer(one));
            }
            while running.join_next().await.is_some() {}
            // The news of the confirmation takes it from the list; what failed is still there after a while.
            let moved = feed.wait_for(|feed| (feed.asked_of(&self.guard) != asked).then_some(()));
            let _ = timeout(AGAIN_AFTER, moved).await;
        }
    }

    async fn answer(self: Arc<Self>, asked: Asked) {
        let (lock, slot, floor) = (asked.lock.clone(), asked.slot.0, asked.floor.get());
        match self.confirm(asked).await {
            Ok(()) => tracing::info!(guard = %self.guard, %lock, slot, floor, "floor confirmed"),
            Err(why) => tracing::warn!(guard = %self.guard, %lock, slot, floor, why, "floor not confirmed"),
        }
    }

    async fn confirm(&self, Asked { lock, slot, floor, .. }: Asked) -> Result<(), String> {
        let signed =
            self.client.signed_floor(&lock, slot, floor.get()).await.map_err(|why| why.to_string())?;
        if signed.floor < floor.get() {
            return Err(format!("a node signed {}, which is below", signed.floor));
        }
        let raise = FloorToRaise { lock: lock.clone(), slot, asked: floor, signed: signed.text };
        (self.raise)(raise).await.map_err(|why| why.to_string())?;
        self.client.confirm_floor(&self.guard, &lock, slot, floor).await.map_err(|why| why.to_string())
    }
}
