//! Object stores as they come: over the in-memory one, with the entity tags and the faults of others.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UpdateVersion,
};
use palisade_core::holding::Holding;
use palisade_core::ids::{LockName, Slot};
use palisade_core::token::Token;
use palisade_fence::adapters::object::ObjectResource;
use palisade_fence::admit::HighWaterMark;
use palisade_fence::conformance::{SigningCluster, Subject, check};
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::verifier::SignedFloor;
use sha2::{Digest, Sha256};

use crate::random_runs;

fn path() -> Path {
    Path::from("orders/manifest")
}

fn run<R>(work: impl Future<Output = R>) -> R {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

/// How a store differs from the in-memory one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Its entity tag is a hash of the content, as with ordinary uploads to some stores.
    TagsOfContent,
    /// It takes every write, whatever the condition.
    IgnoresConditions,
}

struct Store {
    kind: Kind,
    objects: InMemory,
    writing: tokio::sync::Mutex<()>,
    /// The next write takes effect, its answer is lost, and the client's own repetition meets it.
    loses_answer: AtomicBool,
}

impl Store {
    fn new(kind: Kind) -> Arc<Self> {
        let (objects, writing) = (InMemory::new(), tokio::sync::Mutex::new(()));
        Arc::new(Self { kind, objects, writing, loses_answer: AtomicBool::new(false) })
    }

