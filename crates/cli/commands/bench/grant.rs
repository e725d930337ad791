//! `palisade bench grant`: tasks that acquire and release, as fast as the cluster lets them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use palisade_client::{Client, LockGuard, Session};
use palisade_core::ids::LockName;
use palisade_host::Host;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use super::GrantArgs;
use super::report::{Latencies, Measured, Report};
use crate::args::Globals;
use crate::cluster::Cluster;
use crate::commands::{Failure, client_config};
use crate::exit::Exit;
use crate::output::Output;

/// After an error, so that a cluster without a leader is not hammered.
const REST: Duration = Duration::from_millis(20);
/// How long the last cycles may take once a measurement is over, beside the patience of a single request.
const LAST_CYCLES: Duration = Duration::from_secs(10);

/// Measures, and answers whether the tokens rose.
pub(super) async fn run(globals: &Globals, arguments: &GrantArgs) -> Result<Exit, Failure> {
    let (own, endpoints) = if globals.endpoints.is_empty() {
        let folder = match &arguments.data_dir {
            Some(folder) => tempfile::tempdir_in(folder),
            None => tempfile::tempdir(),
        }?;
        let mut cluster = Cluster::start(folder.path(), "bench")?;
        cluster.ready().await?;
        let endpoints = cluster.endpoints().to_vec();
        (Some((cluster, folder)), endpoints)
    } else {
        (None, globals.endpoints.clone())
    };
    // Tasks share counters without any locking: they all run on this thread.
    let measured = LocalSet::new().run_until(measure(globals, arguments, &endpoints)).await;
    if let Some((cluster, _folder)) = own {
        cluster.stop().await;
    }
    let report = Report::of(arguments, measured?);
    Output::new(globals).answer("palisade.bench.grant/1", |_| report.lines(), || report.json())?;
    Ok(if report.tokens_rose() { Exit::OK } else { Exit::NO })
}

/// Every number of tasks in every round: neighbours in time are comparable.
async fn measure(
    globals: &Globals,
    arguments: &GrantArgs,
    endpoints: &[String],
) -> Result<Vec<Measured>, Failure> {
    let run = std::process::id();
    let mut measured = Vec::new();
    for round in 1..=arguments.rounds {
        for &tasks in &arguments.tasks {
            let sessions =
                open(globals, endpoints, arguments.sessions.unwrap_or(sessions_for(tasks))).await?;
            let locks = locks(arguments.locks.unwrap_or(tasks), &format!("bench/{run}/{round}/{tasks}"))?;
            let shared = Rc::new(Shared::default());
            let running: Vec<JoinHandle<()>> = (0..tasks as usize)
                .map(|task| {
                    let session = sessions[task % sessions.len()].session.clone();
                    let lock = locks[task % locks.len()].clone();
                    spawn_local(cycles(session, lock, shared.clone()))
                })
                .collect();
            sleep(arguments.warmup).await;
            let began = Instant::now();
            shared.counts.set(true);
            sleep(arguments.duration).await;
            shared.counts.set(false);
            let took = began.elapsed();
            shared.stop.set(true);
            end(running, globals.timeout + LAST_CYCLES).await?;
            measured.push(shared.measured(round, tasks, sessions.len(), took));
            close(sessions).await;
        }
    }
    Ok(measured)
}

/// As many as a service with so many tasks would have: one for each sixteen, and three at least.
fn sessions_for(tasks: u32) -> u32 {
    match tasks {
        1..3 => tasks,
        3..=48 => 3,
        _ => (tasks / 16 / 3 * 3).clamp(6, 66),
    }
}

fn locks(count: u32, prefix: &str) -> anyhow::Result<Vec<Rc<Lock>>> {
    let lock = |number| {
        let name = LockName::new(&format!("{prefix}/{number}")).context("the name of a lock")?;
        Ok(Rc::new(Lock { name, last: Cell::new(0) }))
    };
    (0..count).map(lock).collect()
}

struct Lock {
    name: LockName,
    /// The highest token that was granted.
    last: Cell<u64>,
}

/// A connection and its session.
struct Opened {
    client: Client,
    session: Session,
}

async fn open(globals: &Globals, endpoints: &[String], count: u32) -> Result<Vec<Opened>, Failure> {
    let mut opened = Vec::with_capacity(count as usize);
    for number in 0..count as usize {
        let mut settings = client_config(globals, None)?;
        settings.endpoints = endpoints.to_vec();
        let nodes = settings.endpoints.len();
        settings.endpoints.rotate_left(number % nodes.max(1));
        let client = Client::new(settings, Host::system())?;
        let session = client.open_session().await?;
        opened.push(Opened { client, session });
    }
    Ok(opened)
}

async fn close(sessions: Vec<Opened>) {
    for opened in sessions {
        drop(opened.session);
        opened.client.close().await;
    }
}

async fn end(running: Vec<JoinHandle<()>>, patience: Duration) -> Result<(), Failure> {
    let all = async {
        for task in running {
            task.await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    match timeout(patience, all).await {
        Ok(ended) => Ok(ended?),
        Err(_) => {
            Err(Failure::new(Exit::UNAVAILABLE, anyhow!("the last cycles did not end within {patience:?}")))
        }
    }
}

/// What the tasks of one measurement have in common.
#[derive(Default)]
struct Shared {
    counts: Cell<bool>,
    stop: Cell<bool>,
    cycles: Cell<u64>,
    checked: Cell<u64>,
    not_rising: Cell<u64>,
    errors: Cell<u64>,
    error: RefCell<Option<String>>,
    latencies: RefCell<Latencies>,
}

impl Shared {
    /// Every token of a lock is above all before it, whether or not its cycle counts.
    fn check(&self, lock: &Lock, guard: &LockGuard) {
        let token = guard.token().get();
        self.checked.set(self.checked.get() + 1);
        if token <= lock.last.get() {
            self.not_rising.set(self.not_rising.get() + 1);
            tracing::error!(lock = %lock.name, token, before = lock.last.get(), "a token did not rise");
        }
        lock.last.set(token.max(lock.last.get()));
    }

    async fn failed(&self, error: String) {
        self.errors.set(self.errors.get() + 1);
        *self.error.borrow_mut() = Some(error);
        sleep(REST).await;
    }

    fn measured(&self, round: u32, tasks: u32, sessions: usize, took: Duration) -> Measured {
        Measured {
            round,
            tasks,
            sessions,
            took,
            cycles: self.cycles.get(),
            checked: self.checked.get(),
            not_rising: self.not_rising.get(),
            errors: self.errors.get(),
            error: self.error.take(),
            latencies: self.latencies.take(),
        }
    }
}

async fn cycles(session: Session, lock: Rc<Lock>, shared: Rc<Shared>) {
    while !shared.stop.get() {
        let began = Instant::now();
        let guard = match session.lock(lock.name.clone()).acquire().await {
            Ok(guard) => guard,
            Err(error) => {
                shared.failed(error.to_string()).await;
                continue;
            }
        };
        let granted = Instant::now();
        shared.check(&lock, &guard);
        if let Err(error) = guard.release().await {
            shared.failed(error.to_string()).await;
            continue;
        }
        if shared.counts.get() {
            let ended = Instant::now();
            shared.cycles.set(shared.cycles.get() + 1);
            shared.latencies.borrow_mut().record(granted - began, ended - granted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_share_sessions_by_sixteen() {
        assert_eq!([1, 3, 16, 64, 256, 1_024].map(sessions_for), [1, 3, 3, 6, 15, 63]);
    }
}
