//! `palisade bench failover`: the leader is killed, stopped or told to end, under load. How long until the next grant.
//!
//! It counts a grant whose request began after the signal: one that was on its way says nothing about the next leader.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use palisade_client::{Client, Session};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use super::Common;
use super::place::{self, Place, close};
use super::report::{Figure, Label, Measured, Rule, Shape, TOKENS_RISE, Unit};
use super::tasks::{self, Tasks};
use super::tokens::{Lock, Tokens, locks};
use crate::args::{Globals, duration};
use crate::cluster::{Cluster, Leader, NODES};
use crate::commands::Failure;
use crate::exit::Exit;

/// Connections with a session each: two for each node.
const CONNECTIONS: u32 = 6;
/// Tasks of each.
const TASKS: usize = 4;
/// Lock names of a task: one that an attempt left undecided is not asked for again at once.
const NAMES: u32 = 64;
/// An attempt is given up after this.
const PATIENCE: Duration = Duration::from_millis(250);
/// The longest wait for a grant.
const RECOVERY: Duration = Duration::from_secs(35);
/// Between two questions to each node who leads.
const ASK: Duration = Duration::from_millis(5);
/// For the answer: a stopped node gives none.
const ANSWER: Duration = Duration::from_millis(250);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// `palisade bench failover`
#[derive(Debug, Args)]
#[command(
    after_help = "It starts three nodes of its own, and measures no other cluster: it does harm. 24 tasks on six \
                  connections try to acquire for 250 ms at a time. Exit codes: 0 tokens rose and each round had \
                  its next grant, 1 not so, 3 no answer in time."
)]
pub(super) struct FailoverArgs {
    /// What happens to the leader
    #[arg(long, value_enum, value_delimiter = ',', default_value = "kill,stop,end")]
    signals: Vec<LeaderSignal>,
    /// How long the tasks run before the signal, and after the next grant
    #[arg(long, value_parser = duration, default_value = "2s")]
    warmup: Duration,
    #[command(flatten)]
    common: Common,
}

/// What happens to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LeaderSignal {
    /// SIGKILL; it is started again afterwards
    Kill,
    /// SIGSTOP; SIGCONT afterwards
    Stop,
    /// SIGTERM: it hands its lead over; it is started again afterwards
    End,
}

impl LeaderSignal {
    fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::End => "end",
        }
    }

    async fn send(self, cluster: &mut Cluster, leader: &str) -> anyhow::Result<()> {
        let node = cluster.node(leader)?;
        match self {
            Self::Kill => node.kill(),
            Self::Stop => node.stop().await,
            Self::End => node.terminate(),
        }
    }

    /// Brings the node back, and waits until the cluster is whole again.
    async fn undo(self, cluster: &mut Cluster, leader: &str) -> anyhow::Result<()> {
        match self {
            Self::Stop => cluster.node(leader)?.go_on()?,
            Self::Kill | Self::End => cluster.start_again(leader).await?,
        }
        cluster.ready().await?;
        Ok(())
    }
}

const SHAPE: Shape<5, 0, 2> = Shape {
    schema: "palisade.bench.failover/1",
    title: "palisade bench failover",
    row: "signal",
    figures: [
        Figure { name: "next_grant_seconds", head: "NEXT GRANT s", unit: Unit::Seconds },
        Figure { name: "elected_seconds", head: "ELECTED s", unit: Unit::Seconds },
        Figure { name: "serves_seconds", head: "SERVES s", unit: Unit::Seconds },
        Figure { name: "silence_seconds", head: "SILENCE s", unit: Unit::Seconds },
        Figure { name: "grants_per_second_before", head: "GRANTS/S BEFORE", unit: Unit::PerSecond },
    ],
    latencies: [],
    checked: "grants",
    rules: [
        TOKENS_RISE,
        Rule {
            count: "rounds_without_next_grant",
            holds: "service_came_back",
            good: "the service came back each time",
            bad: "ROUNDS WITHOUT A NEXT GRANT",
        },
    ],
};

pub(super) async fn run(globals: &Globals, arguments: &FailoverArgs) -> Result<Exit, Failure> {
    if !globals.endpoints.is_empty() {
        let error = anyhow!(
            "bench failover kills and stops nodes, and does so to a cluster of its own only: leave out --endpoints \
             (or unset PALISADE_ENDPOINTS)"
        );
        return Err(Failure::new(Exit::USAGE, error));
    }
    let measure = async |place: &mut Place<'_>| {
        let mut measured = Vec::new();
        for round in 1..=arguments.common.rounds {
            for &signal in &arguments.signals {
                measured.push(one(place, signal, round, arguments.warmup).await?);
            }
        }
        Ok(measured)
    };
    place::run(globals, &arguments.common, &SHAPE, None, measure).await
}

