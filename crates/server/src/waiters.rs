//! Who waits on this node, which leads, for which event: the seam between the apply loop and the streams.
//!
//! A session's events go to the stream that bound it last. A single call takes the events of its own acquisition
//! only, and comes first.

use std::collections::HashMap;
use std::sync::Arc;

use palisade_core::ids::{AcquisitionId, SessionId};
use parking_lot::Mutex;

use crate::coordinator::Attachment;

/// Streams and calls by what they wait for.
#[derive(Default)]
pub(crate) struct Waiters {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    sessions: HashMap<SessionId, Arc<Attachment>>,
    calls: HashMap<AcquisitionId, Arc<Attachment>>,
}

impl Waiters {
    /// The session's events come here from now on.
    pub(crate) fn bind(&self, session: SessionId, to: &Arc<Attachment>) {
        self.inner.lock().sessions.insert(session, to.clone());
    }

    /// A single call waits for its acquisition.
    pub(crate) fn wait(&self, acquisition: AcquisitionId, call: &Arc<Attachment>) {
        self.inner.lock().calls.insert(acquisition, call.clone());
    }

    /// Who hears of an acquisition.
    pub(crate) fn of_acquisition(&self, acquisition: AcquisitionId) -> Option<Arc<Attachment>> {
        let inner = self.inner.lock();
        inner.calls.get(&acquisition).or_else(|| inner.sessions.get(&acquisition.session)).cloned()
    }

    /// The acquisition's wait is over; who hears of it.
    pub(crate) fn take_acquisition(&self, acquisition: AcquisitionId) -> Option<Arc<Attachment>> {
        let mut inner = self.inner.lock();
        let call = inner.calls.remove(&acquisition);
        call.or_else(|| inner.sessions.get(&acquisition.session).cloned())
    }

    /// The session ended; who hears of it.
    pub(crate) fn take_session(&self, session: SessionId) -> Option<Arc<Attachment>> {
        self.inner.lock().sessions.remove(&session)
    }

    /// The stream is gone, or this node no longer serves it.
    pub(crate) fn detach(&self, gone: &Arc<Attachment>) {
        let (sessions, calls) = gone.take_bindings();
        let mut inner = self.inner.lock();
        for session in sessions {
            if inner.sessions.get(&session).is_some_and(|at| Arc::ptr_eq(at, gone)) {
                inner.sessions.remove(&session);
            }
        }
        for call in calls {
            inner.calls.remove(&call);
        }
    }

    /// This node no longer leads.
    pub(crate) fn clear(&self) {
        let mut inner = self.inner.lock();
        inner.sessions.clear();
        inner.calls.clear();
    }
}
