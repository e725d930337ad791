//! An engine whose writes happen on a thread of their own: what engines on disk have in common.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::flusher::{Flusher, Op, Store, Write};
use super::{Done, Engine, Identity, LogPoint, Record, Recovered, SavedVote};
use crate::error::OpenError;
use crate::flush_meter::FlushMeter;

/// Operations that wait for the flusher. Admission bounds the bytes behind them long before.
const QUEUE: usize = 16_384;

/// Reads what is durable.
pub(super) trait Reader: Send + Sync + 'static {
    /// See [`Engine::read`].
    fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>>;
}

/// A store that was opened, with what it held.
pub(super) struct Opened<S, R> {
    pub(super) store: S,
    pub(super) reader: R,
    /// For messages.
    pub(super) place: PathBuf,
    pub(super) identity: Option<Identity>,
    pub(super) recovered: Recovered,
    pub(super) flushes: Arc<FlushMeter>,
}

struct Threaded<R> {
    ops: SyncSender<Op>,
    thread: Mutex<Option<JoinHandle<()>>>,
    reader: Mutex<Option<Arc<R>>>,
    place: PathBuf,
    identity: Mutex<Option<Identity>>,
    recovered: Mutex<Option<Recovered>>,
    flushes: Arc<FlushMeter>,
    failed: watch::Receiver<Option<String>>,
}

/// Starts the thread that writes.
pub(super) fn start<S: Store, R: Reader>(
    dir: &Path,
    opened: Opened<S, R>,
) -> Result<Arc<dyn Engine>, OpenError> {
    let Opened { store, reader, place, identity, recovered, flushes } = opened;
    let (fail, failed) = watch::channel(None);
    let (ops, queue) = sync_channel(QUEUE);
    let flusher = Flusher::new(store, fail);
    let thread = std::thread::Builder::new()
        .name("flusher".into())
        .spawn(move || flusher.run(&queue))
        .map_err(|source| OpenError::io(dir, source))?;
    Ok(Arc::new(Threaded {
        ops,
        thread: Mutex::new(Some(thread)),
        reader: Mutex::new(Some(Arc::new(reader))),
        place,
        identity: Mutex::new(identity),
        recovered: Mutex::new(Some(recovered)),
        flushes,
        failed,
    }))
}

impl<R> Threaded<R> {
    fn ask(&self, write: Write, done: Option<Done>) {
        // The flusher is gone after `close` alone; an unsent operation then reports its end.
        if let Err(unsent) = self.ops.send(Op::Write(write, done)) {
            unsent.0.fail("the log was closed");
        }
    }

    fn end(&self) {
        self.reader.lock().take();
        // A flusher that is gone has closed already.
        let _ = self.ops.send(Op::Close);
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the flusher was reported through `failed`.
            let _ = thread.join();
        }
    }
}

impl<R: Reader> Engine for Threaded<R> {
    fn place(&self) -> PathBuf {
        self.place.clone()
    }

    fn identity(&self) -> Option<Identity> {
        self.identity.lock().clone()
    }

    fn load(&self) -> Result<Recovered, OpenError> {
        let recovered = self.recovered.lock().take();
        recovered.ok_or_else(|| OpenError::io(&self.place, io::Error::other("the log was loaded before")))
    }

    fn append(&self, first: u64, records: Vec<Record>, done: Done) {
        self.ask(Write::Append { first, records }, Some(done));
    }

    fn truncate_after(&self, last: Option<u64>) {
        self.ask(Write::Truncate { last }, None);
    }

    fn purge_to(&self, point: LogPoint) {
        self.ask(Write::Purge { point }, None);
    }

    fn save_vote(&self, vote: SavedVote, done: Done) {
        self.ask(Write::Vote(vote), Some(done));
    }

    fn save_committed(&self, committed: Option<LogPoint>) {
        self.ask(Write::Committed(committed), None);
    }

    fn save_identity(&self, identity: Identity, done: Done) {
        *self.identity.lock() = Some(identity.clone());
        self.ask(Write::Identity(Box::new(identity)), Some(done));
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>> {
        let reader = self.reader.lock().clone().ok_or_else(|| io::Error::other("the log was closed"))?;
        reader.read(range, bytes_max)
    }

    fn blocks(&self) -> bool {
        true
    }

    fn flushes(&self) -> &FlushMeter {
        &self.flushes
    }

    fn failed(&self) -> watch::Receiver<Option<String>> {
        self.failed.clone()
    }

    fn close(&self) {
        self.end();
    }
}

impl<R> Drop for Threaded<R> {
    fn drop(&mut self) {
        self.end();
    }
}
