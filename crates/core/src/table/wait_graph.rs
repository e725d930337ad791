//! Who waits for whom, as far as one search of a cycle needs to know.

use std::collections::{BTreeMap, VecDeque};

use super::LockTable;
use super::wait_cycle::GivenUp;
use crate::command::AcquirePart;
use crate::ids::{AcquisitionId, LockName, LogIndex, OwnerLabel, SessionId, Slot};
use crate::limits::CYCLE_STEPS_MAX;
use crate::lock::{Lock, SlotState};
use crate::mode::Mode;
use crate::reply::{Cycle, CycleStep};
use crate::session::AcquisitionState;

/// An owner.
pub(super) type Node<'a> = (SessionId, &'a OwnerLabel);

/// An acquisition that waits.
#[derive(Clone, Copy)]
pub(super) struct Wait<'a> {
    pub(super) id: AcquisitionId,
    pub(super) arrived: LogIndex,
    pub(super) parts: &'a [AcquirePart],
}

/// A handover as if it had been done: the waiter holds this slot, and what else it asked for.
#[derive(Clone, Copy)]
pub(super) struct Handed<'a> {
    pub(super) to: AcquisitionId,
    pub(super) owner: Node<'a>,
    pub(super) parts: &'a [AcquirePart],
    pub(super) lock: &'a LockName,
    pub(super) slot: Slot,
}

/// The owners that one can reach over waits, by the order in which they were met.
pub(super) struct Graph<'a> {
    table: &'a LockTable,
    asked: Option<(Node<'a>, Wait<'a>)>,
    handed: Option<Handed<'a>>,
    looks_left: u32,
    owners: Vec<Node<'a>>,
    numbers: BTreeMap<Node<'a>, usize>,
    /// What each waits for.
    blocked: Vec<Vec<Blocked<'a>>>,
}

