//! `palisade drill`: the failure that locks alone cannot stop, played with somebody's own command and resource.
//!
//! The command is run by a first holder, stopped together with that holder's lease, run by a second holder to its end, and
//! continued. Nobody kills the first run or tells it anything: `palisade lock` would, and would so hide whether the
//! resource refuses.

mod holder;
mod run;
mod verdict;

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use palisade_core::ids::LockName;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use self::holder::{First, Second};
use self::run::{Moment, Run, Stopped};
use self::verdict::{Refusal, Report, Verdict};
use super::{Failure, client_config};
use crate::args::{Globals, duration};
use crate::exit::Exit;
use crate::output::Output;

/// Lease of the second holder, which nothing is to happen to.
const SECOND_TTL: Duration = Duration::from_secs(30);
/// Characters of `--verify`'s answer that are shown.
const ANSWER_CHARS_MAX: usize = 400;

/// `palisade drill`
#[derive(Debug, Args)]
#[command(
    override_usage = "palisade drill [OPTIONS] NAME -- COMMAND [ARGUMENT]...",
    after_help = "Exit codes: 0 the late write was refused, 1 it was taken, 2 neither was shown, 3 no answer from the cluster.",
    after_long_help = DRILL_HELP
)]
pub(crate) struct DrillArgs {
    /// The lock
    #[arg(value_parser = LockName::new)]
    name: LockName,
    /// Lease of the first holder (2s to 24h)
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2s")]
    ttl: Duration,
    /// Stop the first run so long after its start
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s", conflicts_with = "when")]
    after: Duration,
    /// Stop the first run once it has written this to stdout
    #[arg(long, value_name = "TEXT")]
    when: Option<String>,
    /// The code with which the command ends when it was refused; without it, any but 0
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u8).range(1..))]
    refused_code: Option<u8>,
    /// What the command writes to stdout when it was refused
    #[arg(long, value_name = "TEXT")]
    refused_says: Option<String>,
    /// A shell command that looks at the resource afterwards: 0 if it is whole
    #[arg(long, value_name = "COMMAND")]
    verify: Option<String>,
    /// How long a run, or a wait for the lock, may take
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    patience: Duration,
    /// The command and its arguments, run without a shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const DRILL_HELP: &str = "\
What is played:
  1. The first holder acquires the lock and runs COMMAND, with the environment of `palisade lock`.
  2. The command, with all of its process group, is stopped, and the holder with it: its lease ends.
  3. A second holder acquires the lock under a larger token and runs COMMAND to its end.
  4. The first run goes on. Nothing has told it that it lost the lock; nobody kills it.

