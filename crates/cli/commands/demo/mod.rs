//! `palisade demo`: a process that held a lock, was paused and wakes up, with real processes, twice.
//!
//! Three `palisade serve` processes and two workers on this machine. Worker A is stopped past its lease and then goes on
//! with the write that it was about to make; in the meantime worker B was granted the lock and wrote. Played with a plain
//! file, the stale write lands. Played with the same file behind a guard, it is refused. Everything shown was measured.

mod document;
mod play;
mod render;
mod story;
mod svg;
mod worker;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use palisade_core::ids::LockName;
use tokio::signal::unix::{SignalKind, signal};

use self::play::Stage;
use self::story::{Fencing, Story};
use super::Failure;
use crate::args::{Globals, duration};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::output::{Output, span};

pub(crate) use self::worker::{DemoWorkerArgs, run as run_worker};

/// The lock of the story.
const LOCK: &str = "shard-7";
/// The longest lease that is worth watching.
const TTL_MAX: Duration = Duration::from_secs(60);
/// And the longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// Columns where nobody says how wide the window is.
const WIDTH: usize = 100;

/// `palisade demo`
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 the resource that checks refused the stale write (and the one that does not took it), 1 otherwise."
)]
pub(crate) struct DemoArgs {
    /// Which rounds to play
    #[arg(long, value_enum, default_value_t = Rounds::Both)]
    pub(crate) round: Rounds,
    /// Lease of the workers (2s to 60s)
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2s")]
    pub(crate) ttl: Duration,
    /// How long worker A is stopped, at least; twice the lease without it
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) pause: Option<Duration>,
    /// Draw what happened, as a picture
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Keep the directory with the nodes' data, all logs and the files that were written
    #[arg(long)]
    pub(crate) keep: bool,
}

/// Which rounds to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rounds {
    /// The resource does not check the token
    Unfenced,
    /// The resource checks the token
    Fenced,
    /// One after the other
    Both,
}

impl Rounds {
    fn list(self) -> &'static [Fencing] {
        match self {
            Self::Unfenced => &[Fencing::Unfenced],
            Self::Fenced => &[Fencing::Fenced],
            Self::Both => &[Fencing::Unfenced, Fencing::Fenced],
        }
    }
}

/// Checked arguments, and where to say how far the demo is.
struct Demo<'a> {
    rounds: &'static [Fencing],
    ttl: Duration,
    pause: Duration,
    folder: &'a Path,
    quiet: bool,
}

pub(crate) async fn run(globals: &Globals, arguments: &DemoArgs) -> Result<Exit, Failure> {
    let pause = times(arguments).map_err(|error| Failure::new(Exit::USAGE, error))?;
    let failed = |error: anyhow::Error| Failure::new(Exit::NO, error);
    let folder = tempfile::Builder::new().prefix("palisade-demo-").tempdir()?;
    let demo = Demo {
        rounds: arguments.round.list(),
        ttl: arguments.ttl,
        pause,
        folder: folder.path(),
        quiet: globals.quiet,
    };
    let played = tokio::select! {
        played = demo.play() => played,
        told = told_to_stop() => Err(told),
    };
    if arguments.keep {
        say!("palisade: kept {}", folder.keep().display());
    }
    let story = played.map_err(failed)?;
    if let Some(path) = &arguments.svg {
        let drawn = std::fs::write(path, svg::draw(&story));
        drawn.with_context(|| format!("writing {}", path.display())).map_err(failed)?;
    }
    Output::new(globals).answer(
        "palisade.demo/1",
        |output| render::page(&story, width(), &|tone, word| output.paint(tone, word)),
        || story.json(),
    )?;
    match story.check() {
        Ok(()) => Ok(Exit::OK),
        Err(reason) => Err(failed(anyhow!(reason))),
    }
}

/// The length of the pause. Only one that outlives the lease tells the story.
fn times(arguments: &DemoArgs) -> anyhow::Result<Duration> {
    let ttl = arguments.ttl;
    if ttl < Duration::from_secs(2) || ttl > TTL_MAX {
        bail!("--ttl is 2s to {}", span(TTL_MAX));
    }
    let pause = arguments.pause.unwrap_or(ttl * 2);
    if pause <= ttl || pause > PAUSE_MAX {
        bail!("--pause is longer than the lease ({}) and at most {}", span(ttl), span(PAUSE_MAX));
    }
    Ok(pause)
}

impl Demo<'_> {
    /// Starts the cluster, plays the rounds, and ends the cluster. When it fails, all children are killed as they drop.
    async fn play(&self) -> anyhow::Result<Story> {
        self.say("starting three nodes");
        let mut cluster = Cluster::start(self.folder, "demo")?;
        let leader = cluster.ready().await?;
        self.say(&format!("leader {} (term {})", leader.name, leader.term));
        let lock = LockName::new(LOCK).context("the lock's name")?;
        let mut story = Story {
            lock: lock.to_string(),
            leader: leader.name,
            term: leader.term,
            ttl: self.ttl,
            pause: self.pause,
            rounds: Vec::new(),
        };
        for fencing in self.rounds {
            self.say(&format!("{}: A is stopped for {}", fencing.title(), span(self.pause)));
            let stage = Stage {
                cluster: &cluster,
                folder: self.folder,
                lock: lock.clone(),
                ttl: self.ttl,
                pause: self.pause,
            };
            match stage.play(*fencing).await {
                Ok(round) => story.rounds.push(round),
                Err(error) => {
                    // A node that died says more than the silence that followed.
                    cluster.check()?;
                    return Err(error);
                }
            }
        }
        cluster.stop().await;
        Ok(story)
    }

    fn say(&self, what: &str) {
        if !self.quiet {
            say!("palisade: {what}");
        }
    }
}

async fn told_to_stop() -> anyhow::Error {
    let signals = signal(SignalKind::interrupt()).and_then(|one| Ok((one, signal(SignalKind::terminate())?)));
    let (mut interrupt, mut terminate) = match signals {
        Ok(signals) => signals,
        Err(error) => return anyhow!(error).context("listening for signals"),
    };
    tokio::select! {
        _ = interrupt.recv() => anyhow!("interrupted"),
        _ = terminate.recv() => anyhow!("terminated"),
    }
}

fn width() -> usize {
    let stdout = io::stdout();
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    if stdout.is_terminal()
        && let Ok(size) = rustix::termios::tcgetwinsize(&stdout)
        && size.ws_col > 0
    {
        return size.ws_col.into();
    }
    columns().unwrap_or(WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(ttl: u64, pause: Option<u64>) -> DemoArgs {
        DemoArgs {
            round: Rounds::Both,
            ttl: Duration::from_secs(ttl),
            pause: pause.map(Duration::from_secs),
            svg: None,
            keep: false,
        }
    }

    #[test]
    fn a_pause_outlives_the_lease() {
        assert_eq!(times(&arguments(2, None)).ok(), Some(Duration::from_secs(4)));
        assert_eq!(times(&arguments(2, Some(3))).ok(), Some(Duration::from_secs(3)));
        assert!(times(&arguments(5, Some(5))).is_err());
        assert!(times(&arguments(1, None)).is_err());
        assert!(times(&arguments(61, None)).is_err());
    }
}
