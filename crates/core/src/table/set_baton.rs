use super::LockTable;
use super::memory::Baton;
use super::under_token::{UnderToken, risen};
use crate::command::SetBaton;
use crate::reply::{Refusal, Reply};
use crate::session::{AcquisitionState, HeldPart};

impl LockTable {
    /// Replaces what the next holder of a slot gets with the grant; an empty one takes it away (SPEC 4).
    pub(super) fn set_baton(&mut self, set: &SetBaton) -> Reply {
        let slot = Some((&set.lock, set.slot));
        let under = UnderToken { acquisition: set.acquisition, token: set.token, slot };
        if let Err(refusal) = self.holds_under(&under) {
            return Reply::Refused(refusal);
        }
        let Some(part) = self.held_part_mut(set) else {
            return Reply::Refused(Refusal::NotHeld { superseded: None });
        };
        let Some(revision) = risen(part.baton_revision, set.revision) else {
            return Reply::Written { revision: part.baton_revision };
        };
        part.baton_revision = revision;
        let baton = (!set.baton.is_empty()).then(|| Baton { token: set.token, left: set.baton.clone() });
        let bounds = self.memory_bounds();
        self.slot_memories.leave(&set.lock, set.slot, baton, bounds);
        Reply::Written { revision }
    }

    fn held_part_mut(&mut self, set: &SetBaton) -> Option<&mut HeldPart> {
        match &mut self.acquisition_mut(set.acquisition)?.state {
            AcquisitionState::Waiting | AcquisitionState::Kept { .. } => None,
            AcquisitionState::Holding { held, .. } => {
                held.iter_mut().find(|part| part.lock == set.lock && part.slot == set.slot)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::ids::{SessionId, Slot};
    use crate::payload::Payload;
    use crate::reply::{Ended, Inherited};
    use crate::table::story::{Story, ask, id, lock, payload, refusal};
    use crate::token::Token;

    fn leave(story: &mut Story, session: SessionId, name: &str, token: Token, text: &str) -> Reply {
        leave_as(story, session, name, token, 0, payload(text))
    }

    fn leave_as(
        story: &mut Story,
        session: SessionId,
        name: &str,
        token: Token,
        revision: u64,
        baton: Payload,
    ) -> Reply {
        let acquisition = id(session, 1);
        let set = SetBaton { acquisition, lock: lock(name), slot: Slot(0), token, revision, baton };
        story.apply(Command::SetBaton(set))
    }

    /// What a fresh holder is told of the one before.
    fn inherited(story: &mut Story, name: &str) -> Option<std::sync::Arc<Inherited>> {
        let next = story.open("next");
        let Reply::Granted(grant) = story.acquire(ask(next, 1, name)) else { panic!("it is free") };
        story.close(next);
        grant.parts[0].inherited.clone()
    }

    fn baton(story: &Story, name: &str) -> Option<Baton> {
        story.table.slot_memory(&lock(name), Slot(0)).and_then(|memory| memory.baton.clone())
    }

    #[test]
    fn the_next_holder_gets_it_with_the_grant_and_is_told_how_its_predecessor_ended() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let held = story.holds(a, 1, "l");
        assert_eq!(leave(&mut story, a, "l", held, "page 7"), Reply::Written { revision: 1 });
        story.waits(b, 1, "l");
        story.expire(&[a]);
        story.end_lock_delay(story.epoch(), "l", story.index);
        let grant = story.table.grant(id(b, 1)).expect("b holds");
        let inherited = grant.parts[0].inherited.as_deref().expect("inherited");
        assert_eq!((inherited.token, inherited.ended), (held, Ended::Expired));
        assert_eq!((&inherited.baton, inherited.baton_token), (&payload("page 7"), Some(held)));
        assert_eq!(inherited.client.as_str(), "a");
    }

    #[test]
    fn it_outlives_the_lock_and_a_holder_that_wrote_none() {
        let mut story = Story::begin();
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        leave(&mut story, a, "l", held, "page 7");
        story.release(a, 1, "l", held);
        assert_eq!(story.table.lock_count(), 0);
        let first = inherited(&mut story, "l").expect("remembered");
        assert_eq!((first.token, first.baton_token), (held, Some(held)));
        let second = inherited(&mut story, "l").expect("remembered");
        assert_eq!((&second.baton, second.baton_token), (&payload("page 7"), Some(held)));
        assert!(second.token > held && second.ended == Ended::Closed);
    }

    #[test]
    fn a_later_holder_replaces_it_and_an_empty_one_takes_it_away() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let first = story.holds(a, 1, "l");
        leave(&mut story, a, "l", first, "page 7");
        story.release(a, 1, "l", first);
        let second = story.holds(b, 1, "l");
        assert_eq!(leave(&mut story, b, "l", second, "page 9"), Reply::Written { revision: 1 });
        assert_eq!(baton(&story, "l"), Some(Baton { token: second, left: payload("page 9") }));
        leave(&mut story, b, "l", second, "");
        assert_eq!(baton(&story, "l"), None);
        story.release(b, 1, "l", second);
        let inherited = inherited(&mut story, "l").expect("who held before is still known");
        assert!(inherited.baton.is_empty() && inherited.baton_token.is_none());
    }

    #[test]
    fn a_copy_that_comes_late_or_twice_changes_nothing() {
        let mut story = Story::begin();
        let a = story.open("a");
        let held = story.holds(a, 1, "l");
        leave_as(&mut story, a, "l", held, 3, payload("third"));
        for (revision, text) in [(3, "third"), (2, "second"), (3, "other")] {
            let reply = leave_as(&mut story, a, "l", held, revision, payload(text));
            assert_eq!(reply, Reply::Written { revision: 3 });
        }
        assert_eq!(baton(&story, "l"), Some(Baton { token: held, left: payload("third") }));
    }

    #[test]
    fn a_stale_holder_writes_nothing_and_hears_who_superseded_it() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let old = story.holds(a, 1, "l");
        story.holds(b, 2, "m");
        story.waits(b, 1, "l");
        let waiting = refusal(leave(&mut story, b, "l", old, "x"));
        let Refusal::NotHeld { superseded: Some(holder) } = waiting else { panic!("{waiting:?}") };
        assert_eq!(holder.acquisition, id(a, 1));
        assert!(matches!(refusal(leave(&mut story, a, "m", old, "x")), Refusal::NotHeld { .. }));
        story.expire(&[a]);
        let late = refusal(leave(&mut story, a, "l", old, "x"));
        assert_eq!(late, Refusal::SessionEnded { ended: Ended::Expired, superseded: None });
        story.end_lock_delay(story.epoch(), "l", story.index - 1);
        let late = refusal(leave(&mut story, a, "l", old, "x"));
        let Refusal::SessionEnded { superseded: Some(holder), .. } = late else { panic!("{late:?}") };
        assert_eq!(holder.acquisition, id(b, 1));
        assert_eq!((baton(&story, "l"), baton(&story, "m")), (None, None));
    }

    #[test]
    fn slots_and_bytes_are_bounded_and_the_oldest_is_dropped_first() {
        let mut story = Story::with_limits(|limits| limits.predecessors_max = 2);
        let sessions: Vec<_> = ["l", "m", "n"]
            .map(|name| {
                let session = story.open("a");
                let held = story.holds(session, 1, name);
                leave(&mut story, session, name, held, name);
                (session, held)
            })
            .into();
        assert!(baton(&story, "l").is_none() && baton(&story, "m").is_some() && baton(&story, "n").is_some());
        story.change_more_limits(|more| more.baton_bytes_max = 5_000);
        let full = Payload::new(&[b'x'; 4_000]).expect("it fits");
        leave_as(&mut story, sessions[1].0, "m", sessions[1].1, 0, full.clone());
        assert!(baton(&story, "m").is_some() && baton(&story, "n").is_some());
        leave_as(&mut story, sessions[2].0, "n", sessions[2].1, 0, full.clone());
        assert!(baton(&story, "m").is_none(), "both do not fit");
        assert_eq!(baton(&story, "n").map(|baton| baton.left), Some(full));
    }
}
