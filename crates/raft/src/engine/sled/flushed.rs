//! How many flushes were reported as done, told outside the store.
//!
//! The store reads its file up to the first record that does not make sense and takes that for the end: rightly so when
//! a crash tore the last write, and wrongly when the disk damaged what lies before. So each flush carries its number
//! as its last record, and once it is durable the number goes into a file of its own, before anybody is told. A store
//! that ends before that number has lost what was promised. The file is not flushed each time: an older number makes
//! the check weaker after a power failure, never wrong.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::codec::{seal, unseal};
use crate::error::OpenError;

/// Beside the store's own files.
const NAME: &str = "flushed";

/// The number of the last flush, and where it is told.
pub(super) struct Flushed {
    file: File,
    number: u64,
}

impl Flushed {
    /// Compares what was told with the number `stored`, that of the last flush in the store.
    pub(super) fn open(dir: &Path, stored: Option<u64>) -> Result<Self, OpenError> {
        let path = dir.join(NAME);
        let failed = |source| OpenError::io(&path, source);
        let told: u64 = match fs::read(&path) {
            Ok(bytes) => {
                unseal(&bytes, "the number of flushes").map_err(|source| OpenError::decode(&path, source))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && stored.is_none() => {
                make(dir, &path).map_err(failed)?;
                0
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(OpenError::damaged(&path, "it is gone, and the log beside it is not new"));
            }
            Err(source) => return Err(failed(source)),
        };
        let number = stored.unwrap_or(0);
        if number < told {
            let why = format!(
                "{told} flushes were reported as done, but what can be read ends with flush {number}"
            );
            return Err(OpenError::damaged(dir.join("db"), why));
        }
        let file = File::options().write(true).open(&path).map_err(failed)?;
        Ok(Self { file, number })
    }

    /// The number of the next flush, and its record in the store.
    pub(super) fn next(&self) -> (u64, Vec<u8>) {
        let number = self.number + 1;
        (number, seal(&number))
    }

    /// Tells that flush `number` is durable.
    pub(super) fn tell(&mut self, number: u64) -> io::Result<()> {
        self.file.write_all_at(&seal(&number), 0)?;
        self.number = number;
        Ok(())
    }
}

/// A file that is there as a whole or not at all.
fn make(dir: &Path, path: &Path) -> io::Result<()> {
    let beside = path.with_extension("tmp");
    fs::write(&beside, seal(&0_u64))?;
    File::open(&beside)?.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(dir)?.sync_all()
}
