//! `palisade bench keepalive`: sessions that do nothing but live, many on each stream, as the client keeps them alive.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use palisade_client::{Client, Session, SessionState};
use tokio::task::{JoinHandle, JoinSet, spawn_local};
use tokio::time::{Instant, sleep};

use super::Common;
use super::place::{self, Place};
use super::report::{Figure, Label, Latencies, Measured, Rule, Shape, Unit};
use super::tasks::{self, Tasks, count};
use crate::args::{Globals, duration};
use crate::commands::Failure;
use crate::exit::Exit;

/// Sessions that one stream opens at one time, and renews at one time when it goes flat out.
const TOGETHER: usize = 64;
/// Between two looks at the leases; well below the time between two keepalives of one session.
const LOOK: Duration = Duration::from_millis(250);
/// A lease that ends later by more than this was renewed: clocks are read to microseconds.
const LATER: Duration = Duration::from_millis(50);
/// Between two keepalives of a stream whose time is taken.
const PROBE: Duration = Duration::from_secs(1);

/// `palisade bench keepalive`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --endpoints it starts three nodes of its own, and ends them afterwards; their processor \
                  time is known, that of others is not. Exit codes: 0 every session was kept, 1 one was not, 3 no \
                  answer in time."
)]
pub(super) struct KeepaliveArgs {
    /// Sessions that are open at one time; each number is measured
    #[arg(long, value_delimiter = ',', default_value = "1000,10000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sessions: Vec<u32>,
    /// Streams that carry them; never more than there are sessions
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    streams: u32,
    /// Their lease; each is renewed at about a third of it
    #[arg(long, value_parser = duration, default_value = "10s")]
    ttl: Duration,
    /// Renew as fast as the cluster answers, instead
    #[arg(long)]
    flat_out: bool,
    /// How long each measurement takes
    #[arg(long, value_parser = duration, default_value = "10s")]
    duration: Duration,
    /// How long the sessions are open before each
    #[arg(long, value_parser = duration, default_value = "1s")]
    warmup: Duration,
    #[command(flatten)]
    common: Common,
}

const SHAPE: Shape<3, 1, 1> = Shape {
    schema: "palisade.bench.keepalive/1",
    title: "palisade bench keepalive",
    row: "sessions",
    figures: [
        Figure { name: "keepalives_per_second", head: "KEEPALIVES/S", unit: Unit::PerSecond },
        Figure { name: "open_seconds", head: "OPEN s", unit: Unit::Seconds },
        Figure { name: "node_cpu_seconds_per_1000", head: "NODE CPU s/1000", unit: Unit::Seconds },
    ],
    latencies: ["keepalive"],
    checked: "keepalives",
    rules: [Rule {
        count: "sessions_lost",
        holds: "sessions_kept",
        good: "no session was lost",
        bad: "SESSIONS WERE LOST",
    }],
};

pub(super) async fn run(globals: &Globals, arguments: &KeepaliveArgs) -> Result<Exit, Failure> {
    let measure = async |place: &mut Place<'_>| {
        let mut measured = Vec::new();
        for round in 1..=arguments.common.rounds {
            for &sessions in &arguments.sessions {
                measured.push(one(place, arguments, round, sessions).await?);
            }
        }
        Ok(measured)
    };
    place::run(globals, &arguments.common, &SHAPE, Some(arguments.duration), measure).await
}

async fn one(
    place: &Place<'_>,
    arguments: &KeepaliveArgs,
    round: u32,
    sessions: u32,
) -> Result<Measured<3, 1, 1>, Failure> {
    let began = Instant::now();
    let streams = open(place, arguments.streams, arguments.ttl, sessions).await?;
    let open = began.elapsed();
    let shared = Rc::new(Shared::default());
    let running: Vec<JoinHandle<()>> = streams
        .iter()
        .map(|stream| {
            let (sessions, shared) = (stream.sessions.clone(), shared.clone());
            match arguments.flat_out {
                true => spawn_local(flat_out(sessions, shared)),
                false => spawn_local(probes(sessions, shared)),
            }
        })
        .collect();
    let mut seen: Vec<Seen> =
        streams.iter().flat_map(|stream| stream.sessions.iter().map(Seen::of)).collect();
    watch(&mut seen, arguments.warmup).await;
    shared.tasks.begin();
    let cpu = place.cpu();
    seen.iter_mut().for_each(|one| one.lease.renewals = 0);
    watch(&mut seen, arguments.duration).await;
    let cpu = place.cpu().zip(cpu).map(|(after, before)| after.saturating_sub(before));
    shared.tasks.stop();
    tasks::end(running, place.globals.timeout).await?;
    let renewals = match arguments.flat_out {
        true => shared.renewed.get(),
        false => seen.iter().map(|one| one.lease.renewals).sum(),
    };
    let lost = seen.iter().filter(|one| one.lost).count() as u64;
    drop(seen);
    for stream in streams {
        drop(stream.sessions);
        stream.client.close().await;
    }
    let each_1000 = |cpu: Duration| (renewals > 0).then(|| cpu.as_secs_f64() * 1e3 / renewals as f64);
    Ok(Measured {
        round,
        row: Label::Number(sessions),
        figures: [Some(shared.tasks.per_second(renewals)), Some(open.as_secs_f64()), cpu.and_then(each_1000)],
        latencies: shared.latencies.take(),
        checked: renewals,
        broken: [lost],
        errors: shared.tasks.errors(),
        error: shared.tasks.error(),
    })
}

