//! What is remembered of slots, the least recently changed dropped first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::memory::{Baton, SlotMemory};
use super::sharded::Sharded;
use crate::few::Few;
use crate::ids::{LockName, Slot};
use crate::lock::Predecessor;

/// Places in the order that may be empty beside as many as there are slots, before it is packed.
const EMPTY_MAX: usize = 1_024;

/// Each memory, by lock and slot, under a running number, because one entry can end many.
#[derive(Clone, Debug)]
pub(super) struct SlotMemories {
    by_lock: Sharded<LockName, Few<Slot, (u64, SlotMemory)>>,
    in_order: Arc<Order>,
    next: u64,
    /// Of all batons.
    baton_bytes: u64,
}

/// Bounds of `SlotMemories`.
#[derive(Clone, Copy)]
pub(super) struct MemoryBounds {
    pub(super) slots_max: u32,
    pub(super) baton_bytes_max: u64,
}

impl SlotMemories {
    pub(super) fn new() -> Self {
        Self { by_lock: Sharded::new(), in_order: Arc::default(), next: 0, baton_bytes: 0 }
    }

    pub(super) fn get(&self, lock: &LockName, slot: Slot) -> Option<&SlotMemory> {
        self.by_lock.get(lock)?.get(&slot).map(|(_, memory)| memory)
    }

    /// The name of a lock as it is kept here.
    pub(super) fn name(&self, lock: &LockName) -> Option<&LockName> {
        self.by_lock.key(lock)
    }

    /// Those of all slots of a lock, in their order.
    pub(super) fn of_lock(&self, lock: &LockName) -> impl Iterator<Item = (Slot, &SlotMemory)> {
        let slots = self.by_lock.get(lock).into_iter().flat_map(Few::iter);
        slots.map(|(slot, (_, memory))| (*slot, memory))
    }

    /// Who held it last.
    pub(super) fn remember(&mut self, lock: &LockName, predecessor: Predecessor, bounds: MemoryBounds) {
        let slot = predecessor.slot;
        self.change(lock, slot, bounds, |memory| memory.last = Some(predecessor));
    }

    /// What is left for the next holder; none takes it away.
    pub(super) fn leave(&mut self, lock: &LockName, slot: Slot, baton: Option<Baton>, bounds: MemoryBounds) {
        self.change(lock, slot, bounds, |memory| memory.baton = baton);
    }

    /// Drops what is too much, the oldest first.
    pub(super) fn shrink(&mut self, bounds: MemoryBounds) {
        while self.len() > bounds.slots_max as usize || self.baton_bytes > bounds.baton_bytes_max {
            let Some((lock, slot)) = Arc::make_mut(&mut self.in_order).pop_oldest() else { return };
            self.forget(&lock, slot);
        }
    }

    /// As version 1 remembered: one predecessor of each lock, and no batons.
    pub(super) fn of_version_1(
        in_order: impl Iterator<Item = (u64, LockName, Predecessor)>,
        next: u64,
    ) -> Self {
        let mut all = Self { next, ..Self::new() };
        for (number, lock, last) in in_order {
            all.put(lock, last.slot, (number, SlotMemory { last: Some(last), baton: None }));
        }
        all
    }

    fn change(
        &mut self,
        lock: &LockName,
        slot: Slot,
        bounds: MemoryBounds,
        change: impl FnOnce(&mut SlotMemory),
    ) {
        let number = self.next;
        self.next += 1;
        let order = Arc::make_mut(&mut self.in_order);
        let slots = self.by_lock.get_or_insert_with(lock, Few::default);
        let remembers = match slots.get_mut(&slot) {
            Some((at, memory)) => {
                self.baton_bytes -= memory.bytes();
                change(memory);
                self.baton_bytes += memory.bytes();
                let key = order.take(std::mem::replace(at, number));
                order.push(number, key.unwrap_or_else(|| (lock.clone(), slot)));
                *memory != SlotMemory::default()
            }
            None => {
                let mut memory = SlotMemory::default();
                change(&mut memory);
                self.baton_bytes += memory.bytes();
                slots.insert(slot, (number, memory));
                order.push(number, (lock.clone(), slot));
                slots.get(&slot).is_some_and(|(_, memory)| *memory != SlotMemory::default())
            }
        };
        if !remembers {
            order.take(number);
            self.forget(lock, slot);
        }
        self.shrink(bounds);
    }

