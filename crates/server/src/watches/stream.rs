//! One stream of what happens, a watch's or a fence feed's: from where it begins, through what it missed, to what happens now.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use palisade_core::ids::LockName;
use palisade_core::table::LockTable;
use palisade_proto::convert::watch::{Filter, From, Position};
use palisade_proto::convert::{self, ErrorName};
use palisade_proto::v1::{self, resynchronise::Reason};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::MissedTickBehavior;
use tonic::Status;

use super::Watches;
use super::log::{Happened, TooOld};
use super::spread::{Cut, Item, Watcher};
use super::telling::Telling;
use crate::door::Door;
use crate::error;

/// Messages that wait for the transport.
const MESSAGES_MAX: usize = 4;
/// A client that takes no message for so long has lost its stream.
const STALL: Duration = Duration::from_secs(10);
/// Whoever listens hears at least this often how far it is.
const PROGRESS: Duration = Duration::from_secs(1);
/// A node that knows no leader for so many progress marks has nothing new to tell.
const LEADERLESS_MARKS: u32 = 3;
/// Entries of one message at most.
const ENTRIES_MAX: usize = 256;
/// Bytes of one part of a snapshot, at about which it is full.
const SNAPSHOT_PART_BYTES: usize = 256 << 10;

/// Names that are looked at before others get this thread.
const LOOKS_MAX: usize = 1_024;

/// The transport's end of a stream.
pub(crate) struct Frames<M> {
    messages: mpsc::Receiver<M>,
    end: Arc<OnceLock<Status>>,
    finished: bool,
}

impl<M> futures_util::Stream for Frames<M> {
    type Item = Result<M, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.messages.poll_recv(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(message)) => Poll::Ready(Some(Ok(message))),
            Poll::Ready(None) if self.finished => Poll::Ready(None),
            Poll::Ready(None) => {
                self.finished = true;
                Poll::Ready(self.end.get().cloned().map(Err))
            }
        }
    }
}

/// Begins a stream.
///
/// # Errors
///
/// When this node has all the streams of this kind that it may have.
pub(crate) fn open<T: Telling>(
    door: &Door,
    filter: Filter,
    from: From,
) -> Result<Frames<T::Message>, v1::Error> {
    let watches = door.coordinator.watches.clone();
    let Ok(permit) = watches.streams.clone().try_acquire_owned() else {
        return Err(error::watches_full(watches.limits.streams_max));
    };
    let (out, messages) = mpsc::channel(MESSAGES_MAX);
    let end = Arc::new(OnceLock::new());
    let frames = Frames { messages, end: end.clone(), finished: false };
    let door = door.clone();
    let stream = Stream::<T> { watches, door, filter, out, position: 0, _permit: permit };
    tokio::spawn(stream.run(from, end));
    Ok(frames)
}

/// Why a watch ended.
enum End {
    /// The client is gone.
    Gone,
    /// The client is told this.
    Told(v1::Error),
}

/// Events are missing after the position.
struct Missed(Reason);

struct Stream<T: Telling> {
    watches: Arc<Watches>,
    door: Door,
    filter: Filter,
    out: mpsc::Sender<T::Message>,
    /// Everything up to here was sent.
    position: u64,
    _permit: OwnedSemaphorePermit,
}

impl<T: Telling> Stream<T> {
    async fn run(mut self, from: From, end: Arc<OnceLock<Status>>) {
        let (stopped, out) = (self.watches.stopped.clone(), self.out.clone());
        let ended = tokio::select! {
            ended = self.watch(from) => ended,
            () = out.closed() => End::Gone,
            () = stopped.cancelled() => End::Told(error::no_quorum()),
        };
        if let End::Told(error) = ended {
            if error.name == ErrorName::WatchTooSlow.as_str() {
                self.door.coordinator.metrics.watch_cut();
            }
            let _ = end.set(error::status(&error));
        }
    }

