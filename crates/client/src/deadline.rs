//! How long a client may believe in its lease (SPEC 9). Pure: it is handed every time that it computes with.
//!
//! Only sendings count, never the arrival of an answer: the cluster counts from when a request came in, which is later
//! than its sending and earlier than its answer (Gray and Cheriton 1989).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use palisade_core::limits::FIRST_LEASE_MAX;
use palisade_host::Moment;

/// The least margin, where none is configured.
pub const MARGIN_MIN: Duration = Duration::from_millis(100);
/// Keepalives in one TTL.
const KEEPALIVES_PER_TTL: u32 = 3;

/// A session's lease as its client counts it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lease {
    ttl: Duration,
    drift: f64,
    margin: Option<Duration>,
}

impl Lease {
    /// `drift` is the bound on the combined error of two clock rates, from 0 to below 1. Without a `margin`, a tenth
    /// of the lease, at least [`MARGIN_MIN`].
    pub fn new(ttl: Duration, drift: f64, margin: Option<Duration>) -> Self {
        Self { ttl, drift: drift.clamp(0.0, 1.0), margin }
    }

    /// The TTL as the cluster counts it.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// How long after a counted sending the client believes: `T * (1 - d) - margin`, never below nothing.
    pub fn belief(&self) -> Duration {
        self.belief_of(self.ttl)
    }

    /// When belief ends, after a request that was sent at `sent` and answered `renewed`.
    pub fn deadline(&self, sent: Moment) -> Moment {
        sent + self.belief()
    }

    /// When belief in a session ends that was opened by a request sent at `sent` and not renewed since: the cluster
    /// keeps it for its TTL or a minute, whichever is shorter (SPEC 3).
    pub fn first_deadline(&self, sent: Moment) -> Moment {
        sent + self.belief_of(self.ttl.min(Duration::from_millis(FIRST_LEASE_MAX.0)))
    }

    /// Time between two keepalives.
    pub fn keepalive_interval(&self) -> Duration {
        self.ttl / KEEPALIVES_PER_TTL
    }

    fn belief_of(&self, lease: Duration) -> Duration {
        let margin = self.margin.unwrap_or_else(|| (lease / 10).max(MARGIN_MIN));
        lease.mul_f64(1.0 - self.drift).saturating_sub(margin)
    }
}

