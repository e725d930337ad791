//! The bytes of a snapshot: here, or in their store until somebody asks for them.
//!
//! openraft asks for the newest snapshot in the loop that applies, and to know what it covers alone. To read a million
//! locks there would let nobody be granted meanwhile.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::off_reactor::off_reactor;
use crate::snapshot_store::SnapshotStore;

/// What openraft hands around.
#[derive(Clone)]
pub(crate) struct SnapshotData(Source);

#[derive(Clone)]
enum Source {
    Here(Bytes),
    Kept { store: Arc<dyn SnapshotStore>, index: u64 },
}

impl SnapshotData {
    /// In memory.
    pub(crate) fn here(bytes: Bytes) -> Self {
        Self(Source::Here(bytes))
    }

    /// In a store, under the last index that it covers.
    pub(crate) fn kept(store: Arc<dyn SnapshotStore>, index: u64) -> Self {
        Self(Source::Kept { store, index })
    }

    /// All of it.
    ///
    /// # Errors
    ///
    /// When it cannot be read, is damaged, or is kept no longer: then there is a newer one.
    pub(crate) async fn bytes(self) -> io::Result<Bytes> {
        match self.0 {
            Source::Here(bytes) => Ok(bytes),
            Source::Kept { store, index } => {
                let read = off_reactor(store.blocks(), move || store.read(index)).await?;
                let bytes = read.map_err(io::Error::other)?;
                bytes.ok_or_else(|| io::Error::other("the snapshot is kept no longer"))
            }
        }
    }
}

impl fmt::Debug for SnapshotData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Here(bytes) => write!(f, "a snapshot of {} bytes", bytes.len()),
            Source::Kept { index, .. } => write!(f, "the snapshot up to {index}"),
        }
    }
}
