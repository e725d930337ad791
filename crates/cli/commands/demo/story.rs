//! What happened, as measured: the one source of the table, the picture and the document for scripts.
//!
//! Nothing here decides what should happen. The verdict of a round is read from the file that its workers wrote.

use std::time::Duration;

/// The whole demo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Story {
    pub(super) lock: String,
    pub(super) leader: String,
    pub(super) term: u64,
    pub(super) ttl: Duration,
    pub(super) pause: Duration,
    pub(super) rounds: Vec<Round>,
}

/// Whether the resource checks the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fencing {
    /// A plain file.
    Unfenced,
    /// The same file behind a guard.
    Fenced,
}

/// One telling of the story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) fencing: Fencing,
    pub(super) events: Vec<Event>,
    /// What the file contains at the end.
    pub(super) lines: Vec<Line>,
    /// Errors that the nodes logged meanwhile.
    pub(super) node_errors: usize,
}

/// A line of the file: what was written, and under which token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) token: u64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Since worker A asked for the lock, by the demo's clock.
    pub(super) at: Duration,
    pub(super) who: Who,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    A,
    B,
    /// The lock server.
    Server,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Acquired {
        token: u64,
    },
    /// Waits behind the holder.
    Queued,
    /// SIGSTOP took effect.
    Stopped,
    /// SIGCONT was sent.
    Continued,
    /// The lock server ended A's session, and so its tenure.
    Expired {
        token: u64,
    },
    /// The resource's mark is raised before anything is read.
    Claimed {
        mark: u64,
    },
    /// The resource has no marks.
    NothingToClaim,
    Wrote {
        text: String,
        token: u64,
        /// The resource's mark afterwards, where it has one.
        mark: Option<u64>,
        /// A newer token had been granted before.
        stale: bool,
    },
    /// The resource did not take the write.
    Refused {
        text: String,
        token: u64,
        mark: u64,
    },
    /// A release that freed nothing.
    ReleaseRefused {
        reason: String,
        superseded_by: Option<u64>,
    },
    /// Who holds the lock at the end.
    StillHeld {
        by: Who,
        token: u64,
    },
}

impl Fencing {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Unfenced => "unfenced",
            Self::Fenced => "fenced",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Unfenced => "the resource does not check the token",
            Self::Fenced => "the resource checks the token",
        }
    }
}

impl Who {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::Server => "lock server",
        }
    }
}

impl Line {
    /// As it stands in the file, without the line's end.
    pub(super) fn encode(text: &str, token: u64) -> String {
        format!("{text} token={token}")
    }

    /// None when it is no line of ours.
    pub(super) fn decode(line: &str) -> Option<Self> {
        let (text, token) = line.split_once(" token=")?;
        Some(Self { text: text.to_owned(), token: token.parse().ok()? })
    }
}

impl Round {
    /// Whether a write of an older tenure stands behind one of a newer (SPEC 15, 9).
    pub(super) fn is_corrupt(&self) -> bool {
        self.lines.windows(2).any(|pair| pair[1].token < pair[0].token)
    }

    /// How many tenures the cluster granted.
    pub(super) fn grants(&self) -> usize {
        self.count(|what| matches!(what, What::Acquired { .. }))
    }

    /// How many it ended because it had not heard from the holder.
    pub(super) fn expiries(&self) -> usize {
        self.count(|what| matches!(what, What::Expired { .. }))
    }

    pub(super) fn stale_refused(&self) -> bool {
        self.count(|what| matches!(what, What::Refused { .. })) > 0
    }

    /// When the first of these happened.
    pub(super) fn when(&self, which: impl Fn(&What) -> bool) -> Option<Duration> {
        self.events.iter().find(|event| which(&event.what)).map(|event| event.at)
    }

    /// When this worker was granted the lock, and under which token.
    pub(super) fn granted(&self, who: Who) -> Option<(Duration, u64)> {
        let granted = self.events.iter().filter(|event| event.who == who);
        granted
            .filter_map(|event| match event.what {
                What::Acquired { token } => Some((event.at, token)),
                _ => None,
            })
            .next()
    }

    fn count(&self, which: impl Fn(&What) -> bool) -> usize {
        self.events.iter().filter(|event| which(&event.what)).count()
    }

    /// An error that says what should have been otherwise.
    pub(super) fn check(&self) -> Result<(), String> {
        match (self.fencing, self.stale_refused(), self.is_corrupt()) {
            (Fencing::Fenced, true, false) | (Fencing::Unfenced, false, true) => Ok(()),
            (Fencing::Fenced, _, true) => Err("the fenced resource let a stale write in".to_owned()),
            (Fencing::Fenced, false, false) => {
                Err("the fenced resource never met the stale write".to_owned())
            }
            (Fencing::Unfenced, _, _) => {
                Err("the unfenced resource did not take the stale write, so nothing was shown".to_owned())
            }
        }
    }
}

impl Story {
    /// An error that says what should have been otherwise.
    pub(super) fn check(&self) -> Result<(), String> {
        self.rounds.iter().try_for_each(Round::check)
    }
}

#[cfg(test)]
pub(super) mod tests;
