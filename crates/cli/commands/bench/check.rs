//! `palisade bench check`: tasks at all nodes that ask again and again whether a token is the current one.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use clap::Args;
use palisade_client::{Client, LockGuard, Session};
use palisade_core::ids::LockName;
use palisade_proto::v1;
use palisade_proto::v1::check_item::What;
use palisade_proto::v1::verdict::State;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::Instant;

use super::place::{self, Place, close, connections_for};
use super::report::{Figure, Label, Latencies, Measured, Rule, Shape, Unit};
use super::tasks::{self, Tasks, count};
use super::tokens::locks;
use super::{Common, Timing};
use crate::args::Globals;
use crate::commands::Failure;
use crate::exit::Exit;

/// `palisade bench check`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --endpoints it starts three nodes of its own, and ends them afterwards. Connections are \
                  spread over all nodes and stay there. \"Current\" is linearizable; \"superseded\" is for ever, \
                  and a node may say so by itself. Exit codes: 0 every verdict was right, 1 one was not, 3 no \
                  answer in time."
)]
pub(super) struct CheckArgs {
    /// Tasks that ask at one time; each number is measured
    #[arg(long, value_delimiter = ',', default_value = "1,64,256", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tasks: Vec<u32>,
    /// Ask about a token that was superseded: what a rejection takes
    #[arg(long)]
    stale: bool,
    /// Show the signed sequencer each time, instead of what it says: the node verifies the signature as well
    #[arg(long)]
    signed: bool,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    common: Common,
}

const SHAPE: Shape<2, 1, 1> = Shape {
    schema: "palisade.bench.check/1",
    title: "palisade bench check",
    row: "tasks",
    figures: [
        Figure { name: "checks_per_second", head: "CHECKS/S", unit: Unit::PerSecond },
        Figure { name: "connections", head: "CONNECTIONS", unit: Unit::Count },
    ],
    latencies: ["check"],
    checked: "verdicts",
    rules: [Rule {
        count: "wrong_verdicts",
        holds: "verdicts_right",
        good: "all as they must be",
        bad: "WERE WRONG",
    }],
};

pub(super) async fn run(globals: &Globals, arguments: &CheckArgs) -> Result<Exit, Failure> {
    let measure = async |place: &mut Place<'_>| measure(place, arguments).await;
    place::run(globals, &arguments.common, &SHAPE, Some(arguments.timing.duration), measure).await
}

async fn measure(place: &Place<'_>, arguments: &CheckArgs) -> Result<Vec<Measured<2, 1, 1>>, Failure> {
    let mut measured = Vec::new();
    for round in 1..=arguments.common.rounds {
        for &tasks in &arguments.tasks {
            let holder = place.sessions(1).await?;
            let lock = locks(1, &format!("{round}/{tasks}"))?[0].name.clone();
            let (guard, item) = held(&holder[0].session, lock, arguments).await?;
            let clients = (0..connections_for(tasks) as usize)
                .map(|number| place.client(number, |settings| settings.follow_leader = false))
                .collect::<Result<Vec<Client>, _>>()?;
            let right = if arguments.stale { State::Superseded } else { State::Current };
            let shared = Rc::new(Shared { item, right, ..Shared::default() });
            let running: Vec<JoinHandle<()>> = (0..tasks as usize)
                .map(|task| spawn_local(checks(clients[task % clients.len()].clone(), shared.clone())))
                .collect();
            shared.tasks.measure(&arguments.timing).await;
            tasks::end(running, place.globals.timeout).await?;
            measured.push(shared.measured(round, tasks, clients.len()));
            guard.release().await.map_err(anyhow::Error::new)?;
            for client in clients {
                client.close().await;
            }
            close(holder).await;
        }
    }
    Ok(measured)
}

/// A held lock, and what is asked about it: its token, or the one before.
async fn held(
    session: &Session,
    lock: LockName,
    arguments: &CheckArgs,
) -> Result<(LockGuard, v1::CheckItem), Failure> {
    let guard = session.lock(lock.clone()).acquire().await.map_err(anyhow::Error::new)?;
    let what = match arguments.signed {
        true => What::Sequencer(guard.sequencer().await?),
        false => What::Plain(plain(&guard)),
    };
    let item = v1::CheckItem { what: Some(what), lock: lock.as_str().to_owned() };
    if !arguments.stale {
        return Ok((guard, item));
    }
    guard.release().await.map_err(anyhow::Error::new)?;
    let next = session.lock(lock).acquire().await.map_err(anyhow::Error::new)?;
    Ok((next, item))
}

/// What the sequencer of a grant says.
pub(super) fn plain(guard: &LockGuard) -> v1::PlainCheck {
    let acquisition = guard.acquisition();
    v1::PlainCheck {
        lock: guard.lock().as_str().to_owned(),
        slot: guard.slot().0,
        mode: v1::Mode::Exclusive.into(),
        token: guard.token().get(),
        acquisition: Some(v1::AcquisitionId { session: acquisition.session.0, number: acquisition.number.0 }),
        grant_index: guard.grant_index(),
    }
}

/// What the tasks of one measurement have in common.
#[derive(Default)]
struct Shared {
    tasks: Tasks,
    item: v1::CheckItem,
    right: State,
    checks: Cell<u64>,
    checked: Cell<u64>,
    wrong: Cell<u64>,
    latencies: RefCell<[Latencies; 1]>,
}

impl Shared {
    fn look(&self, verdicts: &[v1::Verdict]) {
        count(&self.checked);
        let said = verdicts.first().map(v1::Verdict::state);
        if said != Some(self.right) {
            count(&self.wrong);
            tracing::error!(?said, right = ?self.right, "a verdict is wrong");
        }
    }

    fn measured(&self, round: u32, tasks: u32, connections: usize) -> Measured<2, 1, 1> {
        Measured {
            round,
            row: Label::Number(tasks),
            figures: [Some(self.tasks.per_second(self.checks.get())), Some(connections as f64)],
            latencies: self.latencies.take(),
            checked: self.checked.get(),
            broken: [self.wrong.get()],
            errors: self.tasks.errors(),
            error: self.tasks.error(),
        }
    }
}

async fn checks(client: Client, shared: Rc<Shared>) {
    while shared.tasks.go_on() {
        let asked = Instant::now();
        let verdicts = match client.check(vec![shared.item.clone()]).await {
            Ok(verdicts) => verdicts,
            Err(error) => {
                shared.tasks.failed(error).await;
                continue;
            }
        };
        let ended = Instant::now();
        shared.look(&verdicts);
        if shared.tasks.counts(ended) {
            count(&shared.checks);
            shared.latencies.borrow_mut()[0].record(ended - asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_verdict_than_the_right_one_and_none_at_all_are_wrong() {
        let shared = Shared { right: State::Current, ..Shared::default() };
        let said = |state: State| v1::Verdict { state: state.into(), ..v1::Verdict::default() };
        shared.look(&[said(State::Current)]);
        assert_eq!(shared.wrong.get(), 0);
        shared.look(&[said(State::Superseded)]);
        shared.look(&[]);
        assert_eq!((shared.checked.get(), shared.wrong.get()), (3, 2));
    }
}
