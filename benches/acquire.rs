//! Acquire and release on a real cluster: three processes, their data on disk, clients over loopback.
//!
//! `cargo bench --bench acquire -- [arguments of palisade bench grant]`. It runs `palisade bench grant` of the same
//! build, which prints grants a second and latencies, and fails when the tokens of a lock did not rise.

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade"));
    command.args(["bench", "grant"]);
    // Cargo's own word for a bench target.
    command.args(std::env::args().skip(1).filter(|argument| argument != "--bench"));
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            eprintln!("palisade bench grant ended with {status}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("palisade bench grant could not be started: {error}");
            ExitCode::FAILURE
        }
    }
}
