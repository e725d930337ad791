//! `palisade bench contend`: sessions that queue for one lock, and pass it on.
//!
//! A hand-off is from the call of the release to the next grant that is seen.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use palisade_client::{Client, Session};
use palisade_core::ids::{AcquisitionId, RequestNumber, SessionId};
use palisade_proto::v1;
use tokio::task::{JoinHandle, spawn_local, yield_now};
use tokio::time::{Instant, sleep};

use super::order::Order;
use super::place::{self, Place, close};
use super::report::{Figure, Label, Latencies, Measured, Rule, Shape, TOKENS_RISE, Unit};
use super::tasks::{self, Tasks, count};
use super::tokens::{Lock, Tokens, locks};
use super::{Common, Timing};
use crate::args::{Globals, duration};
use crate::commands::Failure;
use crate::exit::Exit;

/// Between two looks at a queue.
const LOOK: Duration = Duration::from_millis(20);

/// `palisade bench contend`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --endpoints it starts three nodes of its own, and ends them afterwards. Each session \
                  has a connection of its own. The queue is looked at meanwhile: who was seen in it must be \
                  granted in its order, and before all who asked later. Exit codes: 0 tokens rose, no two held at \
                  a time, and grants came in the order of the queue; 1 not so; 3 no answer in time."
)]
pub(super) struct ContendArgs {
    /// Sessions that queue at one time; each number is measured
    #[arg(long, value_delimiter = ',', default_value = "2,8,32", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sessions: Vec<u32>,
    /// Locks that they queue for, each session for one of them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    locks: u32,
    /// How long each holds the lock
    #[arg(long, value_parser = duration, default_value = "0s")]
    hold: Duration,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    common: Common,
}

const SHAPE: Shape<2, 2, 3> = Shape {
    schema: "palisade.bench.contend/1",
    title: "palisade bench contend",
    row: "sessions",
    figures: [
        Figure { name: "handoffs_per_second", head: "HANDOFFS/S", unit: Unit::PerSecond },
        Figure { name: "seen_in_queue", head: "SEEN IN QUEUE", unit: Unit::Count },
    ],
    latencies: ["handoff", "wait"],
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
            count: "grants_out_of_order",
            holds: "grants_in_queue_order",
            good: "in the order of the queue",
            bad: "WERE OUT OF ORDER",
        },
    ],
};

pub(super) async fn run(globals: &Globals, arguments: &ContendArgs) -> Result<Exit, Failure> {
    let measure = async |place: &mut Place<'_>| measure(place, arguments).await;
    place::run(globals, &arguments.common, &SHAPE, Some(arguments.timing.duration), measure).await
}

async fn measure(place: &Place<'_>, arguments: &ContendArgs) -> Result<Vec<Measured<2, 2, 3>>, Failure> {
    let onlooker = place.client(0, |_| {})?;
    let mut measured = Vec::new();
    for round in 1..=arguments.common.rounds {
        for &sessions in &arguments.sessions {
            let opened = place.sessions(sessions).await?;
            let queues: Vec<Rc<Queue>> = locks(arguments.locks, &format!("{round}/{sessions}"))?
                .into_iter()
                .map(|lock| Rc::new(Queue::of(lock)))
                .collect();
            let shared = Rc::new(Shared { hold: arguments.hold, ..Shared::default() });
            let mut running: Vec<JoinHandle<()>> = opened
                .iter()
                .zip(queues.iter().cycle())
                .map(|(one, queue)| spawn_local(turns(one.session.clone(), queue.clone(), shared.clone())))
                .collect();
            running.push(spawn_local(looks(onlooker.clone(), queues.clone(), shared.clone())));
            shared.tasks.measure(&arguments.timing).await;
            tasks::end(running, place.globals.timeout + arguments.hold * sessions).await?;
            measured.push(shared.measured(round, sessions, &queues));
            close(opened).await;
        }
    }
    onlooker.close().await;
    Ok(measured)
}

