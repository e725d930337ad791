//! Opening sessions, and going on with what an earlier one left.

use std::sync::Arc;
use std::time::Duration;

use palisade_core::ids::{LockName, SessionId};
use palisade_core::reply::Ended;
use palisade_host::Moment;
use palisade_proto::v1;
use palisade_proto::v1::request::Op as Message;
use palisade_proto::v1::response::Result as Answer;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::outgoing::Op;
use super::record::{Caller, Opening, SessionRecord, Stage};
use super::{Driver, Opened, Purpose};
use crate::error::{AcquireError, OpenError};
use crate::session::{SessionHandle, SessionShared, SessionState, why_gone};
use crate::spec::AcquireSpec;

impl Driver {
    pub(super) fn open(&mut self, purpose: Purpose, opening: Opening) {
        let key = self.next_opening;
        self.next_opening += 1;
        self.openings.insert(key, opening);
        self.outgoing.push(Op::Open { key, purpose });
    }

    /// None when nobody wants it, and it was never sent.
    pub(super) fn open_message(&mut self, key: u64, sent: Moment) -> Option<Message> {
        let opening = self.openings.get_mut(&key)?;
        if opening.reply.is_closed() && opening.first_sent.is_none() {
            self.openings.remove(&key);
            return None;
        }
        opening.first_sent.get_or_insert(sent);
        Some(Message::Open(v1::OpenSession {
            ttl_ms: u64::try_from(self.settings.ttl.as_millis()).unwrap_or(u64::MAX),
            client: self.settings.name.as_str().to_owned(),
            secret_hash: Sha256::digest(opening.secret).to_vec(),
            replaces: opening.replaces.clone(),
        }))
    }

    pub(super) fn opened(&mut self, key: u64, purpose: Purpose, answer: Result<Answer, v1::Error>) {
        let opening = self.openings.remove(&key);
        let opened = match answer {
            Ok(Answer::Opened(opened)) => opened,
            Ok(_) => return,
            Err(error) => {
                if let Some(opening) = opening {
                    let _ = opening
                        .reply
                        .send(Err(OpenError::Refused { name: error.name, message: error.message }));
                }
                return;
            }
        };
        let Some(Opening { secret, first_sent, client, reply, .. }) = opening else {
            // One that is to be resumed is found again by its secret.
            if purpose == Purpose::Open {
                self.outgoing.push(Op::CloseUnwanted { session: opened.session });
            }
            return;
        };
        let (session, took_over) = (SessionId(opened.session), opened.took_over);
        if purpose == Purpose::Find {
            let _ = reply.send(Ok(Opened { session, handle: None, took_over }));
            return;
        }
        let now = self.host.clock.now();
        let lease = self.settings.lease(Duration::from_millis(opened.ttl_ms));
        let deadline = lease.first_deadline(first_sent.unwrap_or(now));
        let shared = Arc::new(SessionShared::new(session, self.host.clock.clone(), deadline));
        if deadline <= now {
            shared.report(SessionState::Suspended);
        }
        let mut record = SessionRecord::new(shared.clone(), lease, secret, now);
        if let Some(took) = &took_over {
            record.keep(took.kept.iter().map(|kept| kept.number));
            // Its binding lists the grants.
            record.bound = false;
            self.outgoing.push_first(Op::Bind { session: session.0 });
        }
        self.sessions.insert(session.0, record);
        self.renew_wanted = true;
        // A handle that nobody takes drops here, and closes the session.
        let handle = Some(Arc::new(SessionHandle { shared, client }));
        let _ = reply.send(Ok(Opened { session, handle, took_over }));
    }

    /// Those who wait for one too long.
    pub(super) fn openings_lose_patience(&mut self, now: Instant) {
        let last = &self.last_trouble;
        let impatient = |opening: &Opening| opening.give_up <= now || opening.reply.is_closed();
        // An answer that comes after all is met with a close.
        for (_, opening) in self.openings.extract_if(.., |_, opening| impatient(opening)) {
            let _ = opening.reply.send(Err(OpenError::Unavailable { last: last.clone() }));
        }
    }

    /// Hands out what a session took over, now or when it is granted.
    pub(super) fn adopt(&mut self, caller: Caller, number: u64, lock: LockName) {
        let session = caller.session.shared.id().0;
        let Some(record) = self.sessions.get_mut(&session) else {
            let reason = why_gone(&caller.session.shared);
            let _ = caller.reply.send(Err(AcquireError::SessionLost(reason)));
            return;
        };
        let spec = AcquireSpec::new(vec![lock.into()]);
        let Some(acquisition) = record.acquisitions.get_mut(&number) else {
            let ended = Ended::Forgotten;
            let _ = caller.reply.send(Err(AcquireError::Ended { lock: spec.asked_for(), ended }));
            return;
        };
        acquisition.spec = spec;
        let waiting = Stage::Waiting { caller, give_up: None };
        if let Stage::Kept { grant: Some(grant) } = std::mem::replace(&mut acquisition.stage, waiting) {
            self.granted(session, number, grant);
        }
    }
}
