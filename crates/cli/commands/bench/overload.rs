//! `palisade bench overload`: several processes ask for more and more, past what the cluster can do. What it still does
//! then, and whether sessions that do nothing but live are kept.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use super::keepalive::{self, Seen, Shared, Stream};
use super::place::{self, Place};
use super::report::{Figure, Label, Measured, Rule, Shape, TOKENS_RISE, Unit};
use super::tasks;
use super::{Common, Timing};
use crate::args::{Globals, duration};
use crate::commands::Failure;
use crate::exit::Exit;
use crate::process::Process;

/// Tasks of all processes that go on at once, as many as there are; the best of them is the peak.
const CLOSED: [(&str, u32); 3] = [("256 tasks", 256), ("1024 tasks", 1_024), ("4096 tasks", 4_096)];
/// Parts of the peak that are due each second, whatever is done.
const OPEN: [(&str, f64); 5] = [("0.5x", 0.5), ("1x", 1.0), ("1.5x", 1.5), ("2x", 2.0), ("3x", 3.0)];
/// Between two looks at the idle sessions.
const LOOK: Duration = Duration::from_millis(250);
/// Streams of the idle sessions.
const STREAMS: u32 = 30;
/// For a process to end once its time is over.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// `palisade bench overload`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --endpoints it starts three nodes of its own, and ends them afterwards. The peak is the best of \
                  the closed loops of its round; what is due is a multiple of it. An open loop has as many requests under \
                  way as it has tasks, and no more. Exit codes: 0 every idle session was kept and tokens rose, 1 not so, 3 \
                  no answer in time."
)]
pub(super) struct OverloadArgs {
    /// Processes that ask
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    processes: u32,
    /// Tasks of each where cycles are due at a rate
    #[arg(long, default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tasks: u32,
    /// Sessions that do nothing but live meanwhile
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    idle: u32,
    /// Their lease
    #[arg(long, value_parser = duration, default_value = "10s")]
    ttl: Duration,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    common: Common,
}

const SHAPE: Shape<5, 1, 2> = Shape {
    schema: "palisade.bench.overload/1",
    title: "palisade bench overload",
    row: "load",
    figures: [
        Figure { name: "grants_per_second", head: "GRANTS/S", unit: Unit::PerSecond },
        Figure { name: "due_per_second", head: "DUE/S", unit: Unit::PerSecond },
        Figure { name: "percent_of_peak", head: "% OF PEAK", unit: Unit::Percent },
        Figure { name: "worst_cycle_p99_seconds", head: "CYCLE p99 s", unit: Unit::Seconds },
        Figure { name: "memory_bytes", head: "MEMORY MiB", unit: Unit::Bytes },
    ],
    latencies: ["keepalive"],
    checked: "grants",
    rules: [
        TOKENS_RISE,
        Rule {
            count: "sessions_lost",
            holds: "sessions_kept",
            good: "no session was lost",
            bad: "SESSIONS WERE LOST",
        },
    ],
};

pub(super) async fn run(globals: &Globals, arguments: &OverloadArgs) -> Result<Exit, Failure> {
    let measure = async |place: &mut Place<'_>| measure(place, arguments).await;
    place::run(globals, &arguments.common, &SHAPE, Some(arguments.timing.duration), measure).await
}

async fn measure(place: &Place<'_>, arguments: &OverloadArgs) -> Result<Vec<Measured<5, 1, 2>>, Failure> {
    let logs = tempfile::tempdir()?;
    let streams = keepalive::open(place, STREAMS, arguments.ttl, arguments.idle).await?;
    let mut idle: Vec<Seen> =
        streams.iter().flat_map(|stream| stream.sessions.iter().map(Seen::of)).collect();
    let mut measured = Vec::new();
    for round in 1..=arguments.common.rounds {
        let mut rows = Vec::new();
        for (word, tasks) in CLOSED {
            let load = Load { round, word, tasks: tasks.div_ceil(arguments.processes), rate: None };
            rows.push(one(place, arguments, &logs, load, &streams, &mut idle).await?);
        }
        let grants = |row: &Measured<5, 1, 2>| row.figures[0].unwrap_or(0.0);
        let peak = rows.iter().map(grants).fold(1.0, f64::max);
        for (word, part) in OPEN {
            let rate = (peak * part / f64::from(arguments.processes)).ceil() as u32;
            let load = Load { round, word, tasks: arguments.tasks, rate: Some(rate) };
            rows.push(one(place, arguments, &logs, load, &streams, &mut idle).await?);
        }
        for row in &mut rows {
            row.figures[2] = row.figures[0].map(|grants| 100.0 * grants / peak);
        }
        measured.extend(rows);
    }
    drop(idle);
    for Stream { client, sessions } in streams {
        drop(sessions);
        client.close().await;
    }
    Ok(measured)
}

/// What each process does.
#[derive(Clone, Copy)]
struct Load {
    round: u32,
    word: &'static str,
    tasks: u32,
    rate: Option<u32>,
}

