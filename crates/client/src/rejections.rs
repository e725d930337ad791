//! What a resource refused, told to the cluster, so that who is in trouble is seen where people look (SPEC 8, 14).
//!
//! Nothing waits for it: the resource counts in its tally, and whoever reports takes from there, at most once a second. What
//! cannot be told now is told later, summed up. A report whose answer is lost is repeated, and may then count twice.

use std::fmt;
use std::time::Duration;

use palisade_core::ids::{GuardName, Millis};
use palisade_core::rejections::Rejections;
use palisade_host::Moment;
use palisade_proto::convert::rejections::{Report, report};
use palisade_proto::v1;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;

use crate::client::Client;
use crate::error::CallError;
use crate::fence_feed::Task;
use crate::spec::millis;
use crate::wire;

/// Between two reports of one reporter.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Reports for one resource, until it is dropped.
pub struct RejectionReporter {
    _task: Task,
}

impl fmt::Debug for RejectionReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RejectionReporter").finish_non_exhaustive()
    }
}

impl Client {
    /// Tells the cluster what a resource refused; `ago` is how long ago the last of it was. For views, metrics and audit:
    /// nothing is decided by it.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn report_rejections(
        &self,
        guard: &GuardName,
        rejections: Rejections,
        ago: Duration,
    ) -> Result<(), CallError> {
        let ago = Millis(millis(ago));
        let message = report(Report { guard: guard.clone(), rejections, ago });
        match self.read(Op::ReportRejections(message)).await? {
            Answer::ReportTaken(_) => Ok(()),
            _ => Err(wire::unexpected()),
        }
    }

    /// Tells it again and again, until the reporter is dropped: `take` gives what was refused since it was last asked, once
    /// a second at most (`Tally::take_rejections` of the resource's library).
    pub fn rejection_reporter(
        &self,
        guard: GuardName,
        take: impl Fn() -> Rejections + Send + 'static,
    ) -> RejectionReporter {
        let task = self.handle.runtime.spawn(run(self.clone(), guard, take));
        RejectionReporter { _task: Task(task.abort_handle()) }
    }

    /// Stale holders that resources refused, the last first, as the present leader remembers what it was told.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn rejections(&self, asked: v1::ListRejections) -> Result<v1::RejectionList, CallError> {
        match self.read(Op::ListRejections(asked)).await? {
            Answer::Rejections(list) => Ok(list),
            _ => Err(wire::unexpected()),
        }
    }
}

async fn run(client: Client, guard: GuardName, take: impl Fn() -> Rejections + Send) {
    let now = || client.handle.host.clock.now();
    let mut untold = Untold::default();
    loop {
        tokio::time::sleep(REPORT_EVERY).await;
        untold.add(take(), now());
        let Some((rejections, ago)) = untold.next(now()) else { continue };
        match client.report_rejections(&guard, rejections, ago).await {
            Ok(()) => untold.told(),
            // It would be refused again.
            Err(CallError::Refused { name, message }) => {
                tracing::warn!(%guard, name, message, "a report of rejections was refused, and is dropped");
                untold.told();
            }
            Err(CallError::Unavailable { last }) => {
                tracing::debug!(%guard, last, "a report of rejections was not taken, and is repeated");
            }
            Err(CallError::SessionLost(_) | CallError::ClientClosed) => return,
        }
    }
}

/// What was taken and is not told yet. Bounded as `Rejections` are.
#[derive(Default)]
struct Untold {
    rejections: Rejections,
    last: Option<Moment>,
}

impl Untold {
    fn add(&mut self, fresh: Rejections, now: Moment) {
        if !fresh.is_empty() {
            self.rejections.add(fresh);
            self.last = Some(now);
        }
    }

    /// What is to be told, and how long ago the last of it was.
    fn next(&self, now: Moment) -> Option<(Rejections, Duration)> {
        let last = self.last?;
        Some((self.rejections.clone(), now.since(last)))
    }

    fn told(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use palisade_core::rejections::Reason;

    use super::*;

    fn fresh(count: u64) -> Rejections {
        let mut rejections = Rejections::default();
        if count > 0 {
            rejections.add_other(Reason::Forged, count);
        }
        rejections
    }

    #[test]
    fn what_could_not_be_told_is_told_later_summed_up_and_once() {
        let at = |seconds| Moment::from_nanos(1) + Duration::from_secs(seconds);
        let mut untold = Untold::default();
        untold.add(fresh(0), at(1));
        assert_eq!(untold.next(at(1)), None, "nothing was refused");
        untold.add(fresh(2), at(2));
        assert_eq!(untold.next(at(2)), Some((fresh(2), Duration::ZERO)));
        untold.add(fresh(3), at(5));
        untold.add(fresh(0), at(9));
        assert_eq!(untold.next(at(9)), Some((fresh(5), Duration::from_secs(4))));
        untold.told();
        assert_eq!(untold.next(at(10)), None);
    }
}
