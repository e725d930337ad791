//! Arguments as they are typed.

mod lock;
mod values;

use std::ffi::OsString;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::commands::admin::AdminCommand;
use crate::commands::again::AgainArgs;
use crate::commands::bench::BenchArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::config::ConfigCommand;
use crate::commands::conform::ConformArgs;
use crate::commands::demo::{DemoArgs, DemoWorkerArgs};
use crate::commands::dev::DevArgs;
use crate::commands::drill::DrillArgs;
use crate::commands::explain::ExplainArgs;
use crate::commands::history::Since;
use crate::commands::man::ManArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::sessions::SessionsArgs;
use crate::commands::storage::StorageArgs;
use crate::commands::top::TopArgs;
use crate::commands::watch::FromPosition;
use crate::topics;

pub(crate) use self::lock::{ElectArgs, LockArgs, UnderLockArgs};
pub(crate) use self::values::{duration, member};

/// A lock service whose locks are safe to lose: every grant bears a fencing token, and the resource refuses an older one.
#[derive(Debug, Parser)]
#[command(
    name = "palisade",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Topics: palisade help fencing, palisade help exit-codes, palisade help environment"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Globals {
    /// Nodes to talk to, host:port, separated by commas [default: 127.0.0.1:7170]
    #[arg(
        long,
        global = true,
        env = "PALISADE_ENDPOINTS",
        value_delimiter = ',',
        help_heading = "Global options"
    )]
    pub(crate) endpoints: Vec<String>,
    /// Output on stdout: tables for people, one document for scripts
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, help_heading = "Global options")]
    pub(crate) output: Format,
    /// How long to try to get an answer (a wait for a lock does not count)
    #[arg(long, global = true, value_parser = duration, default_value = "10s", help_heading = "Global options")]
    pub(crate) timeout: Duration,
    /// Colours on a terminal; NO_COLOR is respected
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, help_heading = "Global options")]
    pub(crate) color: Color,
    /// Say less: errors only
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Global options")]
    pub(crate) quiet: bool,
    /// Say more; twice for everything
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Global options")]
    pub(crate) verbose: u8,
}

impl Globals {
    /// The nodes that were named, or the one that listens here by default.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        if self.endpoints.is_empty() { vec!["127.0.0.1:7170".to_owned()] } else { self.endpoints.clone() }
    }
}

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For scripts: one document with a `schema` field, 64-bit numbers as strings
    Json,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one node
    Serve(ServeArgs),
    /// Run three nodes in this process, for trying things out
    Dev(DevArgs),
    /// Show what happens to a paused holder's write, with real processes
    Demo(DemoArgs),
    /// Run a command while holding a lock, or several
    Lock(LockArgs),
    /// Run a command while being the leader, or watch who is
    Elect(ElectArgs),
    /// Is a sequencer still good? The exit code is the answer
    Check(CheckArgs),
    /// How the cluster is
    Status(StatusArgs),
    /// Locks that are held, awaited or in lock-delay
    Locks(LocksArgs),
    /// Who holds a lock, who waits, and who held it before
    Who(WhoArgs),
    /// Why a lock is held or closed, in sentences, and how its last holds ended
    Why(WhyArgs),
    /// What happens to a lock, or to all below a prefix, as it happens
    Watch(WatchArgs),
    /// How the last holds of a lock ended
    History(HistoryArgs),
    /// Where holders lost their locks: all that expired, were broken or overdue
    Audit(AuditArgs),
    /// Live sessions, what each holds, and how its holder fares
    Sessions(SessionsArgs),
    /// A screen of the cluster, its busiest locks, and holders in trouble
    Top(TopArgs),
    /// Settings in force, and where each comes from
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Write man pages
    Man(ManArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// What an error or an exit code means, and what to do
    Explain(ExplainArgs),
    /// Measure a cluster, and check its grants meanwhile
    Bench(BenchArgs),
    /// Does your own service refuse what it must? Plays stale, forged and foreign holders against it
    Conform(ConformArgs),
    /// Is your own command's late write refused? Pauses it past its lease, and lets another in
    Drill(DrillArgs),
    /// What an operator does: break a lock, end a session, bound lock-delays, set limits
    #[command(subcommand)]
    Admin(AdminCommand),
    /// What keeps the data of a stopped node
    Storage(StorageArgs),
    /// What a fencing token is for
    #[command(hide = true, help_template = "{about}", long_about = topics::FENCING)]
    Fencing,
    /// Exit codes of every command
    #[command(hide = true, help_template = "{about}", long_about = topics::EXIT_CODES)]
    ExitCodes,
    /// Environment variables that the program reads and sets
    #[command(hide = true, help_template = "{about}", long_about = topics::ENVIRONMENT)]
    Environment,
    /// A worker of the demo
    #[command(hide = true)]
    DemoWorker(DemoWorkerArgs),
    /// Becomes a command that dies with its parent
    #[command(hide = true)]
    ExecChild(ExecChildArgs),
}

