//! How much may wait for the log: bounded in bytes, whoever proposes.
//!
//! Whoever waits longer is served no better by a longer queue, and keepalives share the way: their proof is applied after
//! what was appended before it. So new work is refused long before the room is full, and what ends work, which makes room
//! elsewhere, only when it is; leases have the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::replica::{Outcome, Room, Sink};

/// Bytes of commands that may be undecided at one time.
const ROOM_BYTES: usize = 64 << 20;
/// Of them, for what keeps leases and ends them.
const LEASES_BYTES: usize = ROOM_BYTES / 64;
/// Undecided bytes above which no new work is taken: some 6,000 commands.
const NEW_WORK_BYTES: usize = 4 << 20;
/// None is taken above this either, while decisions take longer than [`NEW_WORK_WAIT`]: some 200 commands, still a group
/// for each flush.
const NEW_WORK_BYTES_SLOW: usize = 128 << 10;
/// Half of an election timeout by default: a keepalive's proof, which may take a whole one, stays in time.
const NEW_WORK_WAIT: Duration = Duration::from_millis(300);
/// What an undecided command costs beside its own bytes.
const COMMAND_OVERHEAD: usize = 512;

/// Hands out room.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    room: Arc<Semaphore>,
    /// How long the last decision took, in microseconds.
    took: Arc<AtomicU64>,
}

/// A proposal that has room. The room is free again when it is answered.
pub(crate) struct Admitted {
    sink: Sink,
    since: Instant,
    took: Arc<AtomicU64>,
    _room: OwnedSemaphorePermit,
}

impl Admitted {
    pub(crate) fn answer(self, outcome: Outcome) {
        let took = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.took.store(took, Ordering::Relaxed);
        self.sink.answer(outcome);
    }
}

impl Admission {
    pub(crate) fn new() -> Self {
        Self { room: Arc::new(Semaphore::new(ROOM_BYTES)), took: Arc::default() }
    }

    /// Nothing is admitted any more.
    pub(crate) fn close(&self) {
        self.room.close();
    }

    /// Waits for room. None once closed; the sink has heard.
    pub(crate) async fn admit(&self, bytes: usize, sink: Sink) -> Option<Admitted> {
        let room = self.room.clone().acquire_many_owned(cost(bytes)).await.ok()?;
        Some(Admitted { sink, since: Instant::now(), took: self.took.clone(), _room: room })
    }

    /// For what there is room right now.
    pub(crate) fn room(&self) -> Room {
        let undecided = self.undecided_bytes();
        let slow = Duration::from_micros(self.took.load(Ordering::Relaxed)) > NEW_WORK_WAIT;
        let new_work = if slow { NEW_WORK_BYTES_SLOW } else { NEW_WORK_BYTES };
        match undecided {
            _ if undecided >= ROOM_BYTES - LEASES_BYTES => Room::Leases,
            _ if undecided >= new_work => Room::WorkUnderWay,
            _ => Room::All,
        }
    }

    /// Bytes of commands that are undecided, with what each costs beside.
    pub(crate) fn undecided_bytes(&self) -> usize {
        ROOM_BYTES - self.room.available_permits().min(ROOM_BYTES)
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
        assert_eq!((admission.room(), admission.undecided_bytes()), (Room::Leases, ROOM_BYTES));
        all.answer(Outcome::NotAppended { leader: None });
        assert_eq!((admission.room(), admission.undecided_bytes()), (Room::All, 0));
        assert_eq!(outcome.await, Ok(Outcome::NotAppended { leader: None }));
        admission.close();
        let (sink, outcome) = Sink::oneshot();
        assert!(admission.admit(1, sink).await.is_none());
        assert_eq!(outcome.await, Ok(Outcome::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn new_work_is_refused_before_the_room_is_full_and_sooner_where_decisions_are_slow() {
        let admission = Admission::new();
        let admit = async |bytes: usize| {
            admission.admit(bytes - COMMAND_OVERHEAD, Sink::oneshot().0).await.expect("there is room")
        };
        let first = admit(NEW_WORK_BYTES_SLOW).await;
        assert_eq!(admission.room(), Room::All);
        let second = admit(NEW_WORK_BYTES - NEW_WORK_BYTES_SLOW).await;
        assert_eq!(admission.room(), Room::WorkUnderWay);
        tokio::time::advance(NEW_WORK_WAIT + Duration::from_millis(1)).await;
        second.answer(Outcome::Unknown);
        assert_eq!(admission.room(), Room::WorkUnderWay, "decisions are slow");
        first.answer(Outcome::Unknown);
        assert_eq!(admission.room(), Room::All, "nothing waits");
        let quick = admit(NEW_WORK_BYTES_SLOW).await;
        let other = admit(NEW_WORK_BYTES_SLOW).await;
        assert_eq!(admission.room(), Room::WorkUnderWay);
        quick.answer(Outcome::Unknown);
        assert_eq!(admission.room(), Room::All, "the last decision was quick");
        drop(other);
    }
}
