//! A fence feed: the floors of locks, kept up to date over whatever node answers (SPEC 7, way 3).
//!
//! A resource asks it before each decision, and rejects a stale holder from the moment of its expiry on, before any
//! successor has written and without a call. It narrows the window; only the comparison with the mark, in one step with
//! the write, closes it. A feed that has fallen silent says so, and goes on telling what it last knew: what was
//! superseded stays so.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use palisade_core::floors::{Floors, SlotStanding, Standing};
use palisade_core::ids::{GuardName, Incarnation, LockName, Slot};
use palisade_core::token::Token;
use palisade_host::{Moment, SharedClock};
use palisade_proto::convert::fence::slot_from;
use palisade_proto::convert::watch::{Filter, position, position_from};
use palisade_proto::v1::fences_client::FencesClient;
use palisade_proto::v1::{self, feed_message::Message};
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tonic::{Status, Streaming};

use crate::client::ClientHandle;
use crate::nodes::Nodes;

/// A feed without a mark for so long counts as lost; so does a message that took longer to be read (SPEC 7).
pub const LOST_AFTER: Duration = Duration::from_secs(3);
/// Bytes of one message: an entry that ended a session with many locks is told in one.
const MESSAGE_BYTES_MAX: usize = 32 << 20;

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

struct Task(AbortHandle);

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

/// Bounded by the slots that are held, and those whose delay asks for guards.
#[derive(Default)]
struct State {
    floors: Option<Floors>,
    incarnation: Option<Incarnation>,
    /// When the last mark came.
    marked: Option<Moment>,
    asked: BTreeMap<(LockName, Slot), Asked>,
}

impl fmt::Debug for FenceFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceFeed").field("filter", &self.shared.filter).finish_non_exhaustive()
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

/// Reads the feed of one node after the other.
struct Reader {
    nodes: Nodes,
    shared: Arc<Shared>,
    /// Of a snapshot that is not complete.
    parts: Vec<SlotStanding>,
}

impl Reader {
    async fn run(mut self) {
        loop {
            let opened = self.shared.clock.now();
            let ended = match self.open().await {
                Ok(stream) => self.read(stream, opened).await,
                Err(status) => status,
            };
            tracing::debug!(
                node = self.nodes.endpoint(),
                why = ended.message(),
                "the fence feed goes on at another node"
            );
            self.parts.clear();
            self.nodes.move_on();
            self.nodes.rest().await;
        }
    }

    async fn open(&self) -> Result<Streaming<v1::FeedMessage>, Status> {
        let opening = async {
            let mut fences =
                FencesClient::new(self.nodes.channel()?).max_decoding_message_size(MESSAGE_BYTES_MAX);
            Ok(fences.feed(self.request()).await?.into_inner())
        };
        match timeout(LOST_AFTER, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(Status::unavailable("no answer in time")),
        }
    }

    fn request(&self) -> v1::FeedRequest {
        use v1::feed_request::What;
        let what = match &self.shared.filter {
            Filter::Lock(name) => What::Lock(name.as_str().to_owned()),
            Filter::Prefix(prefix) => What::Prefix(prefix.clone()),
        };
        let state = self.shared.state.read();
        let after = state.floors.as_ref().map(|floors| position(state.incarnation, floors.applied()));
        v1::FeedRequest { what: Some(what), after }
    }

    /// Reads until the stream ends, or is not to be trusted.
    async fn read(&mut self, mut stream: Streaming<v1::FeedMessage>, opened: Moment) -> Status {
        let mut last = opened;
        loop {
            let message = match timeout(LOST_AFTER, stream.message()).await {
                Ok(Ok(Some(message))) => message,
                Ok(Ok(None)) => return Status::unavailable("the node ended the feed"),
                Ok(Err(status)) => return status,
                Err(_) => return Status::unavailable("the node fell silent"),
            };
            let now = self.shared.clock.now();
            if now.since(last) > LOST_AFTER {
                // This process stood still: what waits in the socket was news then.
                return Status::unavailable("this process was suspended");
            }
            // The first message answers a question of that time.
            let as_of = if last == opened { opened } else { now };
            last = now;
            let taken = self.take(message, as_of);
            self.shared.changed.send_replace(());
            if let Err(why) = taken {
                return why;
            }
        }
    }

    fn take(&mut self, message: v1::FeedMessage, as_of: Moment) -> Result<(), Status> {
        match message.message {
            Some(Message::Entries(entries)) => self.entries(entries),
            Some(Message::Mark(mark)) => self.mark(mark, as_of),
            Some(Message::Resynchronise(why)) => {
                tracing::info!(reason = ?why.reason(), "the fence feed begins anew from a snapshot");
                Ok(())
            }
            Some(Message::Snapshot(part)) => self.part(part),
            None => Ok(()),
        }
    }

    fn entries(&mut self, entries: v1::FeedEntries) -> Result<(), Status> {
        let mut state = self.shared.state.write();
        for entry in entries.entries {
            let moved = standings(&entry.slots)?;
            state.entry(entry.index, moved)?;
        }
        Ok(())
    }

    fn mark(&mut self, mark: v1::FeedMark, as_of: Moment) -> Result<(), Status> {
        let position = mark.position.unwrap_or_default();
        let mut state = self.shared.state.write();
        let Some(floors) = &mut state.floors else { return Err(out_of_order()) };
        floors.progress(position.index);
        if !mark.cut_off {
            state.marked = state.marked.max(Some(as_of));
            drop(state);
            self.nodes.heard();
        } else if self.nodes.has_others() {
            return Err(Status::unavailable("the node knows no leader"));
        }
        Ok(())
    }

