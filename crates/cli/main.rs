//! The one binary: parse, run the command, map the result to an exit code.

// A line for a reader who is gone must not end a run that holds a lock: see `say!`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod output;

mod args;
mod child;
mod cluster;
mod commands;
mod exit;
mod process;
mod svg;
mod topics;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use args::{Cli, Command};
use commands::Failure;
use exit::Exit;

/// A node lives on small, short allocations: some 8 % more cycles of acquire and release a second (benches/peers/compare at
/// 64 tasks, with and without), for more memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error).into(),
    };
    if let Command::ExecChild(arguments) = &cli.command {
        return child::exec(arguments.parent, &arguments.command).into();
    }
    log(&cli);
    let ended = run(&cli);
    let wrapper = match &cli.command {
        Command::Lock(_) => true,
        Command::Elect(arguments) => !arguments.observe,
        _ => false,
    };
    match ended {
        Ok(exit) => exit,
        Err(failure) => {
            say!("palisade: {failure}");
            if wrapper { Exit::FAILED } else { failure.exit }
        }
    }
    .into()
}

/// Everything runs on the main thread: a command's parent-death signal follows the thread that spawned it.
fn run(cli: &Cli) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match &cli.command {
            Command::Serve(arguments) => commands::serve::run(arguments).await,
            Command::Dev(arguments) => commands::dev::run(arguments).await,
            Command::Lock(arguments) => commands::lock::run(&cli.globals, arguments).await,
            Command::Elect(arguments) => commands::elect::run(&cli.globals, arguments).await,
            Command::Admin(command) => commands::admin::run(&cli.globals, command).await,
            Command::Check(arguments) => commands::check::run(&cli.globals, arguments).await,
            Command::Status(arguments) => commands::status::run(&cli.globals, arguments).await,
            Command::Locks(arguments) => commands::locks::run(&cli.globals, arguments).await,
            Command::Who(arguments) => commands::who::run(&cli.globals, arguments).await,
            Command::Why(arguments) => commands::why::run(&cli.globals, arguments).await,
            Command::Watch(arguments) => commands::watch::run(&cli.globals, arguments).await,
            Command::History(arguments) => commands::history::run(&cli.globals, arguments).await,
            Command::Audit(arguments) => commands::history::audit(&cli.globals, arguments).await,
            Command::Demo(arguments) => commands::demo::run(&cli.globals, arguments).await,
            Command::DemoWorker(arguments) => commands::demo::run_worker(&cli.globals, arguments).await,
            Command::Sessions(arguments) => commands::sessions::run(&cli.globals, arguments).await,
            Command::Top(arguments) => commands::top::run(&cli.globals, arguments).await,
            Command::Config(command) => commands::config::run(&cli.globals, command),
            Command::Man(arguments) => commands::man::run(arguments),
            Command::Completions(arguments) => commands::completions::run(arguments),
            Command::Fencing => topics::show(topics::FENCING),
            Command::ExitCodes => topics::show(topics::EXIT_CODES),
            Command::Environment => topics::show(topics::ENVIRONMENT),
            Command::Explain(arguments) => commands::explain::run(&cli.globals, arguments),
            Command::Bench(arguments) => commands::bench::run(&cli.globals, arguments).await,
            Command::Conform(arguments) => commands::conform::run(&cli.globals, arguments).await,
            Command::Drill(arguments) => commands::drill::run(&cli.globals, arguments).await,
            Command::Storage(arguments) => commands::storage::run(&cli.globals, arguments),
            Command::ExecChild(arguments) => Ok(child::exec(arguments.parent, &arguments.command)),
        }
    })
}

/// Says what was typed wrongly. A wrapper command keeps the small codes for its command.
fn usage(error: &clap::Error) -> Exit {
    // Nothing helps when the terminal is gone.
    let _ = error.print();
    let mut typed = std::env::args_os().skip(1).take_while(|word| word != "--");
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::OK,
        _ if typed.any(|word| word == "lock" || word == "elect") => Exit::FAILED,
        _ => Exit::USAGE,
    }
}

/// What the libraries report, on stderr.
///
/// A node reports facts that a client command leaves out. One line for each grant is for those who ask for it.
fn log(cli: &Cli) {
    let (node, audit) = match &cli.command {
        Command::Serve(arguments) => (true, arguments.audit),
        Command::Dev(arguments) => (false, arguments.audit),
        _ => (false, false),
    };
    let level = match (cli.globals.quiet, cli.globals.verbose + u8::from(node)) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, 2..) => LevelFilter::DEBUG,
    };
    let audited = if audit { LevelFilter::DEBUG } else { LevelFilter::OFF };
    // Libraries tell of their every step, and of each heartbeat to a node that is down; our own lines say what an
    // operator needs.
    let libraries = if cli.globals.verbose > 0 { level } else { LevelFilter::ERROR };
    let shown =
        Targets::new().with_default(libraries).with_target("palisade", level).with_target("audit", audited);
    let ansi = std::io::stderr().is_terminal();
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(audit).with_ansi(ansi);
    tracing_subscriber::registry().with(lines.with_filter(shown)).init();
}
