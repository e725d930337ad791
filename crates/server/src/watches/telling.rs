//! In which words a stream tells what happened: a watch's, or a fence feed's.

use palisade_core::floors::{SlotStanding, Standing};
use palisade_core::ids::LockName;
use palisade_core::table::LockTable;
use palisade_proto::convert;
use palisade_proto::convert::watch::Filter;
use palisade_proto::v1::{self, feed_message, resynchronise::Reason, watch_message};

use super::log::Happened;

/// The words of one kind of stream.
pub(crate) trait Telling: Send + 'static {
    /// What is sent.
    type Message: Send + 'static;
    /// One entry of the log.
    type Entry: Send;
    /// One thing of a snapshot.
    type Part: Send + Sync;
    /// Whether a node that knows no leader ends such streams after a while.
    const ENDS_WITHOUT_LEADER: bool;
    /// Whether it says at once after which position it goes on. Who takes each mark for news of now must not be told so.
    const SAYS_WHERE_IT_BEGINS: bool;

    /// What an entry did, where any of it is of what is asked for.
    fn entry(filter: &Filter, entry: &Happened) -> Option<Self::Entry>;
    fn entries(incarnation: String, entries: Vec<Self::Entry>) -> Self::Message;
    fn resynchronise(reason: Reason) -> Self::Message;
    /// Nothing else happened up to here.
    fn progress(position: v1::Position, cut_off: bool) -> Self::Message;
    /// Adds how a lock stands, and tells about how many bytes that is.
    fn stands(table: &LockTable, lock: &LockName, parts: &mut Vec<Self::Part>) -> usize;
    fn snapshot(parts: Vec<Self::Part>, position: v1::Position, last: bool) -> Self::Message;
}

/// Everything that happens to locks (SPEC 10).
pub(crate) struct Watching;

impl Telling for Watching {
    type Message = v1::WatchMessage;
    type Entry = v1::WatchEntry;
    type Part = v1::LockView;
    const ENDS_WITHOUT_LEADER: bool = true;
    const SAYS_WHERE_IT_BEGINS: bool = true;

    fn entry(filter: &Filter, entry: &Happened) -> Option<v1::WatchEntry> {
        let watched = entry.events.iter().filter(|event| filter.concerns(event.lock.as_str()));
        let events: Vec<_> = watched.map(convert::watch::event).collect();
        (!events.is_empty()).then_some(v1::WatchEntry { index: entry.index, wall_us: entry.wall.0, events })
    }

    fn entries(incarnation: String, entries: Vec<v1::WatchEntry>) -> v1::WatchMessage {
        watched(watch_message::Message::Entries(v1::WatchEntries { incarnation, entries }))
    }

    fn resynchronise(reason: Reason) -> v1::WatchMessage {
        watched(watch_message::Message::Resynchronise(v1::Resynchronise { reason: reason.into() }))
    }

    fn progress(position: v1::Position, _: bool) -> v1::WatchMessage {
        watched(watch_message::Message::Progress(position))
    }

    fn stands(table: &LockTable, lock: &LockName, parts: &mut Vec<v1::LockView>) -> usize {
        let header = table.header();
        let view = convert::cluster::lock_view(&table.view(lock), header.token_base, header.applied);
        let bytes = convert::cluster::size(&view);
        parts.push(view);
        bytes
    }

    fn snapshot(locks: Vec<v1::LockView>, position: v1::Position, last: bool) -> v1::WatchMessage {
        watched(watch_message::Message::Snapshot(v1::LockSnapshot { locks, position: Some(position), last }))
    }
}

fn watched(message: watch_message::Message) -> v1::WatchMessage {
    v1::WatchMessage { message: Some(message) }
}

/// What moves floors (SPEC 7), and which delays ask guards to confirm one (SPEC 5).
pub(crate) struct Feeding;

impl Telling for Feeding {
    type Message = v1::FeedMessage;
    type Entry = v1::FeedEntry;
    type Part = v1::SlotFloor;
    const ENDS_WITHOUT_LEADER: bool = false;
    const SAYS_WHERE_IT_BEGINS: bool = false;

    fn entry(filter: &Filter, entry: &Happened) -> Option<v1::FeedEntry> {
        let moved = entry.slots.iter().filter(|stands| filter.concerns(stands.lock.as_str()));
        let slots: Vec<_> = moved.map(convert::fence::slot).collect();
        (!slots.is_empty()).then_some(v1::FeedEntry { index: entry.index, slots })
    }

    fn entries(incarnation: String, entries: Vec<v1::FeedEntry>) -> v1::FeedMessage {
        fed(feed_message::Message::Entries(v1::FeedEntries { incarnation, entries }))
    }

    fn resynchronise(reason: Reason) -> v1::FeedMessage {
        fed(feed_message::Message::Resynchronise(v1::Resynchronise { reason: reason.into() }))
    }

    fn progress(position: v1::Position, cut_off: bool) -> v1::FeedMessage {
        fed(feed_message::Message::Mark(v1::FeedMark { position: Some(position), cut_off }))
    }

    fn stands(table: &LockTable, lock: &LockName, parts: &mut Vec<v1::SlotFloor>) -> usize {
        let mut bytes = 0;
        let slots = table.lock(lock).into_iter().flat_map(|lock| lock.slots.keys());
        for slot in slots {
            let standing = Standing::of(table, lock, *slot);
            if standing == Standing::Open {
                continue;
            }
            let stands = SlotStanding { lock: lock.clone(), slot: *slot, standing };
            let wire = convert::fence::slot(&stands);
            bytes += wire.lock.len() + wire.guards.iter().map(String::len).sum::<usize>() + SLOT_BYTES;
            parts.push(wire);
        }
        bytes
    }

    fn snapshot(slots: Vec<v1::SlotFloor>, position: v1::Position, last: bool) -> v1::FeedMessage {
        fed(feed_message::Message::Snapshot(v1::FeedSnapshot { slots, position: Some(position), last }))
    }
}

/// Of a slot in a message, beside its names.
const SLOT_BYTES: usize = 40;

fn fed(message: feed_message::Message) -> v1::FeedMessage {
    v1::FeedMessage { message: Some(message) }
}