async fn one(
    place: &Place<'_>,
    arguments: &OverloadArgs,
    logs: &TempDir,
    load: Load,
    streams: &[Stream],
    idle: &mut [Seen],
) -> Result<Measured<5, 1, 2>, Failure> {
    let lost_before = lost(idle);
    let shared = Rc::new(Shared::default());
    let probing: Vec<JoinHandle<()>> = streams
        .iter()
        .map(|stream| spawn_local(keepalive::probes(stream.sessions.clone(), shared.clone())))
        .collect();
    shared.tasks.begin();
    let mut processes = Vec::new();
    for number in 0..arguments.processes {
        let name = format!("load-{number}");
        processes.push(Process::start(&name, &words(place, arguments, load), logs.path(), true)?);
    }
    let mut asking: Vec<JoinHandle<Result<Value, Failure>>> = processes
        .into_iter()
        .map(|process| spawn_local(answer(process, arguments.timing.duration)))
        .collect();
    let mut memory = place.memory();
    while !asking.iter().all(JoinHandle::is_finished) {
        sleep(LOOK).await;
        idle.iter_mut().for_each(Seen::look);
        memory = memory.max(place.memory());
    }
    shared.tasks.stop();
    tasks::end(probing, place.globals.timeout).await?;
    let mut sum = Sum::default();
    for asked in asking.drain(..) {
        sum.add(&asked.await.map_err(anyhow::Error::new)??);
    }
    Ok(Measured {
        round: load.round,
        row: Label::Word(load.word),
        figures: [
            Some(sum.grants),
            load.rate.map(|rate| f64::from(rate * arguments.processes)),
            None,
            sum.p99,
            memory.map(|bytes| bytes as f64),
        ],
        latencies: shared.latencies.take(),
        checked: sum.checked,
        broken: [sum.not_rising, lost(idle) - lost_before],
        errors: sum.errors + shared.tasks.errors(),
        error: sum.error.or_else(|| shared.tasks.error()),
    })
}

fn lost(idle: &[Seen]) -> u64 {
    idle.iter().filter(|one| one.lost).count() as u64
}

/// What a process is started with.
fn words(place: &Place<'_>, arguments: &OverloadArgs, load: Load) -> Vec<String> {
    let Timing { duration, warmup } = arguments.timing;
    let mut words = vec![
        "-o=json".to_owned(),
        format!("--endpoints={}", place.endpoints().join(",")),
        format!("--timeout={}ms", place.globals.timeout.as_millis()),
        "bench".to_owned(),
        "grant".to_owned(),
        "--rounds=1".to_owned(),
        format!("--tasks={}", load.tasks),
        format!("--duration={}ms", duration.as_millis()),
        format!("--warmup={}ms", warmup.as_millis()),
    ];
    words.extend(load.rate.map(|rate| format!("--rate={rate}")));
    words
}

/// What a process found.
async fn answer(mut process: Process, time: Duration) -> Result<Value, Failure> {
    let (_stdin, mut stdout) = process.pipes()?;
    let mut text = String::new();
    let began = Instant::now();
    let read = timeout(time + ENDS_WITHIN, stdout.read_to_string(&mut text)).await;
    read.map_err(|_| {
        Failure::new(Exit::UNAVAILABLE, anyhow!("a load did not end in {:?}", began.elapsed()))
    })??;
    let document = serde_json::from_str(&text);
    if document.is_err() {
        process.check()?;
    }
    Ok(document.context("the answer of a load")?)
}

/// What all processes found.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    grants: f64,
    /// The worst of them.
    p99: Option<f64>,
    checked: u64,
    not_rising: u64,
    errors: u64,
    error: Option<String>,
}

impl Sum {
    fn add(&mut self, document: &Value) {
        let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let row = &document["rows"][0];
        self.grants += row["grants_per_second"].as_f64().unwrap_or(0.0);
        let p99 = row["cycle_seconds"]["p99"].as_f64();
        self.p99 = p99.into_iter().chain(self.p99).reduce(f64::max);
        self.checked += number(&document["grants_checked"]);
        self.not_rising += number(&document["tokens_not_rising"]);
        self.errors += number(&row["errors"]);
        self.error = document["last_error"].as_str().map(str::to_owned).or(self.error.take());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rates_are_added_and_the_worst_latency_counts() {
        let document = |grants: f64, p99: f64| {
            json!({
                "rows": [{ "grants_per_second": grants, "cycle_seconds": { "p99": p99 }, "errors": "1" }],
                "grants_checked": "10", "tokens_not_rising": "0", "last_error": null,
            })
        };
        let mut sum = Sum::default();
        sum.add(&document(100.0, 0.5));
        sum.add(&document(50.0, 0.2));
        let right = Sum { grants: 150.0, p99: Some(0.5), checked: 20, errors: 2, ..Sum::default() };
        assert_eq!(sum, right);
    }
}
