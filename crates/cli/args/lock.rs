//! Arguments of the commands that run another one under a lock.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::duration;
use crate::exit::Exit;

/// `palisade lock`
#[derive(Debug, Args)]
#[command(
    override_usage = "palisade lock [OPTIONS] NAME... -- COMMAND [ARGUMENT]...",
    after_help = CODES,
    after_long_help = LOCK_HELP
)]
pub(crate) struct LockArgs {
    /// The lock; several are held together or not at all
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Share it with other shared holders; they all have the same token, which no write path accepts
    #[arg(short, long, conflicts_with_all = ["capacity", "permits"])]
    pub(crate) shared: bool,
    /// How many slots the lock has; everyone who uses it names the same number
    #[arg(long, value_name = "SLOTS")]
    pub(crate) capacity: Option<u32>,
    /// How many of its slots to hold
    #[arg(long, value_name = "SLOTS", requires = "capacity")]
    pub(crate) permits: Option<u32>,
    /// Give the command what an earlier holder left, and keep for the next one what it leaves (up to 4 KiB)
    #[arg(long, conflicts_with = "permits")]
    pub(crate) baton: bool,
    /// What others are told of this holder, an address say (up to 4 KiB)
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) metadata: String,
    #[command(flatten)]
    pub(crate) under: UnderLockArgs,
    /// The command and its arguments, run without a shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// `palisade elect`
#[derive(Debug, Args)]
#[command(
    override_usage = "palisade elect [OPTIONS] NAME [-- COMMAND [ARGUMENT]...]",
    after_help = CODES,
    after_long_help = ELECT_HELP
)]
pub(crate) struct ElectArgs {
    /// The election: a lock of this name
    pub(crate) name: String,
    /// What others are told of this leader, an address say (up to 4 KiB)
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) value: String,
    /// Show each leader as it comes, until told to stop
    #[arg(long, conflicts_with_all = ["value", "command"])]
    pub(crate) observe: bool,
    /// End after so many leaders
    #[arg(long, value_name = "LEADERS", requires = "observe")]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) under: UnderLockArgs,
    /// The command and its arguments, run without a shell
    #[arg(last = true, required_unless_present = "observe", value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What every command takes that runs another one under a lock.
#[derive(Debug, Args)]
pub(crate) struct UnderLockArgs {
    /// Wait at most so long (30s, 5m); without it, as long as it takes
    #[arg(short, long, value_name = "DURATION", value_parser = duration, conflicts_with = "nonblock")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait at all
    #[arg(short, long)]
    pub(crate) nonblock: bool,
    /// Exit code when the lock was not acquired in time
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = Exit::NOT_ACQUIRED.code())]
    pub(crate) conflict_exit_code: u8,
    /// Lease: how long the cluster keeps the lock for a holder that it does not hear from (2s to 24h)
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    pub(crate) ttl: Duration,
    /// How long the lock stays closed if this holder's lease expires (0s to 60s); without it, the cluster's default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) lock_delay: Option<Duration>,
    /// Guards that cover everything the lock protects: the rest of a lock-delay is skipped once all have confirmed
    #[arg(long, value_name = "GUARD", value_delimiter = ',')]
    pub(crate) fenced_by: Vec<String>,
    /// The longest time to hold it (1s to 30d); then the command is stopped, and the lock goes on after its lock-delay
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) hold_max: Option<Duration>,
    /// The longest time in which the command must touch $PALISADE_PROGRESS_FILE; otherwise as with --hold-max
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) progress_every: Option<Duration>,
    /// From SIGTERM to SIGKILL when the command must be stopped
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    pub(crate) kill_after: Duration,
    /// Who holds the lock, as others are told; host and process id without it
    #[arg(long, value_name = "NAME", env = "PALISADE_CLIENT_NAME")]
    pub(crate) client_name: Option<String>,
    /// Leave the command in this process group, so that it can read the terminal. What it started is then not stopped with it
    #[arg(long)]
    pub(crate) foreground: bool,
}

const CODES: &str = "Exit codes: the command's own; 123 the lock was lost while the command ran, 124 not acquired in time, \
                     125 palisade failed, 126 the command cannot be run, 127 there is no such command, 128+n ended by signal n.";

const ELECT_HELP: &str = "\
Examples:
  palisade elect scheduler --value 10.0.0.7:8080 -- ./scheduler
  palisade elect scheduler --observe
  palisade elect scheduler --observe -o json

Whoever is elected runs the command, as under `palisade lock` (see its help: environment, signals, exit codes); the others
wait. It resigns once the command and all that it started have ended. PALISADE_TOKEN is the leader's: hand it to every
resource, because a leader that was paused learns too late that it is one no longer.

--observe shows every leader that stayed longer than it takes to reconnect, and never an earlier one after a later one.";

const LOCK_HELP: &str = "\
Examples:
  palisade lock nightly -- ./report.sh
  palisade lock nightly --nonblock -- ./report.sh
  palisade lock orders/shard-7 --wait 30s --ttl 5s -- ./compact --shard 7
  palisade lock catalogue --shared -- ./read-all.sh
  palisade lock gpu --capacity 4 -- ./train.sh
  palisade lock accounts/7 accounts/9 -- ./transfer.sh
  palisade lock nightly --baton --hold-max 2h -- ./go-on-from-the-baton.sh

Several names are held together or not at all, and waited for without holding any. With --capacity the lock has so many
slots, and the command gets one of them, or --permits: its resources check tokens slot by slot. What a command leaves in
PALISADE_BATON_FILE is there for the next holder, also when this one crashed in between; it counts while the lock is held.

The command runs without a shell, in a process group of its own. Signals are passed on to that group. When the lock is
lost the group gets SIGTERM and, after --kill-after, SIGKILL. What the command left running is ended before the lock is
released. Being stopped comes too late for what is already on its way: hand PALISADE_TOKEN or the sequencer to the
resource, and let it refuse.

Environment of the command:
  PALISADE_LOCK                    the lock's name
  PALISADE_TOKEN                   its fencing token
  PALISADE_SLOT                    which of its slots, from 0
  PALISADE_HELD                    all that is held, as JSON: lock, slot, token, sequencer
  PALISADE_SEQUENCER               the signed proof, a JWT
  PALISADE_SEQUENCER_FILE          a private file with the same, removed when the lock is lost
  PALISADE_SESSION                 the session that holds it
  PALISADE_ENDPOINTS               the nodes
  PALISADE_SAFE_UNTIL_BOOTTIME_NS  until when the lease was sure at the start, by CLOCK_BOOTTIME
  PALISADE_PREVIOUS_TOKEN          of the holder before, where that is remembered
  PALISADE_PREVIOUS_ENDED          how it ended: released, expired, ...
  PALISADE_BATON_FILE              with --baton: what an earlier holder left; what it has at the end is left for the next
  PALISADE_PROGRESS_FILE           with --progress-every: to be touched as the work gets on
  PALISADE_LOST_FD                 a descriptor that reaches its end when the lock is lost;
                                   in a shell: cat /dev/fd/$PALISADE_LOST_FD

Exit codes:
  the command's own code, or 128+n when signal n ended it
  123  the lock was lost while the command ran
  124  not acquired in time (-E changes it)
  125  palisade itself failed
  126  the command cannot be run
  127  there is no such command";