async fn one(
    place: &mut Place<'_>,
    signal: LeaderSignal,
    round: u32,
    warmup: Duration,
) -> Result<Measured<5, 0, 2>, Failure> {
    let opened = place.sessions(CONNECTIONS).await?;
    let shared = Rc::new(Shared::default());
    let mut running: Vec<JoinHandle<()>> = Vec::new();
    for task in 0..opened.len() * TASKS {
        let session = opened[task % opened.len()].session.clone();
        let names = locks(NAMES, &format!("{round}/{}/{task}", signal.word()))?;
        running.push(spawn_local(attempts(session, names, shared.clone())));
    }
    let patience = place.globals.timeout;
    let mut asked = Vec::new();
    for node in 0..NODES {
        asked.push(place.client(node, |settings| {
            settings.endpoints.truncate(1);
            settings.follow_leader = false;
            settings.request_timeout = ANSWER;
        })?);
    }
    let cluster = place.own().context("a cluster of its own")?;
    let Leader { name: leader, term } = cluster.ready().await?;
    running.extend(asked.into_iter().map(|client| spawn_local(look(client, term, shared.clone()))));
    shared.tasks.begin();
    let at_once = shared.tokens.checked();
    sleep(warmup).await;
    let before = shared.tasks.per_second(shared.tokens.checked() - at_once);
    shared.seen.signalled(Instant::now());
    signal.send(cluster, &leader).await?;
    let given_up = Instant::now() + RECOVERY;
    while shared.seen.next.get().is_none() && Instant::now() < given_up {
        sleep(LOOK).await;
    }
    sleep(warmup).await;
    shared.tasks.stop();
    tasks::end(running, patience).await?;
    signal.undo(cluster, &leader).await?;
    close(opened).await;
    let next = shared.seen.next.get();
    Ok(Measured {
        round,
        row: Label::Word(signal.word()),
        figures: [
            next.map(|next| next.as_secs_f64()),
            shared.seen.elected.get().map(|elected| elected.as_secs_f64()),
            shared.seen.serves.get().map(|serves| serves.as_secs_f64()),
            next.map(|_| shared.seen.silence.get().as_secs_f64()),
            Some(before),
        ],
        latencies: [],
        checked: shared.tokens.checked(),
        broken: [shared.tokens.not_rising(), u64::from(next.is_none())],
        errors: shared.tasks.errors(),
        error: shared.tasks.error(),
    })
}

/// What the tasks of one round have in common.
#[derive(Default)]
struct Shared {
    tasks: Tasks,
    tokens: Tokens,
    seen: Grants,
}

/// What happens around the signal.
#[derive(Default)]
struct Grants {
    signalled: Cell<Option<Instant>>,
    /// From the signal until a node says that it leads, and that it serves.
    elected: Cell<Option<Duration>>,
    serves: Cell<Option<Duration>>,
    /// From the signal to the next grant.
    next: Cell<Option<Duration>>,
    last: Cell<Option<Instant>>,
    /// The longest time without a grant that ended after the signal.
    silence: Cell<Duration>,
}

impl Grants {
    fn signalled(&self, at: Instant) {
        self.signalled.set(Some(at));
    }

    /// A node said so, of a term after the signalled leader's.
    fn leads(&self, serves: bool, seen: Instant) {
        let Some(signalled) = self.signalled.get() else { return };
        let after = Some(seen - signalled);
        self.elected.set(self.elected.get().or(after));
        if serves {
            self.serves.set(self.serves.get().or(after));
        }
    }

    fn granted(&self, asked: Instant, seen: Instant) {
        let last = self.last.replace(Some(seen));
        let Some(signalled) = self.signalled.get() else { return };
        if asked > signalled && self.next.get().is_none() {
            self.next.set(Some(seen - signalled));
        }
        let silence = seen - last.unwrap_or(signalled);
        self.silence.set(self.silence.get().max(silence));
    }
}

/// Asks one node, which may be the stopped one, until the tasks stop.
async fn look(client: Client, before: u64, shared: Rc<Shared>) {
    while shared.tasks.go_on() {
        if let Ok(Ok(status)) = timeout(ANSWER, client.status(true)).await
            && status.term > before
            && status.nodes.iter().any(|node| node.role == "leader")
        {
            shared.seen.leads(status.leader.is_some_and(|leader| leader.here), Instant::now());
        }
        sleep(ASK).await;
    }
}

async fn attempts(session: Session, names: Vec<Rc<Lock>>, shared: Rc<Shared>) {
    let mut at = 0;
    while shared.tasks.go_on() {
        let lock = &names[at % names.len()];
        let (asked, before) = (Instant::now(), shared.tokens.highest());
        let asking = session.lock(lock.name.clone()).try_now().acquire();
        match timeout(PATIENCE, asking).await {
            Ok(Ok(guard)) => {
                shared.tokens.check(lock, before, &guard);
                shared.seen.granted(asked, Instant::now());
                let released = timeout(PATIENCE, guard.release()).await;
                at += usize::from(!matches!(released, Ok(Ok(_))));
            }
            Ok(Err(error)) => {
                at += 1;
                shared.tasks.failed(error).await;
            }
            Err(_) => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_grant_is_of_a_request_that_began_after_the_signal() {
        let (grants, start) = (Grants::default(), Instant::now());
        let at = |tenths: u64| start + Duration::from_millis(tenths * 100);
        grants.granted(at(0), at(5));
        grants.signalled(at(10));
        grants.granted(at(9), at(12));
        assert_eq!(grants.next.get(), None);
        grants.granted(at(11), at(30));
        grants.granted(at(30), at(31));
        assert_eq!(grants.next.get(), Some(Duration::from_secs(2)));
        assert_eq!(grants.silence.get(), Duration::from_millis(1_800));
    }
}
