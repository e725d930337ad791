//! What a client leaves for the process that comes after it: which session it has, and the secret by which to take it over.
//!
//! A new secret goes into the file before the request that opens a session by it. So whatever moment a process dies in,
//! the next one finds every secret that the cluster may know.

use std::path::{Path, PathBuf};

use palisade_core::ids::SessionId;
use palisade_host::{OwnFile, boot_id};

use crate::error::OpenError;

/// The first line; the number is the format's.
const HEAD: &str = "palisade-client-state 1";

/// The 256 random bits by which a session is spoken for.
pub(crate) type Secret = [u8; 32];

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    /// The last session that is known to have been opened.
    pub(crate) session: Option<SavedSession>,
    /// A secret by which one may have been opened since, in place of that one.
    pub(crate) opening: Option<SavedOpening>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedSession {
    pub(crate) id: SessionId,
    pub(crate) secret: Secret,
    /// Under which its process ran; none where the system does not tell.
    pub(crate) boot: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedOpening {
    pub(crate) secret: Secret,
    pub(crate) boot: Option<String>,
}

/// The file, in the hands of this process alone.
#[derive(Debug)]
pub(crate) struct StateFile {
    file: OwnFile,
    /// Of this process.
    pub(crate) boot: Option<String>,
}

impl StateFile {
    pub(crate) fn take(path: &Path) -> std::io::Result<Self> {
        Ok(Self { file: OwnFile::take(path)?, boot: boot_id() })
    }

    pub(crate) fn read(&self) -> Result<Saved, OpenError> {
        let bytes = self.file.read().map_err(|error| self.failed(&error))?;
        let Some(bytes) = bytes else { return Ok(Saved::default()) };
        parse(&bytes).ok_or_else(|| {
            self.failed(&"it is not what a client of this version writes; remove it to begin anew without what was held")
        })
    }

    pub(crate) fn write(&self, saved: &Saved) -> Result<(), OpenError> {
        self.file.write(text(saved).as_bytes()).map_err(|error| self.failed(&error))
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> OpenError {
        OpenError::StateFile { path: Some(PathBuf::from(self.file.path())), message: why.to_string() }
    }
}

/// Whether the file lock, which this process has, shows that a process that ran under that boot is dead.
pub(crate) fn proves(then: Option<&String>, now: Option<&String>) -> bool {
    then.is_some() && then == now
}

fn text(saved: &Saved) -> String {
    let mut text = format!("{HEAD}\n");
    if let Some(SavedSession { id, secret, boot }) = &saved.session {
        text += &format!("session {id} {} {}\n", hex(secret), boot.as_deref().unwrap_or("-"));
    }
    if let Some(SavedOpening { secret, boot }) = &saved.opening {
        text += &format!("opening {} {}\n", hex(secret), boot.as_deref().unwrap_or("-"));
    }
    text + "end\n"
}

fn parse(bytes: &[u8]) -> Option<Saved> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.strip_suffix("end\n")?.lines();
    if lines.next() != Some(HEAD) {
        return None;
    }
    let mut saved = Saved::default();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["session", id, secret, boot] => {
                let id = SessionId(id.parse().ok()?);
                saved.session = Some(SavedSession { id, secret: unhex(secret)?, boot: known(boot) });
            }
            ["opening", secret, boot] => {
                saved.opening = Some(SavedOpening { secret: unhex(secret)?, boot: known(boot) });
            }
            _ => return None,
        }
    }
    Some(saved)
}

fn known(boot: &str) -> Option<String> {
    (boot != "-").then(|| boot.to_owned())
}

fn hex(secret: &Secret) -> String {
    secret.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Secret> {
    let mut secret = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in secret.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Saved {
        let boot = Some("4e1c".to_owned());
        let session = SavedSession { id: SessionId(42), secret: [7; 32], boot: boot.clone() };
        Saved { session: Some(session), opening: Some(SavedOpening { secret: [0xab; 32], boot }) }
    }

    #[test]
    fn what_is_written_is_read() {
        for saved in [Saved::default(), saved(), Saved { opening: None, ..saved() }] {
            assert_eq!(parse(text(&saved).as_bytes()), Some(saved));
        }
    }

    #[test]
    fn half_of_it_is_nothing() {
        let whole = text(&saved());
        for length in 0..whole.len() {
            assert_eq!(parse(&whole.as_bytes()[..length]), None, "{length} bytes");
        }
        assert_eq!(parse(b"palisade-client-state 2\nend\n"), None);
    }

    #[test]
    fn only_a_known_boot_proves_anything() {
        let (one, other) = ("4e1c".to_owned(), "77aa".to_owned());
        assert!(proves(Some(&one), Some(&one)));
        assert!(!proves(Some(&one), Some(&other)));
        assert!(!proves(None, None));
    }
}