/// A lock, as those see it who queue for it.
struct Queue {
    lock: Rc<Lock>,
    /// Who believes to hold it.
    holders: Cell<u32>,
    released: Cell<Option<Instant>>,
    order: RefCell<Order>,
}

impl Queue {
    fn of(lock: Rc<Lock>) -> Self {
        Self { lock, holders: Cell::new(0), released: Cell::new(None), order: RefCell::default() }
    }
}

/// What the tasks of one measurement have in common.
#[derive(Default)]
struct Shared {
    tasks: Tasks,
    tokens: Tokens,
    hold: Duration,
    handoffs: Cell<u64>,
    overlapping: Cell<u64>,
    latencies: RefCell<[Latencies; 2]>,
}

impl Shared {
    fn granted(&self, queue: &Queue, asked: Instant, granted: Instant) {
        if queue.holders.get() > 0 {
            count(&self.overlapping);
            tracing::error!(lock = %queue.lock.name, "two hold at a time");
        }
        queue.holders.set(queue.holders.get() + 1);
        let [handoff, wait] = &mut *self.latencies.borrow_mut();
        if let Some(released) = queue.released.get()
            && self.tasks.counts(granted)
        {
            count(&self.handoffs);
            handoff.record(granted - released);
            wait.record(granted - asked);
        }
    }

    fn measured(&self, round: u32, sessions: u32, queues: &[Rc<Queue>]) -> Measured<2, 2, 3> {
        let all = |of: fn(&Order) -> u64| queues.iter().map(|queue| of(&queue.order.borrow())).sum::<u64>();
        Measured {
            round,
            row: Label::Number(sessions),
            figures: [
                Some(self.tasks.per_second(self.handoffs.get())),
                Some(all(|order| order.checked) as f64),
            ],
            latencies: self.latencies.take(),
            checked: self.tokens.checked(),
            broken: [self.tokens.not_rising(), self.overlapping.get(), all(|order| order.broken)],
            errors: self.tasks.errors(),
            error: self.tasks.error(),
        }
    }
}

async fn turns(session: Session, queue: Rc<Queue>, shared: Rc<Shared>) {
    while shared.tasks.go_on() {
        let (asked, before) = (Instant::now(), shared.tokens.highest());
        let guard = match session.lock(queue.lock.name.clone()).acquire().await {
            Ok(guard) => guard,
            Err(error) => {
                queue.order.borrow_mut().lose_track();
                shared.tasks.failed(error).await;
                continue;
            }
        };
        shared.tokens.check(&queue.lock, before, &guard);
        queue.order.borrow_mut().granted(guard.acquisition(), guard.token(), asked);
        shared.granted(&queue, asked, Instant::now());
        // Another holder, if there is one, has its turn to be seen.
        match shared.hold {
            Duration::ZERO => yield_now().await,
            hold => sleep(hold).await,
        }
        queue.holders.set(queue.holders.get() - 1);
        queue.released.set(Some(Instant::now()));
        if let Err(error) = guard.release().await {
            shared.tasks.failed(error).await;
        }
    }
}

/// Looks at the queues in turn.
async fn looks(client: Client, queues: Vec<Rc<Queue>>, shared: Rc<Shared>) {
    for queue in queues.iter().cycle() {
        if !shared.tasks.go_on() {
            return;
        }
        sleep(LOOK).await;
        if !queue.order.borrow().wants() {
            continue;
        }
        match client.lock_view(&queue.lock.name).await {
            Ok(view) => {
                let waiting = view.queue.into_iter().filter_map(|waiter| acquisition(waiter.acquisition?));
                queue.order.borrow_mut().saw(waiting, Instant::now());
            }
            Err(error) => shared.tasks.failed(error).await,
        }
    }
}

fn acquisition(told: v1::AcquisitionId) -> Option<AcquisitionId> {
    (told.session > 0)
        .then_some(AcquisitionId { session: SessionId(told.session), number: RequestNumber(told.number) })
}
