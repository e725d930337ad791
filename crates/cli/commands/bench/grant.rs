//! `palisade bench grant`: tasks that acquire and release, as fast as the cluster lets them or at a fixed rate.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use clap::Args;
use palisade_client::Session;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::Instant;

use super::pace::Pace;
use super::place::{self, Place, close, connections_for};
use super::report::{Figure, Label, Latencies, Measured, Shape, TOKENS_RISE, Unit};
use super::tasks::{self, Tasks, count};
use super::tokens::{Lock, Tokens, locks};
use super::{Common, Timing};
use crate::args::Globals;
use crate::commands::Failure;
use crate::exit::Exit;

/// `palisade bench grant`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --endpoints it starts three nodes of its own, and ends them afterwards. Each session \
                  has a connection of its own; tasks share them. With --rate, what is not begun in time is \
                  measured from when it was due; what was due and never begun counts with its age at the end. \
                  Exit codes: 0 tokens rose, 1 they did not, 3 no answer in time."
)]
pub(super) struct GrantArgs {
    /// Tasks that acquire and release at one time; each number is measured
    #[arg(long, value_delimiter = ',', default_value = "1,16,64,256", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tasks: Vec<u32>,
    /// Cycles that are due each second, whether or not those before have ended; without it, each task goes on at once
    #[arg(long, value_name = "PER-SECOND", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,
    /// Sessions that the tasks share; without it 1, 3, 3, 6 and 15 of them at 1, 3, 16, 64 and 256 tasks
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sessions: Option<u32>,
    /// Locks that the tasks share, and then queue for; without it, one for each task
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    locks: Option<u32>,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    common: Common,
}

const SHAPE: Shape<4, 3, 1> = Shape {
    schema: "palisade.bench.grant/1",
    title: "palisade bench grant",
    row: "tasks",
    figures: [
        Figure { name: "grants_per_second", head: "GRANTS/S", unit: Unit::PerSecond },
        Figure { name: "sessions", head: "SESSIONS", unit: Unit::Count },
        Figure { name: "due_per_second", head: "DUE/S", unit: Unit::PerSecond },
        Figure { name: "not_begun", head: "NOT BEGUN", unit: Unit::Count },
    ],
    latencies: ["cycle", "acquire", "release"],
    checked: "grants",
    rules: [TOKENS_RISE],
};

/// Measures, and answers whether the tokens rose.
pub(super) async fn run(globals: &Globals, arguments: &GrantArgs) -> Result<Exit, Failure> {
    let measure = async |place: &mut Place<'_>| measure(place, arguments).await;
    place::run(globals, &arguments.common, &SHAPE, Some(arguments.timing.duration), measure).await
}

/// Every number of tasks in every round: neighbours in time are comparable.
async fn measure(place: &Place<'_>, arguments: &GrantArgs) -> Result<Vec<Measured<4, 3, 1>>, Failure> {
    let mut measured = Vec::new();
    for round in 1..=arguments.common.rounds {
        for &tasks in &arguments.tasks {
            let opened = place.sessions(arguments.sessions.unwrap_or(connections_for(tasks))).await?;
            let locks = locks(arguments.locks.unwrap_or(tasks), &format!("{round}/{tasks}"))?;
            let shared = Rc::new(Shared { pace: arguments.rate.map(Pace::start), ..Shared::default() });
            let running: Vec<JoinHandle<()>> = (0..tasks as usize)
                .map(|task| {
                    let session = opened[task % opened.len()].session.clone();
                    spawn_local(cycles(session, locks[task % locks.len()].clone(), shared.clone()))
                })
                .collect();
            shared.tasks.measure(&arguments.timing).await;
            let not_begun = shared.close();
            tasks::end(running, place.globals.timeout).await?;
            measured.push(shared.measured(round, tasks, opened.len(), arguments.rate.zip(not_begun)));
            close(opened).await;
        }
    }
    Ok(measured)
}

/// What the tasks of one measurement have in common.
#[derive(Default)]
struct Shared {
    tasks: Tasks,
    tokens: Tokens,
    /// Without one, a task goes on at once.
    pace: Option<Pace>,
    cycles: Cell<u64>,
    latencies: RefCell<[Latencies; 3]>,
}

impl Shared {
    /// When the next cycle was due; none when it is over.
    async fn due(&self) -> Option<Instant> {
        match &self.pace {
            Some(pace) => pace.next().await,
            None => self.tasks.go_on().then(Instant::now),
        }
    }

    /// A cycle at a pace belongs to when it was due, any other one to when it ended: it is not counted twice, and one
    /// that took long is not left out.
    fn ended(&self, due: Instant, granted: Instant, ended: Instant) {
        if self.tasks.counts(ended) {
            count(&self.cycles);
        }
        let belongs = if self.pace.is_some() { due } else { ended };
        if self.tasks.counts(belongs) {
            let [cycle, acquire, release] = &mut *self.latencies.borrow_mut();
            cycle.record(ended - due);
            acquire.record(granted - due);
            release.record(ended - granted);
        }
    }

    /// At the end. How many cycles were due and not begun, where there is a pace: they took so long at least.
    fn close(&self) -> Option<u64> {
        let (pace, end) = (self.pace.as_ref()?, self.tasks.end());
        pace.close();
        let mut not_begun = 0;
        let [cycle, acquire, _] = &mut *self.latencies.borrow_mut();
        for due in pace.left(end).filter(|due| self.tasks.counts(*due)) {
            cycle.record(end - due);
            acquire.record(end - due);
            not_begun += 1;
        }
        Some(not_begun)
    }

    fn measured(
        &self,
        round: u32,
        tasks: u32,
        sessions: usize,
        paced: Option<(u32, u64)>,
    ) -> Measured<4, 3, 1> {
        let rate = self.tasks.per_second(self.cycles.get());
        Measured {
            round,
            row: Label::Number(tasks),
            figures: [
                Some(rate),
                Some(sessions as f64),
                paced.map(|(rate, _)| rate.into()),
                paced.map(|(_, not_begun)| not_begun as f64),
            ],
            latencies: self.latencies.take(),
            checked: self.tokens.checked(),
            broken: [self.tokens.not_rising()],
            errors: self.tasks.errors(),
            error: self.tasks.error(),
        }
    }
}

async fn cycles(session: Session, lock: Rc<Lock>, shared: Rc<Shared>) {
    while let Some(due) = shared.due().await {
        let before = shared.tokens.highest();
        let guard = match session.lock(lock.name.clone()).acquire().await {
            Ok(guard) => guard,
            Err(error) => {
                shared.tasks.failed(error).await;
                continue;
            }
        };
        let granted = Instant::now();
        shared.tokens.check(&lock, before, &guard);
        match guard.release().await {
            Ok(_) => shared.ended(due, granted, Instant::now()),
            Err(error) => shared.tasks.failed(error).await,
        }
    }
}
