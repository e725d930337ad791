//! What an entry did to locks, in the form in which it is kept for watchers.

use palisade_core::event::Event;
use palisade_core::ids::{AcquisitionId, ClientName, LogIndex, SessionId};
use palisade_core::payload::Payload;
use palisade_core::table::LockTable;
use palisade_proto::convert::watch::{LockEvent, What};

/// The events of an entry that watchers hear, in order. What concerns several locks is told of each.
pub(super) fn told(events: &[Event], table: &LockTable) -> Vec<LockEvent> {
    // Most entries do one thing to one lock.
    let mut told = Vec::with_capacity(events.len());
    for event in events {
        match event {
            Event::Queued { acquisition, locks, .. } => {
                let of = |lock| LockEvent { lock, what: What::Queued(who(table, *acquisition)) };
                told.extend(locks.iter().cloned().map(of));
            }
            Event::Granted { grant, .. } => told.extend(grant.parts.iter().map(|part| LockEvent {
                lock: part.lock.clone(),
                what: What::Granted {
                    who: who(table, grant.acquisition),
                    slot: part.slot,
                    token: part.token,
                    mode: part.mode,
                    metadata: metadata(table, grant.acquisition),
                },
            })),
            Event::MetadataSet { acquisition, locks, metadata } => {
                let what = What::Metadata { who: who(table, *acquisition), metadata: metadata.clone() };
                told.extend(locks.iter().cloned().map(|lock| LockEvent { lock, what: what.clone() }));
            }
            Event::Broken { lock, slot, token, by } => told.push(LockEvent {
                lock: lock.clone(),
                what: What::Broken { slot: *slot, token: *token, by: by.clone() },
            }),
            Event::CapacitySet { lock, capacity } => {
                told.push(LockEvent { lock: lock.clone(), what: What::Capacity(*capacity) });
            }
            Event::FloorConfirmed { lock, slot, guard } => told.push(LockEvent {
                lock: lock.clone(),
                what: What::Confirmed { slot: *slot, guard: guard.clone() },
            }),
            Event::HoldEnded { acquisition, lock, slot, token, ended } => told.push(LockEvent {
                lock: lock.clone(),
                what: What::HoldEnded {
                    who: who(table, *acquisition),
                    slot: *slot,
                    token: *token,
                    ended: *ended,
                },
            }),
            Event::WaitEnded { acquisition, locks, ended, .. } => {
                let what = What::WaitEnded { who: who(table, *acquisition), ended: *ended };
                told.extend(locks.iter().cloned().map(|lock| LockEvent { lock, what: what.clone() }));
            }
            Event::DelayStarted { lock, slot, delay, .. } => told.push(LockEvent {
                lock: lock.clone(),
                what: What::DelayStarted { slot: *slot, delay: *delay },
            }),
            Event::DelayEnded { lock, slot, began } => told.push(LockEvent {
                lock: lock.clone(),
                what: What::DelayEnded { slot: *slot, began: at(table, *began) },
            }),
            Event::Founded
            | Event::LeaderReady { .. }
            | Event::SessionOpened { .. }
            | Event::SessionEnded { .. }
            | Event::Contended { .. }
            | Event::Refused { .. }
            | Event::KeyPublished { .. }
            | Event::ProgressReported { .. }
            | Event::SessionKept { .. }
            | Event::Ticked
            | Event::SessionTakenOver { .. }
            | Event::CycleSearchGivenUp { .. }
            | Event::VersionSet { .. } => {}
        }
    }
    told
}

fn metadata(table: &LockTable, id: AcquisitionId) -> Payload {
    let acquisition = table.session(id.session).and_then(|session| session.acquisitions.get_whole(id.number));
    acquisition.map(|acquisition| acquisition.terms.metadata.clone()).unwrap_or_default()
}

fn at(table: &LockTable, index: LogIndex) -> u64 {
    table.header().token_base.at(index)
}

/// An acquisition and the name of its client, which the table still knows right after the entry that ended it.
fn who(table: &LockTable, acquisition: AcquisitionId) -> (AcquisitionId, ClientName) {
    (acquisition, client(table, acquisition.session))
}

fn client(table: &LockTable, session: SessionId) -> ClientName {
    let live = table.session(session).map(|session| &session.client);
    let ended = || table.ended_session(session).map(|session| &session.client);
    live.or_else(ended).cloned().unwrap_or_else(ClientName::unnamed)
}
