//! Which engine keeps a log on disk.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use super::{Engine, segments, sled};
use crate::error::OpenError;

/// The engines that keep a log on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// Files that were written through once and are used again.
    #[default]
    Segments,
    /// A sled store.
    Sled,
}

impl EngineKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Segments, Self::Sled];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Sled => "sled",
        }
    }

    /// Which engine wrote the log in `dir`; none when there is no log.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or both have left files there.
    pub fn of(dir: &Path) -> Result<Option<Self>, OpenError> {
        let segments = segments::any(dir).map_err(|source| OpenError::io(dir, source))?;
        let sled = ["conf", "db"].iter().any(|name| dir.join(name).exists());
        match (segments, sled) {
            (true, true) => Err(OpenError::damaged(dir, "both a sled store and segments are in it")),
            (true, false) => Ok(Some(Self::Segments)),
            (false, true) => Ok(Some(Self::Sled)),
            (false, false) => Ok(None),
        }
    }

    /// Opens the log in `dir`, and makes it if there is none.
    ///
    /// # Errors
    ///
    /// When another process uses it, it cannot be read, or what it holds is not what was written.
    pub fn open(self, dir: &Path) -> Result<Arc<dyn Engine>, OpenError> {
        match self {
            Self::Segments => segments::open_segments(dir),
            Self::Sled => sled::open_sled(dir),
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EngineKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        known.ok_or_else(|| format!("{name:?} is no storage; segments and sled are"))
    }
}
