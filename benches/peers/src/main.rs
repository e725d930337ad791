//! Palisade beside its peers, under one load generator. See the README of this folder.

mod backend;
mod cluster;
mod disk;
mod etcd;
mod floor;
mod http;
mod machine;
mod measure;
mod palisade;
mod postgres;
mod redis;
mod report;
mod suite;
mod work;
mod zookeeper;

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use serde_json::Value;

use crate::cluster::Programs;
use crate::report::ReportArgs;
use crate::suite::SuiteArgs;

/// Drives lock services through the same workloads
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Starts one service and measures workloads
    Suite(SuiteArgs),
    /// Measures the bare disk and the loopback
    Disk {
        #[command(flatten)]
        place: Place,
        /// Seconds of each measurement
        #[arg(long, default_value_t = 1.0)]
        secs: f64,
    },
    /// The machine and the versions, as one line of a result
    Machine {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        programs: ProgramArgs,
        /// What was typed to get the result
        #[arg(long)]
        command: String,
    },
    /// Tables of results
    Report(ReportArgs),
    /// One node of the floor
    #[command(hide = true)]
    FloorNode {
        node: usize,
        folder: PathBuf,
        #[arg(value_delimiter = ',', required = true)]
        ports: Vec<u16>,
    },
}

/// Where data and results go.
#[derive(Args)]
struct Place {
    /// Data of the services meanwhile; on a real disk
    #[arg(long, default_value = "data")]
    data: PathBuf,
    /// Results are added to this file; without it, printed
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct ProgramArgs {
    /// The etcd to run
    #[arg(long, default_value = "etcd")]
    etcd: String,
    /// The palisade to run
    #[arg(long, default_value = "../../target/release/palisade")]
    palisade: PathBuf,
}

impl ProgramArgs {
    fn programs(&self) -> Programs {
        Programs { etcd: self.etcd.clone(), palisade: self.palisade.clone() }
    }
}

impl Place {
    fn emit(&self, line: &Value) -> Result<()> {
        match &self.out {
            None => println!("{line}"),
            Some(out) => {
                let mut file = File::options().create(true).append(true).open(out)?;
                writeln!(file, "{line}").with_context(|| out.display().to_string())?;
            }
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    match Arguments::parse().what {
        What::Suite(arguments) => suite::run(&arguments),
        What::Disk { place, secs } => {
            let lines = disk::run(&place.data, Duration::from_secs_f64(secs))?;
            lines.iter().try_for_each(|line| place.emit(line))
        }
        What::Machine { place, programs, command } => {
            fs::create_dir_all(&place.data)?;
            place.emit(&machine::line(&programs.programs(), &place.data, &command)?)
        }
        What::Report(arguments) => report::run(&arguments),
        What::FloorNode { node, folder, ports } => {
            let ports = ports.first_chunk().context("three ports, one for each node")?;
            floor::run_node(node, folder, *ports)
        }
    }
}
