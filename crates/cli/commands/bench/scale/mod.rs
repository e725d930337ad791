//! `palisade bench scale`: large numbers of locks, sessions and waiters, and what another client notices of them.

mod beat;
mod crowd;
mod curve;
mod expire;
mod locks;
mod nodes;
mod page;
mod probe;
mod sessions;
mod waiters;
mod work;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use tokio::task::LocalSet;
use tokio::time::Instant;

use self::crowd::Crowd;
use self::probe::Probe;
use self::work::Rising;
use super::place::Place;
use super::report::{Figure, Files, Label, Latencies, Measured, Report, Rule, Shape, TOKENS_RISE, Unit};
use crate::args::{Globals, duration};
use crate::cluster::Cluster;
use crate::commands::Failure;
use crate::exit::Exit;
use crate::output::Output;

/// `palisade bench scale`
#[derive(Debug, Args)]
#[command(
    after_help = "Each story has three nodes of its own, with their data on disk, and ends them afterwards. Meanwhile another \
                  client acquires and releases 100 times a second: `before` the story, while it is `loaded`, and when all is \
                  there and `idle`; its cycles count from when they were due. Exit codes: 0 all was right, 1 a lock or a \
                  session was lost, a token did not rise or a queue was not kept, 3 no answer in time."
)]
pub(super) struct ScaleArgs {
    /// Hold so many locks, take a snapshot of them, and start again from it after kill -9
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    locks: Vec<u32>,
    /// Keep so many sessions alive through one node
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=200_000))]
    sessions: Vec<u32>,
    /// Let so many waiters queue, and hand the locks on until nobody waits
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    waiters: Vec<u32>,
    /// For so many locks
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    over: u32,
    /// Let so many sessions, each with a lock, expire at one time
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=200_000))]
    expire: Vec<u32>,
    /// What a grant costs beside more and more locks, sessions and waiters, up to the largest number given for each
    #[arg(long)]
    curve: bool,
    /// All stories: a million locks, 10,000 and 100,000 sessions, 100,000 waiters over 1,000 locks, 50,000 that expire, the curve
    #[arg(long, conflicts_with_all = ["locks", "sessions", "waiters", "expire", "curve"])]
    all: bool,
    /// The lease of the sessions that are kept alive, and of those that expire
    #[arg(long, value_parser = duration, default_value = "10s")]
    ttl: Duration,
    /// How long the probe runs alone before each story, and how long all is idle once it is there; each point of a curve is
    /// measured for as long
    #[arg(long, value_parser = duration, default_value = "3s")]
    pause: Duration,
    /// How often all of it is measured; the median counts
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Write the figures to a page in Markdown; where it has a place for them (docs/scale.md), between its marks
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write what each round measured, one line a row and round
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the medians, as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Where the nodes keep their data meanwhile; without it, the system's folder for temporary files
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

const FIGURES: usize = 11;
const LATENCIES: usize = 4;
const RULES: usize = 4;

type Row = Measured<FIGURES, LATENCIES, RULES>;

const SHAPE: Shape<FIGURES, LATENCIES, RULES> = Shape {
    schema: "palisade.bench.scale/1",
    title: "palisade bench scale",
    row: "story",
    figures: [
        Figure { name: "build_seconds", head: "BUILD s", unit: Unit::Seconds },
        Figure { name: "bytes_each", head: "BYTES EACH", unit: Unit::Count },
        Figure { name: "idle_cores_busiest", head: "IDLE CORES, BUSIEST", unit: Unit::Seconds },
        Figure { name: "idle_cores_all", head: "ALL", unit: Unit::Seconds },
        Figure { name: "snapshot_seconds", head: "SNAPSHOT s", unit: Unit::Seconds },
        Figure { name: "snapshot_worst_seconds", head: "WORST CYCLE s", unit: Unit::Seconds },
        Figure { name: "worst_beside_seconds", head: "WITHOUT IT s", unit: Unit::Seconds },
        Figure { name: "restart_seconds", head: "RESTART s", unit: Unit::Seconds },
        Figure { name: "drained_seconds", head: "DRAINED s", unit: Unit::Seconds },
        Figure { name: "cycles_per_second", head: "CYCLES/S", unit: Unit::PerSecond },
        Figure { name: "node_cpu_seconds_per_1000", head: "NODE CPU s/1000", unit: Unit::Seconds },
    ],
    latencies: ["before", "loaded", "idle", "keepalive"],
    checked: "grants",
    rules: [
        TOKENS_RISE,
        Rule { count: "locks_lost", holds: "locks_kept", good: "no lock was lost", bad: "LOCKS WERE LOST" },
        Rule {
            count: "sessions_lost",
            holds: "sessions_kept",
            good: "no session was lost",
            bad: "SESSIONS WERE LOST",
        },
        Rule {
            count: "out_of_order",
            holds: "queues_kept",
            good: "queues were kept",
            bad: "GRANTS DID NOT COME IN THE ORDER OF THE QUEUE",
        },
    ],
};

