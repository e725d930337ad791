//! What people and tools are shown of a lock.

use super::{Baton, LockTable};
use crate::command::Terms;
use crate::ids::{
    AcquisitionId, ClientName, LockName, LockPrefix, LogIndex, OwnerLabel, SessionId, Slot, WallTime,
};
use crate::lock::{Delay, DelayRule, Holder, Predecessor, SlotState, Tenure};
use crate::mode::Mode;
use crate::reply::HolderView;
use crate::session::{AcquisitionState, Reports};
use crate::token::Token;

/// A lock, its holders, its queue, and who held it before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockView {
    /// Which.
    pub lock: LockName,
    /// Slots.
    pub capacity: u32,
    /// Whether an operator set that.
    pub capacity_set: bool,
    /// The bounds of its lock-delays, with the prefix that they are of.
    pub delay_rule: Option<(LockPrefix, DelayRule)>,
    /// One for each slot that is not free.
    pub slots: Vec<SlotView>,
    /// In order.
    pub queue: Vec<WaiterView>,
    /// The last holder that ended.
    pub predecessor: Option<Predecessor>,
    /// What holders left for the next ones, by slot; also of slots that are free.
    pub batons: Vec<(Slot, Baton)>,
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
        holders: Vec<HoldView>,
    },
    /// Closed.
    Delayed {
        /// Which.
        slot: Slot,
        /// Since when and for how long.
        delay: Delay,
    },
}

/// A holder, and on what terms it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldView {
    /// Who.
    pub holder: HolderView,
    /// What it lets others read, and its own deadlines.
    pub terms: Terms,
    /// Its reports of progress, by entries without the token base.
    pub reports: Reports,
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
    /// How it will hold.
    pub mode: Mode,
    /// Slots that it wants.
    pub permits: u32,
    /// All locks that it waits for, at once.
    pub locks: Vec<LockName>,
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
            capacity_set: lock.is_some_and(|lock| lock.capacity_set),
            delay_rule: self.delay_rule_of(name).map(|(prefix, rule)| (prefix.clone(), rule.clone())),
            slots: Vec::new(),
            queue: Vec::new(),
            predecessor: self
                .slot_memories
                .of_lock(name)
                .filter_map(|(_, memory)| memory.last.as_ref())
                .max_by_key(|last| last.end)
                .cloned(),
            batons: self
                .slot_memories
                .of_lock(name)
                .filter_map(|(slot, memory)| Some((slot, memory.baton.clone()?)))
                .collect(),
        };
        let Some(lock) = lock else { return view };
        view.slots = lock.slots.iter().map(|(slot, state)| self.slot_view(*slot, state)).collect();
        let waiters = lock.queue.iter().take(WAITERS_SHOWN_MAX);
        view.queue = waiters.filter_map(|(_, id)| self.waiter_view(name, id)).collect();
        view
    }

    fn slot_view(&self, slot: Slot, state: &SlotState) -> SlotView {
        match state {
            SlotState::Delayed(delay) => SlotView::Delayed { slot, delay: (**delay).clone() },
            SlotState::Held(tenure) => SlotView::Held {
                slot,
                token: tenure.token,
                mode: tenure.mode,
                begun: tenure.begun,
                begun_at: tenure.begun_at,
                holders: self.hold_views(tenure),
            },
        }
    }

    fn hold_views(&self, tenure: &Tenure) -> Vec<HoldView> {
        let views = self.holder_views(tenure).into_iter().map(|holder| {
            let id = holder.acquisition;
            let acquisition =
                self.sessions.get(&id.session).and_then(|s| s.acquisitions.get_whole(id.number));
            let reports = match acquisition.map(|acquisition| &acquisition.state) {
                Some(AcquisitionState::Holding { reports, .. }) => *reports,
                Some(AcquisitionState::Waiting | AcquisitionState::Kept { .. }) | None => Reports::default(),
            };
            let terms = acquisition.map(|acquisition| acquisition.terms.clone()).unwrap_or_default();
            HoldView { holder, terms, reports }
        });
        views.collect()
    }

    fn waiter_view(&self, name: &LockName, id: AcquisitionId) -> Option<WaiterView> {
        let session = self.sessions.get(&id.session)?;
        let acquisition = session.acquisitions.get_whole(id.number)?;
        let part = acquisition.parts.iter().find(|part| part.lock == *name)?;
        Some(WaiterView {
            acquisition: id,
            client: session.client.clone(),
            arrived: acquisition.arrived,
            arrived_at: acquisition.arrived_at,
            owner: acquisition.owner.clone(),
            mode: part.mode,
            permits: part.permits,
            locks: acquisition.parts.iter().map(|part| part.lock.clone()).collect(),
        })
    }

    /// What a session's acquisition holds, while it does.
    pub fn grant(&self, id: AcquisitionId) -> Option<crate::reply::Grant> {
        let acquisition = self.acquisition(id)?;
        matches!(acquisition.state, AcquisitionState::Holding { .. }).then(|| self.grant_of(id, &acquisition))
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

    pub(super) fn client_of(&self, session: SessionId) -> ClientName {
        let live = self.sessions.get(&session).map(|session| session.client.clone());
        live.unwrap_or_else(ClientName::unnamed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, SetBaton, SetDelayRule};
    use crate::ids::Millis;
    use crate::table::story::{Story, ask, id, lock, payload};

    #[test]
    fn a_held_lock_shows_its_terms_its_baton_and_its_rule() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let rule = DelayRule { least: Millis(0), most: Millis(60_000), fenced_by: Vec::new() };
        let prefix = LockPrefix::new("l").unwrap();
        story.apply(Command::SetDelayRule(SetDelayRule { prefix: prefix.clone(), rule: Some(rule.clone()) }));
        let terms = Terms { metadata: payload("10.0.0.7"), ..Terms::default() };
        let token = story.holds_on(ask(a, 1, "l"), terms.clone());
        story.report(a, 1, token, 0);
        let reported = Some(LogIndex(story.index));
        let (acquisition, baton) = (id(a, 1), payload("page 7"));
        let set = SetBaton { acquisition, lock: lock("l"), slot: Slot(0), token, revision: 0, baton };
        story.apply(Command::SetBaton(set));
        story.waits(b, 1, "l");
        let view = story.table.view(&lock("l"));
        let SlotView::Held { holders, .. } = &view.slots[0] else { panic!("it is held") };
        assert_eq!((holders[0].holder.acquisition, &holders[0].terms), (id(a, 1), &terms));
        assert_eq!(holders[0].reports, Reports { first: reported, last: reported, number: 1 });
        assert_eq!(view.batons, [(Slot(0), Baton { token, left: payload("page 7") })]);
        assert_eq!((view.delay_rule, view.capacity_set), (Some((prefix, rule)), false));
        let waiter = &view.queue[0];
        assert_eq!((waiter.mode, waiter.permits, &waiter.locks), (Mode::Exclusive, 1, &vec![lock("l")]));
        story.close(a);
        story.close(b);
        assert_eq!(story.table.view(&lock("l")).batons.len(), 1, "it outlives the lock");
    }
}
