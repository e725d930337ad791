//! A bucket in a directory: `object_store`'s own local store, which knows no conditional replacement, and the condition.
//!
//! In place of S3 and its like, so that the example needs no server. A writer that stands still in the middle of a request
//! holds up the others here; there it does not.

use std::fmt;
use std::fs::File;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// Beside the objects, not among them.
const LOCK: &str = ".lock";

#[derive(Debug)]
pub(crate) struct Bucket {
    objects: LocalFileSystem,
    lock: PathBuf,
}

impl Bucket {
    /// In this directory, which is made where there is none.
    pub(crate) fn at(directory: &FsPath) -> anyhow::Result<Arc<dyn ObjectStore>> {
        let objects = directory.join("objects");
        std::fs::create_dir_all(&objects)?;
        let objects = LocalFileSystem::new_with_prefix(objects)?.with_fsync(true);
        Ok(Arc::new(Self { objects, lock: directory.join(LOCK) }))
    }

    /// One write at a time, over all processes. Ends with the file.
    async fn turn(&self) -> Result<File> {
        let path = self.lock.clone();
        let locked = tokio::task::spawn_blocking(move || {
            let file = File::create(path)?;
            file.lock()?;
            Ok::<_, std::io::Error>(file)
        });
        let locked = locked.await.map_err(|error| failed(error.into()))?;
        locked.map_err(|error| failed(error.into()))
    }
}

fn failed(source: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::Generic { store: "bucket", source }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a bucket in {}", self.objects)
    }
}

#[async_trait]
impl ObjectStore for Bucket {
    async fn put_opts(&self, at: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        let _turn = self.turn().await?;
        if let PutMode::Update(expected) = &options.mode {
            let present = self.objects.head(at).await?;
            if present.e_tag != expected.e_tag {
                let (path, source) = (at.to_string(), "another write came in between".into());
                return Err(Error::Precondition { path, source });
            }
            options.mode = PutMode::Overwrite;
        }
        self.objects.put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.objects.get_opts(at, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.objects.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let _turn = self.turn().await?;
        self.objects.copy_opts(from, to, options).await
    }
}
