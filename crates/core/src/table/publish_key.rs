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
