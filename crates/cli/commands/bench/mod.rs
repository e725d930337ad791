//! `palisade bench`: what a cluster does, and whether it does it right meanwhile.
//!
//! It measures the cluster that `--endpoints` names, or three processes of its own with their data on disk. Numbers of
//! two machines, or of two hours of one machine, say little about each other: compare within one run.

mod check;
mod contend;
mod failover;
mod grant;
mod keepalive;
mod order;
mod overload;
mod pace;
mod place;
mod report;
mod scale;
mod soak;
mod tasks;
mod tokens;

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
    Grant(grant::GrantArgs),
    /// Queue for one lock: hand-offs a second, and whether they come in the order of the queue
    Contend(contend::ContendArgs),
    /// Keep idle sessions alive: keepalives a second, what they cost, and whether a session is lost
    Keepalive(keepalive::KeepaliveArgs),
    /// Ask whether a token is current: checks a second, latencies, and a look at every verdict
    Check(check::CheckArgs),
    /// Kill, stop and end the leader under load: how long until the next grant
    Failover(failover::FailoverArgs),
    /// Ask for more than the cluster can do: what it still does, and whether idle sessions live
    Overload(overload::OverloadArgs),
    /// Load for minutes, while followers are killed and held back: is anything lost, and do memory and disk stay flat
    Soak(soak::SoakArgs),
    /// Fill a cluster with locks, sessions and waiters: memory, processor time, snapshots, restarts, and what others notice
    Scale(scale::ScaleArgs),
}

/// How often, and where to.
#[derive(Debug, Args)]
struct Common {
    /// How often all of it is measured; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Write what each round measured, one line a row and round
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the medians, as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Where the nodes of its own keep their data meanwhile; without it, the system's folder for temporary files
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

/// How long.
#[derive(Debug, Args)]
struct Timing {
    /// How long each measurement takes
    #[arg(long, value_parser = duration, default_value = "3s")]
    duration: Duration,
    /// How long it runs before each
    #[arg(long, value_parser = duration, default_value = "1s")]
    warmup: Duration,
}

pub(crate) async fn run(globals: &Globals, arguments: &BenchArgs) -> Result<Exit, Failure> {
    match &arguments.what {
        What::Grant(arguments) => grant::run(globals, arguments).await,
        What::Contend(arguments) => contend::run(globals, arguments).await,
        What::Keepalive(arguments) => keepalive::run(globals, arguments).await,
        What::Check(arguments) => check::run(globals, arguments).await,
        What::Failover(arguments) => failover::run(globals, arguments).await,
        What::Overload(arguments) => overload::run(globals, arguments).await,
        What::Soak(arguments) => soak::run(globals, arguments).await,
        What::Scale(arguments) => scale::run(globals, arguments).await,
    }
}
