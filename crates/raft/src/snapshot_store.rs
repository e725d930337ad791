//! Where snapshots are kept.
//!
//! A snapshot file is written beside its final name, synced, renamed, and the directory synced: it is there as a whole
//! or not at all. Each 64 KiB carry a checksum. The two newest are kept; a damaged one is never passed over in silence,
//! because the log below it is gone.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::codec::{DecodeError, FIRST, versioned};
use crate::error::OpenError;

/// Writes a snapshot, piece by piece.
pub type WriteSnapshot<'a> = &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>;

/// Keeps the newest snapshot.
pub trait SnapshotStore: Send + Sync + 'static {
    /// Where the snapshots are, for messages.
    fn place(&self) -> PathBuf;

    /// The newest snapshot.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is damaged.
    fn newest(&self) -> Result<Option<Bytes>, OpenError>;

    /// The snapshot that covers everything up to `index`; none if it is kept no longer.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is damaged.
    fn read(&self, index: u64) -> Result<Option<Bytes>, OpenError>;

    /// Keeps what `write` writes, which covers everything up to `index`. Durable when this returns; it is nowhere in
    /// memory as a whole.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    fn save(&self, index: u64, write: WriteSnapshot<'_>) -> Result<(), OpenError>;

    /// Whether it may wait for a disk, and so must not run on a reactor.
    fn blocks(&self) -> bool;
}

/// Snapshots in memory, for tests and simulations. They survive a replica that is started again with the same store.
#[derive(Clone, Debug, Default)]
pub struct MemorySnapshots {
    newest: Arc<Mutex<Option<(u64, Bytes)>>>,
}

impl SnapshotStore for MemorySnapshots {
    fn place(&self) -> PathBuf {
        "the snapshot in memory".into()
    }

    fn newest(&self) -> Result<Option<Bytes>, OpenError> {
        Ok(self.newest.lock().as_ref().map(|(_, snapshot)| snapshot.clone()))
    }

    fn read(&self, index: u64) -> Result<Option<Bytes>, OpenError> {
        let newest = self.newest.lock();
        Ok(newest.as_ref().filter(|(newest, _)| *newest == index).map(|(_, snapshot)| snapshot.clone()))
    }

    fn save(&self, index: u64, write: WriteSnapshot<'_>) -> Result<(), OpenError> {
        let mut snapshot = Vec::new();
        write(&mut snapshot).map_err(|source| OpenError::io(self.place(), source))?;
        *self.newest.lock() = Some((index, snapshot.into()));
        Ok(())
    }

    fn blocks(&self) -> bool {
        false
    }
}

const MAGIC: &[u8; 8] = b"PALISNAP";
/// `[magic][version][length u64][checksum]`.
const HEAD: usize = 8 + 1 + 8 + 4;
const BLOCK: usize = 64 << 10;
/// After so many blocks, what is written so far is flushed: the log's own flushes share the disk, and must not wait for
/// all of a snapshot.
const FLUSH_BLOCKS: usize = 64;
const KEPT: usize = 2;

/// Snapshots in files of one directory.
#[derive(Debug)]
pub struct FileSnapshots {
    dir: PathBuf,
}

