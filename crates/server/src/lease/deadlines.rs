//! Holders' own deadlines: a longest holding time, and an interval between reports of progress (SPEC 4).
//!
//! The maximum counts from the arrival of the first report, the interval from that of the last; before any report there
//! is the shorter of the two, from the grant. A holder counts from when it sent them, so it never believes longer than
//! is counted here. A pause of the leader's own puts the next report off, as it does the next keepalive: it could not
//! come in. The maximum needs nothing to come in, and stands.

use std::time::Duration;

use palisade_core::command::{EndOverdue, Overdue};
use palisade_core::ids::{AcquisitionId, LogIndex};
use palisade_core::session::{AcquisitionState, Reports};
use palisade_core::table::LockTable;
use palisade_host::Moment;

use super::timers::{Held, Key, Span};
use super::{Hold, LeaseClock};

/// A holder that named a deadline.
#[derive(Debug)]
pub(super) struct Holder {
    /// The entry that gave it what it holds.
    pub(super) grant: LogIndex,
    hold_max: Option<Duration>,
    reports: Reports,
    /// The end of its longest holding time; none before the first report.
    maximum: Option<Moment>,
    /// By when it must report. None: it did, and named no interval.
    report: Option<Span>,
    /// Where `report` stood before the last one was applied.
    before: Moment,
    /// Reports that are undecided.
    held: Held,
    /// Where it stands in the queue.
    pub(super) place: Moment,
}

impl Holder {
    /// The nearer of its deadlines; one of the two is always there.
    fn next(&self) -> Option<Moment> {
        let report = self.report.as_ref().map(|span| span.deadline);
        [self.maximum, report].into_iter().flatten().min()
    }

    /// When it must be looked at again.
    fn wakes(&self, now: Moment) -> Moment {
        let report = self.report.as_ref().map(|span| self.held.wakes(span.deadline, now));
        [self.maximum, report].into_iter().flatten().min().unwrap_or(now)
    }

    fn overdue(&self, now: Moment) -> Option<Overdue> {
        if self.maximum.is_some_and(|at| at <= now) {
            return Some(Overdue::Maximum);
        }
        let report = self.report.as_ref().map(|span| self.held.wakes(span.deadline, now));
        let late = report.is_some_and(|at| at <= now);
        late.then_some(Overdue::Progress { report: self.reports.last })
    }
}

impl LeaseClock {
    /// Counts a holder's deadlines in full, where it has any: it was granted, or this node begins to lead.
    pub(super) fn count_holder(&mut self, now: Moment, id: AcquisitionId, table: &LockTable) {
        let Some((acquisition, grant, reports)) = holding(table, id) else { return };
        let terms = &acquisition.terms;
        let length = |bound: Option<_>| bound.map(|bound| self.stretched(bound));
        let (hold_max, every) = (length(terms.hold_max), length(terms.progress_every));
        let report = match reports.last {
            Some(_) => every,
            None => hold_max.into_iter().chain(every).min(),
        };
        let maximum = reports.first.and(hold_max).map(|length| now + length);
        let report = report.map(|length| Span::new(now, length));
        if maximum.is_none() && report.is_none() {
            return;
        }
        let held = Held::default();
        let mut holder = Holder { grant, hold_max, reports, maximum, report, before: now, held, place: now };
        holder.place = holder.wakes(now);
        self.timers.insert_holder(id, holder);
    }

    /// A counted holder reported, holds otherwise, or no more. What it reported counts from now, until `reported` tells
    /// when that came in.
    pub(super) fn recount_holder(&mut self, now: Moment, id: AcquisitionId, table: &LockTable) {
        let Some(holder) = self.timers.holders.get(&id) else { return };
        let Some((acquisition, grant, reports)) = holding(table, id) else {
            return self.timers.forget_holder(id);
        };
        // A downgrade begins another tenure of the same hold.
        if grant != holder.grant && reports.last.is_none() {
            return self.count_holder(now, id, table);
        }
        let every = acquisition.terms.progress_every.map(|every| self.stretched(every));
        let Some(holder) = self.timers.holders.get_mut(&id) else { return };
        holder.grant = grant;
        if reports == holder.reports {
            return;
        }
        holder.before = holder.report.as_ref().map_or(now, |span| span.deadline);
        holder.report = every.map(|every| Span::new(now, every));
        if holder.reports.first.is_none() {
            holder.maximum = holder.hold_max.map(|length| now + length);
        }
        holder.reports = reports;
    }

    /// A report of progress came in: its session is held, and so is its holder's next deadline. None as for `hold`.
    pub fn hold_report(&mut self, id: AcquisitionId, received: Moment) -> Option<Hold> {
        let mut hold = self.hold(id.session, received)?;
        if let Some(holder) = self.timers.holders.get_mut(&id) {
            holder.held.take(received + self.config.hold_max);
            hold.reports = Some(id);
        }
        Some(hold)
    }

    /// What was held is the entry `index`. If that is its holder's last report, the deadlines count from its receipt.
    pub fn reported(&mut self, hold: &Hold, index: LogIndex) {
        let (Some(id), received) = (hold.reports, hold.received) else { return };
        let Some(holder) = self.timers.holders.get_mut(&id) else { return };
        if holder.reports.last != Some(index) {
            return;
        }
        if let Some(span) = &mut holder.report {
            span.deadline = holder.before;
            span.renew(received);
        }
        if holder.reports.first == Some(index) {
            holder.maximum = holder.hold_max.map(|length| received + length);
        }
    }

    /// A report that was held is decided, or its fate is unknown.
    pub(super) fn settle_report(&mut self, id: AcquisitionId) {
        let Some(holder) = self.timers.holders.get_mut(&id) else { return };
        holder.held.release();
        if !holder.held.is_free() {
            return;
        }
        if let Some(place) = holder.next().filter(|next| *next < holder.place) {
            self.timers.move_to(Key::Holder(id), place);
        }
    }

    /// What ends a holder that is due; otherwise when it must be looked at again, if ever.
    pub(super) fn overdue(
        &self,
        now: Moment,
        epoch: LogIndex,
        acquisition: AcquisitionId,
    ) -> Result<EndOverdue, Option<Moment>> {
        let holder = self.timers.holders.get(&acquisition).ok_or(None)?;
        let overdue = holder.overdue(now).ok_or(Some(holder.wakes(now)))?;
        Ok(EndOverdue { epoch, acquisition, grant: holder.grant, overdue })
    }

    /// This node stood still for `gap`: as for leases.
    pub(super) fn extend_reports(&mut self, now: Moment, gap: Duration) {
        for span in self.timers.holders.values_mut().filter_map(|holder| holder.report.as_mut()) {
            span.extend(now, gap);
        }
    }
}

/// An acquisition that holds, since which entry, and what it reported.
fn holding(
    table: &LockTable,
    id: AcquisitionId,
) -> Option<(&palisade_core::session::Acquisition, LogIndex, Reports)> {
    let acquisition = table.session(id.session)?.acquisitions.get_whole(id.number)?;
    match &acquisition.state {
        AcquisitionState::Holding { grant, reports, .. } => Some((acquisition, *grant, *reports)),
        AcquisitionState::Waiting | AcquisitionState::Kept { .. } => None,
    }
}
