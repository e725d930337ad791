//! `palisade storage`: the data directory of a node that does not run.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use palisade_server::{Converted, EngineKind, convert};
use serde_json::json;

use super::Failure;
use crate::args::Globals;
use crate::exit::Exit;
use crate::output::{Output, wide};

/// `palisade storage`
#[derive(Debug, Args)]
pub(crate) struct StorageArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Carry a stopped node's log over to the other engine
    Convert(ConvertArgs),
}

/// `palisade storage convert`
#[derive(Debug, Args)]
#[command(
    after_help = "The new log is written beside the old one, read back and made durable before it takes its place; then the
old one is removed. Cut short at any point, the directory holds one of the two, whole.

Exit codes: 0 done, or it was so already; 1 the log is in use, damaged, or could not be written; 5 there is no log."
)]
struct ConvertArgs {
    /// The node's data directory
    #[arg(long, env = "PALISADE_DATA_DIR")]
    data_dir: PathBuf,
    /// What is to keep the log: segments or sled
    #[arg(long)]
    to: EngineKind,
}

pub(crate) fn run(globals: &Globals, arguments: &StorageArgs) -> Result<Exit, Failure> {
    let What::Convert(arguments) = &arguments.what;
    let converted = convert(&arguments.data_dir, arguments.to)?;
    let path = arguments.data_dir.display();
    let people = |_| match converted {
        Some(Converted { from, to, entries }) => {
            format!("the log in {path} was kept by {from} and is kept by {to} now: {entries} entries")
        }
        None => format!("the log in {path} is kept by {} already", arguments.to),
    };
    let scripts = || {
        let from = converted.map_or(arguments.to, |converted| converted.from);
        json!({
            "from": from.as_str(),
            "to": arguments.to.as_str(),
            "converted": converted.is_some(),
            "entries": wide(converted.map_or(0, |converted| converted.entries)),
        })
    };
    Output::new(globals).answer("palisade.storage.convert/1", people, scripts)?;
    Ok(Exit::OK)
}
