//! Reads the feed of one node after the other.

use std::sync::Arc;

use palisade_core::floors::SlotStanding;
use palisade_host::Moment;
use palisade_proto::convert::fence::slot_from;
use palisade_proto::convert::watch::{Filter, position, position_from};
use palisade_proto::v1::fences_client::FencesClient;
use palisade_proto::v1::{self, feed_message::Message};
use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::state::out_of_order;
use super::{LOST_AFTER, Shared};
use crate::nodes::Nodes;

/// Bytes of one message: an entry that ended a session with many locks is told in one.
const MESSAGE_BYTES_MAX: usize = 32 << 20;

pub(super) struct Reader {
    pub(super) nodes: Nodes,
    pub(super) shared: Arc<Shared>,
    /// Of a snapshot that is not complete.
    pub(super) parts: Vec<SlotStanding>,
}

impl Reader {
    pub(super) async fn run(mut self) {
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

fn standings(slots: &[v1::SlotFloor]) -> Result<Vec<SlotStanding>, Status> {
    slots.iter().map(|slot| slot_from(slot).map_err(malformed)).collect()
}

fn malformed(why: impl ToString) -> Status {
    Status::internal(why.to_string())
}
