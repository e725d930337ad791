use super::{Founding, LockTable, Step};
use crate::command::Found;
use crate::event::Event;
use crate::reply::Reply;

impl LockTable {
    /// Founds the cluster; a second founding changes nothing.
    pub(super) fn found(&mut self, step: &mut Step, found: &Found) -> Reply {
        if self.header.founding.is_some() {
            return Reply::Done;
        }
        self.header.founding = Some(Founding {
            cluster: found.cluster,
            name: found.name.clone(),
            incarnation: found.incarnation,
            members: found.members.clone(),
        });
        self.header.limits = found.limits.clone();
        self.header.token_base = found.token_base;
        self.header.version = found.version;
        step.events.push(Event::Founded);
        Reply::Done
    }
}
