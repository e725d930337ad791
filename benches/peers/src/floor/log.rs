//! The floor's log: a file that was written through beforehand, so that an append changes no metadata.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Result;

/// Bytes; then it begins anew.
const LENGTH: u64 = 64 << 20;
/// Bytes written at once beforehand. Larger pieces make large folios of the page cache, and each later flush of a few
/// bytes dearer.
const PIECE: u64 = 4096;

pub(super) struct Log {
    file: File,
    at: u64,
}

impl Log {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let file =
            File::options().create(true).read(true).write(true).truncate(true).open(folder.join("log"))?;
        let zeroes = vec![0; usize::try_from(PIECE)?];
        for piece in 0..LENGTH / PIECE {
            file.write_all_at(&zeroes, piece * PIECE)?;
        }
        file.sync_all()?;
        Ok(Self { file, at: 0 })
    }

    /// Written and flushed.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let length = u64::try_from(bytes.len())?;
        if self.at + length > LENGTH {
            self.at = 0;
        }
        self.file.write_all_at(bytes, self.at)?;
        self.at += length;
        Ok(self.file.sync_data()?)
    }
}
