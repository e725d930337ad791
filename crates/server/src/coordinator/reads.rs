//! Linearizable reads, and sequencers for what a session holds.

use std::sync::Arc;

use palisade_core::ids::{AcquisitionId, LockName, LogIndex, SessionId, Slot};
use palisade_core::sequencer::Sequencer;
use palisade_core::session::Session;
use palisade_core::table::LockTable;
use palisade_proto::convert;
use palisade_proto::v1::{self, response};

use super::{Attachment, Coordinator};
use crate::error;
use crate::signer;

/// Locks and sessions that are gone through while grants wait: a millisecond or so.
const READ_AT_ONCE_MAX: usize = 10_000;

impl Coordinator {
    /// Answers with what `read` finds, once a round that begins now has proved that this node still leads.
    pub(super) fn read_proved(
        self: &Arc<Self>,
        to: &Arc<Attachment>,
        tag: u64,
        read: impl FnOnce(&Self, &LockTable) -> response::Result + Send + 'static,
    ) {
        let coordinator = self.clone();
        let to = to.clone();
        self.rounds.clone().join(Box::new(move |proof| {
            let (index, result) = match (proof, coordinator.replica()) {
                (Err(why), _) => (LogIndex(0), response::Result::Error(error::unproved(why))),
                (Ok(_), None) => (LogIndex(0), response::Result::Error(error::not_leader())),
                (Ok(index), Some(replica)) => (index, replica.read(|table| read(&coordinator, table))),
            };
            to.answer(v1::Response { tag, session: 0, index: index.0, renewed: false, result: Some(result) });
        }));
    }

    /// The same for a read that goes over the whole table: a large one is read beside the reactor, from a view that costs
    /// little to take, so that grants and keepalives do not wait for it.
    fn read_all_proved(
        self: &Arc<Self>,
        to: &Arc<Attachment>,
        tag: u64,
        read: impl FnOnce(&Self, &LockTable) -> response::Result + Send + 'static,
    ) {
        let coordinator = self.clone();
        let to = to.clone();
        self.rounds.clone().join(Box::new(move |proof| {
            let answer = move |index: LogIndex, result| {
                let result = Some(result);
                to.answer(v1::Response { tag, session: 0, index: index.0, renewed: false, result });
            };
            let (index, replica) = match (proof, coordinator.replica()) {
                (Err(why), _) => return answer(LogIndex(0), response::Result::Error(error::unproved(why))),
                (Ok(_), None) => return answer(LogIndex(0), response::Result::Error(error::not_leader())),
                (Ok(index), Some(replica)) => (index, replica),
            };
            if replica.read(|table| table.lock_count() + table.session_count()) <= READ_AT_ONCE_MAX {
                let result = replica.read(|table| read(&coordinator, table));
                return answer(index, result);
            }
            let view = replica.view();
            tokio::task::spawn_blocking(move || answer(index, read(&coordinator, &view)));
        }));
    }

    /// Who holds a lock, who waits, what came before.
    pub(super) fn get_lock(self: &Arc<Self>, to: &Arc<Attachment>, tag: u64, get: &v1::GetLock) {
        match convert::cluster::get_lock(get) {
            Ok(name) => self.read_proved(to, tag, move |coordinator, table| {
                response::Result::Lock(coordinator.lock_view(table, &name))
            }),
            Err(bad) => to.answer(error::response(tag, 0, bad.into())),
        }
    }

    /// Locks by prefix, in byte order.
    pub(super) fn list_locks(self: &Arc<Self>, to: &Arc<Attachment>, tag: u64, list: &v1::ListLocks) {
        let listing = match convert::cluster::list_locks(list) {
            Ok(listing) => listing,
            Err(bad) => return to.answer(error::response(tag, 0, bad.into())),
        };
        self.read_all_proved(to, tag, move |coordinator, table| {
            let limit = listing.limit as usize;
            let names = table.locks().map(|(name, _)| name);
            let within = |name: &&LockName| {
                name.as_str().starts_with(&listing.prefix) && name.as_str() > listing.after.as_str()
            };
            let mut names: Vec<&LockName> = names.filter(within).collect();
            names.sort_unstable();
            let more = names.len() > limit;
            let locks =
                names.into_iter().take(limit).map(|name| coordinator.lock_view(table, name)).collect();
            let index = table.header().token_base.at(table.header().applied);
            response::Result::Locks(v1::LockList { locks, more, index })
        });
    }

