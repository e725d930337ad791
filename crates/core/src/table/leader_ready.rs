use super::{Lease, LockTable, Step};
use crate::command::LeaderReady;
use crate::event::Event;
use crate::reply::Reply;

impl LockTable {
    /// Puts a leader's clock in force: from now on, what an earlier clock decided is past (SPEC 3).
    ///
    /// Repeated with the same term, node and process it changes nothing, so that a leader may retry it. One that was
    /// proposed in an older term and arrives late changes nothing either.
    pub(super) fn leader_ready(&mut self, step: &mut Step, ready: &LeaderReady) -> Reply {
        if let Some(lease) = self.header.lease {
            let same = (lease.term, lease.node, lease.nonce) == (ready.term, ready.node, ready.nonce);
            if same || ready.term < lease.term {
                return Reply::Done;
            }
        }
        let lease = Lease { epoch: step.at.index, term: ready.term, node: ready.node, nonce: ready.nonce };
        self.header.lease = Some(lease);
        step.events.push(Event::LeaderReady {
            node: ready.node,
            term: ready.term,
            nonce: ready.nonce,
            epoch: lease.epoch,
        });
        Reply::Done
    }
}