    async fn watch(&mut self, from: From) -> End {
        let mut missed = match self.begin(from).await {
            Ok(missed) => missed,
            Err(end) => return end,
        };
        loop {
            if let Some(Missed(reason)) = missed
                && let Err(end) = self.resynchronise(reason).await
            {
                return end;
            }
            missed = match self.follow().await {
                Ok(missed) => Some(missed),
                Err(end) => return end,
            };
        }
    }

    /// Finds the position to begin at, and says it at once.
    async fn begin(&mut self, from: From) -> Result<Option<Missed>, End> {
        let after = match from {
            // Not a gap: it was asked for. A node that knows no cluster yet has nothing to tell.
            From::Snapshot if self.watches.caught_up(0).await => {
                return Ok(Some(Missed(Reason::Unspecified)));
            }
            From::Snapshot => return Err(End::Told(error::behind())),
            From::Now => Position { incarnation: None, index: self.watches.log.lock().applied() },
            From::After(position) => position,
        };
        if let Some(missed) = self.check_incarnation(after) {
            return Ok(Some(missed));
        }
        if !self.watches.caught_up(after.index).await {
            return Err(End::Told(error::behind()));
        }
        if let Some(missed) = self.check_incarnation(after) {
            return Ok(Some(missed));
        }
        if self.watches.log.lock().after(after.index, 0).is_err() {
            return Ok(Some(Missed(Reason::TooOld)));
        }
        self.position = after.index;
        if T::SAYS_WHERE_IT_BEGINS {
            self.send_progress().await?;
        }
        Ok(None)
    }

    fn check_incarnation(&self, position: Position) -> Option<Missed> {
        let known = self.watches.log.lock().incarnation()?;
        let asked = position.incarnation?;
        (asked != known).then_some(Missed(Reason::Incarnation))
    }

    /// Sends everything after the position, for ever; returns when something after it is missing.
    async fn follow(&mut self) -> Result<Missed, End> {
        // What is kept is read without a buffer, until little is left.
        loop {
            let batch = self.watches.log.lock().after(self.position, ENTRIES_MAX);
            let Ok(entries) = batch else { return Ok(Missed(Reason::TooOld)) };
            let near = entries.len() < ENTRIES_MAX;
            self.send_entries(&entries).await?;
            if near {
                break;
            }
        }
        let (watcher, read) = match self.watches.register(&self.filter, self.position) {
            Ok(registered) => registered,
            Err(TooOld) => return Ok(Missed(Reason::TooOld)),
        };
        let registered = Registered { watches: self.watches.clone(), watcher };
        for entries in read.chunks(ENTRIES_MAX) {
            self.send_entries(entries).await?;
        }
        self.live(&registered.watcher).await
    }

    async fn live(&mut self, watcher: &Watcher) -> Result<Missed, End> {
        let mut marks = tokio::time::interval(PROGRESS);
        marks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leaderless = 0_u32;
        loop {
            let marked = tokio::select! {
                () = watcher.woken() => false,
                _ = marks.tick() => true,
            };
            // In this order: what was spread by then is in the buffer.
            let spread_to = self.watches.spread_to();
            loop {
                let items = watcher.take().map_err(|Cut| End::Told(error::too_slow()))?;
                if items.is_empty() {
                    break;
                }
                if let Some(missed) = self.deliver(watcher, items).await? {
                    return Ok(missed);
                }
            }
            if !marked {
                continue;
            }
            leaderless = if self.knows_a_leader() { 0 } else { leaderless.saturating_add(1) };
            if T::ENDS_WITHOUT_LEADER && leaderless > LEADERLESS_MARKS {
                return Err(End::Told(error::no_quorum()));
            }
            self.position = self.position.max(spread_to);
            self.send_progress().await?;
        }
    }

