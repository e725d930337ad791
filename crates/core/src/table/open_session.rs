use std::collections::BTreeMap;

use super::{LockTable, Step};
use crate::acquisitions::Acquisitions;
use crate::command::OpenSession;
use crate::event::Event;
use crate::ids::{RequestNumber, SessionId};
use crate::limits::{TTL_MAX, TTL_MIN};
use crate::reply::{BadArgument, LimitName, NotYet, Refusal, Reply};
use crate::session::Session;

impl LockTable {
    /// Opens a session, or finds the one that the same secret opened, so that a repeated open opens nothing.
    pub(super) fn open_session(&mut self, step: &mut Step, open: &OpenSession) -> Reply {
        if let Some(replaces) = &open.replaces {
            if !self.knows(2) {
                return Reply::Refused(Refusal::NotYet(NotYet::TakingOver));
            }
            // A session cannot replace itself: the earlier process has its secret, and would go on with it.
            if replaces.secret == open.secret {
                return Reply::Refused(Refusal::SecretTaken);
            }
        }
        if let Some(id) = self.secrets.get(&open.secret).copied() {
            return self.found_by_secret(id, open);
        }
        if !(TTL_MIN..=TTL_MAX).contains(&open.ttl) {
            return Reply::Refused(Refusal::BadArgument(BadArgument::Ttl));
        }
        if let Some(replaces) = &open.replaces {
            return self.take_over(step, open, replaces);
        }
        let max = self.header.limits.sessions_max;
        if self.sessions.len() as u64 >= max {
            return Reply::Refused(Refusal::LimitReached { limit: LimitName::Sessions, max });
        }
        let session = self.begin_session(step, open);
        Reply::SessionOpened { session, ttl: open.ttl }
    }

    /// The session that the same secret opened. While its client may not know what it took over, it is told again.
    fn found_by_secret(&self, id: SessionId, open: &OpenSession) -> Reply {
        let Some(session) = self.sessions.get(&id) else {
            return Reply::Refused(Refusal::SessionUnknown);
        };
        if session.owner != open.owner {
            return Reply::Refused(Refusal::SecretTaken);
        }
        match (&session.took_over, &open.replaces) {
            (Some(took), Some(replaces)) if took.replaced == replaces.session => {
                Reply::TookOver((**took).clone())
            }
            _ => Reply::SessionOpened { session: id, ttl: session.ttl },
        }
    }

    /// Begins a session, named after this entry.
    pub(super) fn begin_session(&mut self, step: &mut Step, open: &OpenSession) -> SessionId {
        let id = SessionId(self.header.token_base.at(step.at.index));
        let session = Session {
            secret: open.secret,
            owner: open.owner.clone(),
            client: open.client.clone(),
            ttl: open.ttl,
            opened: step.at.index,
            opened_at: step.at.wall,
            last_command: step.at.index,
            mark: RequestNumber(0),
            highest: RequestNumber(0),
            acquisitions: Acquisitions::default(),
            outcomes: BTreeMap::new(),
            ticks: self.ticks.count,
            took_over: None,
        };
        self.sessions.insert(id, session);
        self.secrets.insert(open.secret, id);
        step.events.push(Event::SessionOpened { session: id, ttl: open.ttl, client: open.client.clone() });
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{ClusterVersion, Command, Replaces};
    use crate::ids::{Millis, Principal};
    use crate::table::story::{Story, refusal, secret};
    use crate::token::TokenBase;

    fn opened(reply: &Reply) -> SessionId {
        match reply {
            Reply::SessionOpened { session, .. } => *session,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_session_is_named_after_its_entry() {
        let mut story = Story::begin();
        let a = story.open("a");
        assert_eq!((a.0, story.renewed), (story.index, Some(a)));
        let base = TokenBase::new(1_000_000).unwrap();
        let mut restored = Story::founded_at(0, base, crate::limits::Limits::default());
        let b = restored.open("b");
        assert_eq!(b.0, 1_000_000 + restored.index);
        assert_eq!(restored.holds(b, 1, "l").get(), 1_000_000 + restored.index);
    }

    #[test]
    fn a_repeated_open_finds_the_first_session() {
        let mut story = Story::begin();
        let opening = story.opening("a");
        let first = opened(&story.apply(Command::OpenSession(opening.clone())));
        let mut again = opening.clone();
        again.ttl = Millis(60_000);
        assert_eq!(
            story.apply(Command::OpenSession(again)),
            Reply::SessionOpened { session: first, ttl: opening.ttl },
            "its TTL cannot be changed"
        );
        assert_eq!(story.table.session_count(), 1);
        assert_eq!(story.table.session(first).unwrap().last_command.0, story.index);
        story.close(first);
        assert!(opened(&story.apply(Command::OpenSession(opening))) > first);
    }

    #[test]
    fn the_same_secret_from_another_identity_is_refused() {
        let mut story = Story::begin();
        let mut opening = story.opening("a");
        story.apply(Command::OpenSession(opening.clone()));
        let before = story.index;
        opening.owner = Principal::new("mallory").unwrap();
        assert_eq!(refusal(story.apply(Command::OpenSession(opening))), Refusal::SecretTaken);
        assert_eq!((story.renewed, story.table.session_count()), (None, 1));
        assert_eq!(story.table.sessions().next().unwrap().1.last_command.0, before);
    }

    #[test]
    fn a_lease_is_2_seconds_to_a_day() {
        let mut story = Story::begin();
        for (ttl, fits) in [(0, false), (1_999, false), (2_000, true), (86_400_000, true), (u64::MAX, false)]
        {
            let mut opening = story.opening("a");
            opening.ttl = Millis(ttl);
            let reply = story.apply(Command::OpenSession(opening));
            assert_eq!(matches!(reply, Reply::SessionOpened { .. }), fits, "{ttl}: {reply:?}");
        }
        let mut opening = story.opening("a");
        opening.ttl = Millis(86_400_001);
        let bad = Refusal::BadArgument(BadArgument::Ttl);
        assert_eq!(refusal(story.apply(Command::OpenSession(opening))), bad);
    }

    #[test]
    fn at_the_limit_one_more_is_refused_and_the_old_are_found() {
        let mut story = Story::with_limits(|limits| limits.sessions_max = 1);
        let opening = story.opening("a");
        let first = opened(&story.apply(Command::OpenSession(opening.clone())));
        let more = story.opening("b");
        let full = Refusal::LimitReached { limit: LimitName::Sessions, max: 1 };
        assert_eq!(refusal(story.apply(Command::OpenSession(more.clone()))), full);
        assert_eq!(opened(&story.apply(Command::OpenSession(opening))), first);
        story.close(first);
        opened(&story.apply(Command::OpenSession(more)));
    }

    #[test]
    fn a_cluster_of_version_1_does_not_know_taking_over_and_touches_nothing() {
        let mut story = Story::begin();
        story.with_version(ClusterVersion(1));
        let old = story.open("a");
        story.holds(old, 1, "l");
        let mut opening = story.opening("a");
        opening.replaces = Some(Replaces { session: old, secret: secret(1), proven_dead: true });
        assert_eq!(refusal(story.apply(Command::OpenSession(opening))), Refusal::NotYet(NotYet::TakingOver));
        assert!(story.table.session(old).is_some() && story.holder("l").is_some());
    }
}
