//! Runs a command while a lock is held, and stops it when the lock is lost.
//!
//! The command is run without a shell, in a process group of its own; every signal that can be caught is passed on to
//! that group. When the lock is lost the group gets SIGTERM and, after a grace, SIGKILL. Nothing of the group is alive
//! when [`watch`] returns, unless it says so, so that a lock is released after its work, never before.
//!
//! What cannot be covered: a descendant that left the group (`setsid`), and what runs on in another machine. The
//! resource's check of the token covers both.

mod exec;
mod group;
mod scratch;
mod shown;
mod signals;

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::os::unix::process::CommandExt;
use std::pin::pin;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::signal::unix::{SignalKind, signal};

use self::group::{Group, Leader};
use crate::exit::Exit;

pub(crate) use self::exec::exec;
pub(crate) use self::group::stands;
pub(crate) use self::scratch::Scratch;
pub(crate) use self::shown::{Shown, Told};
pub(crate) use self::signals::Signals;

/// What to run, and how it is stopped.
pub(crate) struct Program<'a> {
    /// For messages.
    pub(crate) lock: &'a str,
    /// The command and its arguments; at least one word.
    pub(crate) command: &'a [OsString],
    /// From SIGTERM to SIGKILL.
    pub(crate) kill_after: Duration,
    /// Whether the command stays in this process group, to read the terminal.
    pub(crate) place: Place,
}

/// Which process group the command is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// One of its own: all of it is stopped with the command.
    OwnGroup,
    /// Ours, so that it can read the terminal; only the command itself is stopped.
    Foreground,
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Its own code, or [`Exit::LOST`].
    pub(crate) exit: Exit,
    /// Members of its group that even SIGKILL did not end in time. The lock must not be released before them.
    pub(crate) survivors: usize,
}

/// Watches over a command that [`spawn`] began until it ends or `lost` resolves (to the reason), and then ends its
/// process group. `held` is asked before a stopped command goes on, and once more after it ended.
///
/// # Errors
///
/// When the system refuses to tell about our own child. What is alive then is not known.
pub(crate) async fn watch(
    mut child: Child,
    program: &Program<'_>,
    shown: Shown,
    signals: &mut Signals,
    lost: impl Future<Output = String>,
    held: impl Fn() -> bool,
) -> io::Result<Ended> {
    let mut ended = signal(SignalKind::child())?;
    let mut group = Group::new(pid(&child)?, program.place);
    let mut lost = pin!(lost);

    let reason = loop {
        // Asked before each wait: the command may have ended before its end was listened for.
        match group.leader()? {
            Leader::Ended => break (!held()).then(|| "its lease had ended".to_owned()),
            Leader::Runs => {}
            Leader::StoppedForTerminal => hint_terminal(program.lock),
        }
        tokio::select! {
            biased;
            reason = &mut lost => break Some(reason),
            caught = signals.next() => {
                if caught == Signal::CONT && !held() {
                    break Some("its lease ended while this process was stopped".to_owned());
                }
                group.pass_on(caught);
            }
            _ = ended.recv() => {}
        }
    };
    // The file and the pipe first: a command that looks can see why it is stopped.
    drop(shown);
    if let Some(reason) = &reason {
        say!("palisade: lost {}: {reason}; sending SIGTERM to {group}", program.lock);
    }
    let survivors = group.end(program.kill_after, signals).await?;
    let own = if group.leader()? == Leader::Ended { Exit::of(child.wait()?) } else { Exit::FAILED };
    Ok(Ended { exit: if reason.is_some() { Exit::LOST } else { own }, survivors })
}

/// Begins the command, by way of this very program's hidden step, which sets the parent-death signal and becomes the
/// command. Must be called on the process's main thread: that signal follows the thread.
///
/// # Errors
///
/// When the process cannot be made. A command that cannot be run is no error, but an exit code.
pub(crate) fn spawn(program: &Program<'_>, shown: &Shown) -> io::Result<Child> {
    prepared(program, shown)?.spawn()
}

/// What [`spawn`] spawns.
///
/// # Errors
///
/// When this program cannot be found.
pub(crate) fn prepared(program: &Program<'_>, shown: &Shown) -> io::Result<Command> {
    let mut command = Command::new(own_path()?);
    command
        .arg("exec-child")
        .arg("--parent")
        .arg(std::process::id().to_string())
        .arg("--")
        .args(program.command);
    command.envs(shown.environment());
    if program.place == Place::OwnGroup {
        command.process_group(0);
    }
    Ok(command)
}

