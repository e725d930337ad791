//! What resources report of stale holders that they refused (SPEC 8, 14), and who does not stop. It feeds views, metrics
//! and the audit log; nothing is decided by it, and a new leader begins with nothing.

mod storm;

use std::collections::BTreeMap;
use std::time::Duration;

use palisade_core::ids::{GuardName, LockName, WallTime};
use palisade_core::rejections::{Refused, StaleHolder};
use palisade_host::Moment;
use palisade_proto::convert::rejections::{self as convert, Listing, Report};
use palisade_proto::v1;
use parking_lot::Mutex;

use self::storm::{STORM_WINDOW, Storm};
use crate::metrics::Metrics;

/// Rejections that the view of one lock shows, the last first.
const SHOWN_MAX: usize = 16;

/// Bounds of what is remembered, and what counts as a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectionLimits {
    /// Stale holders that are remembered, each with a guard that refused it. The one not refused for the longest time is
    /// forgotten first.
    pub kept_max: usize,
    /// Refusals of one stale holder by one guard within 10 s that make a storm.
    pub storm_refusals: u64,
}

impl Default for RejectionLimits {
    fn default() -> Self {
        Self { kept_max: 1_000, storm_refusals: 10 }
    }
}

/// When something is told, by both clocks: one to count with, one to show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) moment: Moment,
    pub(crate) wall: WallTime,
}

impl Now {
    fn before(self, ago: Duration) -> Self {
        let micros = u64::try_from(ago.as_micros()).unwrap_or(u64::MAX);
        Self { moment: self.moment - ago, wall: WallTime(self.wall.0.saturating_sub(micros)) }
    }
}

/// What is remembered. Locked after the table where both are, never before it.
pub(crate) struct Rejections {
    limits: RejectionLimits,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    known: BTreeMap<LockName, BTreeMap<(StaleHolder, GuardName), Known>>,
    /// In all of it.
    count: usize,
    since: WallTime,
    forgotten: u64,
    looked: Option<Moment>,
}

struct Known {
    refused: Refused,
    first: Now,
    last: Now,
    gap_max: u64,
    storm: Storm,
}

impl Rejections {
    pub(crate) fn new(limits: RejectionLimits) -> Self {
        Self { limits, inner: Mutex::default() }
    }

    /// A guard told what it refused.
    pub(crate) fn report(&self, now: Now, report: Report, metrics: &Metrics) {
        let Report { guard, rejections, ago } = report;
        let at = now.before(Duration::from_millis(ago.0));
        metrics.rejections_reported(&rejections);
        let mut inner = self.inner.lock();
        for (holder, refused) in rejections.stale {
            let gap = convert::gap(holder.presented, refused.mark);
            let new = inner.note((holder.clone(), guard.clone()), at, gap, refused);
            if new {
                audit(&guard, &holder, refused);
            }
            let key = (holder, guard.clone());
            let Some(known) = inner.known.get_mut(&key.0.lock).and_then(|of| of.get_mut(&key)) else {
                continue;
            };
            if known.storm.add(now.moment, refused.count, self.limits.storm_refusals) {
                metrics.storm_began();
                let (StaleHolder { lock, slot, presented, client, .. }, guard) = &key;
                let client = client.as_ref().map_or("", |client| client.as_str());
                tracing::warn!(
                    %lock, slot = slot.0, token = presented.get(), client, %guard, mark = refused.mark.get(),
                    within = ?STORM_WINDOW, at_least = self.limits.storm_refusals,
                    "rejection storm began: this stale holder does not stop"
                );
            }
        }
        inner.bound(self.limits.kept_max);
        metrics.storms(inner.storms());
    }

    /// Looks whether storms are over. Cheap: it looks once a second, however often it is called.
    pub(crate) fn look(&self, now: Moment, metrics: &Metrics) {
        let mut inner = self.inner.lock();
        if inner.count == 0 || inner.looked.is_some_and(|looked| now.since(looked) < Duration::from_secs(1)) {
            return;
        }
        inner.looked = Some(now);
        let mut ended = false;
        for ((holder, guard), known) in inner.known.values_mut().flatten() {
            let Some(over) = known.storm.over(now) else { continue };
            ended = true;
            let StaleHolder { lock, slot, presented, client, .. } = holder;
            let client = client.as_ref().map_or("", |client| client.as_str());
            tracing::warn!(
                %lock, slot = slot.0, token = presented.get(), client, %guard, refused = over.refused,
                lasted = ?over.lasted, "rejection storm ended"
            );
        }
        if ended {
            metrics.storms(inner.storms());
        }
    }

