//! What is remembered of things that are over: lists that are cut at their front.

use palisade_core::history::{EndedHold, HistorySizes};
use palisade_core::ids::{LockName, LogIndex, Slot};
use palisade_core::lock::Predecessor;
use palisade_core::reply::Ended;
use palisade_core::table::{Baton, SlotMemory};

#[derive(Clone, Default)]
pub(super) struct PastHolds {
    sizes: HistorySizes,
    count: u64,
    pub(super) lost: Kept,
    pub(super) given: Kept,
}

/// What is still known of one kind, the oldest first.
#[derive(Clone, Default)]
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

    /// Up to here nothing is known.
    pub(super) fn begin_after(&mut self, index: LogIndex) {
        for kept in [&mut self.lost, &mut self.given] {
            *kept = Kept { holds: Vec::new(), known_after: index };
        }
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

/// The last holders and batons of slots, the least recently changed first.
#[derive(Clone, Default)]
pub(super) struct PastSlots {
    pub(super) slots: Vec<(LockName, Slot, SlotMemory)>,
}

impl PastSlots {
    pub(super) fn get(&self, lock: &LockName, slot: Slot) -> Option<&SlotMemory> {
        let found = self.slots.iter().find(|(name, at, _)| name == lock && *at == slot);
        found.map(|(_, _, memory)| memory)
    }

    pub(super) fn held(&mut self, lock: &LockName, last: Predecessor) {
        let slot = last.slot;
        self.changed(lock, slot).last = Some(last);
    }

    pub(super) fn left(&mut self, lock: &LockName, slot: Slot, baton: Option<Baton>) {
        self.changed(lock, slot).baton = baton;
    }

    /// Becomes the most recently changed one.
    fn changed(&mut self, lock: &LockName, slot: Slot) -> &mut SlotMemory {
        let known = self.slots.iter().position(|(name, at, _)| name == lock && *at == slot);
        let memory = known.map(|at| self.slots.remove(at).2).unwrap_or_default();
        self.slots.push((lock.clone(), slot, memory));
        let last = self.slots.len() - 1;
        &mut self.slots[last].2
    }

    pub(super) fn cut(&mut self, slots_max: u32, bytes_max: u64) {
        self.slots.retain(|(_, _, memory)| *memory != SlotMemory::default());
        while self.slots.len() > slots_max as usize || self.bytes() > bytes_max {
            self.slots.remove(0);
        }
    }

    fn bytes(&self) -> u64 {
        let batons = self.slots.iter().filter_map(|(_, _, memory)| memory.baton.as_ref());
        batons.map(|baton| baton.left.as_bytes().len() as u64).sum()
    }
}
