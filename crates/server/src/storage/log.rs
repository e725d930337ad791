//! The log of a data directory: which engine keeps it, and carrying it over to the other one.
//!
//! It is always at `log`. A conversion writes `log.new` and makes it durable, renames `log` to `log.old`, `log.new` to
//! `log`, and removes `log.old`. From the first of the renames on the conversion has happened; whoever opens the
//! directory next finishes what a crash left. Until then nothing has.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use palisade_raft::{Engine, EngineKind, OpenError, convert_log};

use crate::failure::NodeError;

/// A conversion that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// What kept the log.
    pub from: EngineKind,
    /// What keeps it now.
    pub to: EngineKind,
    /// Entries that were carried over.
    pub entries: u64,
}

/// A data directory that nobody else opens or converts meanwhile.
struct Opening {
    directory: PathBuf,
    _lock: File,
}

/// Opens the log of a data directory with `asked`, or with the engine that wrote it, or makes a new one.
pub(super) fn open(directory: &Path, asked: Option<EngineKind>) -> Result<Arc<dyn Engine>, NodeError> {
    let opening = Opening::begin(directory)?;
    opening.settle()?;
    let log = opening.log();
    let kind = match (EngineKind::of(&log)?, asked) {
        (Some(found), Some(asked)) if found != asked => {
            return Err(NodeError::OtherEngine { path: directory.to_owned(), found, asked });
        }
        (Some(found), _) => found,
        (None, asked) => asked.unwrap_or_default(),
    };
    Ok(kind.open(&log)?)
}

/// Carries the log of a stopped node over to another engine. None when that one keeps it already.
///
/// # Errors
///
/// When the node runs, the log is damaged, or the new one cannot be written. The old one is then in force, unchanged.
pub fn convert(directory: &Path, to: EngineKind) -> Result<Option<Converted>, NodeError> {
    let opening = Opening::begin(directory)?;
    opening.settle()?;
    let (log, new, old) = (opening.log(), opening.beside("new"), opening.beside("old"));
    let from = EngineKind::of(&log)?.ok_or_else(|| NodeError::NoLog { path: directory.to_owned() })?;
    if from == to {
        return Ok(None);
    }
    let entries = convert_log((&log, from), (&new, to))?;
    rename(&log, &old)?;
    opening.sync()?;
    rename(&new, &log)?;
    opening.sync()?;
    opening.settle()?;
    Ok(Some(Converted { from, to, entries }))
}

