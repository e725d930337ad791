//! Child processes that are this very program, started so that they die with it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::child::own_path;

/// Between two looks at a child.
const LOOK: Duration = Duration::from_millis(2);
/// For a signal to take effect.
const SIGNAL_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a log that an error shows, from its end.
const TAIL: u64 = 1_200;

/// Of processor times in `/proc`: what Linux calls `USER_HZ`, the same on every architecture that is still made.
const CPU_TICKS_PER_SECOND: f64 = 100.0;

/// A child. Dropped, it is killed.
pub(crate) struct Process {
    name: String,
    child: Child,
    pid: Pid,
    log: PathBuf,
}

impl Process {
    /// Starts this program with `arguments`; its stderr goes to `NAME.log` in `folder`. Must be called on the process's
    /// main thread: what makes the child die with this one follows the thread.
    pub(crate) fn start(
        name: &str,
        arguments: &[String],
        folder: &Path,
        talks: bool,
    ) -> anyhow::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let stderr = OpenOptions::new().create(true).append(true).open(&log).context("the log of a child")?;
        let pipe = || if talks { Stdio::piped() } else { Stdio::null() };
        let program = own_path()?;
        let mut command = Command::new(&program);
        command.arg("exec-child").arg("--parent").arg(std::process::id().to_string()).arg("--");
        command.arg(&program).args(arguments);
        // Settings of the person's own cluster are not this one's.
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("PALISADE_") {
                command.env_remove(variable);
            }
        }
        command.env("NO_COLOR", "1").stdin(pipe()).stdout(pipe()).stderr(stderr).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid = pid.context("the system gave an impossible process id")?;
        Ok(Self { name: name.to_owned(), child, pid, log })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its stdin and stdout, once.
    pub(crate) fn pipes(&mut self) -> anyhow::Result<(ChildStdin, ChildStdout)> {
        self.child.stdin.take().zip(self.child.stdout.take()).context("the child has no pipes")
    }

    /// An error with the end of its log, if it has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended ({status}); the end of its log:\n{}", self.name, self.tail()),
        }
    }

    /// How many errors it has logged.
    pub(crate) fn errors(&self) -> usize {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.split_whitespace().nth(1) == Some("ERROR")).count()
    }

    /// Suspends it, and returns once the system says that it stands still.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)?;
        let deadline = Instant::now() + SIGNAL_PATIENCE;
        loop {
            let seen = waitid(WaitId::Pid(self.pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
            if seen.with_context(|| format!("looking at {}", self.name))?.is_some() {
                return Ok(());
            }
            self.check()?;
            if Instant::now() >= deadline {
                bail!("{} did not stop within {SIGNAL_PATIENCE:?} of SIGSTOP", self.name);
            }
            sleep(LOOK).await;
        }
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Ends it as a power failure would.
    pub(crate) fn kill(&self) -> anyhow::Result<()> {
        self.signal(Signal::KILL)
    }

    /// Processor time that it has used, in the kernel and outside; none where `/proc` does not say it.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero())).ok()?;
        // The program's name may contain anything; what follows its last parenthesis does not. From there, utime and
        // stime are the 12th and the 13th field (proc(5)).
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Duration::from_secs_f64((user + system) as f64 / CPU_TICKS_PER_SECOND))
    }

    /// Memory of its own that is in RAM, in bytes: what it allocated, not what it maps of files; none where `/proc` does
    /// not say it.
    pub(crate) fn memory(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid.as_raw_nonzero())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib << 10)
    }

    /// Waits for its end, and enforces it after `patience`.
    pub(crate) async fn end(mut self, patience: Duration) -> io::Result<ExitStatus> {
        if let Ok(status) = timeout(patience, self.child.wait()).await {
            return status;
        }
        self.child.kill().await?;
        self.child.wait().await
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(self.pid, signal).with_context(|| format!("a signal to {}", self.name))
    }

    fn tail(&self) -> String {
        let read = || -> io::Result<String> {
            let mut file = File::open(&self.log)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
            let mut bytes = Vec::new();
            file.take(TAIL).read_to_end(&mut bytes)?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            // Cut in the middle of a line, it begins with the next one.
            let cut = if length > TAIL { text.find('\n').map_or(0, |at| at + 1) } else { 0 };
            Ok(text[cut..].trim_end().to_owned())
        };
        read().unwrap_or_else(|error| format!("({}: {error})", self.log.display()))
    }
}
