//! `palisade bench soak`: a saturating load for minutes, while one follower each minute is killed, or held back until it
//! needs a snapshot. Nothing that was acknowledged may be lost; memory and disk stay flat.
//!
//! Every acknowledged hold is kept to the end and asked for at every node after each fault, and so is the last release of
//! each lock.

mod faults;
mod flat;
mod load;
mod onlooker;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use tokio::time::Instant;

use self::faults::Faults;
use self::load::Load;
use self::onlooker::{Onlooker, Totals};
use super::Common;
use super::place::{self, Place, connections_for};
use super::report::{Figure, Label, Measured, Rule, Shape, TOKENS_RISE, Unit};
use crate::args::{Globals, duration};
use crate::commands::Failure;
use crate::exit::Exit;

/// For a node to be back, or to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries.
const RETRY: Duration = Duration::from_millis(100);
/// Between two looks at memory and disk.
const LOOK: Duration = Duration::from_secs(5);
/// Between two lines that tell how far it is.
const TELL: Duration = Duration::from_secs(10);
/// Until memory and disk are settled: caches, rings and spare segments are full by then. Of a short run, a third.
const SETTLES_MAX: Duration = Duration::from_secs(120);

/// `palisade bench soak`
#[derive(Debug, Args)]
#[command(
    after_help = "It starts three nodes of its own, and measures no other cluster: it does harm. One task in eight queues \
                  for a lock with seven others; every third connection stays with the node where it began. Each row is \
                  the time from one fault to the next. Memory (RssAnon) may exceed the most that any node had until it \
                  was settled, after two minutes or a third of the run, by a quarter and 64 MiB; the disk has a bound \
                  that follows from --snapshot-every and --keep-log. Exit codes: 0 nothing was lost and all was flat, \
                  1 not so, 3 no answer in time."
)]
pub(super) struct SoakArgs {
    /// How long
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    minutes: u32,
    /// From one fault to the next
    #[arg(long, value_parser = duration, default_value = "1m")]
    every: Duration,
    /// Tasks that acquire and release at one time
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tasks: u32,
    /// Entries between two snapshots of the nodes
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..))]
    snapshot_every: u64,
    /// Entries that the nodes keep behind a snapshot
    #[arg(long, default_value_t = 20_000)]
    keep_log: u64,
    /// Write what was measured, one line a row
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw it, as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Where the nodes keep their data meanwhile; without it, the system's folder for temporary files
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

const FIGURES: usize = 9;
const RULES: usize = 7;

const SHAPE: Shape<FIGURES, 1, RULES> = Shape {
    schema: "palisade.bench.soak/1",
    title: "palisade bench soak",
    row: "part",
    figures: [
        Figure { name: "grants_per_second", head: "GRANTS/S", unit: Unit::PerSecond },
        Figure { name: "commands", head: "COMMANDS", unit: Unit::Count },
        Figure { name: "memory_bytes", head: "MEMORY MiB", unit: Unit::Bytes },
        Figure { name: "disk_bytes", head: "DISK MiB", unit: Unit::Bytes },
        Figure { name: "killed", head: "KILLED", unit: Unit::Count },
        Figure { name: "held_back", head: "HELD BACK", unit: Unit::Count },
        Figure { name: "snapshots_installed", head: "SNAPSHOTS", unit: Unit::Count },
        Figure { name: "log_restarts", head: "LOG RESTARTS", unit: Unit::Count },
        Figure { name: "leader_changes", head: "LEADER CHANGES", unit: Unit::Count },
    ],
    latencies: ["cycle"],
    checked: "grants",
    rules: [
        TOKENS_RISE,
        Rule {
            count: "grants_overlapping",
            holds: "one_holder_at_a_time",
            good: "no two held at a time",
            bad: "OVERLAPPED",
        },
        Rule {
            count: "acknowledgements_lost",
            holds: "acknowledgements_kept",
            good: "no acknowledgement was lost",
            bad: "ACKNOWLEDGEMENTS WERE LOST",
        },
        Rule {
            count: "sessions_lost",
            holds: "sessions_kept",
            good: "no session was lost",
            bad: "SESSIONS WERE LOST",
        },
        Rule {
            count: "memory_bounds_exceeded",
            holds: "memory_flat",
            good: "memory is flat",
            bad: "MEMORY GREW",
        },
        Rule {
            count: "disk_bounds_exceeded",
            holds: "disk_flat",
            good: "disk is flat",
            bad: "THE DISK GREW",
        },
        Rule {
            count: "held_back_without_snapshot",
            holds: "snapshots_were_needed",
            good: "who was held back needed a snapshot",
            bad: "HELD BACK IN VAIN",
        },
    ],
};

