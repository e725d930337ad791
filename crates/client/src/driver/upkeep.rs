//! What time asks for: keepalives, the ends of leases, and callers' patience.

use std::collections::BTreeSet;
use std::time::Duration;

use palisade_host::Moment;
use palisade_proto::convert::words;
use palisade_proto::v1;
use tokio::time::Instant;

use super::outgoing::Op;
use super::record::{SessionRecord, Stage};
use super::{Driver, Leave, Renewal, TICK};
use crate::error::{AcquireError, CallError, LostReason};
use crate::session::SessionState;

/// A keepalive due within this part of a TTL goes along with one that is due now.
const TOGETHER: u32 = 12;
/// A pause of this process above this part of a TTL is worth a warning.
const PAUSE_SHARE: u32 = 4;
/// Shortest patience with an unanswered keepalive before the connection is taken for dead.
const RENEWAL_PATIENCE_MIN: Duration = Duration::from_secs(1);
/// Longest.
const RENEWAL_PATIENCE_MAX: Duration = Duration::from_secs(10);

impl Driver {
    /// `up`: there is a stream.
    pub(super) fn tick(&mut self, up: bool) {
        let (now, instant) = (self.host.clock.now(), Instant::now());
        let pause = self.pauses.tick(now, TICK);
        self.signals.paused(pause);
        if pause > self.settings.ttl / PAUSE_SHARE {
            // Whatever this process believed before it stood still is to be checked again, at the latest now.
            tracing::warn!(
                pause_ms = pause.as_millis(),
                ttl_ms = self.settings.ttl.as_millis(),
                "process stood still"
            );
        }
        let mut due = false;
        for record in self.sessions.values_mut() {
            record.watch_lease(now, instant);
            due |= up && record.bound && record.next_renew <= now;
        }
        self.renew_wanted |= due;
        self.outgoing.unpark(instant);
        self.openings_lose_patience(instant);
        self.sessions_lose_patience(instant);
        self.sweep(instant);
        if up {
            self.doubt_the_stream(instant);
        }
    }

    /// One Renew for all sessions that are due, and for those that soon will be.
    pub(super) fn renewal(&mut self, sent: Moment) -> Option<v1::Renew> {
        self.renew_wanted = false;
        let number = self.next_renewal;
        let spread = self.host.entropy.number();
        let mut sessions = Vec::new();
        let (mut working, mut left_ms) = (Vec::new(), Vec::new());
        let mut patience = RENEWAL_PATIENCE_MAX;
        for (session, record) in &mut self.sessions {
            let together = record.lease.ttl() / TOGETHER;
            let asked = record.renew_waiters.iter().any(|waiter| waiter.number == number);
            if !record.bound || (!asked && record.next_renew > sent + together) {
                continue;
            }
            sessions.push(*session);
            if record.holds() {
                working.push(*session);
            }
            let left = record.shared.deadline().since(sent);
            left_ms.push(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
            let interval = record.lease.keepalive_interval();
            patience = patience.min(interval);
            record.next_renew = sent + spread_out(interval, spread ^ *session);
        }
        if sessions.is_empty() {
            return None;
        }
        self.next_renewal += 1;
        let patience = patience.max(RENEWAL_PATIENCE_MIN);
        let report = self.signals.take();
        let renewal = Renewal {
            sent,
            at: Instant::now(),
            patience,
            sessions: sessions.clone(),
            report: report.clone(),
        };
        self.renewals.insert(number, renewal);
        let report = v1::HolderReport { working, left_ms, ..report };
        Some(v1::Renew { number, sessions, report: Some(report) })
    }

    pub(super) fn renewed(&mut self, renewed: v1::Renewed) {
        let Some(renewal) = self.renewals.remove(&renewed.number) else { return };
        let now = self.host.clock.now();
        if let Some(error) = renewed.error {
            self.last_trouble = format!("{}: {}", error.name, error.message);
            self.signals.untold(&renewal.report);
            for session in renewal.sessions {
                if let Some(record) = self.sessions.get_mut(&session) {
                    record.next_renew = now + (record.lease.ttl() / 30).min(Duration::from_secs(1));
                }
            }
            return;
        }
        self.route.works();
        let instant = Instant::now();
        let mut undecided = BTreeSet::new();
        for ended in renewed.ended {
            match words::ended_from(ended.ended) {
                Some(how) => self.lose(ended.session, LostReason::Ended(how)),
                None => {
                    undecided.insert(ended.session);
                    self.bind_later(ended.session, instant);
                }
            }
        }
        for session in renewal.sessions {
            if undecided.contains(&session) {
                continue;
            }
            let Some(record) = self.sessions.get_mut(&session) else { continue };
            record.count(renewal.sent, now, instant);
            for waiter in record.renew_waiters.extract_if(.., |waiter| waiter.number <= renewed.number) {
                let _ = waiter.reply.send(Ok(()));
            }
        }
    }

    fn sessions_lose_patience(&mut self, now: Instant) {
        let mut giving_up = Vec::new();
        for (session, record) in &mut self.sessions {
            record.lose_patience(now, &self.last_trouble);
            if record.acquisitions.values().any(|acquisition| impatient(&acquisition.stage, now)) {
                giving_up.push(*session);
            }
        }
        for session in giving_up {
            for acquisition in self.cancel_where(session, |stage| impatient(stage, now)) {
                if let Stage::Asking { caller, .. } | Stage::Waiting { caller, .. } = acquisition.stage {
                    let lock = acquisition.spec.asked_for();
                    let _ = caller.reply.send(Err(AcquireError::Unavailable { lock }));
                }
            }
        }
    }

    fn sweep(&mut self, now: Instant) {
        let Self { outgoing, sessions, openings, last_trouble, .. } = self;
        outgoing.sweep(now, last_trouble, |op| match op {
            Op::Open { key, .. } => openings.contains_key(key),
            Op::Acquire { session, number } => {
                sessions.get(session).is_some_and(|record| record.acquisitions.contains_key(number))
            }
            Op::Bind { session }
            | Op::Close { session }
            | Op::Change { session, .. }
            | Op::Cancel { session, .. } => sessions.contains_key(session),
            Op::CloseUnwanted { .. } | Op::Ask(_) => true,
        });
    }

    /// A stream that answers no keepalive, or a node that knows no leader, makes way for another.
    fn doubt_the_stream(&mut self, now: Instant) {
        if self.renewals.values().any(|renewal| now >= renewal.at + renewal.patience) {
            self.leave = Some(Leave::Failed("a keepalive was not answered in time".to_owned()));
        } else if self.route.leaderless_too_long(now, self.share()) {
            self.leave = Some(Leave::Failed("the node knows no leader".to_owned()));
        }
    }
}

impl SessionRecord {
    /// A request that was answered `renewed` stands for a keepalive.
    pub(super) fn postpone(&mut self, sent: Moment) {
        self.next_renew = self.next_renew.max(sent + self.lease.keepalive_interval());
    }

