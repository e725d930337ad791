//! Runs a command while holding locks, and stops it when one of them is lost: what `lock` and `elect` have in common.

use std::ffi::OsString;
use std::time::Duration;

use palisade_client::{AcquireError, Client, GuardSet, Part, Session, SessionState};
use palisade_core::ids::{GuardName, OwnerLabel};
use palisade_host::{Clock, Host, SystemClock};

use super::{Failure, client_config};
use crate::args::{Globals, UnderLockArgs};
use crate::child::{self, Ended, Place, Program, Scratch, Shown, Signals, Told};
use crate::exit::Exit;
use crate::output::span;

/// The longest sleep between two looks at the lease; the client's own report comes a tenth of a second late.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// What is to be held meanwhile.
pub(super) struct Asked<'a> {
    /// The names, for messages.
    pub(super) shown: String,
    /// The locks.
    pub(super) parts: Vec<Part>,
    /// What others can read of this holder.
    pub(super) metadata: &'a str,
    /// Whether the command gets the baton, and leaves one.
    pub(super) baton: bool,
    /// What to run.
    pub(super) command: &'a [OsString],
    /// The word for having got them.
    pub(super) acquired: &'static str,
}

/// Must run on the process's main thread (see [`child::spawn`]).
///
/// # Errors
///
/// Whatever keeps palisade itself from doing its part; the caller turns each into 125.
pub(super) async fn run(
    globals: &Globals,
    asked: &Asked<'_>,
    arguments: &UnderLockArgs,
) -> Result<Exit, Failure> {
    // Before anything that a signal would have to undo.
    let mut signals = Signals::catch()?;
    let mut config = client_config(globals, arguments.client_name.as_deref())?;
    config.ttl = arguments.ttl;
    let client = Client::new(config, Host::system())?;

    let began = SystemClock.now();
    let acquired = tokio::select! {
        acquired = acquire(&client, asked, arguments) => acquired,
        // Dropping the wait cancels it; closing the client ends the session and with it whatever was granted meanwhile.
        ending = signals.next_ending() => {
            client.close().await;
            return Ok(Exit::signalled(ending.as_raw()));
        }
    };
    let (session, guards) = match acquired? {
        Ok(acquired) => acquired,
        Err(error) => {
            client.close().await;
            return not_acquired(arguments, error);
        }
    };
    if !globals.quiet {
        let waited = span(SystemClock.now().since(began));
        let (token, lease) = (first_token(&guards), span(arguments.ttl));
        let (word, names) = (asked.acquired, &asked.shown);
        say!("palisade: {word} {names}, token {token}, lease {lease}, waited {waited}");
    }

    let work = Work { globals, asked, arguments, session: &session, guards: &guards };
    let ended = match work.run(&mut signals).await {
        Ok(ended) if ended.survivors == 0 => ended,
        // The work may go on, so nobody else may have the lock before the lease ends and the lock-delay passed.
        other => {
            std::mem::forget((guards, session));
            let ended = other?;
            let (left, names) = (ended.survivors, &asked.shown);
            say!("palisade: {left} processes of the command do not end: {names} is not released");
            return Ok(Exit::FAILED);
        }
    };
    let exit = release(globals, &asked.shown, guards, ended).await;
    client.close().await;
    Ok(exit)
}

type Acquired = Result<(Session, GuardSet), AcquireError>;

async fn acquire(client: &Client, asked: &Asked<'_>, arguments: &UnderLockArgs) -> Result<Acquired, Failure> {
    let session = client.open_session().await?;
    // One task a session: this process.
    let owner = OwnerLabel::new(&super::own_name()).map_err(|error| Failure::new(Exit::USAGE, error))?;
    let guards = guards(arguments)?;
    let parts = asked.parts.iter().cloned().map(|mut part| {
        if let Some(delay) = arguments.lock_delay {
            part = part.lock_delay(delay);
        }
        part.fenced_by(guards.clone())
    });
    let mut acquire =
        session.lock_all(parts).with_sequencer().owner(owner).metadata(asked.metadata.as_bytes());
    if arguments.nonblock {
        acquire = acquire.try_now();
    } else if let Some(wait) = arguments.wait {
        acquire = acquire.wait_for(wait);
    }
    if let Some(bound) = arguments.hold_max {
        acquire = acquire.hold_max(bound);
    }
    if let Some(interval) = arguments.progress_every {
        acquire = acquire.progress_every(interval);
    }
    Ok(acquire.acquire().await.map(|guards| (session, guards)))
}

fn guards(arguments: &UnderLockArgs) -> Result<Vec<GuardName>, Failure> {
    let named = arguments.fenced_by.iter().map(|guard| GuardName::new(guard));
    named.collect::<Result<_, _>>().map_err(|error| Failure::new(Exit::USAGE, error))
}

fn first_token(guards: &GuardSet) -> u64 {
    guards.guards().next().map_or(0, |guard| guard.token().get())
}

/// Not having it in time is an answer; everything else is a failure.
fn not_acquired(arguments: &UnderLockArgs, error: AcquireError) -> Result<Exit, Failure> {
    match error {
        AcquireError::Held { .. }
        | AcquireError::QueuedAhead { .. }
        | AcquireError::Closed { .. }
        | AcquireError::TimedOut { .. } => {
            say!("palisade: {error}");
            Ok(Exit::named(arguments.conflict_exit_code))
        }
        AcquireError::SessionLost(_)
        | AcquireError::WouldDeadlock { .. }
        | AcquireError::CapacityDiffers { .. }
        | AcquireError::DelayOutOfBounds { .. }
        | AcquireError::Limit { .. }
        | AcquireError::BadArgument { .. }
        | AcquireError::Ended { .. }
        | AcquireError::Unavailable { .. }
        | AcquireError::Refused { .. }
        | AcquireError::ClientClosed => Err(Failure::new(Exit::FAILED, error)),
    }
}

