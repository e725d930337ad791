//! Exit codes: one vocabulary for wrapper commands, one for all others.
//!
//! A wrapper command (`palisade lock NAME -- COMMAND`) returns the command's own code, as `flock` and `timeout` do, and
//! keeps 123 to 127 for itself. The other commands answer in small numbers.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

/// What the process returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    /// Done; the answer is yes.
    pub(crate) const OK: Self = Self(0);
    /// The answer is no: stale, not held, unhealthy.
    pub(crate) const NO: Self = Self(1);
    /// What was typed makes no sense.
    pub(crate) const USAGE: Self = Self(2);
    /// No answer in time; a repeat may succeed.
    pub(crate) const UNAVAILABLE: Self = Self(3);
    /// No such thing.
    pub(crate) const NOT_FOUND: Self = Self(5);
    /// A defect of the program.
    pub(crate) const DEFECT: Self = Self(70);

    /// Wrapper: the lock was lost while the command ran.
    pub(crate) const LOST: Self = Self(123);
    /// Wrapper: not acquired in time.
    pub(crate) const NOT_ACQUIRED: Self = Self(124);
    /// Wrapper: palisade itself failed.
    pub(crate) const FAILED: Self = Self(125);
    /// Wrapper: the command cannot be run.
    pub(crate) const NOT_RUNNABLE: Self = Self(126);
    /// Wrapper: there is no such command.
    pub(crate) const NO_SUCH_COMMAND: Self = Self(127);

    /// A code that the user named.
    pub(crate) const fn named(code: u8) -> Self {
        Self(code)
    }

    /// As a shell says it: the process ended by signal `number`.
    pub(crate) fn signalled(number: i32) -> Self {
        u8::try_from(number).map_or(Self::FAILED, |number| Self(number.saturating_add(128)))
    }

    /// The code of a command that ended.
    pub(crate) fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => u8::try_from(code).map_or(Self::FAILED, Self),
            (None, Some(signal)) => Self::signalled(signal),
            (None, None) => Self::FAILED,
        }
    }

    /// For people.
    pub(crate) const fn code(self) -> u8 {
        self.0
    }
}

/// What a code means, as `docs/errors.md` says it; none for one that only a command under a lock returns.
pub(crate) const fn meaning(code: u8) -> Option<&'static str> {
    Some(match code {
        0 => "yes: healthy, held, current; a node that was told to stop",
        1 => "no: not healthy, not held, not current; a node that cannot go on",
        2 => "what was typed, or configured, makes no sense",
        3 => "no answer in time, or an address is taken; a repeat may succeed",
        4 => "not allowed",
        5 => "no such thing",
        6 => "somebody else has it",
        70 => "a defect of the program",
        123 => "the lock was lost while the command ran; the command was stopped",
        124 => "not acquired in time",
        125 => "palisade itself failed, wrong arguments included",
        126 => "the command cannot be run",
        127 => "there is no such command",
        _ => return None,
    })
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_returns_its_own_code_or_its_signal() {
        assert_eq!(Exit::of(ExitStatus::from_raw(0)), Exit::OK);
        assert_eq!(Exit::of(ExitStatus::from_raw(7 << 8)).code(), 7);
        assert_eq!(Exit::of(ExitStatus::from_raw(15)).code(), 143);
    }
}
