//! A fence feed: the floors of locks, kept up to date over whatever node answers (SPEC 7, way 3).
//!
//! A resource asks it before each decision, and rejects a stale holder from the moment of its expiry on, before any
//! successor has written and without a call. It narrows the window; only the comparison with the mark, in one step with
//! the write, closes it. A feed that has fallen silent says so, and goes on telling what it last knew: what was
//! superseded stays so.

mod reader;
mod state;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use palisade_core::floors::Floors;
use palisade_core::ids::{GuardName, LockName, LockPrefix, Slot};
use palisade_core::token::Token;
use palisade_host::SharedClock;
use palisade_proto::convert::watch::Filter;
use palisade_proto::v1;
use palisade_proto::v1::fences_client::FencesClient;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::reader::Reader;
use self::state::State;
use crate::client::{Client, ClientHandle};
use crate::error::CallError;
use crate::nodes::Nodes;

/// A feed without a mark for so long counts as lost; so does a message that took longer to be read (SPEC 7).
pub const LOST_AFTER: Duration = Duration::from_secs(3);

/// What a feed says of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedFloor {
    /// The lowest token that can still be valid.
    Known(Token),
    /// As it last was; there was no mark for 3 s, and it may be higher by now. It still rejects whatever is below.
    Lost(Token),
    /// Nothing was heard yet, or the lock is not one of this feed's.
    Unknown,
}

/// A floor that a lock-delay asks guards to make durable (SPEC 5, fence-ahead).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Of which lock.
    pub lock: LockName,
    /// Of which slot.
    pub slot: Slot,
    /// The index, with the token base, of the entry that began the delay.
    pub floor: Token,
    /// Named guards that have not confirmed.
    pub guards: Vec<GuardName>,
}

/// The floors of some locks. Clones are the same feed; it ends when the last is dropped.
#[derive(Clone)]
pub struct FenceFeed {
    shared: Arc<Shared>,
    _task: Arc<Task>,
}

/// Ends with whoever owns it.
pub(crate) struct Task(pub(crate) AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Shared {
    filter: Filter,
    clock: SharedClock,
    state: RwLock<State>,
    /// Something was heard.
    changed: watch::Sender<()>,
}

impl fmt::Debug for FenceFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceFeed").field("filter", &self.shared.filter).finish_non_exhaustive()
    }
}

impl Client {
    /// The floors of all locks whose names begin so, kept up to date until the last clone of the feed is dropped: what a
    /// resource compares with beside its marks (SPEC 7, way 3).
    pub fn fence_feed(&self, prefix: &LockPrefix) -> FenceFeed {
        FenceFeed::begin(self.handle.clone(), Filter::Prefix(prefix.as_str().to_owned()))
    }

    /// The floors of one lock.
    pub fn fence_feed_of(&self, lock: LockName) -> FenceFeed {
        FenceFeed::begin(self.handle.clone(), Filter::Lock(lock))
    }

    /// The floor of a slot, signed by the cluster as a floor, from a node that has applied the index `at_least`; 0 for
    /// whatever the node has applied. A resource verifies it and raises its mark by it.
    ///
    /// # Errors
    ///
    /// `Unavailable` when no endpoint answers in time, or none has got so far.
    pub async fn signed_floor(
        &self,
        lock: &LockName,
        slot: Slot,
        at_least: u64,
    ) -> Result<v1::SignedFloor, CallError> {
        let asked = v1::FloorRequest { lock: lock.as_str().to_owned(), slot: slot.0, at_least };
        self.unary(|channel| {
            let asked = asked.clone();
            async move { Ok(FencesClient::new(channel).floor(asked).await?.into_inner()) }
        })
        .await
    }
}

impl FenceFeed {
    pub(crate) fn begin(handle: Arc<ClientHandle>, filter: Filter) -> Self {
        let shared = Arc::new(Shared {
            filter,
            clock: handle.host.clock.clone(),
            state: RwLock::default(),
            changed: watch::Sender::new(()),
        });
        let runtime = handle.runtime.clone();
        let reader = Reader { nodes: Nodes::new(handle), shared: shared.clone(), parts: Vec::new() };
        let task = runtime.spawn(reader.run());
        Self { shared, _task: Arc::new(Task(task.abort_handle())) }
    }

    /// What it says of a slot now. Never waits.
    pub fn floor(&self, lock: &LockName, slot: Slot) -> FeedFloor {
        if !self.shared.filter.concerns(lock.as_str()) {
            return FeedFloor::Unknown;
        }
        self.shared.state.read().floor(lock, slot, self.shared.clock.now())
    }

    /// Everything up to this index, with the token base, is in; none before the first snapshot.
    pub fn applied(&self) -> Option<u64> {
        self.shared.state.read().floors.as_ref().map(Floors::applied)
    }

    /// Returns when everything up to an index is in; with 0, when the first snapshot is.
    pub async fn reached(&self, index: u64) {
        self.wait_for(|feed| feed.applied().filter(|applied| *applied >= index)).await;
    }

    /// What the lock-delays that are open ask of a guard.
    pub fn asked_of(&self, guard: &GuardName) -> Vec<Asked> {
        let state = self.shared.state.read();
        state.asked.values().filter(|asked| asked.guards.contains(guard)).cloned().collect()
    }

    /// Looks after each message until there is something.
    pub(crate) async fn wait_for<T>(&self, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        let mut changed = self.shared.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if let Some(found) = look(self) {
                return found;
            }
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
