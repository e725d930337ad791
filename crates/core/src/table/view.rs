//! What people and tools are shown of a lock.

use super::LockTable;
use crate::ids::{AcquisitionId, ClientName, LockName, LogIndex, OwnerLabel, SessionId, Slot, WallTime};
use crate::lock::{Delay, Holder, Predecessor, SlotState, Tenure};
use crate::mode::Mode;
use crate::reply::HolderView;
use crate::token::Token;

/// A lock, its holders, its queue, and who held it before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockView {
    /// Which.
    pub lock: LockName,
    /// Slots.
    pub capacity: u32,
    /// One for each slot that is not free.
    pub slots: Vec<SlotView>,
    /// In order.
    pub queue: Vec<WaiterView>,
    /// The last holder that ended.
    pub predecessor: Option<Predecessor>,
}

/// A slot that is not free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotView {
    /// Held.
    Held {
        /// Which.
        slot: Slot,
        /// Under which token.
        token: Token,
        /// How.
        mode: Mode,
        /// The entry that began the tenure, without the token base.
        begun: LogIndex,
        /// Wall time of that entry.
        begun_at: WallTime,
        /// Who.
        holders: Vec<HolderView>,
    },
    /// Closed.
    Delayed {
        /// Which.
        slot: Slot,
        /// Since when and for how long.
        delay: Delay,
    },
}

/// Somebody who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaiterView {
    /// Which acquisition.
    pub acquisition: AcquisitionId,
    /// Whose.
    pub client: ClientName,
    /// The entry that brought it.
    pub arrived: LogIndex,
    /// Wall time of that entry.
    pub arrived_at: WallTime,
    /// A task.
    pub owner: Option<OwnerLabel>,
}

/// Waiters that a view lists at most; a tool that wants more asks by session.
const WAITERS_SHOWN_MAX: usize = 1_000;

impl LockTable {
    /// Everything to show of a lock; a name that was never used is a lock that is free.
    pub fn view(&self, name: &LockName) -> LockView {
        let lock = self.locks.get(name);
        let mut view = LockView {
            lock: name.clone(),
            capacity: lock.map_or(1, |lock| lock.capacity),
            slots: Vec::new(),
            queue: Vec::new(),
            predecessor: self
                .slot_memories
                .of_lock(name)
                .filter_map(|memory| memory.last.as_ref())
                .max_by_key(|last| last.end)
                .cloned(),
        };
        let Some(lock) = lock else { return view };
        view.slots = lock.slots.iter().map(|(slot, state)| self.slot_view(*slot, state)).collect();
        let waiters = lock.queue.iter().take(WAITERS_SHOWN_MAX);
        view.queue = waiters.filter_map(|(_, id)| self.waiter_view(id)).collect();
        view
    }

    fn slot_view(&self, slot: Slot, state: &SlotState) -> SlotView {
        match state {
            SlotState::Delayed(delay) => SlotView::Delayed { slot, delay: delay.clone() },
            SlotState::Held(tenure) => SlotView::Held {
                slot,
                token: tenure.token,
                mode: tenure.mode,
                begun: tenure.begun,
                begun_at: tenure.begun_at,
                holders: self.holder_views(tenure),
            },
        }
    }

    fn waiter_view(&self, id: AcquisitionId) -> Option<WaiterView> {
        let session = self.sessions.get(&id.session)?;
        let acquisition = session.acquisitions.get(&id.number)?;
        Some(WaiterView {
            acquisition: id,
            client: session.client.clone(),
            arrived: acquisition.arrived,
            arrived_at: acquisition.arrived_at,
            owner: acquisition.owner.clone(),
        })
    }

    /// What a session's acquisition holds, while it does.
    pub fn grant(&self, id: AcquisitionId) -> Option<crate::reply::Grant> {
        let acquisition = self.sessions.get(&id.session)?.acquisitions.get(&id.number)?;
        matches!(acquisition.state, crate::session::AcquisitionState::Holding { .. })
            .then(|| self.grant_of(id, acquisition))
    }
}

impl LockTable {
    /// Who holds a slot, for a refusal.
    pub(super) fn holder_of(&self, lock: &LockName, slot: Slot) -> Option<Box<HolderView>> {
        let tenure = self.locks.get(lock)?.slots.get(&slot)?.tenure()?;
        self.tenure_holder(tenure).map(Box::new)
    }

    /// The first holder of a tenure, as a refusal tells it.
    pub(super) fn tenure_holder(&self, tenure: &Tenure) -> Option<HolderView> {
        let (id, holder) = tenure.holders.first_key_value()?;
        Some(self.holder_view(tenure, *id, holder))
    }

    /// All holders of a tenure.
    pub(super) fn holder_views(&self, tenure: &Tenure) -> Vec<HolderView> {
        tenure.holders.iter().map(|(id, holder)| self.holder_view(tenure, *id, holder)).collect()
    }

    fn holder_view(&self, tenure: &Tenure, id: AcquisitionId, holder: &Holder) -> HolderView {
        HolderView {
            acquisition: id,
            client: self.client_of(id.session),
            mode: tenure.mode,
            token: tenure.token,
            grant_index: self.header.token_base.at(holder.grant),
            granted_at: holder.granted_at,
        }
    }

    fn client_of(&self, session: SessionId) -> ClientName {
        let live = self.sessions.get(&session).map(|session| session.client.clone());
        live.unwrap_or_else(ClientName::unnamed)
    }
}