    /// Takes a memory out whose place in the order is gone.
    fn forget(&mut self, lock: &LockName, slot: Slot) {
        let Some(slots) = self.by_lock.get_mut(lock) else { return };
        if let Some((_, memory)) = slots.remove(&slot) {
            self.baton_bytes -= memory.bytes();
        }
        if slots.is_empty() {
            self.by_lock.remove(lock);
        }
    }

    /// Puts a memory at the end of the order.
    fn put(&mut self, lock: LockName, slot: Slot, (number, memory): (u64, SlotMemory)) {
        self.baton_bytes += memory.bytes();
        self.by_lock.get_or_insert_with(&lock, Few::default).insert(slot, (number, memory));
        Arc::make_mut(&mut self.in_order).push(number, (lock, slot));
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len
    }

    /// Bytes of all batons, as they are counted.
    pub(super) fn baton_bytes(&self) -> u64 {
        self.baton_bytes
    }

    /// In no order that means anything.
    fn iter(&self) -> impl Iterator<Item = (&LockName, Slot, &(u64, SlotMemory))> {
        let all = self.by_lock.iter();
        all.flat_map(|(lock, slots)| slots.iter().map(move |(slot, memory)| (lock, *slot, memory)))
    }

    /// What must hold between any two commands; says what does not.
    pub(super) fn check(&self, bounds: MemoryBounds) -> Result<(), String> {
        if self.len() > bounds.slots_max as usize {
            return Err(format!("{} slots are remembered", self.len()));
        }
        let bytes: u64 = self.iter().map(|(_, _, (_, memory))| memory.bytes()).sum();
        if self.baton_bytes != bytes || bytes > bounds.baton_bytes_max {
            return Err(format!("batons have {bytes} bytes, {} are counted", self.baton_bytes));
        }
        let by_number: BTreeMap<_, _> =
            self.iter().map(|(lock, slot, (number, _))| (*number, (lock, slot))).collect();
        match self.in_order.iter().eq(by_number) && self.iter().count() == self.len() {
            true => Ok(()),
            false => Err("the order of the memories of slots is not theirs".into()),
        }
    }
}

/// Slots by their running numbers. Whose number is another by now leaves an empty place behind.
#[derive(Clone, Debug, Default)]
struct Order {
    places: VecDeque<(u64, Option<(LockName, Slot)>)>,
    /// Places that are not empty.
    len: usize,
}

impl Order {
    /// The number is above all others.
    fn push(&mut self, number: u64, key: (LockName, Slot)) {
        self.places.push_back((number, Some(key)));
        self.len += 1;
        if self.places.len() > 2 * self.len + EMPTY_MAX {
            self.places.retain(|(_, key)| key.is_some());
        }
    }

    fn take(&mut self, number: u64) -> Option<(LockName, Slot)> {
        // Numbers follow each other, unless the order was packed.
        let first = self.places.front()?.0;
        let likely = usize::try_from(number.checked_sub(first)?).ok()?;
        let at = match self.places.get(likely) {
            Some((found, _)) if *found == number => likely,
            _ => self.places.binary_search_by_key(&number, |(number, _)| *number).ok()?,
        };
        let key = self.places[at].1.take();
        self.len -= usize::from(key.is_some());
        key
    }

    fn pop_oldest(&mut self) -> Option<(LockName, Slot)> {
        let oldest = std::iter::from_fn(|| self.places.pop_front()).find_map(|(_, key)| key)?;
        self.len -= 1;
        Some(oldest)
    }

    fn iter(&self) -> impl Iterator<Item = (u64, (&LockName, Slot))> {
        self.places.iter().filter_map(|(number, key)| {
            let (lock, slot) = key.as_ref()?;
            Some((*number, (lock, *slot)))
        })
    }
}

