//! `palisade bench` of the build at hand, on a real cluster: three processes, their data on disk, clients over loopback.
//!
//! `cargo bench --bench acquire -- [grant|contend|keepalive|check|failover] [its arguments]`; without a name it is `grant`.
//! It fails when what was looked at meanwhile was wrong: a token that did not rise, a session that was lost.

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    // Cargo's own word for a bench target is left out.
    let mut arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if arguments.first().is_none_or(|first| first.starts_with('-')) {
        arguments.insert(0, "grant".to_owned());
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade"));
    match command.arg("bench").args(arguments).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            eprintln!("palisade bench ended with {status}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("palisade bench could not be started: {error}");
            ExitCode::FAILURE
        }
    }
}