pub(super) async fn run(globals: &Globals, arguments: &SoakArgs) -> Result<Exit, Failure> {
    if !globals.endpoints.is_empty() {
        let error = anyhow!(
            "bench soak kills and stops nodes, and does so to a cluster of its own only: leave out --endpoints (or unset \
             PALISADE_ENDPOINTS)"
        );
        return Err(Failure::new(Exit::USAGE, error));
    }
    let common = Common {
        rounds: 1,
        csv: arguments.csv.clone(),
        svg: arguments.svg.clone(),
        data_dir: arguments.data_dir.clone(),
    };
    let flags = [
        format!("--snapshot-every={}", arguments.snapshot_every),
        format!("--keep-log={}", arguments.keep_log),
    ];
    let measure = async |place: &mut Place<'_>| Soak::start(place, arguments).await?.run(place).await;
    place::run_with(globals, &common, &flags, &SHAPE, Some(arguments.every), measure).await
}

struct Soak<'a> {
    arguments: &'a SoakArgs,
    load: Load,
    faults: Faults,
    onlooker: Onlooker,
    end: Instant,
    measured: Vec<Measured<FIGURES, 1, RULES>>,
}

impl<'a> Soak<'a> {
    async fn start(place: &Place<'_>, arguments: &'a SoakArgs) -> Result<Self, Failure> {
        let load = Load::start(place, arguments.tasks, connections_for(arguments.tasks)).await?;
        load.shared.tasks.begin();
        let time = Duration::from_secs(u64::from(arguments.minutes) * 60);
        Ok(Self {
            arguments,
            faults: Faults::new(arguments.keep_log),
            onlooker: Onlooker::new(load.shared.clone(), (time / 3).min(SETTLES_MAX), arguments),
            load,
            end: Instant::now() + time,
            measured: Vec::new(),
        })
    }

    /// Until it is over, a fault and what it leaves behind, again and again.
    async fn run(mut self, place: &mut Place<'_>) -> Result<Vec<Measured<FIGURES, 1, RULES>>, Failure> {
        let patience = place.globals.timeout;
        let cluster = place.own().context("a cluster of its own")?;
        while Instant::now() < self.end {
            let (began, before) = (Instant::now(), self.onlooker.totals());
            self.onlooker.wait(cluster, (began + self.arguments.every / 3).min(self.end)).await?;
            if Instant::now() < self.end {
                self.load.keep().await?;
                self.faults.next(cluster, &mut self.onlooker).await?;
                self.load.look_back().await?;
                self.onlooker.wait(cluster, (began + self.arguments.every).min(self.end)).await?;
            }
            self.part(began, before);
        }
        self.load.stop(patience).await?;
        faults::settled(cluster, &mut self.onlooker).await?;
        self.load.look_back().await?;
        self.finish().await
    }

    /// A row: what came since `before`.
    fn part(&mut self, began: Instant, before: Totals) {
        let (now, shared) = (self.onlooker.totals(), &self.load.shared);
        let part = u32::try_from(self.measured.len() + 1).unwrap_or(u32::MAX);
        let cycles = (now.cycles - before.cycles) as f64;
        let since = |of: fn(&Totals) -> u64| Some((of(&now) - of(&before)) as f64);
        let size = self.onlooker.flat.take_most();
        self.measured.push(Measured {
            round: 1,
            row: Label::Number(part),
            figures: [
                Some(cycles / began.elapsed().as_secs_f64()),
                Some(2.0 * cycles),
                Some(size.memory as f64),
                Some(size.disk as f64),
                since(|totals| totals.killed),
                since(|totals| totals.held_back),
                since(|totals| totals.snapshots_installed),
                since(|totals| totals.log_restarts),
                since(|totals| totals.leader_changes),
            ],
            latencies: shared.latencies.take(),
            checked: now.checked - before.checked,
            broken: [0; RULES],
            errors: now.errors - before.errors,
            error: shared.tasks.error(),
        });
    }

    /// What was broken is told with the last row.
    async fn finish(mut self) -> Result<Vec<Measured<FIGURES, 1, RULES>>, Failure> {
        let (shared, sessions_lost) = (self.load.shared.clone(), self.load.sessions_lost());
        self.onlooker.tell(self.load.kept());
        self.load.end().await;
        let [memory, disk] = self.onlooker.flat.broken();
        let last = self.measured.last_mut().context("it took no time")?;
        last.broken = [
            shared.tokens.not_rising(),
            shared.overlapping.get(),
            shared.lost.get(),
            sessions_lost,
            memory,
            disk,
            self.onlooker.totals().in_vain,
        ];
        Ok(self.measured)
    }
}