/// The order follows from the numbers.
impl PartialEq for SlotMemories {
    fn eq(&self, other: &Self) -> bool {
        (self.next, self.baton_bytes) == (other.next, other.baton_bytes) && self.by_lock == other.by_lock
    }
}

impl Eq for SlotMemories {}

/// As it is written: two maps, in the order of their keys.
#[derive(Serialize)]
struct Written<'a> {
    by_slot: BTreeMap<(&'a LockName, Slot), &'a (u64, SlotMemory)>,
    in_order: BTreeMap<u64, (&'a LockName, Slot)>,
    next: u64,
    baton_bytes: u64,
}

/// As it is read.
#[derive(Deserialize)]
struct Read {
    by_slot: BTreeMap<(LockName, Slot), (u64, SlotMemory)>,
    in_order: BTreeMap<u64, (LockName, Slot)>,
    next: u64,
    baton_bytes: u64,
}

impl Serialize for SlotMemories {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = Written {
            by_slot: self.iter().map(|(lock, slot, memory)| ((lock, slot), memory)).collect(),
            in_order: self.in_order.iter().collect(),
            next: self.next,
            baton_bytes: self.baton_bytes,
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SlotMemories {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Read { mut by_slot, in_order, next, baton_bytes } = Read::deserialize(deserializer)?;
        let mut all = Self { next, ..Self::new() };
        for (number, (lock, slot)) in in_order {
            match by_slot.remove(&(lock.clone(), slot)) {
                Some(memory) if memory.0 == number => all.put(lock, slot, memory),
                Some(_) | None => {
                    return Err(serde::de::Error::custom("the order of memories is not theirs"));
                }
            }
        }
        match by_slot.is_empty() && all.baton_bytes == baton_bytes {
            true => Ok(all),
            false => Err(serde::de::Error::custom("the memories of slots do not add up")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{AcquisitionId, ClientName, LogIndex, RequestNumber, SessionId, WallTime};
    use crate::reply::Ended;
    use crate::token::TokenBase;

    fn last(slot: u32, end: u64) -> Predecessor {
        Predecessor {
            slot: Slot(slot),
            acquisition: AcquisitionId { session: SessionId(1), number: RequestNumber(end) },
            client: ClientName::unnamed(),
            token: TokenBase::default().token(LogIndex(end)),
            ended: Ended::Released,
            end: LogIndex(end),
            ended_at: WallTime(end),
        }
    }

    #[test]
    fn the_least_recently_changed_are_dropped_however_often_the_others_change() {
        let bounds = MemoryBounds { slots_max: 3, baton_bytes_max: 100 };
        let names: Vec<_> = ["a", "b", "c", "d"].map(|name| LockName::new(name).unwrap()).into();
        let mut all = SlotMemories::new();
        all.remember(&names[0], last(1, 1), bounds);
        // So often that the order is packed under way.
        for end in 2..3 * EMPTY_MAX as u64 {
            all.remember(&names[1 + end as usize % 2], last(0, end), bounds);
            assert!(all.in_order.places.len() <= 2 * all.len() + EMPTY_MAX);
        }
        assert_eq!(all.check(bounds), Ok(()));
        assert_eq!(all.get(&names[0], Slot(1)), Some(&SlotMemory { last: Some(last(1, 1)), baton: None }));
        all.remember(&names[3], last(0, 10_000), bounds);
        assert_eq!((all.get(&names[0], Slot(1)), all.len()), (None, 3));
        all.leave(&names[0], Slot(7), None, bounds);
        assert_eq!((all.get(&names[0], Slot(7)), all.len(), all.check(bounds)), (None, 3, Ok(())));
        let view = all.clone();
        all.remember(&names[1], last(2, 10_001), bounds);
        assert_eq!((view.check(bounds), all.check(bounds)), (Ok(()), Ok(())));
        assert!(view != all && view.of_lock(&names[1]).count() == 1);
    }
}
