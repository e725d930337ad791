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
        self.ticks.last = None;
        step.events.push(Event::LeaderReady {
            node: ready.node,
            term: ready.term,
            nonce: ready.nonce,
            epoch: lease.epoch,
        });
        Reply::Done
    }
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, LeaderReady};
    use crate::ids::{LogIndex, NodeId, Term};
    use crate::table::story::Story;

    fn ready(story: &mut Story, term: u64, node: u64, nonce: u64) -> LogIndex {
        story.apply(Command::LeaderReady(LeaderReady { term: Term(term), node: NodeId(node), nonce }));
        story.epoch()
    }

    #[test]
    fn the_epoch_is_the_entry_of_the_leader_that_came_last() {
        let mut story = Story::begin();
        let first = ready(&mut story, 2, 1, 7);
        assert_eq!(first, LogIndex(story.index));
        let second = ready(&mut story, 3, 2, 8);
        assert_eq!(second, LogIndex(story.index));
    }

    #[test]
    fn repeated_it_changes_nothing() {
        let mut story = Story::begin();
        let epoch = ready(&mut story, 2, 1, 7);
        assert_eq!(ready(&mut story, 2, 1, 7), epoch);
        assert!(story.events.is_empty());
    }

    #[test]
    fn one_of_an_older_term_that_arrives_late_changes_nothing() {
        let mut story = Story::begin();
        let epoch = ready(&mut story, 5, 1, 7);
        assert_eq!(ready(&mut story, 4, 2, 8), epoch);
    }

    #[test]
    fn a_leader_that_restarted_within_its_term_starts_a_new_clock() {
        let mut story = Story::begin();
        let epoch = ready(&mut story, 5, 1, 7);
        assert!(ready(&mut story, 5, 1, 9) > epoch);
    }
}
