//! Heartbeats, and no tick between them.
//!
//! openraft looks at its timers five times a heartbeat, on each node, and an idle cluster does
//! little else. While all is well there is nothing to see: a leader has its next heartbeat to send, and whoever hears its
//! leader has no election to begin. So ticks rest then, and this task sends the heartbeats. They are back when a node
//! neither leads nor has heard of its leader for two heartbeats, at the latest after four: no later than the shortest
//! election timeout, since a leader's lease is part of that. Every election is openraft's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openraft::raft::StreamAppendError;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::replica::Leadership;
use crate::types::{AppendResult, Raft};

/// So many heartbeats may be missed before a follower's ticks are back. It looks as rarely.
const MISSED: u32 = 2;

/// When this node last took something from a leader that it follows.
#[derive(Default)]
pub(crate) struct Heard {
    last: Mutex<Option<Instant>>,
    resting: AtomicBool,
}

impl Heard {
    /// Something that came from a leader was answered. A leader that was replaced says nothing of the present one.
    pub(crate) fn answered(&self, result: &AppendResult) {
        match result {
            Ok(_) | Err(StreamAppendError::Conflict(_)) => *self.last.lock() = Some(Instant::now()),
            Err(StreamAppendError::HigherVote(_)) => {}
        }
    }

    /// Whether this node does without ticks.
    #[cfg(test)]
    pub(crate) fn rests(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }

    fn within(&self, time: Duration) -> bool {
        self.last.lock().is_some_and(|last| last.elapsed() < time)
    }
}

/// Ticks, which are back whatever becomes of the task that lets them rest.
struct Ticks(Raft);

impl Drop for Ticks {
    fn drop(&mut self) {
        self.0.runtime_config().tick(true);
    }
}

/// Starts the task; it ends with openraft, or with whoever aborts it.
pub(super) fn beat(
    raft: Raft,
    heard: Arc<Heard>,
    mut leadership: watch::Receiver<Leadership>,
    heartbeat: Duration,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let ticks = Ticks(raft);
        let raft = &ticks.0;
        loop {
            let now = Instant::now();
            let leads = leadership.borrow_and_update().leads;
            // A log that has no room for a heartbeat is busy: a tick overtakes what is queued there.
            let beaten = match leads {
                true => timeout(heartbeat, raft.trigger().heartbeat()).await,
                false => Ok(Ok(())),
            };
            if matches!(beaten, Ok(Err(_))) {
                return;
            }
            let content = !leads && heard.within(MISSED * heartbeat);
            let rest = content || (leads && beaten.is_ok());
            raft.runtime_config().tick(!rest);
            heard.resting.store(rest, Ordering::Relaxed);
            let next = now + if content { MISSED * heartbeat } else { heartbeat };
            tokio::select! {
                () = sleep_until(next) => {}
                changed = leadership.changed() => if changed.is_err() { return },
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{LogId, Vote};

    #[test]
    fn a_leader_that_was_replaced_is_not_heard() {
        let heard = Heard::default();
        heard.answered(&Err(StreamAppendError::HigherVote(Vote::new(2, 1))));
        assert!(!heard.within(Duration::MAX));
        heard.answered(&Err(StreamAppendError::Conflict(LogId::new_term_index(1, 7))));
        assert!(heard.within(Duration::MAX) && !heard.within(Duration::ZERO));
    }
}
