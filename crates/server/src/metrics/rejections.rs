//! What resources report of what they refused.

use palisade_core::rejections::{Above, Reason, Rejections};
use palisade_proto::convert::rejections::gap;

use super::{Metrics, RejectionWhy};

impl Metrics {
    /// A resource told what it refused, to this node, which leads.
    pub(crate) fn rejections_reported(&self, rejections: &Rejections) {
        for (holder, refused) in &rejections.stale {
            let why = match refused.above {
                Above::Mark => RejectionWhy::Mark,
                Above::Floor => RejectionWhy::Floor,
            };
            self.rejections.add(why, refused.count);
            self.rejection_gap.observe(gap(holder.presented, refused.mark) as f64);
        }
        self.rejections.add(RejectionWhy::Unnamed, rejections.unnamed);
        for (reason, count) in &rejections.others {
            self.rejections.add(why(*reason), *count);
        }
    }

    /// A stale holder does not stop.
    pub(crate) fn storm_began(&self) {
        self.storms_begun.inc();
    }

    /// So many do not stop now.
    pub(crate) fn storms(&self, storms: usize) {
        self.storms.set(i64::try_from(storms).unwrap_or(i64::MAX));
    }
}

fn why(reason: Reason) -> RejectionWhy {
    match reason {
        Reason::NotHolding => RejectionWhy::NotHolding,
        Reason::NoSequencer => RejectionWhy::NoSequencer,
        Reason::Malformed => RejectionWhy::Malformed,
        Reason::Forged => RejectionWhy::Forged,
        Reason::UnknownKey => RejectionWhy::UnknownKey,
        Reason::WrongPurpose => RejectionWhy::WrongPurpose,
        Reason::WrongCluster => RejectionWhy::WrongCluster,
        Reason::WrongLock => RejectionWhy::WrongLock,
        Reason::WrongSlot => RejectionWhy::WrongSlot,
        Reason::WrongMode => RejectionWhy::WrongMode,
        Reason::Undecided => RejectionWhy::Undecided,
    }
}

#[cfg(test)]
impl Metrics {
    pub(crate) fn rejections_so_far(&self, why: RejectionWhy) -> u64 {
        self.rejections.get(why)
    }

    pub(crate) fn storms_now(&self) -> i64 {
        self.storms.get()
    }

    pub(crate) fn storms_so_far(&self) -> u64 {
        self.storms_begun.get()
    }
}
