//! An object in an object store: marks and data in one body, replaced by conditional writes.
//!
//! The token is in the body, never in metadata alone: where an entity tag is a hash of the content, a newer holder that
//! writes the same bytes would otherwise leave the tag as it was, and a stale condition would hold. The body also counts
//! its writes, so that no two bodies are equal.
//!
//! Whole objects are read and written: keep a small one, which names others under [`Guard::data_path`]. Leaves out stores
//! that do not know conditions, or ignore them: [`ObjectResource::create`] tries.

mod body;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};
use palisade_core::holding::Holding;
use palisade_core::ids::{LockName, Slot};

use self::body::Body;
use crate::admit::{HighWaterMark, decide};
use crate::error::FenceError;
use crate::guard::{Act, Checked, Guard, floor_of, raised};
use crate::verifier::SignedFloor;

/// How often a write begins again because another came in between.
const ATTEMPTS: u32 = 16;

/// One object and the marks in it.
pub struct ObjectResource {
    store: Arc<dyn ObjectStore>,
    path: Path,
}

/// The object as it was read, and what it must still be when it is replaced.
struct Seen {
    body: Body,
    version: UpdateVersion,
}

impl ObjectResource {
    /// A new object, with empty data. Refuses a store that ignores the conditions of a write: it could not fence.
    pub async fn create(store: Arc<dyn ObjectStore>, path: Path) -> Result<Self, FenceError> {
        let object = Self { store, path };
        let mut body = Body::default();
        match object.put(&body, PutMode::Create).await? {
            None => return Err(FenceError::MarksExist { store: object.named() }),
            Some(first) => {
                let again = object.put(&body, PutMode::Create).await?;
                body.writes += 1;
                let second = object.put(&body, PutMode::Update(first.clone())).await?;
                body.writes += 1;
                let stale = object.put(&body, PutMode::Update(first)).await?;
                if again.is_some() || second.is_none() || stale.is_some() {
                    let reason = "it ignores the conditions of a write".to_owned();
                    return Err(FenceError::Unfit { store: object.named(), reason });
                }
            }
        }
        Ok(object)
    }

    /// An object that was used before. Refuses one that is not there: its marks are gone with it.
    pub async fn open(store: Arc<dyn ObjectStore>, path: Path) -> Result<Self, FenceError> {
        let object = Self { store, path };
        object.get().await?;
        Ok(object)
    }

    /// Reads without a claim: for those who do not go on to write.
    pub async fn read(&self) -> Result<Bytes, FenceError> {
        Ok(self.get().await?.body.data)
    }

    async fn get(&self) -> Result<Seen, FenceError> {
        let reading = |error| match error {
            Error::NotFound { .. } => FenceError::NoMarks { store: self.named() },
            error => FenceError::storage(format!("reading {}", self.named()), error),
        };
        let object = self.store.get(&self.path).await.map_err(reading)?;
        let version =
            UpdateVersion { e_tag: object.meta.e_tag.clone(), version: object.meta.version.clone() };
        let bytes = object.bytes().await.map_err(reading)?;
        let body =
            Body::decode(bytes).map_err(|reason| FenceError::Damaged { store: self.named(), reason })?;
        Ok(Seen { body, version })
    }

    /// None where the condition does not hold.
    async fn put(&self, body: &Body, mode: PutMode) -> Result<Option<UpdateVersion>, FenceError> {
        let writing = |error: Box<dyn std::error::Error + Send + Sync>| {
            FenceError::storage(format!("writing {}", self.named()), error)
        };
        let bytes = body.encode().map_err(|error| writing(error.into()))?;
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.store.put_opts(&self.path, bytes.into(), options).await {
            Ok(put) => Ok(Some(put.into())),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotFound { .. }) => {
                Ok(None)
            }
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
                let reason = "it knows no conditional writes".to_owned();
                Err(FenceError::Unfit { store: self.named(), reason })
            }
            Err(error) => Err(writing(error.into())),
        }
    }

    /// Changes the body until the store takes it as what follows the one that was read.
    async fn change<R>(
        &self,
        mut change: impl FnMut(&mut Body) -> Result<R, FenceError>,
    ) -> Result<R, FenceError> {
        let mut tried: Option<(Body, R)> = None;
        for _ in 0..ATTEMPTS {
            let Seen { mut body, version } = self.get().await?;
            // A client that repeats a write whose answer was lost meets its own.
            if let Some((_, done)) = tried.take_if(|(tried, _)| *tried == body) {
                return Ok(done);
            }
            let done = change(&mut body)?;
            body.writes += 1;
            if self.put(&body, PutMode::Update(version)).await?.is_some() {
                return Ok(done);
            }
            tried = Some((body, done));
        }
        Err(FenceError::Contended { store: self.named() })
    }

    fn named(&self) -> String {
        format!("the object {}", self.path)
    }
}

