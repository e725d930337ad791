//! How held parts ended, in two lists that are cut at their front.

use palisade_core::history::{EndedHold, HistorySizes};
use palisade_core::ids::{LockName, LogIndex};
use palisade_core::payload::Payload;
use palisade_core::reply::{Ended, Inherited};

#[derive(Default)]
pub(super) struct PastHolds {
    sizes: HistorySizes,
    count: u64,
    pub(super) lost: Kept,
    pub(super) given: Kept,
    /// The last one of each lock, the oldest first.
    last: Vec<EndedHold>,
}

/// What is still known of one kind, the oldest first.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) holds: Vec<EndedHold>,
    pub(super) known_after: LogIndex,
}

impl PastHolds {
    pub(super) fn end(&mut self, hold: EndedHold, locks_max: u32) {
        self.last.retain(|last| last.lock != hold.lock);
        self.last.push(hold.clone());
        while self.last.len() > locks_max as usize {
            self.last.remove(0);
        }
        let number = self.count;
        self.count += 1;
        let lost = matches!(hold.ended, Ended::Expired | Ended::ByOperator | Ended::Broken | Ended::Overdue);
        let kept = if lost { &mut self.lost } else { &mut self.given };
        kept.holds.push(EndedHold { number, ..hold });
        self.cut();
    }

    /// What the next holder of a lock is told.
    pub(super) fn inherited(&self, lock: &LockName) -> Option<Box<Inherited>> {
        let last = self.last.iter().find(|last| last.lock == *lock)?;
        Some(Box::new(Inherited {
            token: last.token,
            client: last.client.clone(),
            ended: last.ended,
            baton: Payload::default(),
            baton_token: None,
        }))
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
