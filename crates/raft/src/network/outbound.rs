//! What goes to a follower, paced: a message is the dearest part of an append, its bytes are not.
//!
//! openraft makes a request of everything that is there when it is asked for the next one. So it is asked only while
//! few requests are unanswered, and what comes meanwhile goes out together. A request that tells nothing but how far
//! all is committed waits a moment for entries that would carry the news.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::stream::Fuse;
use futures_util::{FutureExt, Stream, StreamExt};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use crate::types::AppendRequest;

/// Requests that may be unanswered before another one is made: one on the disk of the follower, one on its way.
const UNANSWERED_MAX: usize = 2;
/// How long the news of a commit alone may wait: longer than a busy log leaves between two entries, and far shorter
/// than anything at a follower waits for.
const NEWS_WAIT: Duration = Duration::from_millis(2);

/// When each unanswered request was sent.
#[derive(Clone, Default)]
pub(crate) struct Unanswered(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    sent: VecDeque<Instant>,
    waker: Option<Waker>,
}

impl Unanswered {
    fn sent(&self) {
        self.0.lock().sent.push_back(Instant::now());
    }

    /// The oldest was answered.
    pub(crate) fn answered(&self) {
        let mut inner = self.0.lock();
        inner.sent.pop_front();
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// When the oldest was sent.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.0.lock().sent.front().copied()
    }

    /// Whether another may be made; if not, wakes when it may.
    fn has_room(&self, context: &Context<'_>) -> bool {
        let mut inner = self.0.lock();
        if inner.sent.len() < UNANSWERED_MAX {
            return true;
        }
        inner.waker = Some(context.waker().clone());
        false
    }
}

/// Requests for one follower.
pub(crate) struct Outbound<S> {
    input: Fuse<S>,
    unanswered: Unanswered,
    /// Nothing but the news of a commit, and until when it waits.
    news: Option<(AppendRequest, Pin<Box<Sleep>>)>,
}

impl<S: Stream<Item = AppendRequest> + Unpin> Outbound<S> {
    pub(crate) fn new(input: S, unanswered: Unanswered) -> Self {
        Self { input: input.fuse(), unanswered, news: None }
    }

    fn send(&mut self, request: AppendRequest) -> Poll<Option<AppendRequest>> {
        self.unanswered.sent();
        Poll::Ready(Some(request))
    }
}

impl<S: Stream<Item = AppendRequest> + Unpin> Stream for Outbound<S> {
    type Item = AppendRequest;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AppendRequest>> {
        let this = &mut *self;
        loop {
            if !this.unanswered.has_room(context) {
                return Poll::Pending;
            }
            match this.input.poll_next_unpin(context) {
                Poll::Ready(Some(request)) if request.entries.is_empty() => {
                    // The newer news; the time of the older.
                    let wait = this.news.take().map(|(_, wait)| wait);
                    let wait = wait.unwrap_or_else(|| Box::pin(tokio::time::sleep(NEWS_WAIT)));
                    this.news = Some((request, wait));
                }
                Poll::Ready(Some(request)) => {
                    this.news = None;
                    return this.send(request);
                }
                Poll::Ready(None) => {
                    return match this.news.take() {
                        Some((request, _)) => this.send(request),
                        None => Poll::Ready(None),
                    };
                }
                Poll::Pending => {
                    let Some((_, wait)) = &mut this.news else { return Poll::Pending };
                    if wait.poll_unpin(context).is_pending() {
                        return Poll::Pending;
                    }
                    let Some((request, _)) = this.news.take() else { return Poll::Pending };
                    return this.send(request);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use futures_util::stream;
    use openraft::entry::RaftEntry as _;

    use super::*;
    use crate::types::{Entry, Vote, log_id};

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn request(entries: u64, commit: u64) -> AppendRequest {
        let entries = (1..=entries).map(|index| Entry::new_blank(log_id(1, index))).collect();
        AppendRequest {
            vote: Vote::new_committed(1, 1),
            prev_log_id: None,
            entries,
            leader_commit: Some(log_id(1, commit)),
        }
    }

    fn committed(polled: Poll<Option<AppendRequest>>) -> Option<u64> {
        match polled {
            Poll::Ready(Some(request)) => request.leader_commit.map(|id| id.index),
            Poll::Ready(None) | Poll::Pending => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_a_few_are_unanswered() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let unanswered = Unanswered::default();
        let input = stream::iter((1..=3).map(|commit| request(1, commit)));
        let mut outbound = Outbound::new(input, unanswered.clone());
        assert_eq!(committed(outbound.poll_next_unpin(&mut context)), Some(1));
        assert_eq!(committed(outbound.poll_next_unpin(&mut context)), Some(2));
        assert!(outbound.poll_next_unpin(&mut context).is_pending());
        unanswered.answered();
        assert!(woken.0.load(Ordering::Relaxed));
        assert_eq!(committed(outbound.poll_next_unpin(&mut context)), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn news_of_a_commit_wait_for_entries_and_not_for_long() {
        let (send, receive) = tokio::sync::mpsc::unbounded_channel();
        let input = Box::pin(stream::unfold(receive, |mut receive| async move {
            receive.recv().await.map(|request| (request, receive))
        }));
        let unanswered = Unanswered::default();
        let mut outbound = Outbound::new(input, unanswered.clone());
        let mut next = async || {
            let sent = outbound.next().await?;
            unanswered.answered();
            Some((sent.entries.len(), sent.leader_commit))
        };
        send.send(request(0, 1)).expect("it listens");
        send.send(request(0, 2)).expect("it listens");
        send.send(request(1, 2)).expect("it listens");
        let began = Instant::now();
        assert_eq!(next().await, Some((1, Some(log_id(1, 2)))));
        assert_eq!(began.elapsed(), Duration::ZERO);
        send.send(request(0, 3)).expect("it listens");
        assert_eq!(next().await, Some((0, Some(log_id(1, 3)))));
        assert!(began.elapsed() >= NEWS_WAIT);
        send.send(request(0, 4)).expect("it listens");
        drop(send);
        assert_eq!(next().await, Some((0, Some(log_id(1, 4)))));
        assert_eq!(next().await, None);
    }
}
