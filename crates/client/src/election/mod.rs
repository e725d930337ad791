//! Electing a leader: a lock whose holder leads, and says with its metadata where it is found (SPEC 9).
//!
//! Whoever leads does so under a fencing token, as every holder does. An observer is told by the log: what it hears is past
//! by the time that it hears it, and only the resource decides who may act.

mod seen;

use std::collections::VecDeque;
use std::future::Future;

use palisade_core::holding::NotHolding;
use palisade_core::ids::{ClientName, LockName, SessionId};
use palisade_core::token::Token;

use self::seen::{Seen, leading};
use crate::client::Client;
use crate::error::{AcquireError, CallError, HoldError, LostReason, ReleaseError};
use crate::guard::{LockGuard, Released};
use crate::lock::AcquireBuilder;
use crate::session::{Session, SessionState};
use crate::watch::{Filter, From as Start, Watch};

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The fencing token. It only rises from leader to leader.
    pub token: Token,
    /// What it proclaimed last, an address say.
    pub value: Vec<u8>,
    /// Its client, for people.
    pub client: ClientName,
    /// Its session.
    pub session: SessionId,
}

/// An election: a lock that candidates wait for. Made by [`Client::election`].
///
/// ```no_run
/// # async fn work(client: palisade_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use palisade_core::ids::LockName;
///
/// let election = client.election(LockName::new("orders/leader")?);
/// let session = client.open_session().await?;
/// let leadership = election.campaign(&session, b"10.0.0.3:80").await?;
/// while leadership.check().is_ok() {
///     // one step of the work, under leadership.token()
/// }
/// leadership.resign().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    client: Client,
    lock: LockName,
}

impl Client {
    /// The election of whoever holds this lock.
    pub fn election(&self, lock: LockName) -> Election {
        Election { client: self.clone(), lock }
    }
}

impl Election {
    /// Waits, as long as the session lives, until this candidate leads. Dropping the future withdraws it.
    ///
    /// # Errors
    ///
    /// See [`AcquireError`].
    pub async fn campaign(&self, session: &Session, value: &[u8]) -> Result<Leadership, AcquireError> {
        Ok(self.candidate(session, value).acquire().await?.into())
    }

    /// A candidacy with terms of its own, such as a bounded wait or a lock-delay. The guard that comes of it is a
    /// [`Leadership`].
    pub fn candidate(&self, session: &Session, value: &[u8]) -> AcquireBuilder {
        session.lock(self.lock.clone()).metadata(value)
    }

    /// Who leads now. Linearizable.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn leader(&self) -> Result<Option<Leader>, CallError> {
        Ok(leading(&self.client.lock_view(&self.lock).await?))
    }

    /// Who leads now, and who leads next, and so on, over whatever node answers.
    pub fn observe(&self) -> Observer {
        let watch = self.client.watch(Filter::Lock(self.lock.clone()), Start::Snapshot);
        Observer { watch, seen: Seen::new(self.lock.clone()), news: VecDeque::new() }
    }
}

/// Leading, from the moment that this exists until it is resigned, dropped or lost.
#[derive(Debug)]
#[must_use = "a dropped leadership is resigned"]
pub struct Leadership {
    guard: LockGuard,
}

impl From<LockGuard> for Leadership {
    /// Of a guard that [`Election::candidate`] asked for.
    fn from(guard: LockGuard) -> Self {
        Self { guard }
    }
}

impl Leadership {
    /// The fencing token: send it with each write.
    pub fn token(&self) -> Token {
        self.guard.token()
    }

    /// The guard, for resources.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }

    /// See [`LockGuard::check`].
    ///
    /// # Errors
    ///
    /// Each says to stop work.
    pub fn check(&self) -> Result<(), NotHolding> {
        self.guard.check()
    }

    /// Ends once somebody else may lead: see [`LockGuard::lost`].
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static {
        self.guard.lost()
    }

    /// Ends once work must stop: see [`LockGuard::suspended`].
    pub fn suspended(&self) -> impl Future<Output = SessionState> + Send + 'static {
        self.guard.suspended()
    }

    /// Says something else to those who observe.
    ///
    /// # Errors
    ///
    /// See [`HoldError`]; `NotHeld` when another leads by now.
    pub async fn proclaim(&self, value: &[u8]) -> Result<(), HoldError> {
        self.guard.set_metadata(value).await
    }

    /// Leads no longer; the next candidate does at once. Stop the work first.
    ///
    /// # Errors
    ///
    /// See [`ReleaseError`].
    pub async fn resign(self) -> Result<Released, ReleaseError> {
        self.guard.release().await
    }
}

/// Who leads, as the log tells it. Made by [`Election::observe`]; it connects when it is first asked.
///
/// Tokens only rise, over every change of node. What a leader that came and went while no node could be reached did
/// meanwhile may be missing; one that still leads afterwards never is.
#[derive(Debug)]
pub struct Observer {
    watch: Watch,
    seen: Seen,
    news: VecDeque<Option<Leader>>,
}

impl Observer {
    /// The next news: who leads, or that nobody does. The first call tells how it stands. A leader that proclaims another
    /// value is told again, under the same token. Nothing is lost when the call is dropped before it returns.
    ///
    /// # Errors
    ///
    /// `Unavailable` when no node said anything for the client's request timeout: calling again goes on.
    pub async fn next(&mut self) -> Result<Option<Leader>, CallError> {
        loop {
            if let Some(news) = self.news.pop_front() {
                return Ok(news);
            }
            let watched = self.watch.next().await?;
            self.news.extend(self.seen.take(watched));
        }
    }

    /// Leaves the present node; it goes on at the next one.
    pub fn move_on(&mut self) {
        self.watch.move_on();
    }
}
