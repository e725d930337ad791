//! One run of the command, in a process group of its own that is stopped and continued as a whole.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout_at};

use crate::child::{Place, Program, Shown, Told, prepared, stands};

/// Between two looks at a process that may have stopped.
const LOOK: Duration = Duration::from_millis(10);
/// Within which a process stands still after SIGSTOP.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of output that are remembered.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// When the first run is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// So long after its start.
    After(Duration),
    /// Once it has said this.
    When(String),
}

/// Why it was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    After,
    When,
    Itself,
}

/// How a run ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// What it said since it was asked last.
    pub(super) said: String,
}

/// A run. Dropped, its whole group is killed.
pub(super) struct Run {
    who: &'static str,
    child: Child,
    group: Pid,
    lines: Lines<BufReader<ChildStdout>>,
    said: String,
    open: bool,
    quiet: bool,
    // What the command was shown stays for as long as it runs: a holder that stands still takes nothing back.
    _shown: Shown,
}

impl Run {
    /// Begins the command with what `palisade lock` tells its command, and `PALISADE_DRILL=who`. Must be called on the
    /// process's main thread.
    pub(super) fn start(
        who: &'static str,
        command: &[OsString],
        told: Told,
        quiet: bool,
    ) -> anyhow::Result<Self> {
        let lock = told.lock.clone();
        let shown = Shown::new(told)?;
        let place = Place::OwnGroup;
        let program = Program { lock: &lock, command, kill_after: Duration::ZERO, place };
        let mut command = prepared(&program, &shown)?;
        command.env("PALISADE_DRILL", who).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = Command::from(command).spawn().context("the command was not begun")?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = group.context("the system gave an impossible process id")?;
        let lines = BufReader::new(child.stdout.take().context("the command has no stdout")?).lines();
        Ok(Self { who, child, group, lines, said: String::new(), open: true, quiet, _shown: shown })
    }

    /// Stops the group when its moment has come, or when it has stopped itself. None: it ended before.
    pub(super) async fn stop(
        &mut self,
        moment: &Moment,
        patience: Duration,
    ) -> anyhow::Result<Option<Stopped>> {
        let began = Instant::now();
        let deadline = began + if let Moment::After(after) = moment { *after } else { patience };
        let why = loop {
            if self.child.try_wait()?.is_some() {
                return Ok(None);
            }
            if self.stands()? {
                break Stopped::Itself;
            }
            if let Moment::When(text) = moment
                && self.said.contains(text.as_str())
            {
                break Stopped::When;
            }
            if Instant::now() >= deadline {
                match moment {
                    Moment::After(_) => break Stopped::After,
                    Moment::When(text) => bail!("the command did not say {text:?} within {patience:?}"),
                }
            }
            self.listen(deadline.min(Instant::now() + LOOK)).await;
        };
        self.signal(Signal::STOP)?;
        if why != Stopped::Itself {
            let deadline = Instant::now() + STOP_PATIENCE;
            while !self.stands()? {
                if self.child.try_wait()?.is_some() {
                    return Ok(None);
                }
                if Instant::now() >= deadline {
                    bail!("the command did not stop within {STOP_PATIENCE:?} of SIGSTOP");
                }
                sleep(LOOK).await;
            }
        }
        Ok(Some(why))
    }

    /// Whether all of the group stands still; where the system does not tell, whether the command itself does.
    fn stands(&self) -> anyhow::Result<bool> {
        if let Some(stands) = stands(self.group) {
            return Ok(stands);
        }
        let seen = waitid(WaitId::Pid(self.group), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
        Ok(seen.context("looking at the command")?.is_some())
    }

    /// Lets the group go on. What it said before does not count any longer.
    pub(super) fn go_on(&mut self) -> anyhow::Result<()> {
        self.said.clear();
        self.signal(Signal::CONT)
    }

    /// Waits for its end; none when it did not come in time.
    pub(super) async fn end(mut self, patience: Duration) -> anyhow::Result<Option<Ended>> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                // What it wrote last may still be in the pipe.
                while self.open && self.listen(Instant::now() + LOOK).await {}
                return Ok(Some(Ended { status, said: std::mem::take(&mut self.said) }));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            self.listen(deadline.min(Instant::now() + LOOK)).await;
        }
    }

    /// Takes what the command says, at most until then. Whether it said something.
    async fn listen(&mut self, until: Instant) -> bool {
        if !self.open {
            tokio::time::sleep_until(until).await;
            return false;
        }
        let Ok(line) = timeout_at(until, self.lines.next_line()).await else { return false };
        let Ok(Some(line)) = line else {
            self.open = false;
            return false;
        };
        if !self.quiet {
            say!("{:<8} | {line}", self.who);
        }
        if self.said.len() + line.len() < OUTPUT_BYTES_MAX {
            self.said.push_str(&line);
            self.said.push('\n');
        }
        true
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process_group(self.group, signal).with_context(|| format!("a signal to the {} run", self.who))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // What the command left running; nothing of it may be left.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}
