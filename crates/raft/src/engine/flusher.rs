//! The one thread that writes: groups what waits, has it written and flushed once, and only then reports.
//!
//! There is no lingering: the flush before is the window in which a group gathers. What a store makes of a group is its
//! own; that the first failure is final, and that nothing is reported before its flush, is decided here.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Receiver;

use tokio::sync::watch;

use super::{Done, Identity, LogPoint, Record, SavedVote};

/// Something to write.
pub(super) enum Write {
    Append { first: u64, records: Vec<Record> },
    Truncate { last: Option<u64> },
    Purge { point: LogPoint },
    Vote(SavedVote),
    Committed(Option<LogPoint>),
    Identity(Box<Identity>),
}

/// What waits for the flusher.
pub(super) enum Op {
    Write(Write, Option<Done>),
    Close,
}

impl Op {
    /// Reports that it did not happen.
    pub(super) fn fail(self, why: &str) {
        if let Self::Write(_, Some(done)) = self {
            done(Err(io::Error::other(why.to_owned())));
        }
    }
}

/// Where groups go.
pub(super) trait Store: Send + 'static {
    /// Takes something up; it is durable after the next [`commit`](Self::commit).
    fn take(&mut self, write: Write) -> io::Result<()>;

    /// Whether the group is as large as one should be.
    fn is_full(&self) -> bool;

    /// Makes durable what was taken up.
    fn commit(&mut self) -> io::Result<()>;

    /// It has failed: nothing of it may be written or flushed any more, not even when it is dropped.
    fn abandon(&mut self) {}
}

pub(super) struct Flusher<S> {
    store: S,
    dones: Vec<Done>,
    fail: watch::Sender<Option<String>>,
    failed: Option<String>,
}

impl<S: Store> Flusher<S> {
    pub(super) fn new(store: S, fail: watch::Sender<Option<String>>) -> Self {
        Self { store, dones: Vec::new(), fail, failed: None }
    }

    pub(super) fn run(mut self, queue: &Receiver<Op>) {
        while let Ok(op) = queue.recv() {
            let mut closing = false;
            let mut next = Some(op);
            while let Some(op) = next {
                match (op, &self.failed) {
                    (Op::Close, _) => closing = true,
                    (Op::Write(write, done), None) => {
                        self.dones.extend(done);
                        self.guard(|store| store.take(write));
                    }
                    (op, Some(why)) => op.fail(why),
                }
                let full = self.failed.is_none() && self.store.is_full();
                next = if full || closing { None } else { queue.try_recv().ok() };
            }
            // What rides on a flush waits for one; closing is the last chance.
            if self.failed.is_none() && (closing || !self.dones.is_empty()) {
                self.guard(S::commit);
            }
            self.report();
            if closing {
                return;
            }
        }
    }

    /// Runs `step`. Its failure is final.
    fn guard(&mut self, step: impl FnOnce(&mut S) -> io::Result<()>) {
        let why = match catch_unwind(AssertUnwindSafe(|| step(&mut self.store))) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("the log could not be written: {error}"),
            Err(_) => "the log could not be written: the store gave up".to_owned(),
        };
        tracing::error!(why, "storage failed");
        self.store.abandon();
        self.fail.send_replace(Some(why.clone()));
        self.failed = Some(why);
    }

    fn report(&mut self) {
        for done in self.dones.drain(..) {
            done(match &self.failed {
                None => Ok(()),
                Some(why) => Err(io::Error::other(why.clone())),
            });
        }
    }
}
