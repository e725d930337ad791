//! The one queue through which a client stream gets answers, late grants and news of the leader.
//!
//! Filled from the apply loop in log order, drained by the transport. Filling never blocks and never fails: room for
//! answers is bounded by the stream's window, room for late grants by what the client itself waits for. What else may
//! come (news that somebody queues) is dropped when the client does not read.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use palisade_proto::v1::{self, ServerFrame};
use parking_lot::Mutex;

/// Items of one frame at most.
const FRAME_ITEMS_MAX: usize = 1_024;
/// Above this, hints are dropped; far above it the client is gone in all but name, and its stream is cut.
const HINTS_MAX: usize = 8_192;
/// A client that leaves so much unread is cut off.
const ITEMS_MAX: usize = 1 << 20;
/// And so many answers to keepalives: one is under way at a time, and repeated now and then.
const RENEWED_MAX: usize = 1_024;

/// Where answers of one client stream go, here or through the node that relayed it.
pub(crate) trait Deliver: Send + Sync {
    /// An answer or an event, in log order.
    fn item(&self, item: v1::Item);
    /// Something that may be dropped.
    fn hint(&self, item: v1::Item);
    /// The answer to a keepalive.
    fn renewed(&self, renewed: v1::Renewed);
}

/// The queue of a stream of this node.
#[derive(Default)]
pub(crate) struct ClientQueue {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    items: VecDeque<v1::Item>,
    renewed: VecDeque<v1::Renewed>,
    leader: Option<v1::Leader>,
    window: u32,
    ended: Option<tonic::Status>,
    finished: bool,
    /// Responses handed to the transport since they were last counted.
    answered: usize,
    waker: Option<Waker>,
}

impl ClientQueue {
    /// With the first frame: window and leader.
    pub(crate) fn new(window: u32, leader: v1::Leader) -> Self {
        let inner = Inner { window, leader: Some(leader), ..Inner::default() };
        Self { inner: Mutex::new(inner) }
    }

    /// News of the leader; everything unanswered is to be asked again, so what was queued for it is void.
    pub(crate) fn leader(&self, leader: v1::Leader) {
        self.with(|inner| inner.leader = Some(leader));
    }

    /// Ends the stream, after what is queued.
    pub(crate) fn end(&self, status: tonic::Status) {
        self.with(|inner| inner.ended = Some(status));
    }

    fn with(&self, change: impl FnOnce(&mut Inner)) {
        let waker = {
            let mut inner = self.inner.lock();
            change(&mut inner);
            let unread = inner.items.len() > ITEMS_MAX || inner.renewed.len() > RENEWED_MAX;
            if unread && inner.ended.is_none() {
                inner.items.clear();
                inner.renewed.clear();
                let words = "the client leaves its answers unread; the stream is cut";
                inner.ended = Some(tonic::Status::resource_exhausted(words));
            }
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next frame; none at the end.
    pub(crate) fn poll_frame(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<ServerFrame, tonic::Status>>> {
        let mut inner = self.inner.lock();
        if inner.finished {
            return Poll::Ready(None);
        }
        let mut frame = ServerFrame { window: std::mem::take(&mut inner.window), ..ServerFrame::default() };
        // News of the leader stands alone: what is in the same frame would be ambiguous.
        frame.leader = inner.leader.take();
        if frame.leader.is_some() {
            return Poll::Ready(Some(Ok(frame)));
        }
        frame.renewed = inner.renewed.pop_front();
        let count = inner.items.len().min(FRAME_ITEMS_MAX);
        frame.items = inner.items.drain(..count).collect();
        if frame.renewed.is_some() || !frame.items.is_empty() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(status) = inner.ended.take() {
            inner.finished = true;
            return Poll::Ready(if status.code() == tonic::Code::Ok { None } else { Some(Err(status)) });
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// How many responses came since the last call.
    pub(crate) fn take_answered(&self) -> usize {
        std::mem::take(&mut self.inner.lock().answered)
    }
}

impl Deliver for ClientQueue {
    fn item(&self, item: v1::Item) {
        self.with(|inner| {
            inner.answered += usize::from(matches!(item.item, Some(v1::item::Item::Response(_))));
            inner.items.push_back(item);
        });
    }

    fn hint(&self, item: v1::Item) {
        self.with(|inner| {
            if inner.items.len() < HINTS_MAX {
                inner.items.push_back(item);
            }
        });
    }

    fn renewed(&self, renewed: v1::Renewed) {
        self.with(|inner| inner.renewed.push_back(renewed));
    }
}

/// The transport's end of a queue.
pub(crate) struct Frames {
    pub(crate) queue: std::sync::Arc<ClientQueue>,
    /// Ends the stream's other half when the transport lets go.
    pub(crate) _open: tokio_util::sync::DropGuard,
}

impl futures_util::Stream for Frames {
    type Item = Result<ServerFrame, tonic::Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.queue.poll_frame(context)
    }
}
