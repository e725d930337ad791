//! What the command is told about the lock: environment, a private file, and a pipe that ends with the lock.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;

use rustix::io::{FdFlags, fcntl_setfd};
use tempfile::NamedTempFile;

/// Plain facts of one grant.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// The lock's name.
    pub(crate) lock: String,
    /// Its fencing token.
    pub(crate) token: u64,
    /// The session that holds it.
    pub(crate) session: u64,
    /// The signed proof.
    pub(crate) sequencer: String,
    /// Nodes, for calling back.
    pub(crate) endpoints: Vec<String>,
    /// Until when the lease was sure at the command's start: nanoseconds of the clock that counts suspension.
    pub(crate) safe_until_boottime_ns: u64,
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
        let folder = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, Into::into);
        let name = tempfile::Builder::new().prefix("palisade-").suffix(".sequencer").to_owned();
        let mut file = name.tempfile_in(folder).or_else(|_| name.tempfile())?;
        writeln!(file, "{}", told.sequencer)?;
        let (reader, writer) = io::pipe()?;
        // The command inherits this end, and only this one.
        fcntl_setfd(&reader, FdFlags::empty())?;
        Ok(Self { told, file, reader, _writer: writer })
    }

    /// What goes into the command's environment. 64-bit numbers are integers here (SPEC 13).
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let told = &self.told;
        vec![
            ("PALISADE_LOCK", told.lock.clone().into()),
            ("PALISADE_TOKEN", told.token.to_string().into()),
            ("PALISADE_SEQUENCER", told.sequencer.clone().into()),
            ("PALISADE_SEQUENCER_FILE", self.file.path().into()),
            ("PALISADE_SESSION", told.session.to_string().into()),
            ("PALISADE_ENDPOINTS", told.endpoints.join(",").into()),
            ("PALISADE_SAFE_UNTIL_BOOTTIME_NS", told.safe_until_boottime_ns.to_string().into()),
            ("PALISADE_LOST_FD", self.reader.as_raw_fd().to_string().into()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_for_holders_and_the_help_have_every_variable() {
        let told = Told {
            lock: "nightly".into(),
            token: 8,
            session: 7,
            sequencer: "a.b.c".into(),
            endpoints: vec!["127.0.0.1:7170".into()],
            safe_until_boottime_ns: 1,
        };
        let page = include_str!("../../../docs/holder.md");
        for (variable, _) in Shown::new(told).unwrap().environment() {
            assert!(page.contains(&format!("| `{variable}` |")), "{variable}");
            assert!(include_str!("../args.rs").contains(&format!("  {variable} ")), "{variable}");
        }
    }
}
