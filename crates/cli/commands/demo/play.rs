//! Plays one round: two workers, one lock, one file, and a pause that outlives a lease.
//!
//! The demo gives orders and signals, and writes down what comes of them. What it paces is when the next order is given,
//! so that people can tell the events apart; nothing waits for an outcome that was not seen.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use palisade_core::ids::LockName;
use palisade_fence::adapters::file::FileResource;
use palisade_host::{Clock, Moment, SystemClock};
use palisade_proto::v1;
use palisade_proto::v1::slot_view::State;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::{Instant, sleep, timeout};

use super::story::{Event, Fencing, Line, Round, What, Who};
use super::worker::{Order, Report};
use crate::cluster::Cluster;
use crate::process::Process;

/// Between two acts, for those who watch.
const PACE: Duration = Duration::from_millis(200);
/// For a worker to do one thing that waits for nobody.
const ACT_PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at the lock.
const LOOK: Duration = Duration::from_millis(10);

/// What a round is played with.
pub(super) struct Stage<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) folder: &'a Path,
    pub(super) lock: LockName,
    pub(super) ttl: Duration,
    pub(super) pause: Duration,
}

/// A worker process as the demo talks to it.
struct Worker {
    who: Who,
    process: Process,
    orders: ChildStdin,
    reports: Lines<BufReader<ChildStdout>>,
}

/// A round while it is played.
struct Play<'a> {
    stage: &'a Stage<'a>,
    fencing: Fencing,
    began: Moment,
    events: Vec<Event>,
}

impl Stage<'_> {
    /// Plays one round.
    ///
    /// # Errors
    ///
    /// When something did not happen in time, or not as the cluster promises.
    pub(super) async fn play(&self, fencing: Fencing) -> anyhow::Result<Round> {
        let file = self.folder.join(format!("{}.txt", fencing.word()));
        if fencing == Fencing::Fenced {
            FileResource::create(&file)?;
        }
        let errors = self.cluster.errors();
        let mut a = self.worker(Who::A, fencing, &file).await?;
        let mut b = self.worker(Who::B, fencing, &file).await?;
        let mut play = Play { stage: self, fencing, began: SystemClock.now(), events: Vec::new() };

        let first = play.holds_and_stops(&mut a).await?;
        let stopped = Instant::now();
        let second = play.succeeds(&mut b, first).await?;
        tokio::time::sleep_until(stopped + self.pause).await;
        play.wakes(&mut a, second).await?;

        if b.ask(&Order::Release, ACT_PATIENCE).await? != Report::Released {
            bail!("worker B could not release what it held");
        }
        a.leave().await?;
        b.leave().await?;
        let lines = read(&file)?;
        Ok(Round { fencing, events: play.events, lines, node_errors: self.cluster.errors() - errors })
    }

    async fn worker(&self, who: Who, fencing: Fencing, file: &Path) -> anyhow::Result<Worker> {
        let name = format!("worker-{}", who.word().to_lowercase());
        let mut arguments = vec![
            "demo-worker".to_owned(),
            format!("--endpoints={}", self.cluster.endpoints().join(",")),
            format!("--name={name}"),
            format!("--lock={}", self.lock),
            format!("--ttl-ms={}", self.ttl.as_millis()),
            format!("--file={}", file.display()),
        ];
        if fencing == Fencing::Fenced {
            arguments.push("--fenced".to_owned());
        }
        let mut process = Process::start(&name, &arguments, self.folder, true)?;
        let (orders, reports) = process.pipes()?;
        let mut worker = Worker { who, process, orders, reports: BufReader::new(reports).lines() };
        match worker.report(ACT_PATIENCE).await? {
            Report::Ready => Ok(worker),
            other => bail!("{name} began with {other:?}"),
        }
    }
}