    /// Live sessions, in the order of their numbers.
    pub(super) fn list_sessions(self: &Arc<Self>, to: &Arc<Attachment>, tag: u64, list: &v1::ListSessions) {
        let listing = match convert::cluster::list_sessions(list) {
            Ok(listing) => listing,
            Err(bad) => return to.answer(error::response(tag, 0, bad.into())),
        };
        self.read_all_proved(to, tag, move |coordinator, table| {
            let limit = listing.limit as usize;
            let within = |(id, session): &(SessionId, &Session)| {
                *id > listing.after && session.client.as_str().starts_with(&listing.client)
            };
            let mut sessions: Vec<_> = table.sessions().filter(within).collect();
            sessions.sort_unstable_by_key(|(id, _)| *id);
            let more = sessions.len() > limit;
            let sessions = sessions.into_iter().take(limit);
            let sessions = sessions.map(|(id, session)| coordinator.session_view(id, session)).collect();
            let index = table.header().token_base.at(table.header().applied);
            response::Result::Sessions(v1::SessionList { sessions, more, index })
        });
    }

    fn session_view(&self, id: SessionId, session: &Session) -> v1::SessionView {
        let mut view = convert::cluster::session_view(id, session);
        let now = self.host.clock.now();
        let deadline = self.clock.lock().deadline(id);
        view.lease_left_ms = deadline.map_or(0, |at| millis(at.since(now)));
        view.signals = self.signals.of(id, now);
        view
    }

    fn lock_view(&self, table: &LockTable, name: &LockName) -> v1::LockView {
        let header = table.header();
        let mut view = convert::cluster::lock_view(&table.view(name), header.token_base, header.applied);
        let now = self.host.clock.now();
        view.rejections = self.rejections.of(name, now);
        let clock = self.clock.lock();
        for slot in &mut view.slots {
            match &mut slot.state {
                Some(v1::slot_view::State::Held(tenure)) => {
                    let session = tenure.holders.first().and_then(|holder| holder.acquisition.as_ref());
                    let deadline = session.and_then(|id| clock.deadline(SessionId(id.session)));
                    tenure.lease_left_ms = deadline.map_or(0, |at| millis(at.since(now)));
                    for holder in &mut tenure.holders {
                        let session = holder.acquisition.as_ref().map_or(0, |id| id.session);
                        holder.signals = self.signals.of(SessionId(session), now);
                    }
                }
                Some(v1::slot_view::State::Delayed(delay)) => {
                    let left = clock.delay_left(name, Slot(slot.slot), now);
                    delay.left_ms = left.map_or(0, millis);
                }
                Some(v1::slot_view::State::Free(_)) | None => {}
            }
        }
        view
    }

    /// A signed statement of what the session's acquisition holds. Needs no round: a grant that was is proved for
    /// ever, and resources refuse it once a newer one wrote.
    pub(super) fn get_sequencer(
        &self,
        to: &Attachment,
        tag: u64,
        session: SessionId,
        get: &v1::GetSequencer,
    ) {
        let wanted = match convert::sequencer::get_sequencer(session, get) {
            Ok(wanted) => wanted,
            Err(bad) => return to.answer(error::response(tag, session.0, bad.into())),
        };
        let named = |sequencer: &Sequencer| match &wanted.part {
            None => true,
            Some((lock, slot)) => sequencer.lock == *lock && sequencer.slot == *slot,
        };
        let Some(replica) = self.replica() else { return };
        let (may_sign, held) = replica.read(|table| {
            (
                self.signer.may_sign(table),
                signer::sequencers(table, wanted.acquisition).into_iter().find(named),
            )
        });
        let result = match held {
            Some(_) if !may_sign => response::Result::Error(error::key_not_in_force()),
            Some(statement) => {
                let sequencer = self.signer.sign(&statement);
                response::Result::Sequencer(v1::SequencerAnswer { sequencer })
            }
            None => response::Result::Error(error::not_held("the acquisition does not hold this slot")),
        };
        to.answer(v1::Response { tag, session: session.0, index: 0, renewed: false, result: Some(result) });
    }

    /// One signed sequencer a part of what an acquisition holds; none while this node's key may not sign, and the
    /// holder then asks for them by themselves.
    pub(crate) fn sequencers(&self, table: &LockTable, acquisition: AcquisitionId) -> Vec<String> {
        if !self.signer.may_sign(table) {
            return Vec::new();
        }
        let held = signer::sequencers(table, acquisition);
        held.iter().map(|sequencer| self.signer.sign(sequencer)).collect()
    }
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
