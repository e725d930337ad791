//! Pages of `palisade help` that are about no command.

use std::io::Write;

use crate::commands::Failure;
use crate::exit::Exit;

pub(crate) const FENCING: &str = include_str!("fencing.txt");
pub(crate) const EXIT_CODES: &str = include_str!("exit-codes.txt");
pub(crate) const ENVIRONMENT: &str = include_str!("environment.txt");

/// For whoever typed the page's name without `help`.
pub(crate) fn show(page: &str) -> Result<Exit, Failure> {
    std::io::stdout().lock().write_all(page.as_bytes())?;
    Ok(Exit::OK)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;
    use crate::exit;

    #[test]
    fn the_page_of_exit_codes_says_what_each_means() {
        let codes = (0..=255).filter_map(|code| Some((code, exit::meaning(code)?)));
        for (code, meaning) in codes {
            let line = EXIT_CODES.lines().find(|line| line.trim_start().starts_with(&format!("{code} ")));
            assert!(line.is_some_and(|line| line.contains(meaning)), "{code} {meaning}");
        }
    }

    #[test]
    fn the_page_of_variables_has_every_one_that_a_flag_reads() {
        let mut program = Cli::command();
        program.build();
        let commands = std::iter::once(&program)
            .chain(program.get_subcommands().filter(|command| !command.is_hide_set()));
        for argument in commands.flat_map(clap::Command::get_arguments) {
            if let Some(variable) = argument.get_env().and_then(|name| name.to_str()) {
                assert!(ENVIRONMENT.contains(variable), "{variable}");
            }
        }
    }
}
