//! A scheduler of which several processes run and one works: whoever is elected runs what is due, and writes each run into a
//! book that is fenced.
//!
//! With `palisade dev` running, in two terminals, the first time with `--new`:
//!
//! ```text
//! cargo run --example scheduler -- runs.txt --name a --new
//! cargo run --example scheduler -- runs.txt --name b
//! ```
//!
//! Ctrl-C, or SIGTERM: the leader resigns, and the other one goes on at once. `kill -STOP` and, when the lease has ended,
//! `kill -CONT`: it learns that it leads no longer, and stands for election again. With `--stop` it stops itself after its
//! last look at the lease and right before a run is written: the book refuses that run. With `--unfenced` it takes it.

#[path = "held/after_check.rs"]
mod after_check;
#[path = "held/pause.rs"]
mod pause;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Parser;
use palisade_client::{Client, ClientConfig, Election, Leadership};
use palisade_core::holding::Holding;
use palisade_core::ids::LockName;
use palisade_fence::adapters::file::FileResource;
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_host::Host;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use self::after_check::PausedAfterCheck;
use self::pause::Pause;

/// Before it stands for election again.
const AGAIN: Duration = Duration::from_millis(500);

/// Runs what is due, while it leads.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where runs are written down: a line a run, with when it was due, the token, and who ran it
    book: PathBuf,
    /// The book is new: it has no marks yet
    #[arg(long)]
    new: bool,
    /// What this one is called
    #[arg(long, default_value = "scheduler")]
    name: String,
    /// Whoever holds this lock leads
    #[arg(long, value_parser = LockName::new, default_value = "scheduler")]
    lock: LockName,
    /// Something is due so often: at every full multiple of so many seconds since 1970
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Nodes
    #[arg(long, env = "PALISADE_ENDPOINTS", value_delimiter = ',', default_value = "127.0.0.1:7170")]
    endpoints: Vec<String>,
    /// Lease, in seconds
    #[arg(long, default_value_t = 10)]
    ttl: u64,
    /// Stop the process (SIGSTOP) right before its first run is written
    #[arg(long)]
    stop: bool,
    /// Neither claim nor compare: an experiment
    #[arg(long)]
    unfenced: bool,
}

/// Where runs are written down.
enum Book {
    Fenced(Guard<FileResource>),
    /// Whoever believes that it leads writes.
    Unfenced(PathBuf),
}

impl Book {
    fn claim_and_read(&self, held: &dyn Holding) -> Result<Vec<u8>, FenceError> {
        match self {
            Self::Fenced(guard) => guard.claim_and_read(held, |book| book.read()),
            Self::Unfenced(path) => Ok(std::fs::read(path).unwrap_or_default()),
        }
    }

    fn append(&self, held: &dyn Holding, line: &str) -> Result<(), FenceError> {
        match self {
            // Err(Stale) once a newer leader was here.
            Self::Fenced(guard) => guard.write(held, |book| book.append(line.as_bytes())),
            Self::Unfenced(path) => {
                held.check()?;
                let book = OpenOptions::new().create(true).append(true).open(path);
                book.and_then(|mut book| book.write_all(line.as_bytes())).map_err(FenceError::effect)
            }
        }
    }
}

struct Scheduler {
    book: Book,
    name: String,
    every: u64,
    pause: Pause,
}

impl Scheduler {
    /// Runs what is due, until it leads no longer.
    async fn lead(&self, leadership: &Leadership) -> Result<(), FenceError> {
        // From here on no earlier leader's run is written; then what the last one did can be read.
        let runs = self.book.claim_and_read(leadership.guard())?;
        let mut last = last_run(&String::from_utf8_lossy(&runs));
        println!("{} leads under token {}", self.name, leadership.token());
        let mut over = std::pin::pin!(leadership.suspended());
        loop {
            tokio::select! {
                _ = &mut over => return Ok(leadership.check()?),
                due = self.due_after(last) => {
                    self.run(leadership, due)?;
                    last = due;
                }
            }
        }
    }

    /// The next time that something is due. What is overdue is run once, however often it was missed.
    async fn due_after(&self, last: u64) -> u64 {
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let due = now.as_secs() / self.every * self.every;
            if due > last {
                return due;
            }
            sleep(Duration::from_secs(due + self.every).saturating_sub(now)).await;
        }
    }

    /// The run itself is the line: what is due is done once, by whoever the book takes it from.
    fn run(&self, leadership: &Leadership, due: u64) -> Result<(), FenceError> {
        let held = PausedAfterCheck { held: leadership.guard(), pause: &self.pause };
        let line = format!("{due} {} {}\n", leadership.token(), self.name);
        self.book.append(&held, &line)?;
        println!("ran what was due at {due}");
        Ok(())
    }
}

/// When it was due, in seconds since 1970; 0 before the first.
fn last_run(book: &str) -> u64 {
    book.lines().last().and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// What ends this process.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Stands for election once, leads if it is elected, and gives the reason why that is over. True: for good.
async fn stand(
    client: &Client,
    election: &Election,
    scheduler: &Scheduler,
    stop: &mut Stop,
) -> anyhow::Result<bool> {
    // Of its own: what was lost with the session before stays lost.
    let session = client.open_session().await?;
    // No lock-delay: the book is fenced.
    let candidate = election.candidate(&session, scheduler.name.as_bytes()).lock_delay(Duration::ZERO);
    let leadership = tokio::select! {
        elected = candidate.acquire() => Leadership::from(elected?),
        () = stop.asked() => return Ok(true),
    };
    let outcome = tokio::select! {
        outcome = scheduler.lead(&leadership) => outcome,
        () = stop.asked() => {
            // The work has stopped.
            match leadership.resign().await {
                Ok(_) => println!("{} resigned", scheduler.name),
                Err(error) => eprintln!("{error}"),
            }
            return Ok(true);
        }
    };
    match outcome {
        Ok(()) | Err(FenceError::NotHolding(_)) => println!("{} leads no longer", scheduler.name),
        Err(error) if error.is_stale() => println!("refused: {error}"),
        Err(error) => return Err(error.into()),
    }
    Ok(false)
}

// On the main thread alone, so that a pause takes effect where it is asked for.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut config = ClientConfig::new(&arguments.endpoints);
    config.ttl = Duration::from_secs(arguments.ttl);
    let client = Client::new(config, Host::system())?;
    let cluster = client.status(false).await?.cluster_id.parse().map_err(anyhow::Error::msg)?;
    let guarded = |book| Book::Fenced(Guard::new(book, Scope::new(cluster, arguments.lock.clone())));
    let book = match arguments {
        Arguments { unfenced: true, .. } => Book::Unfenced(arguments.book),
        Arguments { new: true, .. } => guarded(FileResource::create(arguments.book)?),
        Arguments { .. } => guarded(FileResource::open(arguments.book)?),
    };
    let scheduler =
        Scheduler { book, name: arguments.name, every: arguments.every, pause: Pause::new(arguments.stop) };
    let election = client.election(arguments.lock);
    let mut stop = Stop {
        terminate: signal(SignalKind::terminate()).context("SIGTERM")?,
        interrupt: signal(SignalKind::interrupt()).context("SIGINT")?,
    };
    loop {
        match stand(&client, &election, &scheduler, &mut stop).await {
            Ok(true) => break,
            Ok(false) => {}
            // No majority just now, say.
            Err(error) => eprintln!("{error:#}"),
        }
        tokio::select! {
            () = sleep(AGAIN) => {}
            () = stop.asked() => break,
        }
    }
    client.close().await;
    Ok(())
}
