//! The program as its users meet it: a process with arguments, streams and an exit code.

mod admin;
mod bench;
mod conform;
mod demo;
mod documents;
mod drill;
mod elect;
mod exec_child;
mod lock_codes;
mod lock_environment;
mod lock_loss;
mod lock_modes;
mod lock_signals;
mod lock_survivors;
mod pages;
mod unheard;
mod usage;
mod watching;
mod wrapper;

use std::process::Command;

/// The program that was just built.
fn palisade() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade"));
    command.env_remove("PALISADE_ENDPOINTS").env_remove("PALISADE_SEQUENCER");
    command
}
