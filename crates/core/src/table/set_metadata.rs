use super::under_token::{UnderToken, risen};
use super::{LockTable, Step};
use crate::command::SetMetadata;
use crate::event::Event;
use crate::reply::{Refusal, Reply};
use crate::session::AcquisitionState;

impl LockTable {
    /// Replaces what others can read of a holder, under any token that it holds (SPEC 4).
    pub(super) fn set_metadata(&mut self, step: &mut Step, set: &SetMetadata) -> Reply {
        let id = set.acquisition;
        if let Err(refusal) = self.holds_under(&UnderToken { acquisition: id, token: set.token, slot: None })
        {
            return Reply::Refused(refusal);
        }
        let Some(acquisition) = self.acquisition_mut(id) else {
            return Reply::Refused(Refusal::NotHeld { superseded: None });
        };
        let Some(revision) = risen(acquisition.metadata_revision, set.revision) else {
            return Reply::Written { revision: acquisition.metadata_revision };
        };
        acquisition.metadata_revision = revision;
        acquisition.terms.metadata = set.metadata.clone();
        let held = match &acquisition.state {
            AcquisitionState::Waiting | AcquisitionState::Kept { .. } => &[],
            AcquisitionState::Holding { held, .. } => held.as_slice(),
        };
        let mut locks: Vec<_> = held.iter().map(|part| part.lock.clone()).collect();
        // Several permits of one lock are neighbours.
        locks.dedup();
        step.events.push(Event::MetadataSet { acquisition: id, locks, metadata: set.metadata.clone() });
        Reply::Written { revision }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::ids::SessionId;
    use crate::payload::Payload;
    use crate::reply::Ended;
    use crate::table::story::{Story, ask, id, lock, payload, refusal};
    use crate::token::Token;

    fn set(story: &mut Story, session: SessionId, token: Token, revision: u64, text: &str) -> Reply {
        let metadata = payload(text);
        story.apply(Command::SetMetadata(SetMetadata {
            acquisition: id(session, 1),
            token,
            revision,
            metadata,
        }))
    }

    fn metadata(story: &Story, session: SessionId) -> Payload {
        let acquisitions = &story.table.session(session).expect("it lives").acquisitions;
        acquisitions.get(id(session, 1).number).expect("it waits or holds").terms.metadata.clone()
    }

    #[test]
    fn others_read_what_the_holder_put_last() {
        let mut story = Story::begin();
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        assert_eq!(set(&mut story, a, held, 0, "10.0.0.7:80"), Reply::Written { revision: 1 });
        assert_eq!(
            story.events,
            [Event::MetadataSet {
                acquisition: id(a, 1),
                locks: vec![lock("l")],
                metadata: payload("10.0.0.7:80")
            }]
        );
        assert_eq!(story.renewed, Some(a));
        assert_eq!(set(&mut story, a, held, 5, "10.0.0.8:80"), Reply::Written { revision: 5 });
        assert_eq!(metadata(&story, a), payload("10.0.0.8:80"));
        assert_eq!(set(&mut story, a, held, 0, ""), Reply::Written { revision: 6 });
        assert!(metadata(&story, a).is_empty());
    }

    #[test]
    fn a_copy_that_comes_late_or_twice_changes_nothing() {
        let mut story = Story::begin();
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        set(&mut story, a, held, 2, "second");
        for (revision, text) in [(2, "second"), (1, "first"), (2, "other")] {
            assert_eq!(set(&mut story, a, held, revision, text), Reply::Written { revision: 2 });
            assert!(story.events.is_empty());
        }
        assert_eq!(metadata(&story, a), payload("second"));
    }

    #[test]
    fn replaced_metadata_is_no_other_content_of_the_acquire() {
        let mut story = Story::begin();
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        set(&mut story, a, held, 0, "here");
        assert!(matches!(story.acquire(ask(a, 1, "l")), Reply::Granted(_)));
    }

    #[test]
    fn b85_it_needs_the_token_of_one_who_holds() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        let other = Token::new(held.get() - 1).unwrap();
        for (session, token) in [(b, held), (a, other)] {
            let stale = Refusal::NotHeld { superseded: None };
            assert_eq!(refusal(set(&mut story, session, token, 0, "x")), stale);
        }
        assert_eq!(refusal(set(&mut story, SessionId(77), held, 0, "x")), Refusal::SessionUnknown);
        assert!(metadata(&story, a).is_empty() && metadata(&story, b).is_empty());
    }

    #[test]
    fn of_what_is_over_it_is_told_as_a_late_release_is() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        story.waits(b, 1, "l");
        story.release(a, 1, "l", held);
        let late = refusal(set(&mut story, a, held, 0, "x"));
        let Refusal::AlreadyEnded { ended: Ended::Released, superseded: Some(now) } = late else {
            panic!("{late:?}")
        };
        assert_eq!(now.acquisition, id(b, 1));
        let never = Token::new(1).unwrap();
        assert_eq!(refusal(set(&mut story, a, never, 0, "x")), Refusal::NotHeld { superseded: None });
        story.acquire(ask(a, 9, "m").marked(5));
        let late = refusal(set(&mut story, a, held, 0, "x"));
        assert_eq!(late, Refusal::AlreadyEnded { ended: Ended::Forgotten, superseded: None });
        story.expire(&[a]);
        let late = refusal(set(&mut story, a, held, 0, "x"));
        assert_eq!(late, Refusal::SessionEnded { ended: Ended::Expired, superseded: None });
        assert_eq!(story.renewed, None);
    }
}
