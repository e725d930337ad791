//! What the command is told about the lock: environment, a private file, and a pipe that ends with the lock.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use palisade_client::LockGuard;
use palisade_core::ids::SessionId;
use palisade_host::Moment;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// How the private file is called.
const PREFIX: &str = "palisade-";
const SUFFIXES: [&str; 3] = [".sequencer", ".baton", ".progress"];
/// A file that is younger may not be locked yet.
const SWEPT_AFTER: Duration = Duration::from_secs(60);

/// Plain facts of one grant.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// The lock's name.
    pub(crate) lock: String,
    /// Its fencing token.
    pub(crate) token: u64,
    /// Which of its slots.
    pub(crate) slot: u32,
    /// All that is held, as JSON.
    pub(crate) held: String,
    /// Token and end of the holder before, where that is remembered.
    pub(crate) previous: Option<(u64, &'static str)>,
    /// Files for the command, by variable.
    pub(crate) files: Vec<(&'static str, OsString)>,
    /// The session that holds it.
    pub(crate) session: u64,
    /// The signed proof.
    pub(crate) sequencer: String,
    /// Nodes, for calling back.
    pub(crate) endpoints: Vec<String>,
    /// Until when the lease was sure at the command's start: nanoseconds of the clock that counts suspension.
    pub(crate) safe_until_boottime_ns: u64,
}

impl Told {
    /// Of what was granted at once.
    ///
    /// # Errors
    ///
    /// When no sequencer is to be had, or nothing was granted.
    pub(crate) async fn of<'a>(
        guards: impl Iterator<Item = &'a LockGuard>,
        session: SessionId,
        endpoints: Vec<String>,
        safe_until: Moment,
    ) -> anyhow::Result<Self> {
        let (mut held, mut first) = (Vec::new(), None);
        for guard in guards {
            let sequencer =
                guard.sequencer().await.with_context(|| format!("no sequencer for {}", guard.lock()))?;
            held.push(json!({
                "lock": guard.lock().as_str(),
                "slot": guard.slot().0,
                "token": guard.token().get(),
                "sequencer": sequencer,
            }));
            first.get_or_insert((guard, sequencer));
        }
        let (guard, sequencer) = first.context("nothing was granted")?;
        Ok(Self {
            lock: guard.lock().to_string(),
            token: guard.token().get(),
            slot: guard.slot().0,
            held: Value::from(held).to_string(),
            previous: guard.inherited().map(|before| (before.token.get(), before.ended.words())),
            files: Vec::new(),
            session: session.0,
            sequencer,
            endpoints,
            safe_until_boottime_ns: safe_until.as_nanos(),
        })
    }

    #[cfg(test)]
    pub(super) fn example() -> Self {
        Self {
            lock: "nightly".into(),
            token: 8,
            slot: 0,
            held: "[]".into(),
            previous: Some((5, "expired")),
            files: Vec::new(),
            session: 800,
            sequencer: "a.b.c".into(),
            endpoints: vec!["127.0.0.1:7170".into()],
            safe_until_boottime_ns: 1,
        }
    }
}

/// A file that nobody else can read, removed when it is dropped, and by the next wrapper when this one was killed.
pub(super) fn private_file(kind: &str) -> io::Result<NamedTempFile> {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, Into::into);
    for folder in [&folder, &std::env::temp_dir()] {
        sweep(folder);
    }
    let suffix = format!(".{kind}");
    let name = tempfile::Builder::new().prefix(PREFIX).suffix(&suffix).to_owned();
    let file = name.tempfile_in(folder).or_else(|_| name.tempfile())?;
    // Held until this process ends, however it ends; the command does not inherit it.
    flock(file.as_file(), FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Keeps what was shown; dropping it removes the file and ends the pipe, which is how a command learns of a loss.
pub(crate) struct Shown {
    told: Told,
    file: NamedTempFile,
    reader: PipeReader,
    _writer: PipeWriter,
}

impl Shown {
    /// Writes the private file and opens the pipe.
    pub(crate) fn new(told: Told) -> io::Result<Self> {
        let mut file = private_file("sequencer")?;
        writeln!(file, "{}", told.sequencer)?;
        let (reader, writer) = io::pipe()?;
        // The command inherits this end, and only this one.
        fcntl_setfd(&reader, FdFlags::empty())?;
        Ok(Self { told, file, reader, _writer: writer })
    }

    /// What goes into the command's environment. 64-bit numbers are integers here (SPEC 13).
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let told = &self.told;
        let mut environment: Vec<(&'static str, OsString)> = vec![
            ("PALISADE_LOCK", told.lock.clone().into()),
            ("PALISADE_TOKEN", told.token.to_string().into()),
            ("PALISADE_SLOT", told.slot.to_string().into()),
            ("PALISADE_HELD", told.held.clone().into()),
            ("PALISADE_SEQUENCER", told.sequencer.clone().into()),
            ("PALISADE_SEQUENCER_FILE", self.file.path().into()),
            ("PALISADE_SESSION", told.session.to_string().into()),
            ("PALISADE_ENDPOINTS", told.endpoints.join(",").into()),
            ("PALISADE_SAFE_UNTIL_BOOTTIME_NS", told.safe_until_boottime_ns.to_string().into()),
            ("PALISADE_LOST_FD", self.reader.as_raw_fd().to_string().into()),
        ];
        if let Some((token, ended)) = told.previous {
            environment.push(("PALISADE_PREVIOUS_TOKEN", token.to_string().into()));
            environment.push(("PALISADE_PREVIOUS_ENDED", ended.into()));
        }
        environment.extend(told.files.iter().cloned());
        environment
    }
}

/// Removes the files of wrappers that were killed: theirs are the ones that nobody has locked. What cannot be looked at or
/// removed is another's, or gone, and left.
fn sweep(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let ours = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| {
            name.starts_with(PREFIX) && SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
        })
    });
    for path in ours.map(|entry| entry.path()) {
        if is_left_behind(&path).unwrap_or(false) {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn is_left_behind(path: &Path) -> io::Result<bool> {
    // Neither through a link that another user put there, nor waiting for the other end of a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?);
    let found = file.metadata()?;
    let old = found.modified()?.elapsed().is_ok_and(|age| age > SWEPT_AFTER);
    Ok(found.is_file() && old && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_for_holders_and_the_help_have_every_variable() {
        let scratch = super::super::Scratch::new(Some(b""), true).unwrap();
        let told = Told { files: scratch.environment(), ..Told::example() };
        let page = include_str!("../../../docs/holder.md");
        for (variable, _) in Shown::new(told).unwrap().environment() {
            assert!(page.contains(&format!("| `{variable}` |")), "{variable}");
            assert!(include_str!("../args/lock.rs").contains(&format!("  {variable} ")), "{variable}");
        }
    }

    #[test]
    fn what_a_killed_wrapper_left_is_swept_and_what_a_living_one_has_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, age: u64| {
            let path = folder.path().join(name);
            let file = File::create(&path).unwrap();
            file.set_modified(std::time::SystemTime::now() - Duration::from_secs(age)).unwrap();
            (path, file)
        };
        let (left, _) = file("palisade-a.sequencer", 120);
        let (held, holder) = file("palisade-b.sequencer", 120);
        let (young, _) = file("palisade-c.sequencer", 1);
        let (other, _) = file("palisade.toml", 120);
        flock(&holder, FlockOperation::NonBlockingLockExclusive).unwrap();
        sweep(folder.path());
        assert_eq!([&left, &held, &young, &other].map(|path| path.exists()), [false, true, true, true]);
        drop(holder);
        sweep(folder.path());
        assert!(!held.exists());
    }
}
