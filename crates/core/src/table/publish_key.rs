use super::{KeyState, LockTable, SigningKey, Step};
use crate::command::PublishKey;
use crate::event::Event;
use crate::reply::{BadArgument, LimitName, Refusal, Reply};

impl LockTable {
    /// Makes a node's public key known. The first key of an initial member signs at once; any other settles first
    /// (SPEC 7).
    pub(super) fn publish_key(&mut self, step: &mut Step, publish: &PublishKey) -> Reply {
        if let Some(known) = self.keys.get(&publish.key) {
            let same = known.node == publish.node && known.public == publish.public;
            return if same { Reply::Done } else { Reply::Refused(Refusal::BadArgument(BadArgument::Key)) };
        }
        let max = self.header.limits.keys_max;
        if self.keys.len() >= max as usize {
            return Reply::Refused(Refusal::LimitReached { limit: LimitName::Keys, max: max.into() });
        }
        let initial = self.header.founding.iter().flat_map(|founding| &founding.members);
        let is_member = initial.into_iter().any(|member| member.node == publish.node);
        let is_first = self.keys.values().all(|key| key.node != publish.node);
        let state = if is_member && is_first { KeyState::Signing } else { KeyState::Published };
        let key = SigningKey { node: publish.node, public: publish.public, state, published: step.at.index };
        self.keys.insert(publish.key.clone(), key);
        step.events.push(Event::KeyPublished { node: publish.node });
        Reply::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::ids::{KeyId, NodeId};
    use crate::table::story::{Story, refusal};

    fn key(node: u64, id: &str, byte: u8) -> Command {
        Command::PublishKey(PublishKey {
            node: NodeId(node),
            key: KeyId::new(id).unwrap(),
            public: [byte; 32],
        })
    }

    fn state(story: &Story, id: &str) -> KeyState {
        story.table.keys()[&KeyId::new(id).unwrap()].state
    }

    #[test]
    fn the_first_key_of_an_initial_member_signs_at_once_and_any_other_settles() {
        let mut story = Story::begin();
        for command in [key(1, "a", 1), key(1, "b", 2), key(2, "c", 3)] {
            assert_eq!(story.apply(command), Reply::Done);
        }
        assert_eq!(state(&story, "a"), KeyState::Signing);
        assert_eq!(state(&story, "b"), KeyState::Published);
        assert_eq!(state(&story, "c"), KeyState::Published, "its node is no initial member");
    }

    #[test]
    fn a_key_id_means_one_key() {
        let mut story = Story::begin();
        story.apply(key(1, "a", 1));
        assert_eq!(story.apply(key(1, "a", 1)), Reply::Done);
        assert!(story.events.is_empty());
        for other in [key(1, "a", 2), key(2, "a", 1)] {
            assert_eq!(refusal(story.apply(other)), Refusal::BadArgument(BadArgument::Key));
        }
    }

    #[test]
    fn at_the_limit_one_more_is_refused() {
        let mut story = Story::with_limits(|limits| limits.keys_max = 1);
        story.apply(key(1, "a", 1));
        let full = Refusal::LimitReached { limit: LimitName::Keys, max: 1 };
        assert_eq!(refusal(story.apply(key(1, "b", 2))), full);
        assert_eq!(story.apply(key(1, "a", 1)), Reply::Done);
    }
}