/// A command that runs under its guards.
struct Work<'a> {
    globals: &'a Globals,
    asked: &'a Asked<'a>,
    arguments: &'a UnderLockArgs,
    session: &'a Session,
    guards: &'a GuardSet,
}

impl Work<'_> {
    /// An error means that the command may still run.
    async fn run(&self, signals: &mut Signals) -> Result<Ended, Failure> {
        let idle = |exit| Ok(Ended { exit, survivors: 0 });
        let (told, scratch) = match self.tell().await {
            Ok(told) => told,
            Err(error) => {
                say!("palisade: the command was not begun: {error}");
                return idle(Exit::FAILED);
            }
        };
        let program = Program {
            lock: &self.asked.shown,
            command: self.asked.command,
            kill_after: self.arguments.kill_after,
            place: if self.arguments.foreground { Place::Foreground } else { Place::OwnGroup },
        };
        let begun = Shown::new(told).and_then(|shown| Ok((child::spawn(&program, &shown)?, shown)));
        let (child, shown) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                say!("palisade: the command was not begun: {error}");
                return idle(Exit::FAILED);
            }
        };
        let held = || self.guards.check().is_ok();
        let ended = tokio::select! {
            ended = child::watch(child, &program, shown, signals, lost(self.session, self.guards), held) => ended?,
            never = self.report_progress(&scratch) => match never {},
        };
        if ended.survivors == 0 && held() {
            self.leave_baton(&scratch).await;
        }
        Ok(ended)
    }

    async fn tell(&self) -> anyhow::Result<(Told, Scratch)> {
        let safe_until = SystemClock.now() + self.guards.remaining().unwrap_or_default();
        let mut told =
            Told::of(self.guards.guards(), self.session.id(), self.globals.endpoints(), safe_until).await?;
        let inherited = self.guards.guards().next().and_then(|guard| guard.inherited());
        let baton = self.asked.baton.then(|| inherited.map_or(&[][..], |before| before.baton.as_bytes()));
        let scratch = Scratch::new(baton, self.arguments.progress_every.is_some())?;
        told.files = scratch.environment();
        Ok((told, scratch))
    }

    /// Reports whenever the command has touched its file, and never ends.
    async fn report_progress(&self, scratch: &Scratch) -> std::convert::Infallible {
        let look = self.arguments.progress_every.map_or(LOOK_MAX, |interval| (interval / 4).min(LOOK_MAX));
        let mut seen = scratch.progress();
        loop {
            tokio::time::sleep(look).await;
            let touched = scratch.progress();
            if touched == seen {
                continue;
            }
            let Some(guard) = self.guards.guards().next() else { continue };
            match guard.report_progress().await {
                Ok(()) => seen = touched,
                // What it means for the lock, the guard says.
                Err(error) => tracing::warn!(%error, "the progress was not reported"),
            }
        }
    }

    /// Keeps what the command left for the next holder.
    async fn leave_baton(&self, scratch: &Scratch) {
        let left = match scratch.left() {
            Ok(Some(left)) => left,
            Ok(None) => return,
            Err(error) => return say!("palisade: the baton was not read: {error}"),
        };
        let Some(guard) = self.guards.guards().next() else { return };
        if let Err(error) = guard.leave_baton(&left).await {
            say!("palisade: the baton was not left: {error}");
        }
    }
}

/// Resolves when work must stop, to the reason: not only when the cluster says so, but when the lease can no longer be
/// believed in.
async fn lost(session: &Session, guards: &GuardSet) -> String {
    loop {
        let state = match guards.remaining() {
            None => lost_state(guards),
            Some(left) => tokio::select! {
                state = guards.suspended() => state,
                () = tokio::time::sleep(left.min(LOOK_MAX)) => continue,
            },
        };
        return match state {
            SessionState::Lost(reason) => reason.to_string(),
            // The lease is good: it is what was asked for with the lock that has run out.
            _ if session.remaining().is_some() => "its own deadline has passed".to_owned(),
            SessionState::Suspended | SessionState::Active | SessionState::Reconnected => {
                "no renewal was acknowledged in time".to_owned()
            }
        };
    }
}

/// That of the part that is worst off.
fn lost_state(guards: &GuardSet) -> SessionState {
    let mut states = guards.guards().map(|guard| guard.state());
    let first = states.next().unwrap_or(SessionState::Suspended);
    match states.find(|state| matches!(state, SessionState::Lost(_))) {
        Some(lost) if !matches!(first, SessionState::Lost(_)) => lost,
        _ => first,
    }
}

/// Frees the locks. One that turns out not to have been held was lost while the command ran.
async fn release(globals: &Globals, names: &str, guards: GuardSet, ended: Ended) -> Exit {
    match guards.release().await {
        Ok(_) => ended.exit,
        Err(error) => {
            if !globals.quiet || ended.exit != Exit::LOST {
                say!("palisade: {names}: {error}");
            }
            match error {
                palisade_client::ReleaseError::NotHeld { .. }
                | palisade_client::ReleaseError::SessionLost(_) => Exit::LOST,
                // The work was done under the lease; that the cluster hears of it late harms nobody.
                palisade_client::ReleaseError::Unavailable
                | palisade_client::ReleaseError::Refused { .. }
                | palisade_client::ReleaseError::ClientClosed => ended.exit,
            }
        }
    }
}
