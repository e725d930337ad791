//! The program as its users meet it: a process with arguments, streams and an exit code.

mod demo;
mod exec_child;
mod usage;

use std::process::Command;

/// The program that was just built.
fn palisade() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade"));
    command.env_remove("PALISADE_ENDPOINTS").env_remove("PALISADE_SEQUENCER");
    command
}
