//! Going on after a restart where an earlier process stopped (SPEC 3).

use std::sync::Arc;
use std::time::Duration;

use palisade_core::ids::{LockName, SessionId};
use palisade_core::reply::Ended;
use palisade_proto::convert::{ErrorName, words};
use palisade_proto::v1;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use palisade_proto::v1::slot_view::State;
use palisade_proto::v1::taken_acquisition::State as Taken;

use crate::client::{Client, Left};
use crate::driver::{Command, Opened, Purpose};
use crate::error::{AcquireError, AskedFor, CallError, LostReason, OpenError};
use crate::guard_set::GuardSet;
use crate::lock::granted;
use crate::session::{Session, SessionHandle, SessionState};
use crate::state_file::{Saved, SavedOpening, SavedSession, StateFile, proves};
use crate::wire;

/// The file and what was done with it.
#[derive(Debug)]
pub(crate) struct Resuming {
    file: Arc<StateFile>,
    /// The session that the file is about.
    present: Option<Arc<crate::session::SessionShared>>,
}

impl Resuming {
    pub(crate) fn new(file: StateFile) -> Self {
        Self { file: Arc::new(file), present: None }
    }
}

/// What stands after a takeover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptState {
    /// It holds, under new tokens.
    Holds,
    /// It waits, in its old places.
    Waits,
    /// The earlier process may still believe in its lease: its slots are closed for so long, and granted to it then.
    Closed(Duration),
}

/// An acquisition of the earlier process that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    number: u64,
    /// Where it stood when it was taken over.
    pub state: KeptState,
}

/// What a session took over from an earlier process. Nothing of it is believed in before it is adopted; what is not is
/// cancelled when this is dropped.
#[derive(Debug)]
#[must_use = "what is not adopted is cancelled when this is dropped"]
pub struct TakenOver {
    session: Arc<SessionHandle>,
    replaced: Option<SessionId>,
    kept: Vec<Kept>,
    ended: Vec<(u64, Ended)>,
}

impl TakenOver {
    fn new(session: Arc<SessionHandle>, took: Option<v1::TookOver>) -> Self {
        let Some(took) = took else {
            return Self { session, replaced: None, kept: Vec::new(), ended: Vec::new() };
        };
        let kept = took.kept.iter().map(|kept| {
            let state = match kept.state {
                Some(Taken::Holds(_)) => KeptState::Holds,
                Some(Taken::ClosedMs(closed)) => KeptState::Closed(Duration::from_millis(closed)),
                Some(Taken::Waits(_)) | None => KeptState::Waits,
            };
            Kept { number: kept.number, state }
        });
        let ended = took
            .ended
            .iter()
            .map(|request| (request.number, words::ended_from(request.ended).unwrap_or(Ended::Forgotten)));
        let (kept, ended) = (kept.collect(), ended.collect());
        Self { session, replaced: Some(SessionId(took.replaced)), kept, ended }
    }

    /// The earlier session; none when there was none that could be replaced, so that nothing is kept.
    pub fn replaced(&self) -> Option<SessionId> {
        self.replaced
    }

    /// What was kept and is not adopted yet, in the order in which it was asked for.
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// How the earlier session's other requests ended, by their numbers, as far as that is remembered.
    pub fn ended(&self) -> &[(u64, Ended)] {
        &self.ended
    }

    /// Takes what was kept of a lock: at once when it holds, and as soon as it is granted when it waits. Several locks that
    /// were asked for together come together. None when nothing is kept of this lock, or it waits behind more than a
    /// thousand others.
    ///
    /// # Errors
    ///
    /// As of an acquire.
    pub async fn adopt(&mut self, lock: &LockName) -> Result<Option<GuardSet>, AcquireError> {
        let asked = AskedFor(vec![lock.clone()]);
        let (client, id) = (self.session.client.clone(), self.session.shared.id());
        let op = Op::GetLock(v1::GetLock { lock: lock.as_str().to_owned() });
        let view = match client.ask(None, op).await.map_err(|error| not_read(&asked, error))?.answer {
            Ok(Answer::Lock(view)) => view,
            Ok(_) => return Err(not_read(&asked, wire::unexpected())),
            Err(error) => return Err(wire::acquire_error(asked, error)),
        };
        let mine = numbers(&view, id);
        let Some(at) = self.kept.iter().position(|kept| mine.contains(&kept.number)) else {
            return Ok(None);
        };
        let number = self.kept.remove(at).number;
        let (session, lock) = (self.session.clone(), lock.clone());
        granted(client, id, asked, |reply| Command::Adopt { session, number, lock, reply }).await.map(Some)
    }

    /// Cancels what was not adopted, as dropping this does; it is repeated in the background until it is decided.
    pub fn release_rest(self) {}
}

impl Drop for TakenOver {
    fn drop(&mut self) {
        self.session.client.leave(Left::Kept(self.session.shared.id()));
    }
}

fn not_read(lock: &AskedFor, error: CallError) -> AcquireError {
    match error {
        CallError::Unavailable { .. } => AcquireError::Unavailable { lock: lock.clone() },
        CallError::SessionLost(reason) => AcquireError::SessionLost(reason),
        CallError::Refused { name, message } => AcquireError::Refused { name, message },
        CallError::ClientClosed => AcquireError::ClientClosed,
    }
}

