//! `palisade lock`: runs a command while holding a lock, and stops it when the lock is lost.

use std::time::Duration;

use palisade_client::{AcquireError, Client, LockGuard, Session, SessionState};
use palisade_core::ids::LockName;
use palisade_host::{Clock, Host, SystemClock};

use super::{Failure, client_config};
use crate::args::{Globals, LockArgs};
use crate::child::{self, Ended, Place, Program, Shown, Signals, Told};
use crate::exit::Exit;
use crate::output::span;

/// The longest sleep between two looks at the lease; the client's own report comes a tenth of a second late.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Must run on the process's main thread (see [`child::spawn`]).
///
/// # Errors
///
/// Whatever keeps palisade itself from doing its part; the caller turns each into 125.
pub(crate) async fn run(globals: &Globals, arguments: &LockArgs) -> Result<Exit, Failure> {
    let name = LockName::new(&arguments.name).map_err(|error| Failure::new(Exit::USAGE, error))?;
    // Before anything that a signal would have to undo.
    let mut signals = Signals::catch()?;
    let mut config = client_config(globals, arguments.client_name.as_deref())?;
    config.ttl = arguments.ttl;
    let client = Client::new(config, Host::system())?;

    let began = SystemClock.now();
    let acquired = tokio::select! {
        acquired = acquire(&client, arguments, name.clone()) => acquired,
        // Dropping the wait cancels it; closing the client ends the session and with it whatever was granted meanwhile.
        ending = signals.next_ending() => {
            client.close().await;
            return Ok(Exit::signalled(ending.as_raw()));
        }
    };
    let (session, guard) = match acquired? {
        Ok(acquired) => acquired,
        Err(error) => {
            client.close().await;
            return not_acquired(arguments, error);
        }
    };
    if !globals.quiet {
        let waited = span(SystemClock.now().since(began));
        let (token, lease) = (guard.token(), span(arguments.ttl));
        eprintln!("palisade: acquired {name}, token {token}, lease {lease}, waited {waited}");
    }

    let ended = match work(globals, arguments, &session, &guard, &mut signals).await {
        Ok(ended) if ended.survivors == 0 => ended,
        // The work may go on, so nobody else may have the lock before the lease ends and the lock-delay passed.
        other => {
            std::mem::forget((guard, session));
            let ended = other?;
            eprintln!(
                "palisade: {} processes of the command do not end: {name} is not released",
                ended.survivors
            );
            return Ok(Exit::FAILED);
        }
    };
    let exit = release(globals, guard, ended).await;
    client.close().await;
    Ok(exit)
}

type Acquired = Result<(Session, LockGuard), AcquireError>;

async fn acquire(client: &Client, arguments: &LockArgs, name: LockName) -> Result<Acquired, Failure> {
    let session = client.open_session().await?;
    let mut acquire = session.lock(name).with_sequencer();
    if arguments.nonblock {
        acquire = acquire.try_now();
    } else if let Some(wait) = arguments.wait {
        acquire = acquire.wait_for(wait);
    }
    if let Some(delay) = arguments.lock_delay {
        acquire = acquire.lock_delay(delay);
    }
    Ok(acquire.acquire().await.map(|guard| (session, guard)))
}

/// Not having it in time is an answer; everything else is a failure.
fn not_acquired(arguments: &LockArgs, error: AcquireError) -> Result<Exit, Failure> {
    match error {
        AcquireError::Held { .. }
        | AcquireError::QueuedAhead { .. }
        | AcquireError::Closed { .. }
        | AcquireError::TimedOut { .. } => {
            eprintln!("palisade: {error}");
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

/// Runs the command under the guard. An error means that it may still run.
async fn work(
    globals: &Globals,
    arguments: &LockArgs,
    session: &Session,
    guard: &LockGuard,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let idle = |exit| Ok(Ended { exit, survivors: 0 });
    let sequencer = match guard.sequencer().await {
        Ok(sequencer) => sequencer,
        Err(error) => {
            eprintln!("palisade: no sequencer for {}: {error}", arguments.name);
            return idle(Exit::FAILED);
        }
    };
    let told = Told {
        lock: arguments.name.clone(),
        token: guard.token().get(),
        session: session.id().0,
        sequencer,
        endpoints: globals.endpoints(),
        safe_until_boottime_ns: (SystemClock.now() + guard.remaining().unwrap_or_default()).as_nanos(),
    };
    let program = Program {
        lock: &arguments.name,
        command: &arguments.command,
        kill_after: arguments.kill_after,
        place: if arguments.foreground { Place::Foreground } else { Place::OwnGroup },
    };
    let begun = Shown::new(told).and_then(|shown| Ok((child::spawn(&program, &shown)?, shown)));
    let (child, shown) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            eprintln!("palisade: the command was not begun: {error}");
            return idle(Exit::FAILED);
        }
    };
    let held = || guard.check().is_ok();
    Ok(child::watch(child, &program, shown, signals, lost(guard), held).await?)
}

/// Resolves when work must stop, to the reason: not only when the cluster says so, but when the lease can no longer be
/// believed in.
async fn lost(guard: &LockGuard) -> String {
    loop {
        let state = match guard.remaining() {
            None => guard.state(),
            Some(left) => tokio::select! {
                state = guard.suspended() => state,
                () = tokio::time::sleep(left.min(LOOK_MAX)) => continue,
            },
        };
        return match state {
            SessionState::Lost(reason) => reason.to_string(),
            SessionState::Suspended | SessionState::Active | SessionState::Reconnected => {
                "no renewal was acknowledged in time".to_owned()
            }
        };
    }
}

/// Frees the lock. A lock that turns out not to have been held was lost while the command ran.
async fn release(globals: &Globals, guard: LockGuard, ended: Ended) -> Exit {
    let name = guard.lock().clone();
    match guard.release().await {
        Ok(_) => ended.exit,
        Err(error) => {
            if !globals.quiet || ended.exit != Exit::LOST {
                eprintln!("palisade: {name}: {error}");
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