/// `palisade check`
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 current, 1 not current, 3 no answer in time.")]
pub(crate) struct CheckArgs {
    /// The sequencer, or `-` to read it from stdin
    #[arg(env = "PALISADE_SEQUENCER", hide_env_values = true)]
    pub(crate) sequencer: String,
    /// The lock that it must be for
    #[arg(long)]
    pub(crate) lock: Option<String>,
}

/// `palisade status`
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 healthy, 1 not healthy, 3 no answer in time.")]
pub(crate) struct StatusArgs {
    /// Only the asked node's own view; needs no quorum
    #[arg(long)]
    pub(crate) local: bool,
    /// Ask again until the cluster is healthy, within --timeout
    #[arg(long)]
    pub(crate) wait_ready: bool,
    #[command(flatten)]
    pub(crate) again: AgainArgs,
}

/// `palisade locks`
#[derive(Debug, Args)]
pub(crate) struct LocksArgs {
    /// Only names that begin so
    #[arg(default_value = "")]
    pub(crate) prefix: String,
    /// At most so many
    #[arg(long, default_value_t = 1_000)]
    pub(crate) limit: u32,
    /// Names after this one: the last of the page before
    #[arg(long, default_value = "")]
    pub(crate) after: String,
    #[command(flatten)]
    pub(crate) again: AgainArgs,
}

/// `palisade who`
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 held, 1 not held, 3 no answer in time.")]
pub(crate) struct WhoArgs {
    /// The lock
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) again: AgainArgs,
}

/// `palisade why`
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 held, 1 not held, 3 no answer in time.")]
pub(crate) struct WhyArgs {
    /// The lock
    pub(crate) name: String,
}

/// `palisade watch`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  palisade watch nightly
  palisade watch --prefix orders/ --snapshot
  palisade watch --prefix orders/ --from 52 -o json

One line an event; with -o json one line an entry of the log, whose `position` is what --from takes. It goes on at another
node when its own is gone, and misses nothing: or it says that events are missing, and how things stand.

Exit codes: 0 saw as many events as --count names, 3 no node said anything for --timeout.")]
pub(crate) struct WatchArgs {
    /// The lock
    #[arg(required_unless_present = "prefix", conflicts_with = "prefix")]
    pub(crate) name: Option<String>,
    /// All locks whose names begin so; empty for all
    #[arg(long)]
    pub(crate) prefix: Option<String>,
    /// Go on after this position, INDEX or INCARNATION:INDEX; without it, from now
    #[arg(long, value_name = "POSITION", conflicts_with = "snapshot")]
    pub(crate) from: Option<FromPosition>,
    /// Show how things stand first
    #[arg(long)]
    pub(crate) snapshot: bool,
    /// End after so many events
    #[arg(long, value_name = "EVENTS")]
    pub(crate) count: Option<u64>,
}

/// `palisade history`
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The lock
    pub(crate) name: String,
    /// At most so many, the newest first
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: u32,
    /// Those before this number: the last of the page before
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    pub(crate) before: u64,
}

/// `palisade audit`
#[derive(Debug, Args)]
#[command(
    after_help = "Between a holder that lost its lock and the next one lies all the space in which effects of both can have met
at a resource that does not check tokens. Whatever happened elsewhere did not happen between two holders.

Examples:
  palisade audit --since 2h
  palisade audit orders/ --since 2026-11-29T22:00:00Z -o json"
)]
pub(crate) struct AuditArgs {
    /// Only locks whose names begin so
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Only what ended since: 2h (ago), or 2026-11-29T22:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// At most so many, the newest first
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: u32,
    /// Those before this number: the last of the page before
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    pub(crate) before: u64,
}

/// `palisade exec-child`
#[derive(Debug, Args)]
pub(crate) struct ExecChildArgs {
    /// The process that must still be the parent
    #[arg(long)]
    pub(crate) parent: u32,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_follows_the_dashes_is_the_commands_own() {
        let cli =
            Cli::try_parse_from(["palisade", "lock", "nightly", "-n", "--", "sh", "-c", "exit 3"]).unwrap();
        let Command::Lock(lock) = cli.command else { panic!("another command") };
        assert_eq!(lock.command, ["sh", "-c", "exit 3"]);
        assert!(lock.under.nonblock);
        assert!(
            Cli::try_parse_from(["palisade", "lock", "nightly", "-n", "-w", "1s", "--", "true"]).is_err()
        );
        assert!(Cli::try_parse_from(["palisade", "lock", "nightly"]).is_err());
    }
}
