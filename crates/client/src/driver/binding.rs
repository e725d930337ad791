//! Starting over: on a new stream, or on the same one under another leader.
//!
//! Sessions are bound again, and what is unanswered is sent again under the same numbers. Each binding's answer lists
//! what waits or holds. It completes waits; what no task owns is cancelled; what a task wants and the list leaves out
//! is asked for once more, which tells how it ended.

use std::collections::BTreeSet;

use palisade_proto::v1;
use tokio::time::Instant;

use super::outgoing::Op;
use super::record::{Origin, Stage};
use super::{Driver, Leave};
use crate::error::LostReason;

impl Driver {
    /// A stream was opened and announced itself.
    pub(super) fn started(&mut self, window: u32) {
        self.leader_term = 0;
        self.outgoing.set_window(window);
        self.bind_all();
    }

    /// The stream is gone, or what was said on it counts no more.
    pub(super) fn unbind(&mut self) {
        self.generation = None;
        self.unanswered_since = None;
        self.outgoing.reset();
        for record in self.sessions.values_mut() {
            record.bound = false;
        }
        let now = self.host.clock.now();
        for renewal in std::mem::take(&mut self.renewals).into_values() {
            self.signals.untold(&renewal.report);
            for session in renewal.sessions {
                if let Some(record) = self.sessions.get_mut(&session) {
                    record.next_renew = now;
                }
            }
        }
    }

    fn bind_all(&mut self) {
        for (session, record) in &mut self.sessions {
            record.bound = false;
            self.outgoing.push_first(Op::Bind { session: *session });
        }
    }

    /// Binds one session again, whose binding the node no longer knows.
    pub(super) fn bind_again(&mut self, session: u64, unanswered: Op) {
        let Some(record) = self.sessions.get_mut(&session) else { return };
        record.held_back.push(unanswered);
        if record.bound {
            record.bound = false;
            self.outgoing.push_first(Op::Bind { session });
        }
    }

    /// Not renewed, and not known to have ended: its binding is past, or its expiry is being decided. The next binding
    /// tells which, and asks for a keepalive again.
    pub(super) fn bind_later(&mut self, session: u64, now: Instant) {
        let Some(record) = self.sessions.get_mut(&session) else { return };
        if std::mem::replace(&mut record.bound, false) {
            self.outgoing.park(Op::Bind { session }, None, now);
        }
    }

    pub(super) fn leader_is(&mut self, leader: &v1::Leader) {
        let now = Instant::now();
        let known = leader.here || !leader.client_address.is_empty();
        if known {
            self.leader_term = leader.term;
        }
        self.route.heard_of_leader(known, now);
        let elsewhere = known && !leader.here && self.settings.follow_leader;
        if elsewhere && self.route.follow(&leader.client_address, now) {
            tracing::debug!(node = leader.client_address, "following the leader");
            self.leave = Some(Leave::ToLeader);
            return;
        }
        let before = self.generation.replace(leader.generation);
        if before.is_some_and(|before| before != leader.generation) {
            self.unbind();
            self.generation = Some(leader.generation);
            self.bind_all();
        }
    }

    /// The stream may speak for the session.
    pub(super) fn bound_to(&mut self, session: u64, listed: Vec<v1::BoundAcquisition>) {
        let now = self.host.clock.now();
        let Some(record) = self.sessions.get_mut(&session) else { return };
        record.bound = true;
        record.next_renew = now;
        self.renew_wanted = true;
        let held_back = std::mem::take(&mut record.held_back);
        let known: BTreeSet<u64> = listed.iter().map(|acquisition| acquisition.number).collect();
        for acquisition in listed {
            self.listed(session, acquisition);
        }
        let Some(record) = self.sessions.get(&session) else { return };
        for op in held_back {
            match &op {
                // Answered by the list, or asked again below.
                Op::Acquire { number, .. } if !asking(record.acquisitions.get(number).map(|a| &a.stage)) => {}
                Op::Acquire { number, .. } if known.contains(number) => {}
                _ => self.outgoing.push(op),
            }
        }
        self.ask_about_missing(session, &known);
    }

    /// What a task wants and the list leaves out: it ended, and an ask tells how.
    fn ask_about_missing(&mut self, session: u64, known: &BTreeSet<u64>) {
        let Some(record) = self.sessions.get_mut(&session) else { return };
        record.acquisitions.retain(|number, acquisition| {
            known.contains(number) || !matches!(acquisition.stage, Stage::Kept { .. })
        });
        for (number, acquisition) in &record.acquisitions {
            let wanted = match &acquisition.stage {
                Stage::Asking { .. } | Stage::Kept { .. } => false,
                Stage::Waiting { .. } => true,
                Stage::Holding(holding) => holding.is_held(),
            };
            if !wanted || known.contains(number) {
                continue;
            }
            self.outgoing.push(match acquisition.origin {
                Origin::Asked => Op::Acquire { session, number: *number },
                // A list that is older than its end still has it: a cancel ends nothing that lives.
                Origin::TakenOver => Op::Cancel { session, number: *number },
            });
        }
    }

    fn listed(&mut self, session: u64, listed: v1::BoundAcquisition) {
        let number = listed.number;
        let Some(record) = self.sessions.get_mut(&session) else { return };
        if record.cancelling.contains(&number) {
            return;
        }
        if !record.acquisitions.contains_key(&number) {
            tracing::info!(session, number, "an acquisition that no task owns is cancelled");
            record.cancelling.insert(number);
            self.outgoing.push(Op::Cancel { session, number });
            return;
        }
        match listed.grant {
            Some(grant) => self.granted(session, number, grant),
            None => self.queued(session, number),
        }
    }

    /// The session is over: so is everything that waits or holds in it.
    pub(super) fn lose(&mut self, session: u64, reason: LostReason) {
        let Some(record) = self.sessions.remove(&session) else { return };
        tracing::info!(session, %reason, "session is over");
        record.lose(reason);
    }
}

fn asking(stage: Option<&Stage>) -> bool {
    match stage {
        Some(Stage::Asking { .. }) => true,
        Some(Stage::Waiting { .. } | Stage::Holding(_) | Stage::Kept { .. }) | None => false,
    }
}