impl FileSnapshots {
    /// Opens `dir`, and makes it if there is none.
    ///
    /// # Errors
    ///
    /// When it cannot be read or made.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::io(dir, source);
        fs::create_dir_all(dir).map_err(failed)?;
        // A snapshot takes the log's place: its directory must be there after a power failure.
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)?;
        }
        for file in fs::read_dir(dir).map_err(failed)? {
            let path = file.map_err(failed)?.path();
            // Left over from a crash while it was written.
            if path.extension().is_some_and(|extension| extension == "tmp") {
                fs::remove_file(&path).map_err(|source| OpenError::io(&path, source))?;
            }
        }
        Ok(Self { dir: dir.to_owned() })
    }

    /// Indexes of the snapshots that are there, oldest first.
    fn indexes(&self) -> Result<Vec<u64>, OpenError> {
        let failed = |source| OpenError::io(&self.dir, source);
        let mut indexes = Vec::new();
        for file in fs::read_dir(&self.dir).map_err(failed)? {
            let name = file.map_err(failed)?.file_name();
            let index: Option<u64> = name.to_str().and_then(|name| name.strip_prefix("snap-")?.parse().ok());
            indexes.extend(index);
        }
        indexes.sort_unstable();
        Ok(indexes)
    }

    fn path(&self, index: u64) -> PathBuf {
        self.dir.join(format!("snap-{index:020}"))
    }

    fn read_file(&self, index: u64) -> Result<Bytes, OpenError> {
        let path = self.path(index);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(|source| OpenError::io(&path, source))?;
        unpack(bytes).map_err(|source| OpenError::decode(path, source))
    }

    fn write(&self, path: &Path, write: WriteSnapshot<'_>) -> io::Result<()> {
        let mut blocks = Blocks::begin(File::create(path)?)?;
        write(&mut blocks)?;
        blocks.end()
    }
}

/// A snapshot file in the making: blocks, each with its checksum behind it. The header, which tells the length, is
/// written last.
struct Blocks {
    file: File,
    block: Vec<u8>,
    blocks: usize,
    len: u64,
}

impl Blocks {
    fn begin(mut file: File) -> io::Result<Self> {
        file.write_all(&[0; HEAD])?;
        Ok(Self { file, block: Vec::with_capacity(BLOCK + 4), blocks: 0, len: 0 })
    }

    fn put(&mut self) -> io::Result<()> {
        self.len += self.block.len() as u64;
        let checksum = crc32fast::hash(&self.block);
        self.block.extend_from_slice(&checksum.to_le_bytes());
        self.file.write_all(&self.block)?;
        self.block.clear();
        self.blocks += 1;
        if self.blocks.is_multiple_of(FLUSH_BLOCKS) { self.file.sync_data() } else { Ok(()) }
    }

    fn end(mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            self.put()?;
        }
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(MAGIC);
        head.push(FIRST);
        head.extend_from_slice(&self.len.to_le_bytes());
        head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&head)?;
        self.file.sync_all()
    }
}