    async fn tag(&self, at: &Path) -> Result<String> {
        let content = self.objects.get(at).await?.bytes().await?;
        Ok(Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[async_trait]
impl ObjectStore for Store {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let _writing = self.writing.lock().await;
        let refused = |why: &str| Error::Precondition { path: at.to_string(), source: why.into() };
        if self.kind == Kind::TagsOfContent {
            match options.mode {
                PutMode::Overwrite => (),
                PutMode::Create if self.objects.head(at).await.is_err() => (),
                PutMode::Create => {
                    return Err(Error::AlreadyExists { path: at.to_string(), source: "it is there".into() });
                }
                PutMode::Update(UpdateVersion { e_tag, .. }) => {
                    if e_tag != Some(self.tag(at).await?) {
                        return Err(refused("another tag"));
                    }
                }
            }
        }
        self.objects.put_opts(at, payload, PutOptions::default()).await?;
        if self.loses_answer.swap(false, Ordering::Relaxed) {
            return Err(refused("the repetition met the first one"));
        }
        Ok(PutResult { e_tag: Some(self.tag(at).await?), version: None, extensions: Default::default() })
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        let _writing = self.writing.lock().await;
        let mut result = self.objects.get_opts(at, options).await?;
        result.meta.e_tag = Some(self.tag(at).await?);
        Ok(result)
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.objects.get_ranges(at, ranges).await
    }

    fn delete_stream(&self, at: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.objects.delete_stream(at)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

struct Lines {
    guard: Guard<ObjectResource>,
    scope: Scope,
    store: Arc<dyn ObjectStore>,
}

fn lines(store: Arc<dyn ObjectStore>, scope: Scope) -> Lines {
    let resource = run(ObjectResource::create(Arc::clone(&store), path())).unwrap();
    Lines { guard: Guard::new(resource, scope.clone()), scope, store }
}

fn with_line(data: &Bytes, line: &str) -> Bytes {
    [data, line.as_bytes(), b"\n"].concat().into()
}

impl Subject for Lines {
    fn claim(&self, holding: &dyn Holding) -> Result<(), FenceError> {
        run(self.guard.claim(holding)).map(drop)
    }

    fn append(&self, holding: &dyn Holding, line: &str) -> Result<(), FenceError> {
        // A crowd gets in one another's way: begin again, as the error says.
        loop {
            match run(self.guard.update(holding, |data| Ok(with_line(data, line)))) {
                Err(FenceError::Contended { .. }) => (),
                outcome => return outcome,
            }
        }
    }

    fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        run(self.guard.raise(floor))
    }

    fn lines(&self) -> Vec<String> {
        let data = run(self.guard.adapter().read()).unwrap();
        String::from_utf8(data.to_vec()).unwrap().lines().map(str::to_owned).collect()
    }

    fn reopen(self) -> Self {
        let resource = run(ObjectResource::open(Arc::clone(&self.store), path())).unwrap();
        Self { guard: Guard::new(resource, self.scope.clone()), ..self }
    }

    fn append_past_the_guard(&self, line: &str) {
        run(async {
            let body = self.store.get(&path()).await.unwrap().bytes().await.unwrap();
            self.store.put(&path(), with_line(&body, line).into()).await.unwrap();
        });
    }

    // The types leave no way; a bucket's policy can ask for conditions, not for tokens.
    fn append_bare(&self, _: &str) -> Option<Result<(), FenceError>> {
        None
    }

    /// The data is uploaded beside, and the object that would name it is not written any more.
    fn die_before_the_commit(self, holding: &dyn Holding, line: &str) -> Option<Self> {
        let at = self.guard.data_path(holding, "0001");
        run(self.store.put(&at, line.to_owned().into_bytes().into())).unwrap();
        Some(self.reopen())
    }

    // Marks and data are one object.
    fn lose_marks(self) -> Option<Self> {
        None
    }
}

#[test]
fn an_object_store_passes() {
    check(|scope| lines(Arc::new(InMemory::new()), scope));
}

#[test]
fn a_store_whose_tags_are_of_the_content_passes() {
    check(|scope| lines(Store::new(Kind::TagsOfContent), scope));
}

#[test]
fn an_object_is_fenced_in_random_runs() {
    random_runs("object store", |scope| lines(Store::new(Kind::TagsOfContent), scope));
}

fn own(store: Arc<dyn ObjectStore>) -> (SigningCluster, Lines) {
    let cluster = SigningCluster::new(1);
    let scope = Scope::new(cluster.id(), LockName::new("a").unwrap());
    (cluster, lines(store, scope))
}

/// The condition alone is not enough: the newer holder wrote the same bytes, the tag is what it was, and the paused
/// holder's condition holds. With the token in the body it does not.
#[test]
fn the_same_bytes_deceive_a_condition_and_not_the_guard() {
    let store = Store::new(Kind::TagsOfContent);
    let (bare, bytes) = (Path::from("bare"), || PutPayload::from_static(b"same"));
    run(async {
        store.put(&bare, bytes()).await.unwrap();
        let seen_before_the_pause = store.head(&bare).await.unwrap().e_tag;
        store.put(&bare, bytes()).await.unwrap();
        let condition = PutMode::Update(UpdateVersion { e_tag: seen_before_the_pause, version: None });
        let stale = PutPayload::from_static(b"stale");
        let options = PutOptions { mode: condition, ..PutOptions::default() };
        assert!(store.put_opts(&bare, stale, options).await.is_ok(), "the tag does not see the write");
    });
    let (cluster, subject) = own(store);
    let (old, new) = (cluster.exclusive("a", 34), cluster.exclusive("a", 41));
    run(async {
        subject.guard.replace(&old, "same").await.unwrap();
        subject.guard.replace(&new, "same").await.unwrap();
        assert!(subject.guard.replace(&old, "stale").await.unwrap_err().is_stale());
    });
    assert_eq!(subject.lines(), ["same"]);
}

/// Between the read and the write of an older holder comes a newer one's claim.
#[test]
fn a_claim_in_between_is_seen_by_the_condition() {
    let (cluster, subject) = own(Store::new(Kind::TagsOfContent));
    let (old, new) = (cluster.exclusive("a", 34), cluster.exclusive("a", 41));
    subject.append(&old, "old").unwrap();
    let mut calls = 0;
    let refused = run(subject.guard.update(&old, |data| {
        calls += 1;
        std::thread::scope(|threads| threads.spawn(|| subject.claim(&new).unwrap()).join().unwrap());
        Ok(with_line(data, "stale"))
    }));
    assert!(refused.unwrap_err().is_stale());
    assert_eq!(calls, 1);
    assert_eq!(subject.lines(), ["old"]);
}

#[test]
fn a_write_whose_answer_was_lost_is_done_once() {
    let store = Store::new(Kind::TagsOfContent);
    let (cluster, subject) = own(Arc::clone(&store) as _);
    store.loses_answer.store(true, Ordering::Relaxed);
    subject.append(&cluster.exclusive("a", 34), "once").unwrap();
    assert!(!store.loses_answer.load(Ordering::Relaxed));
    assert_eq!(subject.lines(), ["once"]);
}

#[test]
fn a_store_that_ignores_conditions_is_refused() {
    let made = run(ObjectResource::create(Store::new(Kind::IgnoresConditions), path()));
    assert!(matches!(made, Err(FenceError::Unfit { .. })), "{made:?}");
}

#[test]
fn an_object_is_made_once_and_a_lost_one_is_not_a_new_one() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let (cluster, subject) = own(Arc::clone(&store));
    let again = run(ObjectResource::create(Arc::clone(&store), path()));
    assert!(matches!(again, Err(FenceError::MarksExist { .. })), "{again:?}");
    subject.append(&cluster.exclusive("a", 34), "kept").unwrap();
    assert_eq!(subject.lines(), ["kept"]);
    run(store.delete(&path())).unwrap();
    assert!(matches!(run(ObjectResource::open(store, path())), Err(FenceError::NoMarks { .. })));
    assert!(matches!(subject.claim(&cluster.exclusive("a", 90)), Err(FenceError::NoMarks { .. })));
}

#[test]
fn damage_admits_nobody() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let (cluster, subject) = own(Arc::clone(&store));
    subject.append(&cluster.exclusive("a", 34), "kept").unwrap();
    let good = run(async { store.get(&path()).await.unwrap().bytes().await.unwrap() });
    let header = good.iter().position(|byte| *byte == b'\n').unwrap();
    let twice = String::from_utf8(good.to_vec()).unwrap().replace("]}", ",{\"cluster\":\"00\"}]}");
    let mut damaged: Vec<Bytes> = (0..=header).map(|end| good.slice(..end)).collect();
    damaged.extend([twice.into(), String::from_utf8(good.to_vec()).unwrap().replace(":34", ":0").into()]);
    for bytes in damaged {
        run(store.put(&path(), bytes.clone().into())).unwrap();
        let refused = subject.claim(&cluster.exclusive("a", 90));
        assert!(matches!(refused, Err(FenceError::Damaged { .. })), "{refused:?} with {bytes:?}");
    }
    run(store.put(&path(), good.into())).unwrap();
    assert!(subject.append(&cluster.exclusive("a", 33), "stale").unwrap_err().is_stale());
}

#[test]
fn a_poisoned_mark_can_be_reset_and_data_paths_bear_the_token() {
    let (cluster, subject) = own(Arc::new(InMemory::new()));
    let lock = LockName::new("a").unwrap();
    let holder = cluster.exclusive("a", 34);
    subject.claim(&cluster.exclusive("a", palisade_core::limits::TOKEN_MAX)).unwrap();
    assert!(subject.claim(&holder).unwrap_err().is_stale());
    let mark = Token::new(34).map(HighWaterMark);
    run(subject.guard.reset_mark(&lock, Slot(0), mark)).unwrap();
    assert_eq!(run(subject.guard.mark(&lock, Slot(0))).unwrap(), mark);
    subject.append(&cluster.exclusive("a", 34), "true holder").unwrap();
    assert_eq!(
        subject.guard.data_path(&holder, "0004").as_ref(),
        "orders/manifest.data/0000000000000034/0004"
    );
}