/// One lock that an owner waits for.
struct Blocked<'a> {
    wait: AcquisitionId,
    lock: &'a LockName,
    /// Owners of incompatible waiters ahead: each of them alone blocks.
    ahead: Vec<usize>,
    /// Owners of the holders of each slot: all slots together block. Empty if one of them opens without an owner.
    slots: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(
        table: &'a LockTable,
        looks_left: u32,
        asked: Option<(Node<'a>, Wait<'a>)>,
        handed: Option<Handed<'a>>,
    ) -> Self {
        let (owners, numbers, blocked) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { table, asked, handed, looks_left, owners, numbers, blocked }
    }

    pub(super) fn looks_left(&self) -> u32 {
        self.looks_left
    }

    /// Counts an acquisition that is looked at.
    pub(super) fn look(&mut self) -> Result<(), GivenUp> {
        self.looks_left = self.looks_left.checked_sub(1).ok_or(GivenUp)?;
        Ok(())
    }

    /// A shortest cycle through this owner.
    pub(super) fn cycle_through(&mut self, owner: Node<'a>) -> Result<Option<Cycle>, GivenUp> {
        self.number(owner);
        while let Some(next) = self.owners.get(self.blocked.len()).copied() {
            let waits = self.waits_of(next)?;
            let mut blocked = Vec::new();
            for (wait, part) in waits.iter().flat_map(|wait| wait.parts.iter().map(move |part| (wait, part)))
            {
                blocked.extend(self.blocked_on(wait, part)?);
            }
            self.blocked.push(blocked);
            if self.owners.len() == 1 && self.blocked[0].is_empty() {
                return Ok(None);
            }
        }
        let stuck = self.stuck();
        if !stuck[0] {
            return Ok(None);
        }
        self.shortest(&stuck)
    }

    fn number(&mut self, owner: Node<'a>) -> usize {
        let next = self.owners.len();
        let number = *self.numbers.entry(owner).or_insert(next);
        if number == next {
            self.owners.push(owner);
        }
        number
    }

    fn waits_of(&mut self, owner: Node<'a>) -> Result<Vec<Wait<'a>>, GivenUp> {
        let mut waits: Vec<_> =
            self.asked.iter().filter(|(of, _)| *of == owner).map(|(_, wait)| *wait).collect();
        let table = self.table;
        let Some(session) = table.sessions.get(&owner.0) else { return Ok(waits) };
        for (number, whole) in session.acquisitions.iter_whole() {
            self.look()?;
            let Some(acquisition) = whole else { continue };
            let id = AcquisitionId { session: owner.0, number };
            let waiting = acquisition.state == AcquisitionState::Waiting && !self.is_handed(id);
            if waiting && acquisition.owner.as_ref() == Some(owner.1) {
                waits.push(Wait { id, arrived: acquisition.arrived, parts: &acquisition.parts });
            }
        }
        Ok(waits)
    }

    fn is_handed(&self, id: AcquisitionId) -> bool {
        self.handed.is_some_and(|handed| handed.to == id)
    }

    /// What keeps a wait from its lock; none if nothing with an owner does.
    fn blocked_on(&mut self, wait: &Wait<'a>, part: &'a AcquirePart) -> Result<Option<Blocked<'a>>, GivenUp> {
        let table = self.table;
        let Some(lock) = table.locks.get(&part.lock) else { return Ok(None) };
        let ahead = self.ahead(lock, wait, part)?;
        let slots = self.slots(lock, part)?;
        let blocks = !(ahead.is_empty() && slots.is_empty());
        Ok(blocks.then_some(Blocked { wait: wait.id, lock: &part.lock, ahead, slots }))
    }

    /// Up to the nearest that is exclusive: whatever is ahead of that one blocks it too.
    fn ahead(
        &mut self,
        lock: &'a Lock,
        wait: &Wait<'a>,
        part: &'a AcquirePart,
    ) -> Result<Vec<usize>, GivenUp> {
        let mut ahead = Vec::new();
        for (_, id) in lock.queue.ahead_of(wait.arrived) {
            self.look()?;
            if self.is_handed(id) {
                continue;
            }
            let Some(other) = self.table.whole(id) else { continue };
            let mode = other.parts.iter().find(|other| other.lock == part.lock).map(|other| other.mode);
            let (Some(mode), Some(label)) = (mode, &other.owner) else { continue };
            if !part.mode.shares_with(mode) {
                ahead.push(self.number((id.session, label)));
            }
            if mode == Mode::Exclusive {
                break;
            }
        }
        Ok(ahead)
    }

    /// The owners that hold each slot; empty if one opens without them.
    fn slots(&mut self, lock: &'a Lock, part: &'a AcquirePart) -> Result<Vec<Vec<usize>>, GivenUp> {
        let handed = self.handed;
        let asked = handed.and_then(|to| to.parts.iter().find(|asked| asked.lock == part.lock));
        // What the handed acquisition takes beside the slot itself.
        let mut takes = match (handed, asked) {
            (Some(to), Some(asked)) => asked.permits - u32::from(*to.lock == part.lock),
            _ => 0,
        };
        let mut slots = Vec::new();
        for slot in (0..lock.capacity).map(Slot) {
            let this = handed.is_some_and(|to| *to.lock == part.lock && to.slot == slot);
            let owners = match lock.slots.get(&slot) {
                _ if this => self.handed_owner(part.mode, asked),
                Some(SlotState::Held(tenure)) if part.mode.shares_with(tenure.mode) => Vec::new(),
                Some(SlotState::Held(tenure)) => self.owners_of(tenure.holders.keys().copied())?,
                Some(SlotState::Delayed(delay)) => self.owners_of(delay.kept_for.into_iter())?,
                None if takes > 0 => {
                    takes -= 1;
                    self.handed_owner(part.mode, asked)
                }
                None => Vec::new(),
            };
            if owners.is_empty() {
                return Ok(Vec::new());
            }
            slots.push(owners);
        }
        Ok(slots)
    }

    fn handed_owner(&mut self, mode: Mode, asked: Option<&AcquirePart>) -> Vec<usize> {
        let incompatible = asked.is_some_and(|asked| !mode.shares_with(asked.mode));
        match self.handed.filter(|_| incompatible) {
            Some(handed) => vec![self.number(handed.owner)],
            None => Vec::new(),
        }
    }

    fn owners_of(&mut self, holders: impl Iterator<Item = AcquisitionId>) -> Result<Vec<usize>, GivenUp> {
        let mut owners = Vec::new();
        for id in holders {
            self.look()?;
            if let Some(label) = self.table.whole(id).and_then(|holder| holder.owner.as_ref()) {
                owners.push(self.number((id.session, label)));
            }
        }
        Ok(owners)
    }

    /// The largest set of owners that are all stuck with respect to it: who is not is taken out, until all that are left
    /// are.
    fn stuck(&self) -> Vec<bool> {
        let mut stuck = vec![true; self.owners.len()];
        let mut waiting_for = vec![Vec::new(); self.owners.len()];
        for (owner, blocked) in self.blocked.iter().enumerate() {
            for target in blocked.iter().flat_map(Blocked::owners) {
                waiting_for[target].push(owner);
            }
        }
        // The last ones met are the farthest away, and mostly free.
        let mut unsure: Vec<usize> = (0..self.owners.len()).collect();
        while let Some(owner) = unsure.pop() {
            if stuck[owner] && !self.blocked[owner].iter().any(|blocked| blocked.holds_back(&stuck)) {
                stuck[owner] = false;
                unsure.append(&mut waiting_for[owner]);
            }
        }
        stuck
    }

    /// Breadth first, from the first owner and back to it, over those that are stuck.
    fn shortest(&self, stuck: &[bool]) -> Result<Option<Cycle>, GivenUp> {
        let mut came: Vec<Option<(usize, &Blocked<'a>)>> = vec![None; self.owners.len()];
        let mut next = VecDeque::from([0]);
        while let Some(owner) = next.pop_front() {
            for blocked in self.blocked[owner].iter().filter(|blocked| blocked.holds_back(stuck)) {
                for target in blocked.owners_in(stuck) {
                    if came[target].is_none() {
                        came[target] = Some((owner, blocked));
                        next.push_back(target);
                    }
                }
            }
            if came[0].is_some() {
                break;
            }
        }
        let mut steps = Vec::new();
        let mut at = 0;
        while let Some((owner, blocked)) = came[at] {
            if steps.len() == CYCLE_STEPS_MAX {
                return Err(GivenUp);
            }
            steps.push(self.step(owner, blocked));
            at = owner;
            if at == 0 {
                steps.reverse();
                return Ok(Some(Cycle { steps }));
            }
        }
        Ok(None)
    }

    fn step(&self, owner: usize, blocked: &Blocked<'a>) -> CycleStep {
        let (session, label) = self.owners[owner];
        CycleStep {
            owner: label.clone(),
            client: self.table.client_of(session),
            acquisition: blocked.wait,
            lock: blocked.lock.clone(),
        }
    }
}

impl Blocked<'_> {
    fn owners(&self) -> impl Iterator<Item = usize> {
        self.ahead.iter().chain(self.slots.iter().flatten()).copied()
    }

    /// Whether it holds its waiter back as long as these owners are stuck.
    fn holds_back(&self, stuck: &[bool]) -> bool {
        self.ahead.iter().any(|owner| stuck[*owner]) || self.all_slots(stuck)
    }

    fn all_slots(&self, stuck: &[bool]) -> bool {
        let held_back = |owners: &Vec<usize>| owners.iter().any(|owner| stuck[*owner]);
        !self.slots.is_empty() && self.slots.iter().all(held_back)
    }

    /// The stuck owners over which a path goes on.
    fn owners_in<'s>(&'s self, stuck: &'s [bool]) -> impl Iterator<Item = usize> + 's {
        let slots = if self.all_slots(stuck) { self.slots.as_slice() } else { &[] };
        self.ahead.iter().chain(slots.iter().flatten()).copied().filter(|owner| stuck[*owner])
    }
}
