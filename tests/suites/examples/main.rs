//! The examples that write to a database or to an object store, as processes beside real nodes: one is stopped past its
//! lease, another works, and the first wakes up and writes. Once as the examples are, and once without the fence.
//!
//! Needs: psql (and the server that comes with it).
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod compaction;
#[path = "../../live/mod.rs"]
#[allow(dead_code, unused_imports, reason = "what the other tests need")]
mod live;
mod payout;
#[path = "../stores/server.rs"]
#[allow(dead_code, reason = "what the other suite needs")]
mod server;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use self::live::Live;

/// As this suite is.
fn example(name: &str) -> PathBuf {
    live::example::built(name, &["--package", "palisade", "--features", "object-store,postgres"])
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs a program to its end.
async fn run<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> Output {
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    live::soon("the program ends", command.output()).await.unwrap()
}

/// `palisade drill` with this command: its exit code and its page.
async fn drill(live: &Live, lock: &str, flags: &[&str], command: &[&str]) -> (Option<i32>, String) {
    let mut drill = Command::new(env!("CARGO_BIN_EXE_palisade"));
    drill.args(["--endpoints", live.address(0), "drill", lock, "--refused-code", "4"]).args(flags);
    drill.arg("--").args(command).stdin(Stdio::null());
    let output = live::soon("the drill ends", tokio::process::Command::from(drill).output()).await.unwrap();
    (output.status.code(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
}
