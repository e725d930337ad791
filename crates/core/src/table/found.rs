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

#[cfg(test)]
mod tests {
    use crate::command::{ClusterVersion, Command, Found};
    use crate::ids::{ClusterId, ClusterName, Incarnation};
    use crate::limits::Limits;
    use crate::reply::Reply;
    use crate::table::story::Story;
    use crate::token::TokenBase;

    #[test]
    fn a_second_founding_changes_nothing() {
        let mut story = Story::begin();
        let before = story.table.header().clone();
        let second = Found {
            cluster: ClusterId([9; 16]),
            name: ClusterName::new("other").unwrap(),
            incarnation: Incarnation([9; 16]),
            limits: Limits { sessions_max: 1, ..Limits::default() },
            token_base: TokenBase::new(77).unwrap(),
            version: ClusterVersion(9),
            members: Vec::new(),
        };
        assert_eq!(story.apply(Command::Found(second)), Reply::Done);
        assert!(story.events.is_empty());
        let after = story.table.header();
        assert_eq!((&after.founding, &after.limits), (&before.founding, &before.limits));
        assert_eq!((after.token_base, after.version), (before.token_base, before.version));
    }
}
