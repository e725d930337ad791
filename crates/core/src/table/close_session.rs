use super::{LockTable, Step};
use crate::ids::SessionId;
use crate::reply::{Ended, Refusal, Reply};

impl LockTable {
    /// Ends a session and frees what it held at once. Repeated, it says so again.
    pub(super) fn close_session(&mut self, step: &mut Step, session: SessionId) -> Reply {
        if self.sessions.get(&session).is_some() {
            self.end_session(step, session, Ended::Closed);
            return Reply::SessionClosed;
        }
        match self.no_session(session) {
            Refusal::SessionEnded { ended: Ended::Closed, .. } => Reply::SessionClosed,
            refusal => Reply::Refused(refusal),
        }
    }
}