impl Opening {
    fn begin(directory: &Path) -> Result<Self, NodeError> {
        let failed = |source| NodeError::Io { path: directory.to_owned(), source };
        let lock = File::open(directory).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { directory: directory.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                let why = "it is being opened or converted".to_owned();
                Err(OpenError::InUse { path: directory.to_owned(), why }.into())
            }
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    fn beside(&self, extension: &str) -> PathBuf {
        self.log().with_extension(extension)
    }

    fn sync(&self) -> Result<(), NodeError> {
        let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
        synced.map_err(|source| NodeError::Io { path: self.directory.clone(), source })
    }

    /// Finishes, or takes back, a conversion that was cut short.
    fn settle(&self) -> Result<(), NodeError> {
        let (log, new, old) = (self.log(), self.beside("new"), self.beside("old"));
        if !log.exists() && old.exists() {
            if !new.exists() {
                let why = "there is neither a log nor its new form beside it".to_owned();
                return Err(OpenError::Damaged { path: old, why }.into());
            }
            rename(&new, &log)?;
            self.sync()?;
        }
        for left in [&new, &old] {
            match fs::remove_dir_all(left) {
                Ok(()) => self.sync()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(NodeError::Io { path: left.clone(), source }),
            }
        }
        Ok(())
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), NodeError> {
    fs::rename(from, to).map_err(|source| NodeError::Io { path: from.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use palisade_raft::engine::{Record, RecordKind, SavedVote};
    use tempfile::TempDir;

    use super::*;

    fn fill(engine: &dyn Engine) {
        let (sender, answers) = mpsc::channel();
        engine.save_vote(SavedVote { term: 3, node: 1, granted: true }, Box::new(|_| {}));
        let entry = Record { term: 3, kind: RecordKind::Command, body: vec![7; 100].into() };
        engine.append(1, vec![entry; 500], Box::new(move |done| sender.send(done).unwrap()));
        answers.recv().unwrap().unwrap();
    }

    fn last(directory: &Path) -> Option<(u64, u64)> {
        open(directory, None).unwrap().load().unwrap().log
    }

    fn kind(directory: &Path) -> Option<EngineKind> {
        EngineKind::of(&directory.join("log")).unwrap()
    }

    #[test]
    fn a_new_directory_gets_segments_and_an_old_one_keeps_what_wrote_it() {
        let directory = TempDir::new().unwrap();
        drop(open(directory.path(), None).unwrap());
        assert_eq!(kind(directory.path()), Some(EngineKind::Segments));
        let error = open(directory.path(), Some(EngineKind::Sled)).err().unwrap().to_string();
        assert!(error.contains("palisade storage convert --data-dir"), "{error}");
        let directory = TempDir::new().unwrap();
        drop(open(directory.path(), Some(EngineKind::Sled)).unwrap());
        drop(open(directory.path(), None).unwrap());
        assert_eq!(kind(directory.path()), Some(EngineKind::Sled));
        assert!(open(directory.path(), Some(EngineKind::Segments)).is_err());
        assert!(open(directory.path(), Some(EngineKind::Sled)).is_ok());
    }

    #[test]
    fn a_log_is_converted_there_and_back() {
        let directory = TempDir::new().unwrap();
        fill(&*open(directory.path(), None).unwrap());
        for to in [EngineKind::Sled, EngineKind::Segments] {
            let converted = convert(directory.path(), to).unwrap().unwrap();
            assert_eq!((converted.to, converted.entries), (to, 500));
            assert_eq!(kind(directory.path()), Some(to));
            assert_eq!(convert(directory.path(), to).unwrap(), None);
            assert_eq!(last(directory.path()), Some((1, 500)));
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
        }
    }

    #[test]
    fn a_running_nodes_log_is_not_converted() {
        let directory = TempDir::new().unwrap();
        let engine = open(directory.path(), None).unwrap();
        let error = convert(directory.path(), EngineKind::Sled).err().unwrap();
        assert!(matches!(error, NodeError::Storage(OpenError::InUse { .. })), "{error}");
        fill(&*engine);
    }

    #[test]
    fn without_a_log_there_is_nothing_to_convert() {
        let directory = TempDir::new().unwrap();
        let error = convert(directory.path(), EngineKind::Sled).err().unwrap();
        assert!(matches!(error, NodeError::NoLog { .. }), "{error}");
    }

    #[test]
    fn a_conversion_that_is_cut_short_is_finished_or_taken_back() {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        fill(&*open(directory.path(), None).unwrap());
        // Before the first rename.
        fs::create_dir(path("log.new")).unwrap();
        fs::write(path("log.new/db"), "half").unwrap();
        assert_eq!(last(directory.path()), Some((1, 500)));
        assert!(!path("log.new").exists());
        // Between the two renames.
        convert_log((&path("log"), EngineKind::Segments), (&path("log.new"), EngineKind::Sled)).unwrap();
        fs::rename(path("log"), path("log.old")).unwrap();
        assert_eq!(last(directory.path()), Some((1, 500)));
        assert_eq!(kind(directory.path()), Some(EngineKind::Sled));
        assert!(!path("log.old").exists());
        // A log that somebody moved away is not a new one.
        fs::rename(path("log"), path("log.old")).unwrap();
        assert!(open(directory.path(), None).is_err());
    }
}
