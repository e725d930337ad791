//! A plain file, guarded for the processes of one host that write it through this adapter.
//!
//! Beside `data` lie `data.marks` and `data.lock`. A write takes the lock (flock), compares, makes the raised mark
//! durable, and only then touches the data: a crash in between leaves a higher mark and the old data, never a stale
//! write. Leaves out writers that do not use the adapter, and network file systems whose locks are local.
//!
//! A process that is suspended in the middle of a write keeps the lock: others get
//! [`FenceError::Busy`], late but safe.

mod marks;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use palisade_core::token::Token;

use self::marks::Marks;
use crate::adapters::Adapter;
use crate::admit::{HighWaterMark, MarkKey, decide};
use crate::error::FenceError;

/// How often the lock of another process is tried again.
const RETRY: Duration = Duration::from_millis(5);
/// How long, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// A file and its marks.
#[derive(Debug)]
pub struct FileResource {
    contents: FileContents,
    marks: PathBuf,
    lock: PathBuf,
    patience: Duration,
    /// The threads of this process wait here, in place of trying again.
    turn: Mutex<()>,
}

/// The guarded file, as a write sees it.
#[derive(Debug)]
pub struct FileContents {
    path: PathBuf,
}

impl FileResource {
    /// A resource that you know to be new, or to be guarded from now on: it has no marks yet. The file itself may exist.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, FenceError> {
        let resource = Self::at(path.into());
        let lock = resource.lock()?;
        if exists(&resource.marks)? {
            return Err(FenceError::MarksExist { store: shown(&resource.marks) });
        }
        Marks::default().save(&resource.marks)?;
        drop(lock);
        Ok(resource)
    }

    /// A resource that was used before. Refuses one without marks: they may be lost.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, FenceError> {
        let resource = Self::at(path.into());
        let lock = resource.lock()?;
        Marks::load(&resource.marks)?;
        drop(lock);
        Ok(resource)
    }

    /// Waits this long for other processes (10 s unless told otherwise).
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Reads without a claim: for those who do not go on to write.
    pub fn read(&self) -> Result<Vec<u8>, FenceError> {
        self.contents.read()
    }

    fn at(path: PathBuf) -> Self {
        Self {
            marks: beside(&path, ".marks"),
            lock: beside(&path, ".lock"),
            contents: FileContents { path },
            patience: PATIENCE,
            turn: Mutex::new(()),
        }
    }

    /// The lock is the open file's; it ends with it, also when the process dies.
    fn lock(&self) -> Result<File, FenceError> {
        let failed = |source| storage("locking", &self.lock, source);
        let file = OpenOptions::new().create(true).append(true).open(&self.lock).map_err(failed)?;
        let mut waited = Duration::ZERO;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if waited < self.patience => thread::sleep(RETRY),
                Err(TryLockError::WouldBlock) => return Err(FenceError::Busy { path: self.lock.clone() }),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            waited += RETRY;
        }
    }

    fn locked<R>(&self, work: impl FnOnce(&Self) -> Result<R, FenceError>) -> Result<R, FenceError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock = self.lock()?;
        work(self)
    }
}

impl Adapter for FileResource {
    type Data<'a> = FileContents;

    fn admit_with<R>(
        &self,
        key: &MarkKey,
        floor: Option<Token>,
        token: Token,
        effect: impl FnOnce(&mut FileContents) -> Result<R, FenceError>,
    ) -> Result<R, FenceError> {
        self.locked(|resource| {
            let mut marks = Marks::load(&resource.marks)?;
            let before = marks.get(key);
            let mark = decide(key, before, floor, token)?;
            if before != Some(mark) {
                marks.set(key, Some(mark));
                marks.save(&resource.marks)?;
            }
            effect(&mut FileContents { path: resource.contents.path.clone() })
        })
    }

    fn mark(&self, key: &MarkKey) -> Result<Option<HighWaterMark>, FenceError> {
        self.locked(|resource| Ok(Marks::load(&resource.marks)?.get(key)))
    }

    fn reset_mark(&self, key: &MarkKey, mark: Option<HighWaterMark>) -> Result<(), FenceError> {
        self.locked(|resource| {
            let mut marks = Marks::load(&resource.marks)?;
            marks.set(key, mark);
            marks.save(&resource.marks)
        })
    }
}

impl FileContents {
    /// All of it; nothing if the file does not exist yet.
    pub fn read(&self) -> Result<Vec<u8>, FenceError> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(storage("reading", &self.path, error)),
        }
    }

    /// Puts `bytes` in the place of all that is there. Readers and crashes see the old or the new, and it is durable.
    pub fn replace(&mut self, bytes: &[u8]) -> Result<(), FenceError> {
        replace_file(&self.path, bytes)
    }

    /// Adds `bytes` at the end, durably. A crash in the middle can leave a part of them: where that matters, `replace`.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), FenceError> {
        let failed = |source| storage("appending to", &self.path, source);
        let is_new = !exists(&self.path)?;
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).map_err(failed)?;
        let before = file.metadata().map_err(failed)?.len();
        if let Err(error) = file.write_all(bytes) {
            // Best effort: the error that matters is the first one.
            let _ = file.set_len(before);
            return Err(failed(error));
        }
        file.sync_all().map_err(failed)?;
        if is_new { sync_folder(&self.path) } else { Ok(()) }
    }
}

fn storage(what: &str, path: &Path, source: io::Error) -> FenceError {
    FenceError::storage(format!("{what} {}", path.display()), source)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn exists(path: &Path) -> Result<bool, FenceError> {
    path.try_exists().map_err(|source| storage("looking for", path, source))
}

/// Under the lock, so one name for the temporary file is enough; what a crash left there is overwritten.
fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), FenceError> {
    let temporary = beside(path, ".new");
    let write = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        if let Ok(existing) = fs::metadata(path) {
            file.set_permissions(existing.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|source| storage("replacing", path, source))?;
    sync_folder(path)
}

/// A rename, or a new name, is durable only once the folder is.
fn sync_folder(path: &Path) -> Result<(), FenceError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|source| storage("syncing", folder, source))
}

fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