impl Write for Blocks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (now, _) = bytes.split_at(bytes.len().min(BLOCK - self.block.len()));
        self.block.extend_from_slice(now);
        if self.block.len() == BLOCK {
            self.put()?;
        }
        Ok(now.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SnapshotStore for FileSnapshots {
    fn place(&self) -> PathBuf {
        self.dir.clone()
    }

    fn newest(&self) -> Result<Option<Bytes>, OpenError> {
        self.indexes()?.pop().map(|index| self.read_file(index)).transpose()
    }

    fn read(&self, index: u64) -> Result<Option<Bytes>, OpenError> {
        let kept = self.indexes()?.contains(&index);
        kept.then(|| self.read_file(index)).transpose()
    }

    fn save(&self, index: u64, write: WriteSnapshot<'_>) -> Result<(), OpenError> {
        let path = self.path(index);
        let beside = path.with_extension("tmp");
        self.write(&beside, write).map_err(|source| OpenError::io(&beside, source))?;
        let renamed = fs::rename(&beside, &path).and_then(|()| File::open(&self.dir)?.sync_all());
        renamed.map_err(|source| OpenError::io(&path, source))?;
        let indexes = self.indexes()?;
        for old in indexes.iter().rev().skip(KEPT) {
            let old = self.path(*old);
            fs::remove_file(&old).map_err(|source| OpenError::io(&old, source))?;
        }
        Ok(())
    }

    fn blocks(&self) -> bool {
        true
    }
}

/// Takes header and checksums out, in place.
fn unpack(mut bytes: Vec<u8>) -> Result<Bytes, DecodeError> {
    const PLACE: &str = "a snapshot file";
    let damaged = |why: &str| DecodeError::damaged(PLACE, why);
    let body = bytes.strip_prefix(MAGIC).ok_or_else(|| damaged("it is no snapshot"))?;
    versioned(body, PLACE)?;
    if bytes.len() < HEAD {
        return Err(damaged("it ends in its header"));
    }
    let (head, checksum) = bytes[..HEAD].split_at(HEAD - 4);
    if crc32fast::hash(head).to_le_bytes() != checksum {
        return Err(damaged("the checksum of its header does not match"));
    }
    let len = head[9..].iter().rev().fold(0, |len, byte| len << 8 | u64::from(*byte));
    let len = usize::try_from(len).map_err(|_| damaged("it is too large for this machine"))?;
    if bytes.len() != HEAD + len + 4 * len.div_ceil(BLOCK) {
        return Err(damaged("its length does not match its header"));
    }
    let (mut from, mut to) = (HEAD, 0);
    while to < len {
        let block = BLOCK.min(len - to);
        let (body, rest) = bytes[from..].split_at(block);
        if crc32fast::hash(body).to_le_bytes() != rest[..4] {
            return Err(damaged(&format!("the checksum of its block at {from} does not match")));
        }
        bytes.copy_within(from..from + block, to);
        from += block + 4;
        to += block;
    }
    bytes.truncate(len);
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn snapshot(bytes: usize) -> Bytes {
        (0..bytes).map(|at| (at % 251) as u8).collect()
    }

    /// In pieces, as a table is written.
    fn save(store: &FileSnapshots, index: u64, bytes: usize) {
        let snapshot = snapshot(bytes);
        let mut write = |to: &mut dyn Write| snapshot.chunks(7_777).try_for_each(|piece| to.write_all(piece));
        store.save(index, &mut write).expect("it writes");
    }

    #[test]
    fn the_newest_survives_and_two_are_kept() {
        let dir = TempDir::new().expect("a directory");
        let store = FileSnapshots::open(dir.path()).expect("it opens");
        assert_eq!(store.newest().expect("it reads"), None);
        for index in [5, 700, 10_000] {
            save(&store, index, 200_000 + index as usize);
        }
        let store = FileSnapshots::open(dir.path()).expect("it opens");
        assert_eq!(store.newest().expect("it reads"), Some(snapshot(210_000)));
        assert_eq!(store.indexes().expect("it reads"), [700, 10_000]);
        assert_eq!(store.read(700).expect("it reads"), Some(snapshot(200_700)));
        assert_eq!(store.read(5).expect("it reads"), None, "it is gone");
    }

    #[test]
    fn a_file_that_was_not_finished_counts_for_nothing() {
        let dir = TempDir::new().expect("a directory");
        let store = FileSnapshots::open(dir.path()).expect("it opens");
        save(&store, 5, 10);
        fs::write(dir.path().join("snap-00000000000000000009.tmp"), b"PALIS").expect("it writes");
        let store = FileSnapshots::open(dir.path()).expect("it opens");
        assert_eq!(store.newest().expect("it reads"), Some(snapshot(10)));
    }

    #[test]
    fn a_damaged_file_is_refused_by_name_with_advice() {
        let dir = TempDir::new().expect("a directory");
        let store = FileSnapshots::open(dir.path()).expect("it opens");
        save(&store, 5, 10);
        save(&store, 9, 150_000);
        let path = store.path(9);
        let whole = fs::read(&path).expect("it reads");
        for hurt in [0, 9, 20, 30, 70_000, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[hurt] ^= 1;
            fs::write(&path, bytes).expect("it writes");
            let error = store.newest().expect_err("it is damaged").to_string();
            assert!(error.contains("snap-00000000000000000009 is damaged"), "byte {hurt}: {error}");
            assert!(error.contains("start the node under a new name"), "{error}");
        }
        for len in [0, 8, 20, 21, 70_000, whole.len() - 1] {
            fs::write(&path, &whole[..len]).expect("it writes");
            assert!(matches!(store.newest(), Err(OpenError::Damaged { .. })), "{len} bytes");
        }
        fs::write(&path, whole).expect("it writes");
        assert_eq!(store.newest().expect("it reads"), Some(snapshot(150_000)));
    }
}
