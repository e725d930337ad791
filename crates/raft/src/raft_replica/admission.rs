//! How much may wait for the log: bounded in bytes, whoever proposes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::replica::{Outcome, Sink};

/// Bytes of commands that may be undecided at one time.
const ROOM_BYTES: usize = 64 << 20;
/// What an undecided command costs beside its own bytes.
const COMMAND_OVERHEAD: usize = 512;

/// Hands out room.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    room: Arc<Semaphore>,
}

/// A proposal that has room. The room is free again when it is answered.
pub(crate) struct Admitted {
    sink: Sink,
    _room: OwnedSemaphorePermit,
}

impl Admitted {
    pub(crate) fn answer(self, outcome: Outcome) {
        self.sink.answer(outcome);
    }
}

impl Admission {
    pub(crate) fn new() -> Self {
        Self { room: Arc::new(Semaphore::new(ROOM_BYTES)) }
    }

    /// Nothing is admitted any more.
    pub(crate) fn close(&self) {
        self.room.close();
    }

    /// Waits for room. None once closed; the sink has heard.
    pub(crate) async fn admit(&self, bytes: usize, sink: Sink) -> Option<Admitted> {
        let room = self.room.clone().acquire_many_owned(cost(bytes)).await.ok()?;
        Some(Admitted { sink, _room: room })
    }

    /// Whether there is room right now.
    pub(crate) fn has_room(&self) -> bool {
        self.room.available_permits() > ROOM_BYTES / 64
    }
}

/// A command is bounded by `COMMAND_BYTES_MAX`, so its cost fits.
fn cost(bytes: usize) -> u32 {
    u32::try_from(bytes + COMMAND_OVERHEAD).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn room_comes_back_with_the_answer() {
        let admission = Admission::new();
        let (sink, outcome) = Sink::oneshot();
        let all = admission.admit(ROOM_BYTES - COMMAND_OVERHEAD, sink).await.expect("there is room");
        assert!(!admission.has_room());
        all.answer(Outcome::NotAppended { leader: None });
        assert!(admission.has_room());
        assert_eq!(outcome.await, Ok(Outcome::NotAppended { leader: None }));
        admission.close();
        let (sink, outcome) = Sink::oneshot();
        assert!(admission.admit(1, sink).await.is_none());
        assert_eq!(outcome.await, Ok(Outcome::Unknown));
    }
}
