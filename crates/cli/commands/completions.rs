//! `palisade completions`: what a shell needs to complete commands and flags.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Failure;
use crate::args::Cli;
use crate::exit::Exit;

/// `palisade completions`
#[derive(Debug, Args)]
#[command(after_help = "Example: palisade completions bash > /etc/bash_completion.d/palisade")]
pub(crate) struct CompletionsArgs {
    /// For which shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "palisade", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Exit::OK)
}