/// A holder's own deadlines (SPEC 4): how long it may hold, from the sending of its first report, and how long between the
/// sendings of two. The leader counts from their arrival, which is later. No margin: whoever names a bound names it with
/// room.
#[derive(Debug)]
pub(crate) struct HoldDeadlines {
    hold_max: Option<Duration>,
    progress_every: Option<Duration>,
    /// Nanoseconds of the clock; `NEVER` before the first.
    first_report: AtomicU64,
    /// The last that was answered; 0 before the first.
    last_report: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl HoldDeadlines {
    pub(crate) fn new(drift: f64, hold_max: Option<Duration>, progress_every: Option<Duration>) -> Self {
        let counted = |bound: Duration| bound.mul_f64(1.0 - drift.clamp(0.0, 1.0));
        Self {
            hold_max: hold_max.map(counted),
            progress_every: progress_every.map(counted),
            first_report: AtomicU64::new(NEVER),
            last_report: AtomicU64::new(0),
        }
    }

    /// Whether there are any, so that a first report is due before the guard is handed out.
    pub(crate) fn exist(&self) -> bool {
        self.hold_max.is_some() || self.progress_every.is_some()
    }

    /// A report whose first copy was sent at `sent` was answered.
    pub(crate) fn reported(&self, sent: Moment) {
        self.first_report.fetch_min(sent.as_nanos(), Ordering::AcqRel);
        self.last_report.fetch_max(sent.as_nanos(), Ordering::AcqRel);
    }

    /// Until the nearest; nothing once it passed. None without any, and before the first report.
    pub(crate) fn remaining(&self, now: Moment) -> Option<Duration> {
        let first = self.first_report.load(Ordering::Acquire);
        if first == NEVER {
            return None;
        }
        let last = self.last_report.load(Ordering::Acquire);
        let most = self.hold_max.map(|bound| Moment::from_nanos(first) + bound);
        let next = self.progress_every.map(|interval| Moment::from_nanos(last) + interval);
        let nearest = most.into_iter().chain(next).min()?;
        Some(nearest.since(now))
    }
}

/// What is left until `deadline`; None once it is reached.
pub fn time_left(deadline: Moment, now: Moment) -> Option<Duration> {
    let left = deadline.since(now);
    (!left.is_zero()).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Moment = Moment::from_nanos(5_000_000_000);

    fn after(time: Duration) -> Moment {
        SENT + time
    }

    #[test]
    fn belief_is_the_ttl_less_drift_and_margin() {
        let lease = Lease::new(Duration::from_secs(10), 0.01, None);
        assert_eq!(lease.deadline(SENT), after(Duration::from_millis(8_900)));
        let lease = Lease::new(Duration::from_secs(10), 0.01, Some(Duration::from_millis(250)));
        assert_eq!(lease.deadline(SENT), after(Duration::from_millis(9_650)));
    }

    #[test]
    fn the_margin_is_a_tenth_but_at_least_a_tenth_of_a_second() {
        let lease = Lease::new(Duration::from_millis(500), 0.0, None);
        assert_eq!(lease.belief(), Duration::from_millis(400));
        let lease = Lease::new(Duration::from_secs(60), 0.0, None);
        assert_eq!(lease.belief(), Duration::from_secs(54));
    }

    #[test]
    fn a_first_lease_is_at_most_a_minute() {
        let long = Lease::new(Duration::from_secs(3_600), 0.01, None);
        assert_eq!(long.first_deadline(SENT), after(Duration::from_millis(53_400)));
        let short = Lease::new(Duration::from_secs(10), 0.01, None);
        assert_eq!(short.first_deadline(SENT), short.deadline(SENT));
    }

    #[test]
    fn belief_never_outlives_the_cluster_s_lease_whatever_the_rates() {
        for ttl in [2_000, 10_000, 86_400_000].map(Duration::from_millis) {
            let lease = Lease::new(ttl, 0.01, None);
            // The holder's clock is slow by the whole bound: its belief, in true time.
            let true_time = lease.belief().mul_f64(1.01);
            assert!(true_time < ttl, "{ttl:?}");
        }
    }

    #[test]
    fn a_margin_above_the_lease_leaves_nothing_to_believe() {
        let lease = Lease::new(Duration::from_secs(2), 0.01, Some(Duration::from_secs(5)));
        assert_eq!(lease.deadline(SENT), SENT);
    }

    #[test]
    fn the_deadline_itself_is_too_late() {
        let deadline = after(Duration::from_secs(1));
        assert_eq!(time_left(deadline, SENT), Some(Duration::from_secs(1)));
        assert_eq!(time_left(deadline, deadline), None);
        assert_eq!(time_left(deadline, after(Duration::from_secs(300))), None);
    }

    #[test]
    fn a_report_moves_the_next_one_on_and_never_the_end() {
        let seconds = Duration::from_secs;
        let deadlines = HoldDeadlines::new(0.01, Some(seconds(100)), Some(seconds(40)));
        assert_eq!(deadlines.remaining(SENT), None);
        deadlines.reported(SENT);
        assert_eq!(deadlines.remaining(SENT), Some(Duration::from_millis(39_600)));
        deadlines.reported(after(seconds(30)));
        assert_eq!(deadlines.remaining(after(seconds(30))), Some(Duration::from_millis(39_600)));
        // An answer to an earlier one comes late.
        deadlines.reported(after(seconds(10)));
        assert_eq!(deadlines.remaining(after(seconds(30))), Some(Duration::from_millis(39_600)));
        deadlines.reported(after(seconds(65)));
        assert_eq!(
            deadlines.remaining(after(seconds(65))),
            Some(seconds(34)),
            "the longest holding time is nearer"
        );
        assert_eq!(deadlines.remaining(after(seconds(99))), Some(Duration::ZERO));
    }

    #[test]
    fn without_deadlines_nothing_passes() {
        let deadlines = HoldDeadlines::new(0.01, None, None);
        assert!(!deadlines.exist());
        deadlines.reported(SENT);
        assert_eq!(deadlines.remaining(after(Duration::from_secs(1_000_000))), None);
    }

    #[test]
    fn three_keepalives_fit_into_a_ttl() {
        let lease = Lease::new(Duration::from_secs(9), 0.01, None);
        assert_eq!(lease.keepalive_interval(), Duration::from_secs(3));
    }
}
