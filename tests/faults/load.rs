//! Sessions at work, and what the cluster acknowledged to them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use palisade_client::{AcquireError, Client, LockGuard, ReleaseError};
use palisade_core::ids::AcquisitionId;
use tokio::task::JoinSet;

use crate::live::{Live, PATIENCE, eventually, holder, name};

/// No session ends under the load: a failover takes a small part of this.
const TTL: Duration = Duration::from_secs(60);
/// The lock that all of them want.
const SHARED: &str = "load/shared";

/// What the clients were told.
#[derive(Debug, Default)]
struct Book {
    grants: Vec<(String, u64)>,
    /// The last token of each lock, in the order in which clients learned of it.
    tokens: BTreeMap<String, u64>,
    /// Released, and told so.
    released: BTreeMap<String, Vec<AcquisitionId>>,
    wrong: Vec<String>,
}

impl Book {
    fn granted(&mut self, guard: &LockGuard) {
        let (lock, token) = (guard.lock().as_str().to_owned(), guard.token().get());
        self.grants.push((lock.clone(), token));
        if let Some(before) = self.tokens.insert(lock.clone(), token)
            && token <= before
        {
            self.wrong.push(format!("{lock}: token {token} after {before}"));
        }
    }
}

/// Workers that acquire and release, and keepers that hold.
pub(crate) struct Load {
    client: Client,
    book: Arc<Mutex<Book>>,
    stop: Arc<AtomicBool>,
    workers: JoinSet<()>,
    kept: Vec<LockGuard>,
}

impl Load {
    /// `workers` sessions that take a lock of their own and the one that all want by turns, and `keepers` that hold.
    pub(crate) async fn start(live: &Live, workers: usize, keepers: usize) -> Self {
        let client = live.client(TTL);
        let mut load = Self {
            client,
            book: Arc::default(),
            stop: Arc::default(),
            workers: JoinSet::new(),
            kept: Vec::new(),
        };
        for keeper in 0..keepers {
            let session = load.client.open_session().await.unwrap();
            let guard = session.lock(name(&format!("load/kept/{keeper}"))).acquire().await.unwrap();
            load.book.lock().unwrap().granted(&guard);
            load.kept.push(guard);
        }
        for worker in 0..workers {
            let (client, book, stop) = (load.client.clone(), load.book.clone(), load.stop.clone());
            load.workers.spawn(async move { work(&client, worker, &book, &stop).await });
        }
        load.progress().await;
        load
    }

    pub(crate) fn grants(&self) -> usize {
        self.book.lock().unwrap().grants.len()
    }

    /// Every grant that was acknowledged: lock and token.
    pub(crate) fn granted(&self) -> Vec<(String, u64)> {
        self.book.lock().unwrap().grants.clone()
    }

    /// Waits until it is granted something that it asked for after now, by every worker's measure.
    pub(crate) async fn progress(&self) {
        // Each worker has one request under way at most; what exceeds that was asked later.
        let enough = self.grants() + 2 * self.workers.len() + 10;
        eventually("the load goes on", async || (self.grants() >= enough).then_some(())).await;
    }

    /// What was acknowledged is so: what is held is held by the same acquisition under the same token, and nothing
    /// that was released is held by who released it.
    pub(crate) async fn check(&self) {
        for guard in &self.kept {
            let view = self.client.lock_view(guard.lock()).await.unwrap();
            let (acquisition, token) = holder(&view).unwrap_or_else(|| panic!("not held: {view:?}"));
            assert_eq!(acquisition.session, guard.acquisition().session.0, "{view:?}");
            assert_eq!(acquisition.number, guard.acquisition().number.0, "{view:?}");
            assert_eq!(token, guard.token().get(), "{view:?}");
            guard.check().unwrap();
        }
        let released = self.book.lock().unwrap().released.clone();
        for (lock, acquisitions) in released {
            let view = self.client.lock_view(&name(&lock)).await.unwrap();
            if let Some((holder, _)) = holder(&view) {
                let back = acquisitions
                    .iter()
                    .any(|gone| (gone.session.0, gone.number.0) == (holder.session, holder.number));
                assert!(!back, "released, and held again: {view:?}");
            }
        }
        let book = self.book.lock().unwrap();
        assert!(book.wrong.is_empty(), "{:?}", book.wrong);
    }

    /// Lets the workers finish; every lock but the kept ones is free then.
    pub(crate) async fn finish(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let all = async { while self.workers.join_next().await.is_some_and(|ended| ended.is_ok()) {} };
        tokio::time::timeout(PATIENCE, all).await.expect("the workers finish");
        self.check().await;
        let locks = self.book.lock().unwrap().released.keys().cloned().collect::<Vec<_>>();
        for lock in locks {
            let view = self.client.lock_view(&name(&lock)).await.unwrap();
            assert_eq!(holder(&view), None, "{view:?}");
        }
        for guard in self.kept {
            guard.release().await.unwrap();
        }
        self.client.close().await;
    }
}

async fn work(client: &Client, worker: usize, book: &Mutex<Book>, stop: &AtomicBool) {
    let session = client.open_session().await.unwrap();
    let own = format!("load/own/{worker}");
    for round in 0_usize.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let lock = if round % 3 == 2 { SHARED } else { &own };
        let guard = match session.lock(name(lock)).acquire().await {
            Ok(guard) => guard,
            // Undecided within the client's patience: it is cancelled in the background.
            Err(AcquireError::Unavailable { .. }) => continue,
            Err(error) => {
                book.lock().unwrap().wrong.push(format!("{lock}: {error}"));
                return;
            }
        };
        book.lock().unwrap().granted(&guard);
        let acquisition = guard.acquisition();
        match guard.release().await {
            Ok(_) => {
                let mut book = book.lock().unwrap();
                let gone = book.released.entry(lock.to_owned()).or_default();
                gone.push(acquisition);
                // The last few could come back; the older ones are proved by what came after them.
                if gone.len() > 64 {
                    gone.remove(0);
                }
            }
            Err(ReleaseError::Unavailable) => {}
            Err(error) => {
                book.lock().unwrap().wrong.push(format!("{lock}: {error}"));
                return;
            }
        }
    }
}
