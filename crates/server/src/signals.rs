//! What holders tell of themselves with their keepalives (SPEC 9, 14): pauses, throttling, and how close their leases
//! came to their end. It feeds views and metrics; nothing is decided by it, and a new leader begins with nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use palisade_core::ids::{Millis, SessionId};
use palisade_host::Moment;
use palisade_proto::v1;
use parking_lot::Mutex;

use crate::metrics::Metrics;

/// One session's part of a keepalive that was acknowledged.
pub(crate) struct Reported {
    pub(crate) session: SessionId,
    pub(crate) ttl: Millis,
    pub(crate) working: bool,
    /// What was left of the client's belief when it sent the keepalive; none when not told.
    pub(crate) left_ms: Option<u64>,
}

struct Told {
    at: Moment,
    signals: v1::HolderSignals,
}

/// By session; bounded by the sessions, since only live ones are reported for and ended ones are forgotten. Locked after
/// the table where both are, never before it.
#[derive(Default)]
pub(crate) struct Signals {
    told: Mutex<BTreeMap<SessionId, Told>>,
}

impl Signals {
    /// A report came with a keepalive that was acknowledged for these sessions.
    pub(crate) fn report(
        &self,
        now: Moment,
        report: &v1::HolderReport,
        sessions: impl IntoIterator<Item = Reported>,
        metrics: &Metrics,
    ) {
        metrics.holder_reported(report);
        let mut told = self.told.lock();
        for reported in sessions {
            let ttl = Duration::from_millis(reported.ttl.0);
            metrics.session_reported(report, reported.left_ms, ttl);
            let known = told.entry(reported.session);
            let known = known.or_insert_with(|| Told { at: now, signals: v1::HolderSignals::default() });
            known.at = now;
            let signals = &mut known.signals;
            signals.working = reported.working;
            signals.pause_last_ms = report.pause_longest_ms;
            signals.pause_longest_ms = signals.pause_longest_ms.max(report.pause_longest_ms);
            signals.throttled_ms = signals.throttled_ms.saturating_add(report.throttled_ms);
            signals.stolen_ms = signals.stolen_ms.saturating_add(report.stolen_ms);
            if let Some(left) = reported.left_ms {
                let least = signals.left_least_ms.map_or(left, |least| least.min(left));
                signals.left_least_ms = Some(least);
            }
        }
    }

    /// What a session's holder told; none when it told nothing to this leader.
    pub(crate) fn of(&self, session: SessionId, now: Moment) -> Option<v1::HolderSignals> {
        let told = self.told.lock();
        let told = told.get(&session)?;
        let ago = u64::try_from(now.since(told.at).as_millis()).unwrap_or(u64::MAX);
        Some(v1::HolderSignals { reported_ago_ms: ago, ..told.signals })
    }

    /// A session ended. Whether its holder's last report said that work was in progress.
    pub(crate) fn forget(&self, session: SessionId) -> bool {
        self.told.lock().remove(&session).is_some_and(|told| told.signals.working)
    }

    /// This node leads no longer.
    pub(crate) fn clear(&self) {
        self.told.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(left_ms: u64, working: bool) -> [Reported; 1] {
        [Reported { session: SessionId(7), ttl: Millis(10_000), working, left_ms: Some(left_ms) }]
    }

    #[test]
    fn the_worst_is_kept_and_sums_are_summed() {
        let (signals, metrics) = (Signals::default(), Metrics::new());
        let start = Moment::from_nanos(1);
        let report = |pause_longest_ms| v1::HolderReport {
            pause_longest_ms,
            throttled_ms: 40,
            ..v1::HolderReport::default()
        };
        signals.report(start, &report(900), reported(5_000, true), &metrics);
        signals.report(start + Duration::from_secs(3), &report(0), reported(7_000, true), &metrics);
        let seen = signals.of(SessionId(7), start + Duration::from_secs(4)).expect("it told");
        assert_eq!((seen.pause_longest_ms, seen.pause_last_ms, seen.throttled_ms), (900, 0, 80));
        assert_eq!((seen.left_least_ms, seen.reported_ago_ms, seen.working), (Some(5_000), 1_000, true));
        assert_eq!(signals.of(SessionId(8), start), None);
        assert!(signals.forget(SessionId(7)), "it was at work");
        assert!(!signals.forget(SessionId(7)));
    }
}
