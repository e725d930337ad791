//! The manifest: a small object that names the segments. Whoever can replace it decides what the shard holds.

use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use palisade_core::holding::Holding;
use palisade_fence::adapters::object::ObjectResource;
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};

use crate::pause::Pause;

pub(crate) enum Manifest {
    /// Replaced under a condition, with the mark in its body.
    Fenced(Guard<ObjectResource>),
    /// Replaced, whatever is there.
    Unconditional(Arc<dyn ObjectStore>),
}

fn path() -> Path {
    Path::from("manifest")
}

/// Where the segments are, each below its holder's token.
pub(crate) fn segments() -> Path {
    Path::from("manifest.data")
}

/// What it names, for whoever does not go on to write.
pub(crate) async fn read(store: &Arc<dyn ObjectStore>, unconditional: bool) -> anyhow::Result<String> {
    let bytes = if unconditional {
        store.get(&path()).await?.bytes().await?
    } else {
        ObjectResource::open(Arc::clone(store), path()).await?.read().await?
    };
    Ok(String::from_utf8(bytes.into())?)
}

impl Manifest {
    /// One that names nothing.
    pub(crate) async fn create(store: &Arc<dyn ObjectStore>, unconditional: bool) -> anyhow::Result<()> {
        if unconditional {
            store.put(&path(), "".into()).await?;
        } else {
            ObjectResource::create(Arc::clone(store), path()).await?;
        }
        Ok(())
    }

    /// Unconditional where there is no scope.
    pub(crate) async fn open(store: &Arc<dyn ObjectStore>, scope: Option<Scope>) -> anyhow::Result<Self> {
        let store = Arc::clone(store);
        let Some(scope) = scope else { return Ok(Self::Unconditional(store)) };
        Ok(Self::Fenced(Guard::new(ObjectResource::open(store, path()).await?, scope)))
    }

    /// What it names. Fenced: from now on no earlier holder changes that.
    pub(crate) async fn claim(&self, held: &dyn Holding) -> anyhow::Result<String> {
        match self {
            Self::Fenced(guard) => Ok(String::from_utf8(guard.claim(held).await?.into())?),
            Self::Unconditional(store) => read(store, true).await,
        }
    }

    /// Where a holder puts a segment that it will name: no other one writes there.
    pub(crate) fn segment(&self, held: &dyn Holding, number: u32) -> Path {
        let name = format!("{number:04}");
        match self {
            Self::Fenced(guard) => guard.data_path(held, &name),
            Self::Unconditional(_) => Path::from(format!("{}/{:016}/{name}", segments(), held.token().get())),
        }
    }

    /// Names these instead. Paused between the last look at lock and manifest and the write.
    pub(crate) async fn replace(
        &self,
        held: &dyn Holding,
        names: &str,
        pause: &Pause,
    ) -> Result<(), FenceError> {
        match self {
            Self::Fenced(guard) => {
                let replaced = |_: &_| {
                    pause.here();
                    Ok(names.to_owned().into())
                };
                guard.update(held, replaced).await // Err(Stale) once a newer holder was here
            }
            Self::Unconditional(store) => {
                held.check()?;
                pause.here();
                store.put(&path(), names.to_owned().into()).await.map(drop).map_err(FenceError::effect)
            }
        }
    }
}
