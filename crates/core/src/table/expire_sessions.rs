use super::{LockTable, Step};
use crate::command::ExpireSessions;
use crate::reply::{Ended, Reply};

impl LockTable {
    /// Ends sessions and everything they held or awaited, in one entry.
    ///
    /// Ignored under an earlier clock; and for a session that has sent a command since the leader decided. All end
    /// before anything is granted, so that nothing is granted to a session that this very entry ends, and no slot is
    /// granted twice under one token (SPEC 2).
    pub(super) fn expire_sessions(&mut self, step: &mut Step, expire: &ExpireSessions) -> Reply {
        if !self.in_epoch(expire.epoch) {
            return Reply::Done;
        }
        for (id, last_command) in &expire.sessions {
            let due = self.sessions.get(id).is_some_and(|session| session.last_command == *last_command);
            if due {
                self.end_session(step, *id, Ended::Expired);
            }
        }
        Reply::Done
    }
}
