//! What the apply loop tells this node: each entry's events, in log order, before the entry's own answer.

use std::sync::Arc;

use palisade_core::command::Command;
use palisade_core::event::Event;
use palisade_core::ids::LogIndex;
use palisade_core::reply::{Applied, Ended, EntryAt};
use palisade_core::table::LockTable;
use palisade_proto::convert;
use palisade_proto::v1;
use palisade_raft::Observer;

use crate::coordinator::Coordinator;

/// Feeds waiters, watchers, the lease clock, metrics and the audit log.
pub(crate) struct ApplyObserver {
    pub(crate) coordinator: Arc<Coordinator>,
    /// Sees everything first.
    pub(crate) tap: Option<Box<dyn Observer>>,
}

impl Observer for ApplyObserver {
    fn applied(&mut self, at: EntryAt, command: &Command, applied: &Applied, table: &LockTable) {
        if let Some(tap) = &mut self.tap {
            tap.applied(at, command, applied, table);
        }
        let coordinator = &self.coordinator;
        if tracing::enabled!(target: "audit", tracing::Level::INFO) {
            for event in &applied.events {
                audit(at, event);
            }
        }
        coordinator.watches.applied(at, command, applied, table);
        if coordinator.serving().is_none() {
            return;
        }
        coordinator.metrics.applied(command, applied);
        let now = coordinator.host.clock.now();
        coordinator.clock.lock().applied(now, at, applied, table);
        let index = table.header().token_base.at(at.index);
        for event in &applied.events {
            if let Event::SessionEnded { session, ended } = event
                && coordinator.signals.forget(*session)
                && *ended == Ended::Expired
            {
                coordinator.metrics.expired_working();
            }
            tell(coordinator, event, index, table);
        }
    }

    fn installed(&mut self, table: &LockTable) {
        if let Some(tap) = &mut self.tap {
            tap.installed(table);
        }
        self.coordinator.watches.installed(table);
        // A node that receives snapshots follows, and a follower keeps no waiters and runs no clock. While it is built, it
        // reads its own.
        if self.coordinator.replica().is_some() {
            self.coordinator.metrics.snapshot_installed();
        }
        tracing::info!(index = table.header().applied.0, "the table was read from a snapshot");
    }
}

/// Passes an event on to whoever waits for it on this node.
fn tell(coordinator: &Coordinator, event: &Event, index: u64, table: &LockTable) {
    let waiters = &coordinator.waiters;
    match event {
        Event::Granted { grant, waited: true } => {
            let Some(to) = waiters.take_acquisition(grant.acquisition) else { return };
            let mut wire = convert::words::grant(grant);
            if to.take_wants_sequencer(grant.acquisition) {
                wire.sequencers = coordinator.sequencers(table, grant.acquisition);
            }
            let session = grant.acquisition.session.0;
            to.event(v1::Event { session, index, what: Some(v1::event::What::Granted(wire)) });
        }
        Event::WaitEnded { acquisition, .. } => {
            let Some(to) = waiters.take_acquisition(*acquisition) else { return };
            to.take_wants_sequencer(*acquisition);
            if let Some(wire) = convert::session::event(event, index) {
                to.event(wire);
            }
        }
        Event::SessionEnded { session, .. } => {
            let Some(to) = waiters.take_session(*session) else { return };
            if let Some(wire) = convert::session::event(event, index) {
                to.event(wire);
            }
        }
        Event::HoldEnded { acquisition, ended: Ended::Overdue | Ended::Broken, .. } => {
            let Some(to) = waiters.of_acquisition(*acquisition) else { return };
            if let Some(wire) = convert::session::event(event, index) {
                to.event(wire);
            }
        }
        Event::Contended { holder, .. } => {
            let Some(to) = waiters.of_acquisition(*holder) else { return };
            if let Some(wire) = convert::session::event(event, index) {
                to.hint(wire);
            }
        }
        Event::Founded
        | Event::LeaderReady { .. }
        | Event::SessionOpened { .. }
        | Event::Queued { .. }
        | Event::Granted { waited: false, .. }
        | Event::HoldEnded { .. }
        | Event::DelayStarted { .. }
        | Event::DelayEnded { .. }
        | Event::Refused { .. }
        | Event::KeyPublished { .. }
        | Event::MetadataSet { .. }
        | Event::ProgressReported { .. }
        | Event::SessionKept { .. }
        | Event::Ticked
        | Event::Broken { .. }
        | Event::SessionTakenOver { .. }
        | Event::CapacitySet { .. }
        | Event::FloorConfirmed { .. }
        | Event::CycleSearchGivenUp { .. }
        | Event::VersionSet { .. } => {}
    }
}

/// One line for each grant, end and rejection, so that two clean logs can be joined on the token.
fn audit(at: EntryAt, event: &Event) {
    let LogIndex(index) = at.index;
    match event {
        Event::Granted { grant, waited } => {
            for part in &grant.parts {
                tracing::info!(
                    target: "audit",
                    index,
                    token = part.token.get(),
                    lock = %part.lock,
                    slot = part.slot.0,
                    acquisition = %grant.acquisition,
                    waited,
                    "granted"
                );
            }
        }
        Event::HoldEnded { acquisition, lock, slot, token, ended } => {
            let how = ended.words();
            tracing::info!(target: "audit", index, token = token.get(), %lock, slot = slot.0, %acquisition, how, "ended");
        }
        Event::SessionEnded { session, ended } => {
            let how = ended.words();
            tracing::info!(target: "audit", index, session = session.0, how, "session ended");
        }
        Event::SessionOpened { session, client, .. } => {
            tracing::debug!(target: "audit", index, session = session.0, %client, "session opened");
        }
        Event::LeaderReady { node, term, .. } => {
            tracing::info!(target: "audit", index, node = node.0, term = term.0, "leader ready");
        }
        Event::Refused { session, refusal } => {
            tracing::debug!(target: "audit", index, session = session.0, ?refusal, "refused");
        }
        Event::Broken { lock, slot, token, by } => {
            tracing::info!(target: "audit", index, token = token.get(), %lock, slot = slot.0, %by, "broken");
        }
        Event::SessionTakenOver { session, by } => {
            tracing::info!(target: "audit", index, session = session.0, by = by.0, "session taken over");
        }
        Event::CapacitySet { lock, capacity } => {
            tracing::info!(target: "audit", index, %lock, capacity, "capacity set");
        }
        Event::FloorConfirmed { lock, slot, guard } => {
            tracing::info!(target: "audit", index, %lock, slot = slot.0, %guard, "floor confirmed");
        }
        Event::VersionSet { version } => {
            tracing::info!(target: "audit", index, version = version.0, "cluster version set");
        }
        Event::Founded
        | Event::Queued { .. }
        | Event::Contended { .. }
        | Event::WaitEnded { .. }
        | Event::DelayStarted { .. }
        | Event::DelayEnded { .. }
        | Event::KeyPublished { .. }
        | Event::MetadataSet { .. }
        | Event::ProgressReported { .. }
        | Event::SessionKept { .. }
        | Event::Ticked
        | Event::CycleSearchGivenUp { .. } => {}
    }
}
