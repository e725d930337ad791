//! How far the log was ever flushed, told outside of it.
//!
//! A log is read up to the first record that does not make sense, and that is its end: rightly so when a crash tore the
//! last write, and wrongly when the disk damaged what lies before. So flushes are numbered, the number is part of what
//! is flushed, and once it is durable it goes into a file of its own, before anybody is told. A log that ends before
//! that number has lost what was promised. The file is not flushed each time: an older number makes the check weaker
//! after a power failure, never wrong.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::codec::{seal, unseal};
use crate::error::OpenError;

/// Beside the log's own files.
const NAME: &str = "flushed";

/// The number of the last flush, and where it is told.
pub(super) struct Flushed {
    file: File,
    number: u64,
}

impl Flushed {
    /// Compares what was told with the number `stored`, the last one that can be read. `log` is the file that ends
    /// there, and `ends` says where.
    pub(super) fn open(dir: &Path, log: &Path, stored: Option<u64>, ends: &str) -> Result<Self, OpenError> {
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
                "what is numbered {told} was reported as flushed, but what can be read ends with {ends}"
            );
            return Err(OpenError::damaged(log, why));
        }
        let file = File::options().write(true).open(&path).map_err(failed)?;
        Ok(Self { file, number })
    }

    /// The number of the last flush.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Tells that everything up to `number` is durable.
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