    async fn deliver(&mut self, watcher: &Watcher, items: VecDeque<Item>) -> Result<Option<Missed>, End> {
        let mut entries = Vec::with_capacity(items.len());
        let mut missed = None;
        for item in items {
            match item {
                Item::Entry(entry) => entries.push(entry),
                Item::Gap => {
                    missed = Some(Missed(Reason::Gap));
                    break;
                }
            }
        }
        for entries in entries.chunks(ENTRIES_MAX) {
            tokio::select! {
                sent = self.send_entries(entries) => sent?,
                () = watcher.cut() => return Err(End::Told(error::too_slow())),
            }
        }
        Ok(missed)
    }

    fn knows_a_leader(&self) -> bool {
        crate::http::is_ready(&self.door.coordinator, &self.door.router)
    }

    /// Sends what of these entries is watched and not sent yet.
    async fn send_entries(&mut self, entries: &[Arc<Happened>]) -> Result<(), End> {
        let new = entries.iter().filter(|entry| entry.index > self.position);
        let told: Vec<_> = new.filter_map(|entry| T::entry(&self.filter, entry)).collect();
        if !told.is_empty() {
            self.send(T::entries(self.present().incarnation, told)).await?;
        }
        if let Some(last) = entries.last() {
            self.position = self.position.max(last.index);
        }
        Ok(())
    }

    /// The position, on the wire.
    fn present(&self) -> v1::Position {
        convert::watch::position(self.watches.log.lock().incarnation(), self.position)
    }

    async fn send_progress(&self) -> Result<(), End> {
        self.send(T::progress(self.present(), !self.knows_a_leader())).await
    }

    async fn send(&self, message: T::Message) -> Result<(), End> {
        match tokio::time::timeout(STALL, self.out.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Gone),
            Err(_) => Err(End::Told(error::too_slow())),
        }
    }

    /// Says that events are missing, and how things stand; goes on from there.
    async fn resynchronise(&mut self, reason: Reason) -> Result<(), End> {
        if reason != Reason::Unspecified {
            self.door.coordinator.metrics.watch_resynchronised();
            self.send(T::resynchronise(reason)).await?;
        }
        let turn = tokio::time::timeout(STALL, self.watches.snapshots.clone().acquire_owned()).await;
        let Ok(Ok(_turn)) = turn else { return Err(End::Told(error::overloaded())) };
        let table = self.door.replica.view();
        if let Filter::Lock(lock) = &self.filter {
            // Also when it is free: then it is told who held it last.
            let lock = lock.clone();
            return self.send_snapshot(&table, std::iter::once(&lock)).await;
        }
        self.send_snapshot(&table, table.locks().map(|(name, _)| name)).await
    }

    /// How those of `names` stand that are watched, in parts, and the position of the table.
    async fn send_snapshot<'a>(
        &mut self,
        table: &LockTable,
        names: impl Iterator<Item = &'a LockName> + Send,
    ) -> Result<(), End> {
        let header = table.header();
        let incarnation = header.founding.as_ref().map(|founding| founding.incarnation);
        let position = convert::watch::position(incarnation, header.token_base.at(header.applied));
        let (mut parts, mut bytes) = (Vec::new(), 0);
        for (at, name) in names.enumerate() {
            if at % LOOKS_MAX == LOOKS_MAX - 1 {
                tokio::task::yield_now().await;
            }
            if !self.filter.concerns(name.as_str()) {
                continue;
            }
            bytes += T::stands(table, name, &mut parts);
            if bytes >= SNAPSHOT_PART_BYTES {
                self.send(T::snapshot(std::mem::take(&mut parts), position.clone(), false)).await?;
                bytes = 0;
            }
        }
        self.send(T::snapshot(parts, position.clone(), true)).await?;
        self.position = position.index;
        Ok(())
    }
}

/// Hears what concerns it, until it is dropped.
struct Registered {
    watches: Arc<Watches>,
    watcher: Arc<Watcher>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.watches.unregister(&self.watcher);
    }
}
