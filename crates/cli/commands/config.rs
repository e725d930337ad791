//! `palisade config show`: the settings that a command would have, and where each comes from. Asks no node.

use std::ffi::OsString;

use anyhow::Context;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, CommandFactory, Subcommand};
use serde_json::{Value, json};

use super::Failure;
use crate::args::{Cli, Globals};
use crate::exit::Exit;
use crate::output::{Output, table};

/// `palisade config`
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting of a command line: a flag wins over the environment, that over the default
    Show(ShowArgs),
}

/// `palisade config show`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  palisade config show --origin                                what every command takes
  palisade config show --origin -- serve --name n1             and what this node would be told

Exit codes: 0 shown, 2 the command line makes no sense.")]
pub(crate) struct ShowArgs {
    /// Say where each comes from: flag, environment or default
    #[arg(long)]
    pub(crate) origin: bool,
    /// A command line without the program's name; what it leaves out may be missing
    #[arg(last = true, value_name = "COMMAND LINE")]
    pub(crate) line: Vec<OsString>,
}

struct Setting {
    name: String,
    values: Vec<String>,
    origin: &'static str,
    variable: Option<String>,
}

pub(crate) fn run(globals: &Globals, command: &ConfigCommand) -> Result<Exit, Failure> {
    let ConfigCommand::Show(arguments) = command;
    // Without one, what this very command was told.
    let typed = if arguments.line.is_empty() {
        std::env::args_os().skip(1).collect()
    } else {
        arguments.line.clone()
    };
    let line = std::iter::once(OsString::from("palisade")).chain(typed);
    let program = Cli::command().ignore_errors(true);
    let matches = program.clone().try_get_matches_from(line);
    let matches = matches.map_err(|error| Failure::new(Exit::USAGE, error))?;
    // What every command takes is known to the last one named, wherever it was typed.
    let (mut command, mut told) = (&program, &matches);
    while let Some((name, inner)) = told.subcommand() {
        command = command.find_subcommand(name).context("a command that was just found")?;
        told = inner;
    }
    let mut shown = settings(program.get_arguments().filter(|arg| arg.is_global_set()), told);
    if !arguments.line.is_empty() {
        shown.extend(settings(command.get_arguments().filter(|arg| !arg.is_global_set()), told));
    }
    let people = |_: Output| lines(&shown, arguments.origin);
    Output::new(globals).answer("palisade.config/1", people, || document(&shown))?;
    Ok(Exit::OK)
}

fn settings<'a>(arguments: impl Iterator<Item = &'a Arg>, matches: &ArgMatches) -> Vec<Setting> {
    let known = arguments.filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version"));
    let known = known.filter_map(|arg| {
        let id = arg.get_id().as_str();
        let raw = matches.try_get_raw(id).ok()?;
        let values = raw.into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect();
        let origin = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => "flag",
            Some(ValueSource::EnvVariable) => "environment",
            Some(ValueSource::DefaultValue) => "default",
            Some(_) | None => "not set",
        };
        let name = arg.get_long().map_or_else(|| id.to_uppercase(), |long| format!("--{long}"));
        let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned());
        Some(Setting { name, values, origin, variable })
    });
    known.collect()
}

fn lines(settings: &[Setting], origin: bool) -> String {
    let rows = settings.iter().map(|setting| {
        let mut row = vec![setting.name.clone(), setting.values.join(",")];
        if origin {
            row.push(setting.origin.to_owned());
            row.push(setting.variable.clone().unwrap_or_else(|| "–".to_owned()));
        }
        row
    });
    let header: &[&str] =
        if origin { &["SETTING", "VALUE", "ORIGIN", "VARIABLE"] } else { &["SETTING", "VALUE"] };
    table(header, rows)
}

fn document(settings: &[Setting]) -> Value {
    let settings = settings.iter().map(|setting| {
        json!({
            "name": setting.name,
            "values": setting.values,
            "origin": setting.origin,
            "variable": setting.variable,
        })
    });
    json!({ "settings": settings.collect::<Vec<_>>() })
}
