//! What a node tells of itself: every metric, named and described once (SPEC 14; docs/metrics.md is for readers).
//!
//! Each is set where the fact is known. What the log says is counted by the node that leads when it is applied, so
//! that the sum over all nodes counts it once, and a restart, which applies old entries again, counts nothing twice.
//! Lock and client names are no labels: their number has no bound.

mod applied;
mod described;
mod labels;
mod rejections;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use palisade_core::table::LockTable;
use palisade_proto::convert::ErrorName;
use palisade_proto::v1;
use palisade_proto::v1::verdict::State;
use palisade_raft::{RaftStatus, Replica, Role};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use crate::lease::Extended;

pub use self::described::METRICS;
pub use self::labels::{
    CheckResult, Counters, CycleMet, Failure, HoldEnd, How, Label, Op, RejectionWhy, ReleaseResult,
};

/// `Content-Type` of what `render` returns.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Buckets for parts of a TTL. A holder stops at its end; a third of it passes between two keepalives.
const TTL_PARTS: [f64; 8] = [0.05, 0.1, 0.25, 0.5, 0.65, 0.8, 0.9, 1.0];

type Seconds = Gauge<f64, AtomicU64>;

/// Standing still for less is the scheduler's usual doing, and not observed.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// The metrics of one node.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    grants: Counters<How>,
    releases: Counters<ReleaseResult>,
    holds_ended: Counters<HoldEnd>,
    wait_cycles: Counters<CycleMet>,
    cycle_searches_given_up: Counter,
    takeovers: Counter,
    session_expirations: Counter,
    expirations_working: Counter,
    holder_pause: Histogram,
    holder_pause_ratio: Histogram,
    holder_left_ratio: Histogram,
    holder_throttled: Counter<f64, AtomicU64>,
    holder_stolen: Counter<f64, AtomicU64>,
    proposals_failed: Counters<Failure>,
    sequencer_checks: Counters<CheckResult>,
    rejections: Counters<RejectionWhy>,
    rejection_gap: Histogram,
    storms: Gauge,
    storms_begun: Counter,
    requests: Counters<Op>,
    streams: Gauge,
    watch_streams: Gauge,
    watch_cuts: Counter,
    watch_resynchronisations: Counter,
    leader_changes: Counter,
    snapshots_installed: Counter,
    log_restarts: Counter,
    sessions: Gauge,
    locks_held: Gauge,
    waiters: Gauge,
    lock_delays: Gauge,
    baton_bytes: Gauge,
    keepalive_round: Histogram,
    leader_pause: Histogram,
    lease_extension: Counter<f64, AtomicU64>,
    term: Gauge,
    is_leader: Gauge,
    committed: Gauge,
    applied: Gauge,
    undecided_bytes: Gauge,
    flush: Family<[(&'static str, &'static str); 1], Seconds>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers everything.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            grants: Counters::default(),
            releases: Counters::default(),
            holds_ended: Counters::default(),
            wait_cycles: Counters::default(),
            cycle_searches_given_up: Counter::default(),
            takeovers: Counter::default(),
            session_expirations: Counter::default(),
            expirations_working: Counter::default(),
            // 10 ms to 82 s.
            holder_pause: Histogram::new(exponential_buckets(0.01, 2.0, 14)),
            holder_pause_ratio: Histogram::new(TTL_PARTS),
            holder_left_ratio: Histogram::new(TTL_PARTS),
            holder_throttled: Counter::default(),
            holder_stolen: Counter::default(),
            proposals_failed: Counters::default(),
            sequencer_checks: Counters::default(),
            rejections: Counters::default(),
            // One entry to a million.
            rejection_gap: Histogram::new(exponential_buckets(1.0, 10.0, 7)),
            storms: Gauge::default(),
            storms_begun: Counter::default(),
            requests: Counters::default(),
            streams: Gauge::default(),
            watch_streams: Gauge::default(),
            watch_cuts: Counter::default(),
            watch_resynchronisations: Counter::default(),
            leader_changes: Counter::default(),
            snapshots_installed: Counter::default(),
            log_restarts: Counter::default(),
            sessions: Gauge::default(),
            locks_held: Gauge::default(),
            waiters: Gauge::default(),
            lock_delays: Gauge::default(),
            baton_bytes: Gauge::default(),
            // Half a millisecond to 8 s.
            keepalive_round: Histogram::new(exponential_buckets(0.000_5, 2.0, 15)),
            // 10 ms to 82 s.
            leader_pause: Histogram::new(exponential_buckets(0.01, 2.0, 14)),
            lease_extension: Counter::default(),
            term: Gauge::default(),
            is_leader: Gauge::default(),
            committed: Gauge::default(),
            applied: Gauge::default(),
            undecided_bytes: Gauge::default(),
            flush: Family::default(),
        };
        let mut registry = Registry::default();
        metrics.register_all(Described(&mut registry));
        metrics.registry = registry;
        metrics
    }

    fn register_all(&self, mut described: Described<'_>) {
        described.register("palisade_grants_total", self.grants.series.clone());
        described.register("palisade_releases_total", self.releases.series.clone());
        described.register("palisade_holds_ended_total", self.holds_ended.series.clone());
        described.register("palisade_wait_cycles_total", self.wait_cycles.series.clone());
        described.register("palisade_cycle_searches_given_up_total", self.cycle_searches_given_up.clone());
        described.register("palisade_session_takeovers_total", self.takeovers.clone());
        described.register("palisade_session_expirations_total", self.session_expirations.clone());
        described.register("palisade_session_expirations_working_total", self.expirations_working.clone());
        described.register("palisade_holder_pause_seconds", self.holder_pause.clone());
        described.register("palisade_holder_pause_ttl_ratio", self.holder_pause_ratio.clone());
        described.register("palisade_holder_left_ttl_ratio", self.holder_left_ratio.clone());
        described.register("palisade_holder_throttled_seconds_total", self.holder_throttled.clone());
        described.register("palisade_holder_stolen_seconds_total", self.holder_stolen.clone());
        described.register("palisade_sessions", self.sessions.clone());
        described.register("palisade_locks_held", self.locks_held.clone());
        described.register("palisade_waiters", self.waiters.clone());
        described.register("palisade_lock_delays", self.lock_delays.clone());
        described.register("palisade_baton_bytes", self.baton_bytes.clone());
        described.register("palisade_keepalive_round_seconds", self.keepalive_round.clone());
        described.register("palisade_leader_pause_seconds", self.leader_pause.clone());
        described.register("palisade_lease_extension_seconds_total", self.lease_extension.clone());
        described.register("palisade_raft_term", self.term.clone());
        described.register("palisade_raft_is_leader", self.is_leader.clone());
        described.register("palisade_raft_committed_index", self.committed.clone());
        described.register("palisade_raft_applied_index", self.applied.clone());
        described.register("palisade_proposals_undecided_bytes", self.undecided_bytes.clone());
        described.register("palisade_raft_leader_changes_total", self.leader_changes.clone());
        described.register("palisade_snapshots_installed_total", self.snapshots_installed.clone());
        described.register("palisade_log_restarts_total", self.log_restarts.clone());
        described.register("palisade_flush_seconds", self.flush.clone());
        described.register("palisade_proposals_failed_total", self.proposals_failed.series.clone());
        described.register("palisade_sequencer_checks_total", self.sequencer_checks.series.clone());
        described.register("palisade_resource_rejections_total", self.rejections.series.clone());
        described.register("palisade_resource_rejection_gap_entries", self.rejection_gap.clone());
        described.register("palisade_rejection_storms", self.storms.clone());
        described.register("palisade_rejection_storms_begun_total", self.storms_begun.clone());
        described.register("palisade_streams", self.streams.clone());
        described.register("palisade_watch_streams", self.watch_streams.clone());
        described.register("palisade_watch_cuts_total", self.watch_cuts.clone());
        described.register("palisade_watch_resynchronisations_total", self.watch_resynchronisations.clone());
        described.register("palisade_requests_total", self.requests.series.clone());
        described.register("palisade_build_info", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
    }

    /// A request came in; `op` is its name, and one that is none of `Op`'s counts nowhere.
    pub fn request(&self, op: &str) {
        if let Some(op) = Op::ALL.iter().find(|known| known.value() == op) {
            self.requests.count(*op);
        }
    }

    /// The log did not answer a command; `name` is the error's.
    pub fn proposal_failed(&self, name: &str) {
        self.proposals_failed.count(match ErrorName::parse(name) {
            Some(ErrorName::NotLeader | ErrorName::NoQuorum) => Failure::NotLeader,
            Some(ErrorName::Overloaded) => Failure::Overloaded,
            Some(ErrorName::OutcomeUnknown) => Failure::OutcomeUnknown,
            Some(_) | None => Failure::Other,
        });
    }

    /// A claim was checked.
    pub fn sequencer_checked(&self, state: State) {
        self.sequencer_checks.count(match state {
            State::Current => CheckResult::Current,
            State::Superseded => CheckResult::Superseded,
            State::Ended => CheckResult::Ended,
            State::UnknownKey => CheckResult::UnknownKey,
            State::Forged => CheckResult::Forged,
            State::WrongLock => CheckResult::WrongLock,
            State::NeverGranted => CheckResult::NeverGranted,
            State::Unspecified => return,
        });
    }

    /// A holder's process told how it fares.
    pub fn holder_reported(&self, report: &v1::HolderReport) {
        let pause = Duration::from_millis(report.pause_longest_ms);
        if pause >= PAUSE_MIN {
            self.holder_pause.observe(pause.as_secs_f64());
        }
        self.holder_throttled.inc_by(Duration::from_millis(report.throttled_ms).as_secs_f64());
        self.holder_stolen.inc_by(Duration::from_millis(report.stolen_ms).as_secs_f64());
    }

    /// The same report, beside the TTL of one of its sessions.
    pub fn session_reported(&self, report: &v1::HolderReport, left_ms: Option<u64>, ttl: Duration) {
        let part = |ms: u64| Duration::from_millis(ms).as_secs_f64() / ttl.as_secs_f64().max(0.001);
        if Duration::from_millis(report.pause_longest_ms) >= PAUSE_MIN {
            self.holder_pause_ratio.observe(part(report.pause_longest_ms));
        }
        if let Some(left) = left_ms {
            self.holder_left_ratio.observe(part(left));
        }
    }

    /// A session expired although its holder's last report said that work was in progress.
    pub fn expired_working(&self) {
        self.expirations_working.inc();
    }

    /// This node sees another leader, or again one.
    pub fn leader_changed(&self) {
        self.leader_changes.inc();
    }

    /// A leader's snapshot replaced the table.
    pub fn snapshot_installed(&self) {
        self.snapshots_installed.inc();
    }

    /// How often.
    pub fn snapshots_installed(&self) -> u64 {
        self.snapshots_installed.get()
    }

    /// The node started again from its disk, for the last time of so many.
    pub fn log_restarted(&self, times: u64) {
        self.log_restarts.inc_by(times);
    }

    /// How often.
    pub fn log_restarts(&self) -> u64 {
        self.log_restarts.get()
    }

    /// Keepalives were proved, so long after the first of them came in.
    pub fn round(&self, took: Duration) {
        self.keepalive_round.observe(took.as_secs_f64());
    }

    /// This process stood still for so long.
    pub fn paused(&self, late: Duration) {
        if late >= PAUSE_MIN {
            self.leader_pause.observe(late.as_secs_f64());
        }
    }

    /// Leases were extended for a pause.
    pub fn extended(&self, by: Extended) {
        self.lease_extension.inc_by(by.longest.as_secs_f64());
    }

    /// A watch stream was cut because it was not read.
    pub fn watch_cut(&self) {
        self.watch_cuts.inc();
    }

    /// A watcher was told of a gap.
    pub fn watch_resynchronised(&self) {
        self.watch_resynchronisations.inc();
    }

    /// The text exposition, for `/metrics`.
    pub fn render(&self, replica: &Replica, streams: usize, watch_streams: usize) -> String {
        let status = replica.status();
        self.undecided_bytes.set(gauge(u64::try_from(replica.undecided_bytes()).unwrap_or(u64::MAX)));
        replica.read(|table| self.look(&status, table));
        self.streams.set(gauge(u64::try_from(streams).unwrap_or(u64::MAX)));
        self.watch_streams.set(gauge(u64::try_from(watch_streams).unwrap_or(u64::MAX)));
        self.text()
    }

    fn look(&self, status: &RaftStatus, table: &LockTable) {
        let counts = table.counts();
        self.sessions.set(gauge(u64::try_from(table.session_count()).unwrap_or(u64::MAX)));
        self.locks_held.set(gauge(counts.held));
        self.waiters.set(gauge(counts.waiting));
        self.lock_delays.set(gauge(counts.delayed));
        self.baton_bytes.set(gauge(table.baton_bytes()));
        self.is_leader.set(i64::from(status.role == Role::Leader));
        self.term.set(gauge(status.term.0));
        self.committed.set(gauge(status.committed.0));
        self.applied.set(gauge(status.applied.0));
        for (quantile, micros) in [("0.5", status.flush.p50_micros), ("0.99", status.flush.p99_micros)] {
            let seconds = Duration::from_micros(micros).as_secs_f64();
            self.flush.get_or_create(&[("quantile", quantile)]).set(seconds);
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Registers by name what `METRICS` describes.
struct Described<'a>(&'a mut Registry);

impl Described<'_> {
    fn register(&mut self, name: &str, metric: impl Metric) {
        let help = METRICS.iter().find(|(known, ..)| *known == name).map_or("", |(.., help)| *help);
        // The exposition puts these suffixes back, by the type.
        let stem = name.strip_suffix("_total").or_else(|| name.strip_suffix("_info")).unwrap_or(name);
        self.0.register(stem, help, metric);
    }
}

fn gauge(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