/// What a story tells, by name.
#[derive(Default)]
struct Told {
    build: Option<f64>,
    bytes_each: Option<f64>,
    idle_cores: Option<(f64, f64)>,
    snapshot: Option<f64>,
    snapshot_worst: Option<f64>,
    worst_beside: Option<f64>,
    restart: Option<f64>,
    drained: Option<f64>,
    cycles_per_second: Option<f64>,
    cpu_per_1000: Option<f64>,
    before: Latencies,
    loaded: Latencies,
    idle: Latencies,
    keepalive: Latencies,
    rising: Rising,
    locks_lost: u64,
    sessions_lost: u64,
    out_of_order: u64,
    errors: u64,
}

impl Told {
    fn row(self, round: u32, row: Label) -> Row {
        Measured {
            round,
            row,
            figures: [
                self.build,
                self.bytes_each,
                self.idle_cores.map(|(busiest, _)| busiest),
                self.idle_cores.map(|(_, all)| all),
                self.snapshot,
                self.snapshot_worst,
                self.worst_beside,
                self.restart,
                self.drained,
                self.cycles_per_second,
                self.cpu_per_1000,
            ],
            latencies: [self.before, self.loaded, self.idle, self.keepalive],
            checked: self.rising.checked,
            broken: [self.rising.broken, self.locks_lost, self.sessions_lost, self.out_of_order],
            errors: self.errors,
            error: None,
        }
    }

    /// What the probe saw over all.
    fn probed(&mut self, probe: &Probe) {
        self.rising.checked += probe.cycles();
        self.rising.broken += probe.not_rising();
        self.errors += probe.errors();
    }
}

/// What all stories have in common.
struct Common<'a> {
    globals: &'a Globals,
    bench: super::Common,
    ttl: Duration,
    pause: Duration,
}

/// One story: a cluster, and the one that the probe asks.
struct Scene<'a> {
    place: Place<'a>,
    /// Where the leader was reached at first.
    leader: String,
}

impl<'a> Scene<'a> {
    async fn set(common: &'a Common<'a>, snapshot_every: u64, story: &str) -> Result<Self, Failure> {
        tell(format_args!("{story}: starting three nodes"));
        let more = [format!("--snapshot-every={snapshot_every}")];
        let mut place = Place::own_with(common.globals, &common.bench, &more).await?;
        let leader = cluster(&mut place)?.ready().await?.name;
        let at = place.settings()?.endpoints;
        let number: usize = leader.trim_start_matches('n').parse().unwrap_or(1);
        Ok(Self { place, leader: at[number.clamp(1, at.len()) - 1].clone() })
    }

    fn cluster(&mut self) -> Result<&mut Cluster, Failure> {
        cluster(&mut self.place)
    }

    fn probe(&self) -> Result<Probe, Failure> {
        Ok(Probe::start(self.place.settings()?))
    }

    /// A crowd at the leader.
    async fn crowd(&self, ttl: Duration) -> Result<Crowd, Failure> {
        Ok(Crowd::connect(&self.leader, ttl).await?)
    }
}