impl fmt::Debug for ObjectResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectResource").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Guard<ObjectResource> {
    /// Raises the mark, in either mode, and changes no data; gives the data, which can no longer change behind this
    /// holder's back.
    pub async fn claim(&self, holding: &(impl Holding + ?Sized)) -> Result<Bytes, FenceError> {
        self.admit(holding, Act::Claim, |data| Ok(data.clone())).await
    }

    /// Puts `data` in the place of what is there.
    pub async fn replace(
        &self,
        holding: &(impl Holding + ?Sized),
        data: impl Into<Bytes>,
    ) -> Result<(), FenceError> {
        let data = data.into();
        self.update(holding, |_| Ok(data.clone())).await
    }

    /// Puts what `update` makes of the data in its place. Called again where another write came in between.
    pub async fn update(
        &self,
        holding: &(impl Holding + ?Sized),
        mut update: impl FnMut(&Bytes) -> Result<Bytes, FenceError>,
    ) -> Result<(), FenceError> {
        let updated = |data: &mut Bytes| {
            *data = update(data)?;
            Ok(())
        };
        self.admit(holding, Act::Write, updated).await
    }

    /// Where a holder puts a further object that its data will name: nobody else writes below it, for it has the token. Not
    /// fenced by itself: it is visible once the guarded object names it.
    pub fn data_path(&self, holding: &(impl Holding + ?Sized), name: &str) -> Path {
        let object = &self.adapter().path;
        Path::from(format!("{object}.data/{:016}/{name}", holding.token().get()))
    }

    /// Raises the mark to a floor that the cluster signed, unless it is higher already, and says what it is then.
    pub async fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        let key = self.check_floor(floor)?;
        let raising = self.adapter().change(|body| {
            let mark = decide(&key, body.mark(&key), None, floor.statement().floor)?;
            body.set(&key, Some(mark));
            Ok(())
        });
        raised(raising.await, floor)
    }

    /// The present mark of a lock and slot.
    pub async fn mark(&self, lock: &LockName, slot: Slot) -> Result<Option<HighWaterMark>, FenceError> {
        Ok(self.adapter().get().await?.body.mark(&self.key(lock, slot)))
    }

    /// An operator's way out of a poisoned mark. Lower than the token of an earlier holder that may still run, it
    /// admits that holder's writes.
    pub async fn reset_mark(
        &self,
        lock: &LockName,
        slot: Slot,
        mark: Option<HighWaterMark>,
    ) -> Result<(), FenceError> {
        let key = self.key(lock, slot);
        self.adapter()
            .change(|body| {
                body.set(&key, mark);
                Ok(())
            })
            .await
    }

    async fn admit<R>(
        &self,
        holding: &(impl Holding + ?Sized),
        act: Act,
        mut effect: impl FnMut(&mut Bytes) -> Result<R, FenceError>,
    ) -> Result<R, FenceError> {
        let mut ran = false;
        let checked = self.check(holding, act);
        let compared = floor_of(&checked);
        let outcome = match checked {
            Err(error) => Err(error),
            Ok(Checked { key, floor }) => {
                self.adapter()
                    .change(|body| {
                        ran = false;
                        let mark = decide(&key, body.mark(&key), floor, holding.token())?;
                        body.set(&key, Some(mark));
                        ran = true;
                        effect(&mut body.data)
                    })
                    .await
            }
        };
        // An effect may report another resource's refusal: that says nothing about this holding here.
        let refused =
            outcome.as_ref().err().filter(|error| !ran || matches!(error, FenceError::Contended { .. }));
        self.decided(holding, act, compared, refused);
        outcome
    }
}
