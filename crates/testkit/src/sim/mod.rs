//! Whole nodes and real clients on simulated network, time, randomness and storage: one seed, one history.
//!
//! Three nodes run the product's server, openraft included, on engines that lose what was not flushed; five clients
//! run the product's client. A seeded schedule partitions, crashes, freezes and restarts them. What the log and the
//! clients saw is checked when all is healed.

mod clients;
mod faults;
mod host;
mod nodes;
mod stutterer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use palisade_core::ids::LockName;
use palisade_core::token::Token;
use palisade_fence::admit::{Admission, HighWaterMark, admit};
use parking_lot::Mutex;

use crate::history::History;

use self::faults::Schedule;
use self::nodes::Nodes;

pub use self::host::{Skew, host};

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Decides everything.
    pub seed: u64,
    /// Nodes.
    pub nodes: usize,
    /// Clients.
    pub clients: usize,
    /// How long faults strike, simulated.
    pub hurt: Duration,
    /// How long the run goes on after the last one is healed.
    pub heal: Duration,
}

impl Scenario {
    /// Three nodes, five clients, 20 simulated seconds of faults and 15 of peace.
    pub fn new(seed: u64) -> Self {
        Self { seed, nodes: 3, clients: 5, hurt: Duration::from_secs(20), heal: Duration::from_secs(15) }
    }
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which run.
    pub seed: u64,
    /// A number that differs when two runs differ.
    pub trace: u64,
    /// Entries of the log.
    pub entries: usize,
    /// Grants that clients were handed.
    pub grants: usize,
    /// Grants that clients were handed after the last fault was healed.
    pub grants_healed: usize,
    /// Writes that a fenced resource refused.
    pub refused: usize,
    /// Faults that struck.
    pub faults: Vec<String>,
    /// All that is wrong.
    pub violations: Vec<String>,
}

/// What the whole run shares.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) history: Arc<Mutex<History>>,
    /// When grants were handed out.
    pub(crate) grants: Arc<Mutex<Vec<Duration>>>,
    /// What each resource has accepted.
    marks: Arc<Mutex<BTreeMap<LockName, HighWaterMark>>>,
}

impl World {
    /// A fenced resource: asks the product's own rule, and raises the mark with it.
    pub(crate) fn admit(&self, lock: &LockName, token: Token) -> bool {
        let mut marks = self.marks.lock();
        match admit(marks.get(lock).copied(), None, token) {
            Admission::Admitted { mark } => {
                marks.insert(lock.clone(), mark);
                true
            }
            Admission::Stale { .. } => false,
        }
    }
}

/// Plays a scenario.
pub fn run(scenario: Scenario) -> Report {
    palisade_raft::seed_randomness(scenario.seed);
    align_task_ids();
    let world = World { scenario, history: Arc::default(), grants: Arc::default(), marks: Arc::default() };
    let mut sim = turmoil::Builder::new()
        .rng_seed(scenario.seed)
        .simulation_duration(scenario.hurt + scenario.heal + Duration::from_secs(60))
        .tick_duration(Duration::from_millis(5))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(8))
        .tcp_capacity(4_096)
        .build();
    let nodes = Nodes::new(&world);
    nodes.start(&mut sim);
    // The last one speaks the protocol itself, and says everything more than once.
    let last = scenario.clients.saturating_sub(1);
    for client in 0..last {
        clients::start(&mut sim, &world, client);
    }
    stutterer::start(&mut sim, &world, last);
    let mut schedule = Schedule::new(&world);
    let mut wrong = Vec::new();
    loop {
        schedule.act(&mut sim, &nodes);
        match sim.step() {
            Ok(true) => break,
            Ok(false) => {}
            Err(why) => {
                wrong.push(format!("the simulation ended: {why}"));
                break;
            }
        }
    }
    let history = world.history.lock();
    wrong.extend(history.check());
    let healed = scenario.hurt;
    let grants_healed = world.grants.lock().iter().filter(|at| **at > healed).count();
    if grants_healed == 0 {
        wrong.push("nothing was granted after the last fault was healed".to_owned());
    }
    Report {
        seed: scenario.seed,
        trace: history.hash(),
        entries: history.entries(),
        grants: history.grants(),
        grants_healed,
        refused: history.refused(),
        faults: schedule.struck,
        violations: wrong,
    }
}

/// tokio ends the tasks of a crashed host by shards of their ids, which count through the whole process; every run
/// begins at the same place in the shards.
fn align_task_ids() {
    const SHARDS: u64 = 1 << 10;
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    let next = || runtime.spawn(async {}).id().to_string().parse::<u64>().unwrap_or(0);
    while !next().is_multiple_of(SHARDS) {}
}

/// A number of a run, from its seed and what it is for.
pub(crate) fn draw(seed: u64, purpose: u64) -> u64 {
    host::mix(host::mix(seed) ^ purpose.wrapping_mul(0x2545_f491_4f6c_dd1d))
}
