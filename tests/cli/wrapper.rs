//! `palisade lock` as a test runs it.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::live::{Live, soon};

/// A running wrapper, ended with the test.
pub(super) struct Wrapper {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Wrapper {
    /// Starts `palisade lock` with these arguments against a cluster.
    pub(super) fn start(live: &Live, arguments: &[&str]) -> Self {
        Self::start_as("lock", live, arguments)
    }

    /// Starts one of the commands that run another one.
    pub(super) fn start_as(command: &str, live: &Live, arguments: &[&str]) -> Self {
        let wrapper = command;
        // What runs in the background of a shell ignores INT and QUIT, and the wrapper respects what it inherits.
        let mut command = Command::new("env");
        command.env_remove("PALISADE_ENDPOINTS").env_remove("PALISADE_SEQUENCER");
        command.args(["--default-signal=INT,QUIT,HUP,TERM", env!("CARGO_BIN_EXE_palisade")]);
        command
            .args(["--quiet", "--endpoints", &live.cluster.endpoints().join(","), wrapper])
            .args(arguments);
        Self::of(command)
    }

    /// Starts one that a test has put together.
    pub(super) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut command = tokio::process::Command::from(command);
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line that its command writes.
    pub(super) async fn line(&mut self) -> Option<String> {
        soon("the command says something", self.lines.next_line()).await.unwrap()
    }

    /// The next line, which is a process id.
    pub(super) async fn process(&mut self) -> Pid {
        let line = self.line().await.expect("a process id");
        Pid::from_raw(line.trim().parse().unwrap()).unwrap()
    }

    pub(super) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id().expect("it runs")).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Its exit code, once it ended.
    pub(super) async fn code(&mut self) -> Option<i32> {
        soon("the wrapper ends", self.child.wait()).await.unwrap().code()
    }

    /// `kill -9`.
    pub(super) async fn kill(&mut self) {
        soon("the wrapper is gone", self.child.kill()).await.unwrap();
    }
}

/// The commands that run another one under a lock, and do as the same tables say.
pub(super) const WRAPPERS: [&str; 2] = ["lock", "elect"];

/// Runs `palisade lock` to its end.
pub(super) async fn code(live: &Live, arguments: &[&str]) -> Option<i32> {
    Wrapper::start(live, arguments).code().await
}

/// Runs one of the wrappers to its end.
pub(super) async fn code_of(command: &str, live: &Live, arguments: &[&str]) -> Option<i32> {
    Wrapper::start_as(command, live, arguments).code().await
}

/// Processes that are neither gone nor zombies, by what is asked of (process, its group).
#[cfg(target_os = "linux")]
pub(super) fn alive(wanted: impl Fn(Pid, Pid) -> bool) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let found = stats.filter(|stat| {
        let pid = stat.split(' ').next().and_then(|id| Pid::from_raw(id.parse().ok()?));
        // The name may hold blanks and brackets; state, parent and group follow it.
        let mut rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
        let state = rest.next();
        let group = rest.nth(1).and_then(|id| Pid::from_raw(id.parse().ok()?));
        let (Some(pid), Some(group)) = (pid, group) else { return false };
        !matches!(state, Some("Z" | "X")) && wanted(pid, group)
    });
    found.count()
}
