//! Files that a command and its wrapper have in common: the baton, and what shows that the work gets on.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::time::SystemTime;

use palisade_core::limits::PAYLOAD_BYTES_MAX;
use tempfile::NamedTempFile;

use super::shown::private_file;

/// Removed when it is dropped, which is after the command's end.
pub(crate) struct Scratch {
    baton: Option<(NamedTempFile, Vec<u8>)>,
    progress: Option<NamedTempFile>,
}

impl Scratch {
    /// Makes the files that are wanted. `baton` is what an earlier holder left.
    pub(crate) fn new(baton: Option<&[u8]>, progress: bool) -> io::Result<Self> {
        let baton = baton.map(|left| {
            let mut file = private_file("baton")?;
            file.write_all(left)?;
            Ok::<_, io::Error>((file, left.to_owned()))
        });
        let progress = progress.then(|| private_file("progress"));
        Ok(Self { baton: baton.transpose()?, progress: progress.transpose()? })
    }

    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let baton = self.baton.iter().map(|(file, _)| ("PALISADE_BATON_FILE", file.path().into()));
        let progress = self.progress.iter().map(|file| ("PALISADE_PROGRESS_FILE", file.path().into()));
        baton.chain(progress).collect()
    }

    /// When the command last touched its file.
    pub(crate) fn progress(&self) -> Option<SystemTime> {
        // By its name: a command may replace it.
        std::fs::metadata(self.progress.as_ref()?.path()).ok()?.modified().ok()
    }

    /// What the command left for the next holder, if that is another baton than the one that it got.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or has more than a baton may have.
    pub(crate) fn left(&self) -> io::Result<Option<Vec<u8>>> {
        let Some((file, before)) = &self.baton else { return Ok(None) };
        let mut left = Vec::new();
        let most = PAYLOAD_BYTES_MAX as u64 + 1;
        std::fs::File::open(file.path())?.take(most).read_to_end(&mut left)?;
        if left.len() > PAYLOAD_BYTES_MAX {
            return Err(io::Error::other(format!("it has more than {PAYLOAD_BYTES_MAX} bytes")));
        }
        Ok((left != *before).then_some(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(scratch: &Scratch, name: &str) -> OsString {
        scratch.environment().into_iter().find(|(variable, _)| *variable == name).unwrap().1
    }

    #[test]
    fn a_baton_is_left_when_the_command_changed_it() {
        let scratch = Scratch::new(Some(b"checkpoint 7"), false).unwrap();
        let baton = path(&scratch, "PALISADE_BATON_FILE");
        assert_eq!(std::fs::read(&baton).unwrap(), b"checkpoint 7");
        assert_eq!(scratch.left().unwrap(), None);
        std::fs::write(&baton, b"checkpoint 8").unwrap();
        assert_eq!(scratch.left().unwrap().as_deref(), Some(&b"checkpoint 8"[..]));
        std::fs::write(&baton, b"").unwrap();
        assert_eq!(scratch.left().unwrap().as_deref(), Some(&b""[..]));
        std::fs::write(&baton, vec![0; PAYLOAD_BYTES_MAX + 1]).unwrap();
        assert!(scratch.left().is_err());
    }

    #[test]
    fn progress_is_seen_by_the_files_time() {
        let scratch = Scratch::new(None, true).unwrap();
        let before = scratch.progress().unwrap();
        let file =
            std::fs::File::options().write(true).open(path(&scratch, "PALISADE_PROGRESS_FILE")).unwrap();
        file.set_modified(before + std::time::Duration::from_secs(1)).unwrap();
        assert!(scratch.progress().unwrap() > before);
        assert_eq!(scratch.left().unwrap(), None);
    }
}
