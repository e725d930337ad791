use std::collections::BTreeMap;

use super::{LockTable, Step};
use crate::command::OpenSession;
use crate::event::Event;
use crate::ids::{RequestNumber, SessionId};
use crate::limits::{TTL_MAX, TTL_MIN};
use crate::reply::{BadArgument, LimitName, NotYet, Refusal, Reply};
use crate::session::Session;

impl LockTable {
    /// Opens a session, or finds the one that the same secret opened, so that a repeated open opens nothing.
    pub(super) fn open_session(&mut self, step: &mut Step, open: &OpenSession) -> Reply {
        if open.replaces.is_some() {
            return Reply::Refused(Refusal::NotYet(NotYet::TakingOver));
        }
        if let Some(id) = self.secrets.get(&open.secret).copied() {
            let Some(session) = self.sessions.get_mut(&id) else {
                return Reply::Refused(Refusal::SessionUnknown);
            };
            if session.owner != open.owner {
                return Reply::Refused(Refusal::SecretTaken);
            }
            session.last_command = step.at.index;
            return Reply::SessionOpened { session: id, ttl: session.ttl };
        }
        if !(TTL_MIN..=TTL_MAX).contains(&open.ttl) {
            return Reply::Refused(Refusal::BadArgument(BadArgument::Ttl));
        }
        let max = self.header.limits.sessions_max;
        if self.sessions.len() as u64 >= max {
            return Reply::Refused(Refusal::LimitReached { limit: LimitName::Sessions, max });
        }
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
            acquisitions: BTreeMap::new(),
            outcomes: BTreeMap::new(),
        };
        self.sessions.insert(id, session);
        self.secrets.insert(open.secret, id);
        step.events.push(Event::SessionOpened { session: id, ttl: open.ttl, client: open.client.clone() });
        Reply::SessionOpened { session: id, ttl: open.ttl }
    }
}