    fn watch_lease(&mut self, now: Moment, instant: Instant) {
        let passed = self.shared.deadline() <= now;
        match self.shared.reported() {
            SessionState::Active | SessionState::Reconnected if passed => {
                tracing::warn!(session = %self.shared.id(), "session is suspended: its lease was not renewed in time");
                self.shared.report(SessionState::Suspended);
                self.next_renew = self.next_renew.min(now);
            }
            SessionState::Reconnected if self.reconnected.is_none_or(|since| instant >= since + TICK) => {
                self.reconnected = None;
                self.shared.report(SessionState::Active);
            }
            SessionState::Active
            | SessionState::Suspended
            | SessionState::Reconnected
            | SessionState::Lost(_) => {}
        }
    }

    fn lose_patience(&mut self, now: Instant, last: &str) {
        let unavailable = || CallError::Unavailable { last: last.to_owned() };
        for waiter in self.renew_waiters.extract_if(.., |waiter| waiter.give_up <= now) {
            let _ = waiter.reply.send(Err(unavailable()));
        }
        if let Some(closing) = &mut self.closing
            && closing.give_up <= now
            && let Some(reply) = closing.reply.take()
        {
            let _ = reply.send(Err(unavailable()));
        }
        for acquisition in self.acquisitions.values_mut() {
            if let Stage::Holding(holding) = &mut acquisition.stage {
                for changing in holding.changes.iter_mut().filter(|changing| changing.give_up <= now) {
                    changing.change.undecided();
                }
            }
        }
    }
}

/// Whether a caller has waited long enough for a decision, or does not wait any more.
fn impatient(stage: &Stage, now: Instant) -> bool {
    match stage {
        Stage::Asking { give_up, caller } => *give_up <= now || caller.reply.is_closed(),
        Stage::Waiting { give_up, caller } => {
            give_up.is_some_and(|give_up| give_up <= now) || caller.reply.is_closed()
        }
        Stage::Holding(_) | Stage::Kept { .. } => false,
    }
}

/// Three quarters to the whole of `interval`, so that sessions do not come all at once.
fn spread_out(interval: Duration, random: u64) -> Duration {
    // Mixes the bits, so that neighbouring session ids fall far apart (Fibonacci hashing).
    let mixed = random.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let share = mixed as f64 / f64::from(u32::MAX);
    interval.mul_f64(0.75 + share / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepalives_of_many_sessions_are_spread_but_never_late() {
        let interval = Duration::from_secs(3);
        let spread: Vec<Duration> = (0..100).map(|session| spread_out(interval, session)).collect();
        assert!(spread.iter().all(|time| *time <= interval && *time >= interval.mul_f64(0.75)));
        let distinct: BTreeSet<_> = spread.iter().collect();
        assert!(distinct.len() > 50);
    }
}
