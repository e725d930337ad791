//! What this process notices of itself, told to the cluster with the keepalives (SPEC 9, 14). What a keepalive that was
//! never acknowledged told is told again by a later one.

use std::time::Duration;

use palisade_host::{SharedClock, Withheld};
use palisade_proto::v1::HolderReport;

/// Standing still for less is the scheduler's usual doing.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// Not told yet, or not known to have arrived.
pub(super) struct OwnSignals {
    clock: SharedClock,
    withheld: Withheld,
    untold: HolderReport,
}

impl OwnSignals {
    pub(super) fn new(clock: SharedClock) -> Self {
        let withheld = clock.withheld();
        Self { clock, withheld, untold: HolderReport::default() }
    }

    /// The process stood still for so long.
    pub(super) fn paused(&mut self, pause: Duration) {
        if pause < PAUSE_MIN {
            return;
        }
        let pause = millis(pause);
        self.untold.pause_longest_ms = self.untold.pause_longest_ms.max(pause);
        self.untold.pause_total_ms = self.untold.pause_total_ms.saturating_add(pause);
    }

    /// For a keepalive that leaves now.
    pub(super) fn take(&mut self) -> HolderReport {
        let now = self.clock.withheld();
        let since = now.since(self.withheld);
        self.withheld = now;
        let mut report = std::mem::take(&mut self.untold);
        report.throttled_ms = report.throttled_ms.saturating_add(millis(since.throttled));
        report.stolen_ms = report.stolen_ms.saturating_add(millis(since.stolen));
        report
    }

    /// The keepalive was not acknowledged.
    pub(super) fn untold(&mut self, report: &HolderReport) {
        let untold = &mut self.untold;
        untold.pause_longest_ms = untold.pause_longest_ms.max(report.pause_longest_ms);
        untold.pause_total_ms = untold.pause_total_ms.saturating_add(report.pause_total_ms);
        untold.throttled_ms = untold.throttled_ms.saturating_add(report.throttled_ms);
        untold.stolen_ms = untold.stolen_ms.saturating_add(report.stolen_ms);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use palisade_host::ManualClock;

    use super::*;

    #[test]
    fn what_did_not_arrive_is_told_again_and_what_did_is_not() {
        let mut signals = OwnSignals::new(Arc::new(ManualClock::default()));
        signals.paused(Duration::from_millis(5));
        signals.paused(Duration::from_millis(300));
        signals.paused(Duration::from_millis(200));
        let first = signals.take();
        assert_eq!((first.pause_longest_ms, first.pause_total_ms), (300, 500));
        assert_eq!(signals.take(), HolderReport::default());
        signals.untold(&first);
        signals.paused(Duration::from_millis(400));
        let again = signals.take();
        assert_eq!((again.pause_longest_ms, again.pause_total_ms), (400, 900));
    }
}