    /// Of one lock, the last first.
    pub(crate) fn of(&self, lock: &LockName, now: Moment) -> Vec<v1::Rejection> {
        let inner = self.inner.lock();
        let Some(of) = inner.known.get(lock) else { return Vec::new() };
        let mut all: Vec<_> = of.iter().collect();
        all.sort_unstable_by_key(|(_, known)| std::cmp::Reverse(known.last.moment));
        all.into_iter().take(SHOWN_MAX).map(|(key, known)| shown(key, known, now)).collect()
    }

    /// Of all locks below a prefix, the last first.
    pub(crate) fn list(&self, listing: &Listing, now: Moment) -> v1::RejectionList {
        let inner = self.inner.lock();
        let below = inner.known.iter().filter(|(lock, _)| lock.as_str().starts_with(listing.prefix.as_str()));
        let late = |(_, known): &(&(StaleHolder, GuardName), &Known)| known.last.wall >= listing.since;
        let mut all: Vec<_> = below.flat_map(|(_, of)| of).filter(late).collect();
        all.sort_unstable_by_key(|(_, known)| std::cmp::Reverse(known.last.moment));
        let more = all.len() > listing.limit;
        let rejections = all.into_iter().take(listing.limit).map(|(key, known)| shown(key, known, now));
        v1::RejectionList {
            rejections: rejections.collect(),
            more,
            known_since_us: inner.since.0,
            forgotten: inner.forgotten,
        }
    }

    /// This node leads, or leads no longer: what is told begins with nothing.
    pub(crate) fn begin(&self, since: WallTime, metrics: &Metrics) {
        *self.inner.lock() = Inner { since, ..Inner::default() };
        metrics.storms(0);
    }
}

impl Inner {
    /// Whether it was not known.
    fn note(&mut self, key: (StaleHolder, GuardName), at: Now, gap: u64, refused: Refused) -> bool {
        let of = self.known.entry(key.0.lock.clone()).or_default();
        let Some(known) = of.get_mut(&key) else {
            let storm = Storm::default();
            of.insert(key, Known { refused, first: at, last: at, gap_max: gap, storm });
            self.count += 1;
            return true;
        };
        known.refused = Refused { count: known.refused.count.saturating_add(refused.count), ..refused };
        known.gap_max = known.gap_max.max(gap);
        if at.moment > known.last.moment {
            known.last = at;
        }
        false
    }

    /// Forgets what was not refused for the longest time.
    fn bound(&mut self, max: usize) {
        let Some(over) = self.count.checked_sub(max).filter(|over| *over > 0) else { return };
        let mut all: Vec<_> =
            self.known.values().flatten().map(|(key, known)| (known.last.moment, key.clone())).collect();
        all.sort_unstable();
        for (_, key) in all.into_iter().take(over) {
            let lock = key.0.lock.clone();
            if let Some(of) = self.known.get_mut(&lock) {
                of.remove(&key);
                if of.is_empty() {
                    self.known.remove(&lock);
                }
            }
            self.count -= 1;
            self.forgotten += 1;
        }
    }

    fn storms(&self) -> usize {
        self.known.values().flatten().filter(|(_, known)| known.storm.is_on()).count()
    }
}

fn shown((holder, guard): &(StaleHolder, GuardName), known: &Known, now: Moment) -> v1::Rejection {
    v1::Rejection {
        guard: guard.as_str().to_owned(),
        refusal: Some(convert::refusal(holder, &known.refused)),
        first_at_us: known.first.wall.0,
        last_at_us: known.last.wall.0,
        last_ago_ms: u64::try_from(now.since(known.last.moment).as_millis()).unwrap_or(u64::MAX),
        gap_max: known.gap_max,
        storm: known.storm.is_on(),
    }
}

/// One line for each stale holder and guard, to be joined with that of the grant by the token.
fn audit(guard: &GuardName, holder: &StaleHolder, refused: Refused) {
    let StaleHolder { lock, slot, presented, client, acquisition } = holder;
    let client = client.as_ref().map_or("", |client| client.as_str());
    let acquisition = acquisition.map(|acquisition| acquisition.to_string()).unwrap_or_default();
    tracing::info!(
        target: "audit", token = presented.get(), %lock, slot = slot.0, acquisition, client, %guard,
        mark = refused.mark.get(), "rejected by a resource"
    );
}

#[cfg(test)]
mod tests;
