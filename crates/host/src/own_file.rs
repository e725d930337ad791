//! A file that one process has to itself, and which boot of the machine this is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A file of one process at a time, as long as this value lives. What is written is on the disk before the call returns,
/// and is there whole or not at all.
///
/// The lock is on a file beside it, `NAME.lock`, which stays: one that is removed could be locked twice.
#[derive(Debug)]
pub struct OwnFile {
    path: PathBuf,
    _lock: File,
}

impl OwnFile {
    /// Takes the file, which need not exist yet; its folder must.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when another process has it.
    pub fn take(path: &Path) -> io::Result<Self> {
        let lock = beside(path, "lock")?;
        let lock = private().create(true).truncate(false).open(lock)?;
        lock.try_lock()?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was written last; none when nothing was.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces it, durably. Readable by its owner alone.
    ///
    /// # Errors
    ///
    /// When the disk does not take it: then what was there before still is.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let new = beside(&self.path, "new")?;
        let mut file = private().create(true).truncate(true).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

fn private() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

fn beside(path: &Path, ending: &str) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "this is no name of a file"));
    };
    let mut name = name.to_owned();
    name.push(".");
    name.push(ending);
    Ok(path.with_file_name(name))
}

/// Which boot of this machine it is; none where the system does not tell. Another machine has another one.
pub fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let id = text.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("palisade-own-file-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_was_written_last_is_read_by_the_next_who_has_it() {
        let folder = Folder::new("read");
        let path = folder.0.join("state");
        let file = OwnFile::take(&path).expect("the file");
        assert_eq!(file.read().expect("it can be read"), None);
        file.write(b"first, and longer").expect("it is written");
        file.write(b"second").expect("it is written");
        drop(file);
        let file = OwnFile::take(&path).expect("the file");
        assert_eq!(file.read().expect("it can be read").as_deref(), Some(b"second".as_slice()));
    }

    #[test]
    fn nobody_else_has_it_meanwhile() {
        let folder = Folder::new("taken");
        let path = folder.0.join("state");
        let file = OwnFile::take(&path).expect("the file");
        let taken = OwnFile::take(&path).expect_err("it is taken");
        assert_eq!(taken.kind(), ErrorKind::WouldBlock);
        file.write(b"x").expect("it is written");
        assert!(OwnFile::take(&path).is_err(), "a replaced file is locked still");
        drop(file);
        assert!(OwnFile::take(&path).is_ok());
    }

    #[test]
    fn only_its_owner_reads_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new("mode");
        let path = folder.0.join("state");
        OwnFile::take(&path).expect("the file").write(b"x").expect("it is written");
        let mode = fs::metadata(&path).expect("its mode").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn one_boot_has_one_id() {
        assert_eq!(boot_id(), boot_id());
    }
}
