//! Data in this process's memory, guarded for its threads and for those whose requests it serves.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use palisade_core::token::Token;

use crate::adapters::Adapter;
use crate::admit::{HighWaterMark, MarkKey, decide};
use crate::error::FenceError;

/// A value and its marks under one mutex. Both are lost together when the process ends.
#[derive(Debug, Default)]
pub struct MemoryResource<T>(Mutex<Inner<T>>);

#[derive(Debug, Default)]
struct Inner<T> {
    marks: BTreeMap<MarkKey, HighWaterMark>,
    data: T,
}

impl<T> MemoryResource<T> {
    /// A new resource, without marks.
    pub fn new(data: T) -> Self {
        Self(Mutex::new(Inner { marks: BTreeMap::new(), data }))
    }

    /// Reads without a claim: for those who do not go on to write.
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> Result<R, FenceError> {
        Ok(read(&self.inner()?.data))
    }

    #[cfg(any(test, feature = "conformance"))]
    #[doc(hidden)]
    pub fn unguarded<R>(&self, write: impl FnOnce(&mut T) -> R) -> Result<R, FenceError> {
        Ok(write(&mut self.inner()?.data))
    }

    fn inner(&self) -> Result<MutexGuard<'_, Inner<T>>, FenceError> {
        self.0.lock().map_err(|_| FenceError::Poisoned)
    }
}

impl<T> Adapter for MemoryResource<T> {
    type Data<'a> = T;

    fn admit_with<R>(
        &self,
        key: &MarkKey,
        floor: Option<Token>,
        token: Token,
        effect: impl FnOnce(&mut T) -> Result<R, FenceError>,
    ) -> Result<R, FenceError> {
        let mut inner = self.inner()?;
        let mark = decide(key, inner.marks.get(key).copied(), floor, token)?;
        inner.marks.insert(key.clone(), mark);
        effect(&mut inner.data)
    }

    fn mark(&self, key: &MarkKey) -> Result<Option<HighWaterMark>, FenceError> {
        Ok(self.inner()?.marks.get(key).copied())
    }

    fn reset_mark(&self, key: &MarkKey, mark: Option<HighWaterMark>) -> Result<(), FenceError> {
        let mut inner = self.inner()?;
        match mark {
            Some(mark) => inner.marks.insert(key.clone(), mark),
            None => inner.marks.remove(key),
        };
        Ok(())
    }
}
