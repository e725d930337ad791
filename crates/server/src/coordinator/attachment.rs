//! A client stream as the leader sees it: which sessions it may speak for, and which requests it has open.
//!
//! One for each stream of this node's own clients, one for each stream that a follower relays, one for each single
//! call. It lives for one stint of leadership: after a change of leader the stream gets a new one, and what still
//! arrives for the old one goes nowhere (its client asks again).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_core::ids::{AcquisitionId, Principal, SessionId};
use palisade_host::Moment;
use palisade_proto::v1;
use parking_lot::Mutex;

use crate::stream::Deliver;

/// Keepalives of one stream that may be undecided; a client has one under way, and repeats it now and then.
const RENEWING_MAX: u32 = 64;

/// A client stream at the leader.
pub(crate) struct Attachment {
    to: Arc<dyn Deliver>,
    /// Whose.
    pub(crate) principal: Principal,
    /// A single call: its binding takes no events but those of its own acquisitions.
    pub(crate) single: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closed: bool,
    bound: BTreeSet<SessionId>,
    calls: BTreeSet<AcquisitionId>,
    /// Unanswered requests, by tag.
    open: BTreeMap<u64, Open>,
    /// Keepalives whose round is not decided.
    renewing: u32,
    /// Waits whose grant is to carry sequencers.
    want_sequencer: BTreeSet<AcquisitionId>,
}

struct Open {
    session: SessionId,
    since: Moment,
}

impl Attachment {
    pub(crate) fn new(to: Arc<dyn Deliver>, principal: Principal, single: bool) -> Arc<Self> {
        Arc::new(Self { to, principal, single, state: Mutex::default() })
    }

    /// Whether the stream may speak for a session.
    pub(crate) fn may_speak_for(&self, session: SessionId) -> bool {
        self.state.lock().bound.contains(&session)
    }

    /// The stream proved the session's secret, or opened it.
    pub(crate) fn bind(&self, session: SessionId) {
        self.state.lock().bound.insert(session);
    }

    /// A single call waits for this acquisition.
    pub(crate) fn waits_for(&self, acquisition: AcquisitionId) {
        self.state.lock().calls.insert(acquisition);
    }

    /// The grant is to carry sequencers.
    pub(crate) fn wants_sequencer(&self, acquisition: AcquisitionId) {
        self.state.lock().want_sequencer.insert(acquisition);
    }

    /// Whether it is; asked once.
    pub(crate) fn take_wants_sequencer(&self, acquisition: AcquisitionId) -> bool {
        let mut state = self.state.lock();
        !state.want_sequencer.is_empty() && state.want_sequencer.remove(&acquisition)
    }

    /// A keepalive came in; false when too many are undecided already.
    pub(crate) fn begin_renew(&self) -> bool {
        let mut state = self.state.lock();
        let room = state.renewing < RENEWING_MAX;
        state.renewing += u32::from(room);
        room
    }

    /// Its round is decided.
    pub(crate) fn end_renew(&self) {
        let mut state = self.state.lock();
        state.renewing = state.renewing.saturating_sub(1);
    }

    /// A request came in; false when its tag is open already.
    pub(crate) fn open(&self, tag: u64, session: SessionId, since: Moment) -> bool {
        self.state.lock().open.insert(tag, Open { session, since }).is_none()
    }

    /// Answers an open request; one that was answered already (as unknown, say) is not answered twice.
    pub(crate) fn answer(&self, response: v1::Response) {
        {
            let mut state = self.state.lock();
            if state.closed || state.open.remove(&response.tag).is_none() {
                return;
            }
        }
        self.to.item(v1::Item { item: Some(v1::item::Item::Response(response)) });
    }

    /// Answers every open request older than `before` with `error`.
    pub(crate) fn answer_all_before(&self, before: Moment, error: &v1::Error) {
        let overdue: Vec<(u64, SessionId)> = {
            let state = self.state.lock();
            let old = state.open.iter().filter(|(_, open)| open.since < before);
            old.map(|(tag, open)| (*tag, open.session)).collect()
        };
        for (tag, session) in overdue {
            let result = Some(v1::response::Result::Error(error.clone()));
            self.answer(v1::Response { tag, session: session.0, index: 0, renewed: false, result });
        }
    }

    /// Something that happened to a session.
    pub(crate) fn event(&self, event: v1::Event) {
        if !self.state.lock().closed {
            self.to.item(v1::Item { item: Some(v1::item::Item::Event(event)) });
        }
    }

    /// Something that may be dropped.
    pub(crate) fn hint(&self, event: v1::Event) {
        if !self.state.lock().closed {
            self.to.hint(v1::Item { item: Some(v1::item::Item::Event(event)) });
        }
    }

    /// The answer to a keepalive.
    pub(crate) fn renewed(&self, renewed: v1::Renewed) {
        if !self.state.lock().closed {
            self.to.renewed(renewed);
        }
    }

    /// From now on nothing goes out. What it was bound to.
    pub(crate) fn take_bindings(&self) -> (BTreeSet<SessionId>, BTreeSet<AcquisitionId>) {
        let mut state = self.state.lock();
        state.closed = true;
        state.open.clear();
        (std::mem::take(&mut state.bound), std::mem::take(&mut state.calls))
    }
}
