//! A program that works under a lock, in a process of its own that a test may stop and wake.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::{eventually, soon, stands};

/// Killed with the test.
pub(crate) struct Job {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Job {
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    /// The next line that begins with this.
    pub(crate) async fn says(&mut self, beginning: &str) -> String {
        let line = async {
            while let Some(line) = self.said.next_line().await.unwrap() {
                if line.starts_with(beginning) {
                    return line;
                }
            }
            panic!("it ended without saying: {beginning}");
        };
        soon(beginning, line).await
    }

    /// Waits until it has stopped itself.
    pub(crate) async fn stopped(&mut self) {
        self.says("stopped right before").await;
        let id = self.child.id().unwrap();
        eventually("the process stands still", async || stands(id).then_some(())).await;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        kill_process(id.unwrap(), signal).unwrap();
    }

    /// Waits for its end: its exit code, and what it said that nobody has asked for yet.
    pub(crate) async fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        let ended = async {
            while let Some(line) = self.said.next_line().await.unwrap() {
                rest += &line;
                rest.push('\n');
            }
            self.child.wait().await.unwrap().code()
        };
        (soon("the program ends", ended).await, rest)
    }
}