What the command owes to the drill:
  - It writes to the resource with its token or sequencer, once or more, and ends.
  - It ends with 0 only if the resource took all that it wrote; with another code if the resource refused. --refused-code
    and --refused-says tell a refusal from any other failure; without either, any failure is believed to be one.
  - When it is stopped, a write is still before it. --when TEXT stops it at a line that it writes; or it stops itself, at
    the very place: PALISADE_DRILL is `first` in the first run and `second` in the other, and in a shell it is
    [ \"$PALISADE_DRILL\" != first ] || kill -STOP 0
    What it wrote before is not judged: a first run that had nothing left to write ends with 0, and counts as taken.

--verify sees PALISADE_DRILL_FIRST and PALISADE_DRILL_SECOND, the two tokens. A command that reports a refusal, and has
written all the same, is found by it alone.

It takes the lock, and writes whatever COMMAND writes: use a test environment.

Example:
  palisade drill orders/shard-7 --refused-code 22 -- sh -ec '
    post() { curl -sS -f -H \"Palisade-Sequencer: $PALISADE_SEQUENCER\" -d \"$2\" http://127.0.0.1:8080$1; }
    post /claim \"\"
    [ \"$PALISADE_DRILL\" != first ] || kill -STOP 0
    post /orders \"an order of the $PALISADE_DRILL holder\"'

Exit codes:
  0  the late write was refused (and --verify found the resource whole)
  1  it was taken: the resource does not fence
  2  neither was shown: the command ended too early, or failed for another reason
  3  no answer from the cluster in time";

pub(crate) async fn run(globals: &Globals, arguments: &DrillArgs) -> Result<Exit, Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Dropped in the middle, it kills both runs.
    let report = tokio::select! {
        report = play(globals, arguments) => report?,
        _ = terminate.recv() => return Ok(Exit::signalled(Signal::TERM.as_raw())),
        _ = interrupt.recv() => return Ok(Exit::signalled(Signal::INT.as_raw())),
    };
    Output::new(globals).answer("palisade.drill/1", |output| report.people(output), || report.scripts())?;
    Ok(report.exit())
}

async fn play(globals: &Globals, arguments: &DrillArgs) -> Result<Report, Failure> {
    let tell = |what: String| {
        if !globals.quiet {
            say!("palisade: {what}");
        }
    };
    let (lock, patience) = (&arguments.name, arguments.patience);
    let config = |who: &str, ttl| {
        let mut config = client_config(globals, Some(&format!("drill, {who} holder")))?;
        config.ttl = ttl;
        Ok::<_, Failure>(config)
    };
    let (first, told) = First::acquire(config("first", arguments.ttl)?, lock.clone(), patience).await?;
    let mut report = Report {
        lock: lock.to_string(),
        first: told.token,
        second: None,
        stopped: None,
        verified: None,
        verdict: Verdict::Unshown(String::new()),
    };
    tell(format!("the first holder acquired {lock}, token {}", told.token));
    let mut begun = Run::start("first", &arguments.command, told, globals.quiet)?;
    let moment = arguments.when.clone().map_or(Moment::After(arguments.after), Moment::When);
    let Some(stopped) = begun.stop(&moment, patience).await? else {
        let ended = begun.end(patience).await?;
        let status = ended.map_or_else(|| "at once".to_owned(), |ended| ended.status.to_string());
        let what = format!(
            "the first run ended ({status}) before it was stopped: it needs a write that is still to come"
        );
        return Ok(Report { verdict: Verdict::Unshown(what), ..report });
    };
    let _frozen = first.freeze();
    report.stopped = Some(stopped);
    tell(match stopped {
        Stopped::Itself => "the first run has stopped itself, and the holder with it".to_owned(),
        Stopped::After | Stopped::When => "stopped the first run, and the holder with it".to_owned(),
    });

    let (second, told) = Second::acquire(config("second", SECOND_TTL)?, lock.clone(), patience).await?;
    report.second = Some(told.token);
    tell(format!("its lease ended; the second holder acquired {lock}, token {}", told.token));
    let ended = Run::start("second", &arguments.command, told, globals.quiet)?.end(patience).await?;
    report.verdict = match ended {
        None => Verdict::Unshown(format!("the second run did not end within {patience:?}")),
        Some(ended) if !ended.status.success() => Verdict::Unshown(format!(
            "the second run failed ({}): a resource that refuses everybody shows nothing",
            ended.status
        )),
        Some(_) if !second.holds() => {
            Verdict::Unshown("the second holder lost the lock meanwhile".to_owned())
        }
        Some(_) => {
            tell("the second run ended; the first goes on".to_owned());
            begun.go_on()?;
            late(arguments, begun).await?
        }
    };
    second.release().await;
    verify(arguments, &mut report).await?;
    Ok(report)
}

/// The first run's end, after it went on.
async fn late(arguments: &DrillArgs, run: Run) -> Result<Verdict, Failure> {
    let refusal = Refusal { code: arguments.refused_code, says: arguments.refused_says.clone() };
    Ok(match run.end(arguments.patience).await? {
        Some(ended) => refusal.judge(ended.status, &ended.said),
        None => {
            Verdict::Unshown(format!("the first run did not end within {:?} of going on", arguments.patience))
        }
    })
}

/// Lets the resource be looked at. What is not whole weighs more than what the command says.
async fn verify(arguments: &DrillArgs, report: &mut Report) -> Result<(), Failure> {
    let (Some(command), Some(second)) = (&arguments.verify, report.second) else { return Ok(()) };
    if matches!(report.verdict, Verdict::Unshown(_)) {
        return Ok(());
    }
    let mut shell = tokio::process::Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).kill_on_drop(true);
    shell.env("PALISADE_DRILL_FIRST", report.first.to_string());
    shell.env("PALISADE_DRILL_SECOND", second.to_string());
    let output = timeout(arguments.patience, shell.stderr(Stdio::inherit()).output()).await;
    let output =
        output.with_context(|| format!("--verify did not end within {:?}", arguments.patience))??;
    report.verified = Some(output.status.success());
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let said: String = said.trim().chars().take(ANSWER_CHARS_MAX).collect();
        report.verdict =
            Verdict::Accepted(format!("--verify found the resource damaged ({}): {said}", output.status));
    }
    Ok(())
}
