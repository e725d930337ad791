//! How held parts ended, in two lists that are cut at their front.

use palisade_core::history::{EndedHold, HistorySizes};
use palisade_core::ids::LogIndex;
use palisade_core::reply::Ended;

#[derive(Default)]
pub(super) struct PastHolds {
    sizes: HistorySizes,
    count: u64,
    pub(super) lost: Kept,
    pub(super) given: Kept,
}

/// What is still known of one kind, the oldest first.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) holds: Vec<EndedHold>,
    pub(super) known_after: LogIndex,
}

impl PastHolds {
    pub(super) fn end(&mut self, hold: EndedHold) {
        let number = self.count;
        self.count += 1;
        let lost = matches!(hold.ended, Ended::Expired | Ended::ByOperator | Ended::Broken | Ended::Overdue);
        let kept = if lost { &mut self.lost } else { &mut self.given };
        kept.holds.push(EndedHold { number, ..hold });
        self.cut();
    }

    pub(super) fn resize(&mut self, sizes: HistorySizes) {
        self.sizes = sizes;
        self.cut();
    }

    fn cut(&mut self) {
        for (kept, max) in
            [(&mut self.lost, self.sizes.expired_max), (&mut self.given, self.sizes.others_max)]
        {
            while kept.holds.len() > max as usize {
                kept.known_after = kept.holds.remove(0).end;
            }
        }
    }
}
