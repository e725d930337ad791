//! `palisade man`: man pages, one for the program and one for each command, made from what `--help` is made of.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};

use super::Failure;
use crate::args::Cli;
use crate::exit::Exit;

/// `palisade man`
#[derive(Debug, Args)]
#[command(after_help = "Example: palisade man --dir /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write all pages to this folder; without it, the program's own page goes to stdout
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}

pub(crate) fn run(arguments: &ManArgs) -> Result<Exit, Failure> {
    let program = Cli::command();
    match &arguments.dir {
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            clap_mangen::generate_to(program, folder).with_context(|| folder.display().to_string())?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(program).render(&mut page)?;
            std::io::stdout().lock().write_all(&page)?;
        }
    }
    Ok(Exit::OK)
}
