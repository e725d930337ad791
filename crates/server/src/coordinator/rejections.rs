//! What resources report of what they refused, and who asks for it.

use std::sync::Arc;

use palisade_core::ids::WallTime;
use palisade_proto::convert::rejections as convert;
use palisade_proto::v1::{self, response};

use super::{Attachment, Coordinator};
use crate::error;
use crate::rejections::Now;

impl Coordinator {
    pub(super) fn wall(&self) -> WallTime {
        WallTime(self.host.clock.wall_micros())
    }

    /// Takes a report. It decides nothing, so no round is needed.
    pub(super) fn report_rejections(&self, to: &Attachment, tag: u64, report: &v1::RejectionReport) {
        let report = match convert::report_from(report) {
            Ok(report) => report,
            Err(bad) => return to.answer(error::response(tag, 0, bad.into())),
        };
        let now = Now { moment: self.host.clock.now(), wall: self.wall() };
        self.rejections.report(now, report, &self.metrics);
        let result = Some(response::Result::ReportTaken(v1::ReportTaken {}));
        to.answer(v1::Response { tag, session: 0, index: 0, renewed: false, result });
    }

    /// What was reported to this leader.
    pub(super) fn list_rejections(
        self: &Arc<Self>,
        to: &Arc<Attachment>,
        tag: u64,
        list: &v1::ListRejections,
    ) {
        match convert::list_rejections(list) {
            Ok(listing) => self.read_proved(to, tag, move |coordinator, _| {
                let now = coordinator.host.clock.now();
                response::Result::Rejections(coordinator.rejections.list(&listing, now))
            }),
            Err(bad) => to.answer(error::response(tag, 0, bad.into())),
        }
    }
}
