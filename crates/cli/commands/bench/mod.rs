//! `palisade bench`: what a cluster does, and whether its grants are right meanwhile.
//!
//! It measures the cluster that `--endpoints` names, or three processes of its own with their data on disk. Numbers of
//! two machines, or of two hours of one machine, say little about each other: compare within one run.

mod grant;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::Failure;
use crate::args::{Globals, duration};
use crate::exit::Exit;

/// `palisade bench`
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Acquire and release: grants a second, latencies, and a check of every token
    Grant(GrantArgs),
}

/// `palisade bench grant`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --endpoints it starts three nodes of its own, and ends them afterwards. Each session has a
connection of its own; tasks share them. Exit codes: 0 tokens rose, 1 they did not, 3 no answer in time."
)]
pub(crate) struct GrantArgs {
    /// Tasks that acquire and release at one time; each number is measured
    #[arg(long, value_delimiter = ',', default_value = "1,16,64,256", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tasks: Vec<u32>,
    /// How long each measurement takes
    #[arg(long, value_parser = duration, default_value = "3s")]
    duration: Duration,
    /// How long the tasks run before each
    #[arg(long, value_parser = duration, default_value = "1s")]
    warmup: Duration,
    /// How often all of it is measured; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Sessions that the tasks share; without it 1, 3, 3, 6 and 15 of them at 1, 3, 16, 64 and 256 tasks
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sessions: Option<u32>,
    /// Locks that the tasks share, and then queue for; without it, one for each task
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    locks: Option<u32>,
    /// Where the nodes of its own keep their data meanwhile; without it, the system's folder for temporary files
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

pub(crate) async fn run(globals: &Globals, arguments: &BenchArgs) -> Result<Exit, Failure> {
    match &arguments.what {
        What::Grant(grant) => grant::run(globals, grant).await,
    }
}