/// Acquisitions of a session that hold a lock, wait for it, or will have it when its delay ends.
fn numbers(view: &v1::LockView, session: SessionId) -> Vec<u64> {
    let mut found: Vec<Option<v1::AcquisitionId>> = Vec::new();
    for slot in &view.slots {
        match &slot.state {
            Some(State::Held(tenure)) => found.extend(tenure.holders.iter().map(|holder| holder.acquisition)),
            Some(State::Delayed(delay)) => found.push(delay.kept_for),
            Some(State::Free(_)) | None => {}
        }
    }
    found.extend(view.queue.iter().map(|waiter| waiter.acquisition));
    found.into_iter().flatten().filter(|id| id.session == session.0).map(|id| id.number).collect()
}

impl Client {
    /// Opens the session that the state file is about: it goes on where an earlier process of this file stopped, or begins
    /// anew where nothing can be taken over. What the earlier process held is held under *new tokens*, so that anything
    /// that it may still send is refused.
    ///
    /// The lock on the file, taken under the same boot of the machine, shows that the earlier process is dead. Otherwise
    /// what it held stays closed until its lease and lock-delay have passed. A copy of running memory, such as a snapshot
    /// of a virtual machine, is not covered.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. After `Unavailable`, asking again goes on with the same session.
    pub async fn resume_session(&self) -> Result<(Session, TakenOver), OpenError> {
        let Some(resuming) = &self.handle.resuming else {
            return Err(refused_here("no state file is configured: name one, with state_file"));
        };
        let mut resuming = resuming.lock().await;
        if let Some(present) = &resuming.present {
            match present.reported() {
                SessionState::Lost(LostReason::Ended(Ended::TakenOver)) => {
                    return Err(refused_here(
                        "a newer process took the session over: stop, and take nothing over",
                    ));
                }
                SessionState::Lost(_) => {}
                SessionState::Active | SessionState::Suspended | SessionState::Reconnected => {
                    return Err(refused_here("its session is open in this process already"));
                }
            }
        }
        let file = resuming.file.clone();
        let earlier = self.earlier(&file).await?;
        let opening = SavedOpening { secret: self.draw(), boot: file.boot.clone() };
        let saved = Saved { session: earlier, opening: Some(opening.clone()) };
        write(&file, saved.clone()).await?;
        let replaces = saved.session.as_ref().map(|old| replaces(old, file.boot.as_ref()));
        let opened = match self.open(opening.secret, replaces, Purpose::Resume).await {
            Err(error) if is_over(&error) => {
                write(&file, Saved { session: None, opening: Some(opening.clone()) }).await?;
                self.open(opening.secret, None, Purpose::Resume).await?
            }
            opened => opened?,
        };
        let Opened { session: id, handle, took_over } = opened;
        let Some(handle) = handle else { return Err(OpenError::ClientClosed) };
        resuming.present = Some(handle.shared.clone());
        let SavedOpening { secret, boot } = opening;
        write(&file, Saved { session: Some(SavedSession { id, secret, boot }), opening: None }).await?;
        Ok((Session::new(handle.clone()), TakenOver::new(handle, took_over)))
    }

    /// The session that is to be replaced. An opening that the file has without its outcome is asked for again: the cluster
    /// finds what it opened by its secret.
    async fn earlier(&self, file: &Arc<StateFile>) -> Result<Option<SavedSession>, OpenError> {
        let Saved { session, opening } = file.read()?;
        let Some(SavedOpening { secret, boot }) = opening else { return Ok(session) };
        // As that process sent it: what it had proved stays proved.
        let replaces = session.as_ref().map(|old| replaces(old, boot.as_ref()));
        match self.open(secret, replaces, Purpose::Find).await {
            Ok(found) => Ok(Some(SavedSession { id: found.session, secret, boot })),
            Err(error) if is_over(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn replaces(old: &SavedSession, now: Option<&String>) -> v1::Replaces {
    v1::Replaces {
        session: old.id.0,
        secret: old.secret.to_vec(),
        proven_dead: proves(old.boot.as_ref(), now),
    }
}

/// Whether the session that was to be replaced is over: nothing of it is left to take.
fn is_over(error: &OpenError) -> bool {
    let OpenError::Refused { name, .. } = error else { return false };
    matches!(
        ErrorName::parse(name),
        Some(
            ErrorName::SessionUnknown
                | ErrorName::SessionExpired
                | ErrorName::SessionClosed
                | ErrorName::SessionEnded
                | ErrorName::TakenOver
        )
    )
}

async fn write(file: &Arc<StateFile>, saved: Saved) -> Result<(), OpenError> {
    let writing = file.clone();
    let written = tokio::task::spawn_blocking(move || writing.write(&saved)).await;
    written.unwrap_or_else(|error| Err(refused_here(&error.to_string())))
}

fn refused_here(message: &str) -> OpenError {
    OpenError::StateFile { path: None, message: message.to_owned() }
}
