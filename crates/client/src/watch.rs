//! Watching locks: what happens to them, in log order and without a gap, over whatever node answers (SPEC 10).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use palisade_proto::convert::ErrorName;
use palisade_proto::convert::error::error_of;
pub use palisade_proto::convert::watch::{Filter, From, Position};
use palisade_proto::convert::watch::{position, position_from};
use palisade_proto::v1::watches_client::WatchesClient;
use palisade_proto::v1::{self, resynchronise::Reason, watch_message::Message};
use tokio::time::{Instant, timeout};
use tonic::Streaming;

use crate::client::ClientHandle;
use crate::error::CallError;
use crate::nodes::Nodes;

/// A node says something every second; one that says nothing for so long is left.
const SILENCE: Duration = Duration::from_secs(4);
/// Time for a connection and the answer to a watch. A node that is behind waits for itself meanwhile.
const OPEN_TIMEOUT: Duration = Duration::from_secs(4);
/// Bytes of one message: an entry that ended a session with many locks is told in one.
const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// What a watcher is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Watched {
    /// Everything that one entry of the log did to what is watched. The position is now here.
    Entry(v1::WatchEntry),
    /// How what is watched stands: what is not listed is free. With a reason, events before are missing.
    Snapshot {
        /// Why events are missing; none when the snapshot was asked for.
        missing: Option<Reason>,
        /// Locks that are held, awaited or in lock-delay; a single one that is watched also when it is free.
        locks: Vec<v1::LockView>,
    },
    /// Nothing else happened up to the position.
    Progress,
}

/// A watch that goes on at another node when its own is gone, from the position that it had reached.
///
/// Made by [`Client::watch`](crate::Client::watch). It connects when it is first asked.
pub struct Watch {
    nodes: Nodes,
    filter: Filter,
    /// Where the next stream begins.
    from: From,
    stream: Option<Streaming<v1::WatchMessage>>,
    ready: VecDeque<(Watched, Position)>,
    /// Parts of a snapshot that is not complete.
    parts: Vec<v1::LockView>,
    missing: Option<Reason>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("filter", &self.filter)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

impl Watch {
    pub(crate) fn new(handle: Arc<ClientHandle>, filter: Filter, from: From) -> Self {
        Self {
            nodes: Nodes::new(handle),
            filter,
            from,
            stream: None,
            ready: VecDeque::new(),
            parts: Vec::new(),
            missing: None,
        }
    }

    /// Everything up to here was returned by [`next`](Self::next); none before the first answer of a watch from now.
    pub fn position(&self) -> Option<Position> {
        match self.from {
            From::After(position) => Some(position),
            From::Now | From::Snapshot => None,
        }
    }

    /// Where it watches, or tries to.
    pub fn endpoint(&self) -> &str {
        self.nodes.endpoint()
    }

    /// Leaves the present node: the watch goes on at the next one, from its position.
    pub fn move_on(&mut self) {
        self.stream = None;
        // What was not returned yet is asked for again.
        self.ready.clear();
        self.parts.clear();
        self.missing = None;
        self.nodes.move_on();
    }

    /// The next news. Nothing is lost when the call is dropped before it returns.
    ///
    /// # Errors
    ///
    /// `Unavailable` when no node said anything for the client's request timeout: calling again goes on. `Refused` when
    /// what is watched or the position makes no sense.
    pub async fn next(&mut self) -> Result<Watched, CallError> {
        let until = Instant::now() + self.nodes.handle.settings.request_timeout.max(SILENCE);
        loop {
            if let Some((watched, position)) = self.ready.pop_front() {
                self.from = From::After(position);
                return Ok(watched);
            }
            let failed = match &mut self.stream {
                None => match self.open().await {
                    Ok(stream) => {
                        self.stream = Some(stream);
                        continue;
                    }
                    Err(status) => status,
                },
                Some(stream) => match timeout(SILENCE, stream.message()).await {
                    Ok(Ok(Some(message))) => {
                        self.nodes.heard();
                        self.take(message)?;
                        continue;
                    }
                    Ok(Ok(None)) => tonic::Status::unavailable("the node ended the watch"),
                    Ok(Err(status)) => status,
                    Err(_) => tonic::Status::unavailable("the node fell silent"),
                },
            };
            self.failed(failed, until).await?;
        }
    }

    /// Goes to the next node, unless no node could answer this.
    async fn failed(&mut self, status: tonic::Status, until: Instant) -> Result<(), CallError> {
        if let Some(error) = error_of(&status)
            && ErrorName::parse(&error.name) == Some(ErrorName::BadArgument)
        {
            return Err(CallError::Refused { name: error.name, message: error.message });
        }
        let last = format!("{}: {}", self.endpoint(), status.message());
        tracing::debug!(%last, "watches at another node");
        self.move_on();
        if Instant::now() >= until {
            return Err(CallError::Unavailable { last });
        }
        self.nodes.rest().await;
        Ok(())
    }

    async fn open(&self) -> Result<Streaming<v1::WatchMessage>, tonic::Status> {
        let opening = async {
            let channel = self.nodes.channel()?;
            let mut watches = WatchesClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
            Ok(watches.watch(self.request()).await?.into_inner())
        };
        match timeout(OPEN_TIMEOUT, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(tonic::Status::unavailable("no answer in time")),
        }
    }

    fn request(&self) -> v1::WatchRequest {
        use v1::watch_request::{From as Start, What};
        let what = match &self.filter {
            Filter::Lock(name) => What::Lock(name.as_str().to_owned()),
            Filter::Prefix(prefix) => What::Prefix(prefix.clone()),
        };
        let from = match self.from {
            From::Now => Start::Now(true),
            From::Snapshot => Start::Snapshot(true),
            From::After(at) => Start::After(position(at.incarnation, at.index)),
        };
        v1::WatchRequest { what: Some(what), from: Some(from) }
    }

    fn take(&mut self, message: v1::WatchMessage) -> Result<(), CallError> {
        match message.message {
            Some(Message::Entries(entries)) => {
                for entry in entries.entries {
                    let at = position_of(&entries.incarnation, entry.index)?;
                    self.ready.push_back((Watched::Entry(entry), at));
                }
            }
            Some(Message::Progress(at)) => {
                self.ready.push_back((Watched::Progress, position_of(&at.incarnation, at.index)?));
            }
            Some(Message::Resynchronise(why)) => self.missing = Some(why.reason()),
            Some(Message::Snapshot(part)) => {
                self.parts.extend(part.locks);
                if part.last {
                    let at = part.position.unwrap_or_default();
                    let at = position_of(&at.incarnation, at.index)?;
                    let (missing, locks) = (self.missing.take(), std::mem::take(&mut self.parts));
                    self.ready.push_back((Watched::Snapshot { missing, locks }, at));
                }
            }
            None => {}
        }
        Ok(())
    }
}

fn position_of(incarnation: &str, index: u64) -> Result<Position, CallError> {
    let position = position_from(&v1::Position { incarnation: incarnation.to_owned(), index });
    position.map_err(|bad| CallError::Unavailable { last: bad.to_string() })
}