    fn part(&mut self, part: v1::FeedSnapshot) -> Result<(), Status> {
        self.parts.extend(standings(&part.slots)?);
        if !part.last {
            return Ok(());
        }
        let all = std::mem::take(&mut self.parts);
        let position = position_from(&part.position.unwrap_or_default()).map_err(malformed)?;
        self.shared.state.write().snapshot(position.incarnation, position.index, all)
    }
}

impl State {
    fn floor(&self, lock: &LockName, slot: Slot, now: Moment) -> FeedFloor {
        let Some(floors) = &self.floors else { return FeedFloor::Unknown };
        let floor = floors.floor(lock, slot);
        if self.marked.is_some_and(|marked| now.since(marked) <= LOST_AFTER) {
            FeedFloor::Known(floor)
        } else {
            FeedFloor::Lost(floor)
        }
    }

    fn entry(&mut self, index: u64, moved: Vec<SlotStanding>) -> Result<(), Status> {
        let Some(floors) = &mut self.floors else { return Err(out_of_order()) };
        if index <= floors.applied() {
            return Ok(());
        }
        for stands in &moved {
            self.asked.remove(&(stands.lock.clone(), stands.slot));
        }
        self.asked.extend(moved.iter().filter_map(asked));
        floors.entry(index, moved);
        Ok(())
    }

    fn snapshot(
        &mut self,
        incarnation: Option<Incarnation>,
        index: u64,
        all: Vec<SlotStanding>,
    ) -> Result<(), Status> {
        let asked = all.iter().filter_map(asked).collect();
        let held = all.into_iter().filter_map(|stands| match stands.standing {
            Standing::Held(token) => Some((stands.lock, stands.slot, token)),
            Standing::Asking { .. } | Standing::Open => None,
        });
        let newer = Floors::at(index, held);
        match &mut self.floors {
            None => self.floors = Some(newer),
            Some(floors) => floors.replace(newer).map_err(|older| {
                tracing::warn!(%older, "a node offered older floors and was left");
                Status::unavailable(older.to_string())
            })?,
        }
        (self.incarnation, self.asked) = (incarnation, asked);
        Ok(())
    }
}

fn asked(stands: &SlotStanding) -> Option<((LockName, Slot), Asked)> {
    let SlotStanding { lock, slot, standing } = stands;
    let Standing::Asking { floor, guards } = standing else { return None };
    let asked = Asked { lock: lock.clone(), slot: *slot, floor: *floor, guards: guards.clone() };
    Some(((lock.clone(), *slot), asked))
}

fn standings(slots: &[v1::SlotFloor]) -> Result<Vec<SlotStanding>, Status> {
    slots.iter().map(|slot| slot_from(slot).map_err(malformed)).collect()
}

fn malformed(why: impl ToString) -> Status {
    Status::internal(why.to_string())
}

fn out_of_order() -> Status {
    Status::internal("news came before a snapshot")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str) -> LockName {
        LockName::new(name).expect("a name")
    }

    fn token(number: u64) -> Token {
        Token::new(number).expect("a token")
    }

    fn stands(standing: Standing) -> SlotStanding {
        SlotStanding { lock: lock("a"), slot: Slot(0), standing }
    }

    #[test]
    fn a_feed_that_is_silent_for_3_s_is_lost_and_still_tells_what_it_knew() {
        let mut state = State::default();
        let at = |seconds| Moment::default() + Duration::from_secs(seconds);
        let floor = |state: &State, now| state.floor(&lock("a"), Slot(0), now);
        assert_eq!(floor(&state, at(0)), FeedFloor::Unknown);
        state.snapshot(None, 50, vec![stands(Standing::Held(token(34)))]).expect("the first");
        assert_eq!(floor(&state, at(0)), FeedFloor::Lost(token(34)), "a snapshot is no mark");
        state.marked = Some(at(10));
        assert_eq!(floor(&state, at(13)), FeedFloor::Known(token(34)));
        assert_eq!(floor(&state, at(14)), FeedFloor::Lost(token(34)));
        state.entry(60, vec![stands(Standing::Open)]).expect("in order");
        assert_eq!(floor(&state, at(14)), FeedFloor::Lost(token(61)));
    }

    #[test]
    fn a_node_with_older_floors_is_left() {
        let mut state = State::default();
        assert!(state.entry(60, Vec::new()).is_err(), "before the first snapshot");
        state.snapshot(None, 50, vec![stands(Standing::Held(token(34)))]).expect("the first");
        assert!(state.snapshot(Some(Incarnation([9; 16])), 40, Vec::new()).is_err());
        assert_eq!(
            (state.incarnation, state.floor(&lock("a"), Slot(0), Moment::default())),
            (None, FeedFloor::Lost(token(34)))
        );
    }

    #[test]
    fn what_a_delay_asks_is_known_until_it_is_over() {
        let mut state = State::default();
        let guards = vec![GuardName::new("orders-db").expect("a name")];
        let asking = Standing::Asking { floor: token(60), guards: guards.clone() };
        state.snapshot(None, 60, vec![stands(asking.clone())]).expect("the first");
        let asked = Asked { lock: lock("a"), slot: Slot(0), floor: token(60), guards };
        assert_eq!(state.asked.values().collect::<Vec<_>>(), [&asked]);
        state.entry(70, vec![stands(Standing::Held(token(70)))]).expect("in order");
        assert!(state.asked.is_empty());
        state.entry(80, vec![stands(asking)]).expect("in order");
        assert_eq!(state.asked.len(), 1);
        state.snapshot(None, 90, Vec::new()).expect("newer");
        assert!(state.asked.is_empty());
    }
}