/// This program, even when its file was replaced since.
pub(crate) fn own_path() -> io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

fn pid(child: &Child) -> io::Result<Pid> {
    let raw = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    raw.ok_or_else(|| io::Error::other("the system gave an impossible process id"))
}

fn hint_terminal(lock: &str) {
    say!(
        "palisade: the command wants the terminal and is stopped; run it as `palisade lock --foreground {lock} -- …`"
    );
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn told() -> Told {
        Told { token: 813, ..Told::example() }
    }

    /// A shell script in a process group of its own, with what a command is told.
    struct Script {
        child: Child,
        shown: Shown,
    }

    fn begin(script: &str) -> Script {
        let shown = Shown::new(told()).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).envs(shown.environment()).process_group(0);
        Script { child: command.spawn().unwrap(), shown }
    }

    async fn watched(script: Script, grace_ms: u64, lost: impl Future<Output = String>, held: bool) -> Ended {
        let program = Program {
            lock: "nightly",
            command: &[],
            kill_after: Duration::from_millis(grace_ms),
            place: Place::OwnGroup,
        };
        let mut signals = Signals::catch().unwrap();
        watch(script.child, &program, script.shown, &mut signals, lost, || held).await.unwrap()
    }

    #[tokio::test]
    async fn a_command_that_ends_by_itself_gives_its_own_code() {
        let ended = watched(begin("exit 7"), 5_000, pending(), true).await;
        assert_eq!(ended, Ended { exit: Exit::named(7), survivors: 0 });
        let ended = watched(begin("kill -KILL $$"), 5_000, pending(), true).await;
        assert_eq!(ended.exit, Exit::signalled(9));
    }

    #[tokio::test]
    async fn success_does_not_hide_that_the_lease_had_ended() {
        let ended = watched(begin("exit 0"), 5_000, pending(), false).await;
        assert_eq!(ended.exit, Exit::LOST);
    }

    #[tokio::test]
    async fn a_loss_ends_a_command_that_will_not_listen() {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let script = begin(&format!("trap '' TERM; : > {}; while :; do sleep 1000; done", ready.display()));
        let group = pid(&script.child).unwrap();
        let lost = async {
            while !ready.exists() {
                tokio::task::yield_now().await;
            }
            "no renewal was acknowledged".to_owned()
        };
        let ended = watched(script, 50, lost, false).await;
        assert_eq!(ended, Ended { exit: Exit::LOST, survivors: 0 });
        assert_eq!(group::alive_in(group), Some(0));
    }

    #[tokio::test]
    async fn what_the_command_left_running_is_ended_before_the_lock_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let stopped = folder.path().join("stopped");
        let ready = folder.path().join("ready");
        let script = begin(&format!(
            "(trap 'echo stopped > {}; exit' TERM; : > {}; while :; do sleep 0.01; done) & while [ ! -e {} ]; do sleep 0.01; done; exit 3",
            stopped.display(),
            ready.display(),
            ready.display(),
        ));
        let ended = watched(script, 60_000, pending(), true).await;
        assert_eq!(ended, Ended { exit: Exit::named(3), survivors: 0 });
        assert!(stopped.exists());
    }

    #[tokio::test]
    async fn a_command_sees_the_file_go_and_the_pipe_end() {
        let folder = tempfile::tempdir().unwrap();
        let seen = folder.path().join("seen");
        let script = begin(&format!(
            "trap : TERM; cat \"$PALISADE_SEQUENCER_FILE\" > {0}; : > {0}.ready
             cat /dev/fd/$PALISADE_LOST_FD; [ -e \"$PALISADE_SEQUENCER_FILE\" ] || echo gone $PALISADE_TOKEN >> {0}",
            seen.display()
        ));
        let ready = folder.path().join("seen.ready");
        let lost = async {
            while !ready.exists() {
                tokio::task::yield_now().await;
            }
            "taken over".to_owned()
        };
        let ended = watched(script, 60_000, lost, false).await;
        assert_eq!(ended.exit, Exit::LOST);
        assert_eq!(std::fs::read_to_string(seen).unwrap(), "a.b.c\ngone 813\n");
    }
}