impl Play<'_> {
    /// A acquires, writes, and is stopped. The order for its next write lies in its pipe while it still holds the lock.
    async fn holds_and_stops(&mut self, a: &mut Worker) -> anyhow::Result<u64> {
        let token = self.acquires(a, ACT_PATIENCE).await?;
        sleep(PACE).await;
        self.writes(a, "A1", token).await?;
        sleep(PACE).await;
        a.process.stop().await?;
        self.note(Who::A, What::Stopped);
        a.order(&Order::Write { text: "A2".to_owned() }).await?;
        Ok(token)
    }

    /// B queues, is granted what A's lease gave up, claims, and writes.
    async fn succeeds(&mut self, b: &mut Worker, first: u64) -> anyhow::Result<u64> {
        sleep(PACE).await;
        b.order(&Order::Acquire).await?;
        if self.queues(first).await? {
            self.note(Who::B, What::Queued);
        }
        let patience = self.stage.ttl * 3 + ACT_PATIENCE;
        let Report::Acquired { token } = b.report(patience).await? else {
            bail!("worker B was not granted the lock")
        };
        let granted = self.elapsed();
        self.expired(first, granted).await?;
        self.events.push(Event { at: granted, who: Who::B, what: What::Acquired { token } });
        match b.ask(&Order::Claim, ACT_PATIENCE).await? {
            Report::Claimed { mark } => self.note(Who::B, What::Claimed { mark }),
            Report::NothingToClaim => self.note(Who::B, What::NothingToClaim),
            other => bail!("worker B could not claim: {other:?}"),
        }
        sleep(PACE).await;
        self.writes(b, "B1", token).await?;
        Ok(token)
    }

    /// A wakes up, does what it was about to do, and then releases what it believes to hold.
    async fn wakes(&mut self, a: &mut Worker, second: u64) -> anyhow::Result<()> {
        a.process.go_on()?;
        self.note(Who::A, What::Continued);
        let report = a.report(ACT_PATIENCE).await?;
        self.wrote(Who::A, "A2", report, second)?;
        match a.ask(&Order::Release, ACT_PATIENCE).await? {
            Report::ReleaseRefused { reason, superseded_by } => {
                self.note(Who::A, What::ReleaseRefused { reason, superseded_by });
            }
            other => bail!("the late release of worker A was not refused: {other:?}"),
        }
        let view = self.stage.cluster.view(&self.stage.lock).await?;
        match holder(&view) {
            Some(token) if token == second => {
                self.note(Who::Server, What::StillHeld { by: Who::B, token });
                Ok(())
            }
            other => bail!("after the late release the lock is held under token {other:?}, not {second}"),
        }
    }

    async fn acquires(&mut self, worker: &mut Worker, patience: Duration) -> anyhow::Result<u64> {
        match worker.ask(&Order::Acquire, patience).await? {
            Report::Acquired { token } => {
                self.note(worker.who, What::Acquired { token });
                Ok(token)
            }
            other => bail!("worker {} could not acquire: {other:?}", worker.who.word()),
        }
    }

    async fn writes(&mut self, worker: &mut Worker, text: &str, newest: u64) -> anyhow::Result<()> {
        let report = worker.ask(&Order::Write { text: text.to_owned() }, ACT_PATIENCE).await?;
        self.wrote(worker.who, text, report, newest)
    }

    /// Whether a write is stale is a question of tokens: `newest` had been granted before it.
    fn wrote(&mut self, who: Who, text: &str, report: Report, newest: u64) -> anyhow::Result<()> {
        let text = text.to_owned();
        let what = match report {
            Report::Wrote { token, mark } => What::Wrote { text, token, mark, stale: token < newest },
            Report::Refused { token, mark } if self.fencing == Fencing::Fenced => {
                What::Refused { text, token, mark }
            }
            other => bail!("worker {} could not write {text}: {other:?}", who.word()),
        };
        self.note(who, what);
        Ok(())
    }

    /// Whether B is seen in the queue. On a machine that is slow enough A's lease ends first.
    async fn queues(&self, first: u64) -> anyhow::Result<bool> {
        let deadline = Instant::now() + ACT_PATIENCE;
        loop {
            let view = self.stage.cluster.view(&self.stage.lock).await?;
            if !view.queue.is_empty() {
                return Ok(true);
            }
            if holder(&view).is_some_and(|token| token != first) {
                return Ok(false);
            }
            if Instant::now() >= deadline {
                bail!("worker B did not come into the queue within {ACT_PATIENCE:?}");
            }
            sleep(LOOK).await;
        }
    }

    /// How A's tenure ended, as the cluster tells it. Its time is that of the entry, which bears this machine's wall
    /// clock; kept between the events around it in case somebody set that clock meanwhile.
    async fn expired(&mut self, token: u64, granted: Duration) -> anyhow::Result<()> {
        let view = self.stage.cluster.view(&self.stage.lock).await?;
        let previous = view.predecessor.context("the cluster does not know who held the lock before B")?;
        if previous.token != token || v1::Ended::try_from(previous.ended) != Ok(v1::Ended::Expired) {
            bail!(
                "the tenure before B's has token {} and did not expire: {:?}",
                previous.token,
                previous.ended()
            );
        }
        let ago = Duration::from_micros(SystemClock.wall_micros().saturating_sub(previous.ended_at_us));
        let earliest = self.events.last().map_or(Duration::ZERO, |event| event.at);
        let at = self.elapsed().saturating_sub(ago).clamp(earliest, granted);
        self.events.push(Event { at, who: Who::Server, what: What::Expired { token } });
        Ok(())
    }

    fn elapsed(&self) -> Duration {
        SystemClock.now().since(self.began)
    }

    fn note(&mut self, who: Who, what: What) {
        self.events.push(Event { at: self.elapsed(), who, what });
    }
}

impl Worker {
    async fn order(&mut self, order: &Order) -> anyhow::Result<()> {
        let line = format!("{}\n", serde_json::to_string(order)?);
        let sent = timeout(ACT_PATIENCE, self.orders.write_all(line.as_bytes())).await;
        sent.map_err(anyhow::Error::from).and_then(|sent| Ok(sent?)).context("a worker takes no orders")
    }

    async fn report(&mut self, patience: Duration) -> anyhow::Result<Report> {
        let name = self.process.name().to_owned();
        let line = match timeout(patience, self.reports.next_line()).await {
            Ok(line) => line?,
            Err(_) => bail!("{name} reported nothing within {patience:?}"),
        };
        let Some(line) = line else {
            self.process.check()?;
            bail!("{name} closed its pipe");
        };
        match serde_json::from_str(&line).with_context(|| format!("the report of {name}"))? {
            Report::Failed { message } => bail!("{name}: {message}"),
            report => Ok(report),
        }
    }

    async fn ask(&mut self, order: &Order, patience: Duration) -> anyhow::Result<Report> {
        self.order(order).await?;
        self.report(patience).await
    }

    /// Closes its stdin, and waits for its end.
    async fn leave(self) -> anyhow::Result<()> {
        drop(self.orders);
        self.process.end(ACT_PATIENCE).await?;
        Ok(())
    }
}

/// Under which token the lock is held.
fn holder(view: &v1::LockView) -> Option<u64> {
    view.slots.iter().find_map(|slot| match &slot.state {
        Some(State::Held(tenure)) => Some(tenure.token),
        Some(State::Free(_) | State::Delayed(_)) | None => None,
    })
}

fn read(file: &PathBuf) -> anyhow::Result<Vec<Line>> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    text.lines()
        .map(|line| Line::decode(line).with_context(|| format!("a line nobody wrote: {line:?}")))
        .collect()
}