/// A client, and its sessions on one stream.
pub(super) struct Stream {
    pub(super) client: Client,
    pub(super) sessions: Rc<Vec<Session>>,
}

/// All streams at one time.
pub(super) async fn open(
    place: &Place<'_>,
    streams: u32,
    ttl: Duration,
    total: u32,
) -> Result<Vec<Stream>, Failure> {
    let streams = streams.min(total);
    let mut opening = JoinSet::new();
    for stream in 0..streams {
        let client = place.client(stream as usize, |settings| settings.ttl = ttl)?;
        let share = total / streams + u32::from(stream < total % streams);
        opening.spawn_local(sessions(client, share as usize));
    }
    opening.join_all().await.into_iter().collect()
}

async fn sessions(client: Client, share: usize) -> Result<Stream, Failure> {
    let mut sessions = Vec::with_capacity(share);
    while sessions.len() < share {
        let mut opening = JoinSet::new();
        for _ in 0..TOGETHER.min(share - sessions.len()) {
            let client = client.clone();
            opening.spawn_local(async move { client.open_session().await });
        }
        for opened in opening.join_all().await {
            sessions.push(opened?);
        }
    }
    Ok(Stream { client, sessions: Rc::new(sessions) })
}

/// What the tasks of one measurement have in common.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) tasks: Tasks,
    /// Keepalives that were asked for, flat out.
    renewed: Cell<u64>,
    pub(super) latencies: RefCell<[Latencies; 1]>,
}

/// A session, as it is seen from outside.
pub(super) struct Seen {
    session: Session,
    lease: Lease,
    pub(super) lost: bool,
}

impl Seen {
    pub(super) fn of(session: &Session) -> Self {
        Self { session: session.clone(), lease: Lease::default(), lost: false }
    }

    /// One that is not believed in any more was not kept, even if it comes back.
    pub(super) fn look(&mut self) {
        self.lost |= self.session.state() != SessionState::Active;
        if let Some(left) = self.session.remaining() {
            self.lease.ends(Instant::now() + left);
        }
    }
}

/// How often a lease was renewed.
#[derive(Default)]
struct Lease {
    ends: Option<Instant>,
    renewals: u64,
}

impl Lease {
    fn ends(&mut self, ends: Instant) {
        match self.ends {
            Some(before) if ends <= before + LATER => return,
            Some(_) => self.renewals += 1,
            None => {}
        }
        self.ends = Some(ends);
    }
}

/// Looks at the sessions for so long.
async fn watch(seen: &mut [Seen], time: Duration) {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        sleep(left.min(LOOK)).await;
        seen.iter_mut().for_each(Seen::look);
        if Instant::now() >= end {
            return;
        }
    }
}

/// The client renews by itself; here one more is asked for now and then, to see how long it takes.
pub(super) async fn probes(sessions: Rc<Vec<Session>>, shared: Rc<Shared>) {
    for session in sessions.iter().cycle() {
        let asked = Instant::now();
        match session.renew_now().await {
            Ok(()) if shared.tasks.counts(asked) => {
                shared.latencies.borrow_mut()[0].record(asked.elapsed());
            }
            Ok(()) => {}
            Err(error) => shared.tasks.failed(error).await,
        }
        let next = asked + PROBE;
        while Instant::now() < next {
            if !shared.tasks.go_on() {
                return;
            }
            sleep(next.saturating_duration_since(Instant::now()).min(LOOK)).await;
        }
    }
}

async fn flat_out(sessions: Rc<Vec<Session>>, shared: Rc<Shared>) {
    for some in sessions.chunks(TOGETHER).cycle() {
        let asked = Instant::now();
        let mut asking = JoinSet::new();
        for session in some {
            let session = session.clone();
            asking.spawn_local(async move { session.renew_now().await });
        }
        for renewed in asking.join_all().await {
            let ended = Instant::now();
            match renewed {
                Ok(()) if shared.tasks.counts(ended) => {
                    count(&shared.renewed);
                    shared.latencies.borrow_mut()[0].record(ended - asked);
                }
                Ok(()) => {}
                Err(error) => shared.tasks.failed(error).await,
            }
        }
        if !shared.tasks.go_on() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_ends_later_than_before_was_renewed() {
        let (mut lease, first) = (Lease::default(), Instant::now());
        for later_ms in [0, 1, 0, 3_000, 2_999, 6_500] {
            lease.ends(first + Duration::from_millis(later_ms));
        }
        assert_eq!(lease.renewals, 2);
    }
}
