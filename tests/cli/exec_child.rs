//! The hidden step between the wrapper and its command.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, test_kill_process};

use super::palisade;

fn exec(parent: u32, command: &[&str]) -> Option<i32> {
    let mut step = palisade();
    step.args(["exec-child", "--parent", &parent.to_string(), "--"]).args(command).stderr(Stdio::null());
    step.status().unwrap().code()
}

#[test]
fn it_becomes_the_command() {
    let this = std::process::id();
    assert_eq!(exec(this, &["sh", "-c", "exit 7"]), Some(7));
    assert_eq!(exec(this, &["no-such-command-anywhere"]), Some(127));
    assert_eq!(exec(this, &["/"]), Some(126));
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_whose_wrapper_is_gone_does_not_begin() {
    // Our parent is not its parent.
    let other = rustix::process::getppid().unwrap().as_raw_nonzero().get();
    assert_eq!(exec(u32::try_from(other).unwrap(), &["sh", "-c", "exit 7"]), Some(125));
}

/// A shell that starts the step with a long command, and tells the command's process id.
fn shell_with_a_command() -> (Child, Pid) {
    let step = env!("CARGO_BIN_EXE_palisade");
    let script = format!("'{step}' exec-child --parent $$ -- sleep 1000 & echo $!; wait");
    let mut shell = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (shell, Pid::from_raw(line.trim().parse().unwrap()).unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_wrapper_takes_its_command_along() {
    let (mut shell, command) = shell_with_a_command();
    // Whether the step came as far as the command or not, the parent's death must reach it.
    shell.kill().unwrap();
    shell.wait().unwrap();
    while alive(command) {
        std::thread::yield_now();
    }
}

/// Neither gone nor a zombie that waits to be reaped by whoever adopted it.
#[cfg(target_os = "linux")]
fn alive(process: Pid) -> bool {
    let stat =
        std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    test_kill_process(process).is_ok() && !matches!(state, None | Some(b'Z' | b'X'))
}
