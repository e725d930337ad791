//! Cycles of owners that wait for each other (SPEC 4).
//!
//! An owner is one session's label: two processes that call a task `main` are two owners, and a task that uses two
//! sessions is two as well. So a cycle that is found is a true one; one that closes outside of Palisade, or through two
//! sessions of one task, is not found.
//!
//! An owner is *stuck* with respect to a set of owners if one of its waiting acquisitions has a lock where an
//! incompatible waiter ahead of it is theirs, or where every slot is held by one of them. What is looked for is the
//! largest set of owners that are all stuck with respect to it (Holt 1972, for resources with several units), and in it
//! a shortest cycle through the owner whose wait or hold is new. A slot that is free, in lock-delay, or held without a
//! label, opens without any of them.
//!
//! The searches of one entry look at `MoreLimits::cycle_search_max` acquisitions at most. One begins only where somebody
//! can wait for the owner that asks, so that a long queue of owners that hold nothing costs nothing.

use super::wait_graph::{Graph, Handed, Node, Wait};
use super::{LockTable, Step};
use crate::command::{Acquire, HandOver};
use crate::event::Event;
use crate::ids::{AcquisitionId, LockName};
use crate::reply::{Cycle, Ended};
use crate::session::{AcquisitionState, OutcomeHow};

/// A search met its bound.
#[derive(Debug)]
pub(super) struct GivenUp;

impl LockTable {
    /// The cycle that a request would close by waiting.
    pub(super) fn request_cycle(
        &self,
        step: &mut Step,
        request: &Acquire,
        id: AcquisitionId,
    ) -> Option<Cycle> {
        let owner = (id.session, request.owner.as_ref()?);
        if !self.knows(2) {
            return None;
        }
        let asked = Wait { id, arrived: step.at.index, parts: &request.parts };
        let mut graph = Graph::new(self, step.looks_left, Some((owner, asked)), None);
        let found = self
            .somebody_waits_for(&mut graph, request, owner)
            .and_then(|waited_for| if waited_for { graph.cycle_through(owner) } else { Ok(None) });
        told(step, id, &graph, found)
    }

    /// The cycle that a handover would close: those whom it passes wait for the new holder.
    pub(super) fn handover_cycle(
        &self,
        step: &mut Step,
        asked: &HandOver,
        candidate: AcquisitionId,
    ) -> Option<Cycle> {
        let passes = self.locks.get(&asked.lock)?.queue.head().is_some_and(|(_, head)| head != candidate);
        let acquisition = self.whole(candidate).filter(|_| passes)?;
        let owner = (candidate.session, acquisition.owner.as_ref()?);
        let handed =
            Handed { to: candidate, owner, parts: &acquisition.parts, lock: &asked.lock, slot: asked.slot };
        let mut graph = Graph::new(self, step.looks_left, None, Some(handed));
        let found = graph.cycle_through(owner);
        told(step, candidate, &graph, found)
    }

    /// After a hold began, or a lock has fewer slots, and others wait: ends the youngest waiter of each cycle through
    /// this acquisition's owner.
    ///
    /// A grant out of the queue makes nobody wait who did not wait before, so this finds cycles that an earlier search
    /// gave up, and those that a smaller capacity closes.
    pub(super) fn break_cycles(&mut self, step: &mut Step, id: AcquisitionId) {
        while step.looks_left > 0
            && let Some(acquisition) = self.whole(id)
            && let Some(owner) = &acquisition.owner
        {
            let mut graph = Graph::new(self, step.looks_left, None, None);
            let found = graph.cycle_through((id.session, owner));
            let Some(cycle) = told(step, id, &graph, found) else { return };
            let arrived = |id: &AcquisitionId| self.whole(*id).map(|acquisition| acquisition.arrived);
            let waiters = cycle.steps.iter().map(|step| step.acquisition);
            let Some(youngest) = waiters.max_by_key(arrived) else { return };
            let how = OutcomeHow::Ended { ended: Ended::Deadlocked, held: Vec::new() };
            self.end_waiting(step, youngest, Ended::Deadlocked, how, Some(cycle));
        }
    }

    /// No owners wait for each other. It holds as long as no search was given up. Its cost is that of a search for each
    /// waiter that has a label.
    pub fn check_wait_cycles(&self) -> Result<(), String> {
        for (session, of) in self.sessions() {
            for owner in of.acquisitions.iter_whole().filter_map(|(_, whole)| whole?.owner.as_ref()) {
                let found = Graph::new(self, u32::MAX, None, None).cycle_through((session, owner));
                if let Ok(Some(cycle)) = found {
                    return Err(format!("these wait for each other: {cycle:?}"));
                }
            }
        }
        Ok(())
    }

    /// Whether anybody waits, or would behind this request, for something else that its owner holds or awaits.
    fn somebody_waits_for(
        &self,
        graph: &mut Graph<'_>,
        request: &Acquire,
        owner: Node<'_>,
    ) -> Result<bool, GivenUp> {
        let Some(session) = self.sessions.get(&owner.0) else { return Ok(false) };
        let awaited = |name: &LockName| {
            request.parts.iter().any(|part| part.lock == *name)
                || self.locks.get(name).is_some_and(|lock| !lock.queue.is_empty())
        };
        for (_, whole) in session.acquisitions.iter_whole() {
            graph.look()?;
            let Some(acquisition) = whole.filter(|whole| whole.owner.as_ref() == Some(owner.1)) else {
                continue;
            };
            let waited_for = match &acquisition.state {
                AcquisitionState::Waiting => true,
                AcquisitionState::Holding { held, .. } => held.iter().any(|part| awaited(&part.lock)),
                AcquisitionState::Kept { slots } => slots.iter().any(|(lock, _)| awaited(lock)),
            };
            if waited_for {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn told(
    step: &mut Step,
    id: AcquisitionId,
    graph: &Graph<'_>,
    found: Result<Option<Cycle>, GivenUp>,
) -> Option<Cycle> {
    step.looks_left = graph.looks_left();
    found.unwrap_or_else(|GivenUp| {
        step.events.push(Event::CycleSearchGivenUp { acquisition: id });
        None
    })
}
