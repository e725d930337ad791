//! Quorum rounds that prove that this node still leads.
//!
//! A keepalive or a linearizable read is answered only after a round that began after it came in (SPEC 3). One round
//! runs and one is pending, whatever the load: whoever comes while one runs shares the next.

use std::sync::Arc;
use std::time::Duration;

use palisade_core::ids::LogIndex;
use palisade_raft::{ConfirmError, Replica};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

/// Why nothing was proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unproved {
    /// This node does not lead.
    NotLeader,
    /// No majority answered in time. No loss of leadership: a repeat may succeed.
    NoQuorum,
}

/// What waits for a round.
pub(crate) type Joiner = Box<dyn FnOnce(Result<LogIndex, Unproved>) + Send>;

/// Joiners of the pending round.
#[derive(Default)]
pub(crate) struct Rounds {
    pending: Mutex<Vec<Joiner>>,
    arrived: Notify,
}

impl Rounds {
    /// Joins the next round to begin. The joiner is called on the rounds' task, and must not block.
    pub(crate) fn join(&self, joiner: Joiner) {
        self.pending.lock().push(joiner);
        self.arrived.notify_one();
    }

    /// Waits for the next round to begin and end.
    pub(crate) async fn proved(&self) -> Result<LogIndex, Unproved> {
        let (sender, receiver) = oneshot::channel();
        self.join(Box::new(move |proof| {
            let _ = sender.send(proof);
        }));
        receiver.await.unwrap_or(Err(Unproved::NotLeader))
    }

    /// Runs rounds for ever. `wait` bounds one; a round that times out is tried once more before its joiners hear of
    /// it, since a stalled disk of both followers looks the same as a lost quorum.
    pub(crate) async fn run(self: Arc<Self>, replica: Replica, wait: Duration, took: impl Fn(Duration)) {
        loop {
            self.arrived.notified().await;
            loop {
                let joiners = std::mem::take(&mut *self.pending.lock());
                if joiners.is_empty() {
                    break;
                }
                let proof = Self::round(&replica, wait, &took).await;
                for joiner in joiners {
                    joiner(proof);
                }
            }
        }
    }

    async fn round(
        replica: &Replica,
        wait: Duration,
        took: &impl Fn(Duration),
    ) -> Result<LogIndex, Unproved> {
        for _ in 0..2 {
            let began = tokio::time::Instant::now();
            match replica.confirm_leadership(wait).await {
                Ok(index) => {
                    took(began.elapsed());
                    return Ok(index);
                }
                Err(ConfirmError::NoQuorum) => {}
                Err(ConfirmError::NotLeader { .. } | ConfirmError::Stopped(_)) => {
                    return Err(Unproved::NotLeader);
                }
            }
        }
        Err(Unproved::NoQuorum)
    }
}
