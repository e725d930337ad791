//! The files. Each is a slot that one segment after the other is written into.
//!
//! `[PALISLOG][version][checksum u32]`, then sequence, size of the file, number and predecessor of the first frame, and
//! the oldest segment that was still needed when this one began. A file gets its name once all of it was written
//! through and flushed, so that no later flush has anything but its bytes to write.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::BLOCK;
use super::frame::Link;
use crate::codec::{DecodeError, FIRST, VERSION};
use crate::error::OpenError;

/// Bytes before the first frame.
pub(super) const HEAD: usize = 64;
const MAGIC: &[u8; 8] = b"PALISLOG";
const NAME: &str = "segment-";

/// One file.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// The same without the page cache, where the file system offers that: a flush is one write then.
    direct: Option<File>,
    pub(super) bytes: u64,
}

/// What the first bytes of a slot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Rises by one from segment to segment.
    pub(super) sequence: u64,
    pub(super) bytes: u64,
    /// The last frame of the segment before.
    pub(super) before: Link,
    /// The oldest segment that held anything needed when this one began.
    pub(super) oldest: u64,
}

impl Head {
    pub(super) fn encode(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(MAGIC);
        head[8] = FIRST;
        head[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        head[24..32].copy_from_slice(&self.bytes.to_le_bytes());
        head[32..40].copy_from_slice(&self.before.number.to_le_bytes());
        head[40..44].copy_from_slice(&self.before.checksum.to_le_bytes());
        head[48..56].copy_from_slice(&self.oldest.to_le_bytes());
        let checksum = checksum(&head);
        head[12..16].copy_from_slice(&checksum.to_le_bytes());
        head
    }
}

fn checksum(head: &[u8; HEAD]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head[..12]);
    hasher.update(&head[16..]);
    hasher.finalize()
}

/// What was found at the beginning of a slot.
#[derive(Debug)]
pub(super) enum Found {
    Segment(Head),
    /// Nothing but zeros: it was never used.
    Blank,
    /// A torn write, or damage: what else is there decides.
    Unreadable,
}

impl Slot {
    fn open(path: PathBuf) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(&path)?;
        let bytes = file.metadata()?.len();
        let direct = open_direct(&path);
        Ok(Self { path, file, direct, bytes })
    }

    /// Makes a file that is there as a whole, zeros throughout, or not at all.
    pub(super) fn make(dir: &Path, name: u64, bytes: u64) -> io::Result<Self> {
        let path = dir.join(format!("{NAME}{name:06}"));
        let beside = path.with_extension("tmp");
        let mut file = File::create(&beside)?;
        let zeros = vec![0; 1 << 20];
        let mut rest = bytes;
        while rest > 0 {
            let now = rest.min(zeros.len() as u64);
            file.write_all(&zeros[..now as usize])?;
            rest -= now;
        }
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        File::open(dir)?.sync_all()?;
        Self::open(path)
    }

    pub(super) fn head(&self) -> Result<Found, OpenError> {
        let mut head = [0; HEAD];
        if self.bytes < HEAD as u64 {
            return Ok(Found::Unreadable);
        }
        self.file.read_exact_at(&mut head, 0).map_err(|source| OpenError::io(&self.path, source))?;
        if head.iter().all(|byte| *byte == 0) {
            return Ok(Found::Blank);
        }
        if &head[..8] != MAGIC {
            return Ok(Found::Unreadable);
        }
        if head[8] > VERSION {
            let newer = DecodeError::Newer { place: "a segment of the log", found: head[8] };
            return Err(OpenError::decode(&self.path, newer));
        }
        let four = |at: usize| head[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let eight = |at: usize| head[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        if head[8] != FIRST || four(12) != checksum(&head) {
            return Ok(Found::Unreadable);
        }
        Ok(Found::Segment(Head {
            sequence: eight(16),
            bytes: eight(24),
            before: Link { number: eight(32), checksum: four(40) },
            oldest: eight(48),
        }))
    }

    /// Writes whole blocks, and returns once they are durable.
    pub(super) fn write_durably(&self, blocks: &[u8], at: u64) -> io::Result<()> {
        if let Some(direct) = &self.direct
            && past_the_cache(direct, blocks, at)?
        {
            return Ok(());
        }
        self.file.write_all_at(blocks, at)?;
        self.file.sync_data()
    }

    pub(super) fn read_all(&self) -> Result<Vec<u8>, OpenError> {
        fs::read(&self.path).map_err(|source| OpenError::io(&self.path, source))
    }

    /// Takes its head away, durably: a segment that never began must not be found again.
    pub(super) fn blank(&self) -> Result<(), OpenError> {
        let zeros = [0; BLOCK];
        let bytes = self.bytes.min(BLOCK as u64) as usize;
        let wiped = self.file.write_all_at(&zeros[..bytes], 0).and_then(|()| self.file.sync_data());
        wiped.map_err(|source| OpenError::io(&self.path, source))
    }
}

/// None where the file system has nothing but its page cache.
#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).ok()?;
    File::options().write(true).custom_flags(flags).open(path).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_path: &Path) -> Option<File> {
    None
}

/// One system call that returns when the disk has it: half the work of a write into the page cache and an `fdatasync`.
/// False where the kernel does not know it; nothing is written then.
#[cfg(target_os = "linux")]
fn past_the_cache(file: &File, blocks: &[u8], at: u64) -> io::Result<bool> {
    use rustix::io::{Errno, ReadWriteFlags, pwritev2};
    let mut done = 0;
    while done < blocks.len() {
        let rest = [io::IoSlice::new(&blocks[done..])];
        match pwritev2(file, &rest, at + done as u64, ReadWriteFlags::DSYNC) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(Errno::INTR) => {}
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) if done == 0 => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

#[cfg(not(target_os = "linux"))]
fn past_the_cache(_file: &File, _blocks: &[u8], _at: u64) -> io::Result<bool> {
    Ok(false)
}

/// Whether `dir` holds, or was about to hold, slots.
pub(in crate::engine) fn any(dir: &Path) -> io::Result<bool> {
    Ok(names(dir)?.iter().any(|name| name.starts_with(NAME)))
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(dir) {
        Ok(files) => {
            let names = files.map(|file| Ok(file?.file_name().to_string_lossy().into_owned()));
            names.collect()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The slots of a directory by their names' numbers, and the number for the next one.
pub(super) fn list(dir: &Path) -> Result<(Vec<Slot>, u64), OpenError> {
    let mut found = Vec::new();
    for name in names(dir).map_err(|source| OpenError::io(dir, source))? {
        let path = dir.join(&name);
        let Some(number) = name.strip_prefix(NAME) else { continue };
        if number.ends_with(".tmp") {
            // Left over from a crash while it was made.
            fs::remove_file(&path).map_err(|source| OpenError::io(&path, source))?;
        } else if let Ok(number) = number.parse::<u64>() {
            found.push((number, Slot::open(path.clone()).map_err(|source| OpenError::io(&path, source))?));
        }
    }
    found.sort_unstable_by_key(|(number, _)| *number);
    let next = found.last().map_or(0, |(number, _)| number.saturating_add(1));
    Ok((found.into_iter().map(|(_, slot)| slot).collect(), next))
}