fn cluster<'p>(place: &'p mut Place<'_>) -> Result<&'p mut Cluster, Failure> {
    place.own().ok_or_else(|| anyhow!("it measures clusters of its own only").into())
}

/// Progress, for people that wait.
fn tell(what: std::fmt::Arguments<'_>) {
    say!("scale: {what}");
}

fn seconds_since(began: Instant) -> Option<f64> {
    Some(began.elapsed().as_secs_f64())
}

pub(super) async fn run(globals: &Globals, arguments: &ScaleArgs) -> Result<Exit, Failure> {
    if !globals.endpoints.is_empty() {
        let error = anyhow!(
            "bench scale fills and kills a cluster of its own only: leave out --endpoints (or unset PALISADE_ENDPOINTS)"
        );
        return Err(Failure::new(Exit::USAGE, error));
    }
    let wanted = Wanted::of(arguments)?;
    let bench = super::Common {
        rounds: arguments.rounds,
        csv: arguments.csv.clone(),
        svg: arguments.svg.clone(),
        data_dir: arguments.data_dir.clone(),
    };
    let files = Files::create(&bench)?;
    let common = Common { globals, bench, ttl: arguments.ttl, pause: arguments.pause };
    let page = page::Page::open(arguments.out.as_deref())?;
    let mut measured = Vec::new();
    for round in 1..=arguments.rounds {
        let rows = LocalSet::new().run_until(wanted.round(&common, round)).await?;
        measured.extend(rows);
    }
    let report = Report::new(&SHAPE, None, measured);
    Output::new(globals).answer(SHAPE.schema, |_| report.lines(), || report.json())?;
    files.write(&report)?;
    page.write(&report, &std::env::args().skip(1).collect::<Vec<_>>())?;
    Ok(if report.is_right() { Exit::OK } else { Exit::NO })
}

/// Which stories, and how large.
struct Wanted {
    locks: Vec<u32>,
    sessions: Vec<u32>,
    waiters: Vec<u32>,
    over: u32,
    expire: Vec<u32>,
    curve: bool,
}

impl Wanted {
    fn of(arguments: &ScaleArgs) -> Result<Self, Failure> {
        if arguments.all {
            return Ok(Self {
                locks: vec![1_000_000],
                sessions: vec![10_000, 100_000],
                waiters: vec![100_000],
                over: arguments.over,
                expire: vec![50_000],
                curve: true,
            });
        }
        let ScaleArgs { locks, sessions, waiters, expire, .. } = arguments;
        if [locks, sessions, waiters, expire].iter().all(|story| story.is_empty()) {
            let error = anyhow!("which story? --locks, --sessions, --waiters, --expire, or --all");
            return Err(Failure::new(Exit::USAGE, error));
        }
        Ok(Self {
            locks: locks.clone(),
            sessions: sessions.clone(),
            waiters: waiters.clone(),
            over: arguments.over,
            expire: expire.clone(),
            curve: arguments.curve,
        })
    }

    async fn round(&self, common: &Common<'_>, round: u32) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        for &locks in &self.locks {
            let told = locks::measure(common, locks as usize).await?;
            rows.push(told.row(round, Label::Of(locks, "locks")));
        }
        for &sessions in &self.sessions {
            let told = sessions::measure(common, sessions as usize).await?;
            rows.push(told.row(round, Label::Of(sessions, "sessions")));
        }
        for &waiters in &self.waiters {
            let told = waiters::measure(common, waiters as usize, self.over as usize).await?;
            rows.push(told.row(round, Label::Of(waiters, "waiters")));
        }
        for &expire in &self.expire {
            let told = expire::measure(common, expire as usize).await?;
            rows.push(told.row(round, Label::Of(expire, "expire")));
        }
        if self.curve {
            let most = |given: &[u32]| given.iter().copied().max().unwrap_or_default();
            let ends = curve::Ends {
                locks: most(&self.locks),
                sessions: most(&self.sessions),
                waiters: most(&self.waiters),
                over: self.over,
            };
            for (label, told) in curve::measure(common, &ends).await? {
                rows.push(told.row(round, label));
            }
        }
        Ok(rows)
    }
}
