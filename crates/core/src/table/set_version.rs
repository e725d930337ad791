use super::{LockTable, Step};
use crate::command::{ClusterVersion, SetVersion};
use crate::event::Event;
use crate::reply::{Refusal, Reply};

impl LockTable {
    /// Puts a later behaviour of apply in force, for every entry from here on (SPEC 11). The way back does not exist:
    /// an earlier version could not read what a later one did.
    pub(super) fn set_version(&mut self, step: &mut Step, set: &SetVersion) -> Reply {
        let present = self.header.version;
        if set.version < present || set.version > ClusterVersion::CURRENT {
            return Reply::Refused(Refusal::Version {
                present: present.0,
                newest: ClusterVersion::CURRENT.0,
            });
        }
        if set.version > present {
            self.header.version = set.version;
            step.events.push(Event::VersionSet { version: set.version });
        }
        Reply::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, KeepSessions};
    use crate::reply::NotYet;
    use crate::table::story::{Story, refusal};

    fn set(story: &mut Story, version: u32) -> Reply {
        story.apply(Command::SetVersion(SetVersion { version: ClusterVersion(version) }))
    }

    #[test]
    fn a_cluster_of_version_1_learns_the_commands_of_version_2() {
        let mut story = Story::begin();
        story.with_version(ClusterVersion(1));
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        let keep = Command::KeepSessions(KeepSessions { sessions: vec![a] });
        assert_eq!(refusal(story.apply(keep.clone())), Refusal::NotYet(NotYet::ThisCommand));
        assert_eq!(set(&mut story, 2), Reply::Done);
        assert_eq!(story.events, [Event::VersionSet { version: ClusterVersion(2) }]);
        assert_eq!(story.apply(keep), Reply::Kept { ended: vec![] });
        story.release(a, 1, "l", held);
        assert_eq!(story.table.history().others().count(), 1, "from here on it has a history");
        assert_eq!(set(&mut story, 2), Reply::Done);
        assert!(story.events.is_empty());
    }

    #[test]
    fn an_earlier_one_and_one_that_is_not_known_are_refused() {
        let mut story = Story::begin();
        for version in [0, 1, 3, u32::MAX] {
            let refused = Refusal::Version { present: 2, newest: 2 };
            assert_eq!(refusal(set(&mut story, version)), refused);
        }
        assert_eq!(story.table.header().version, ClusterVersion(2));
        story.with_version(ClusterVersion(1));
        assert_eq!(refusal(set(&mut story, 3)), Refusal::Version { present: 1, newest: 2 });
        assert_eq!(set(&mut story, 1), Reply::Done);
    }
}
