//! What takes something from a holder: asked once more before it is done.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use palisade_client::operators::Closed;
use palisade_core::ids::{LockName, SessionId, Slot};
use palisade_core::token::Token;
use palisade_proto::v1;
use serde_json::json;

use super::super::{Failure, client, view};
use crate::args::{Globals, duration};
use crate::exit::Exit;
use crate::output::{Output, span, wide};

/// `palisade admin break`
#[derive(Debug, Args)]
#[command(
    after_help = "The holder is not asked: until its lease has ended it may believe that it holds the lock. So the lock stays closed for its
TTL and then its lock-delay. --closed 0s opens it at once, and gives that up: the earlier holder and the next can act at the
same time, except at resources that check tokens.

Exit codes: 0 broken, 1 not held (or no longer under that token), 2 not confirmed, 3 no answer in time."
)]
pub(crate) struct BreakArgs {
    /// The lock
    name: String,
    /// Which of its slots
    #[arg(long, default_value_t = 0)]
    slot: u32,
    /// Only if it is held under this token; without it, the present one
    #[arg(long)]
    token: Option<u64>,
    #[command(flatten)]
    how: HowArgs,
}

/// `palisade admin end-session`
#[derive(Debug, Args)]
#[command(
    after_help = "Its locks stay closed for its TTL and then their lock-delay, because its process may believe in its lease for so long.
--closed 0s opens them at once, and gives that up.

Exit codes: 0 ended, 1 it had ended, 2 not confirmed, 3 no answer in time, 5 not known."
)]
pub(crate) struct EndSessionArgs {
    /// The session, as `palisade sessions` shows it
    session: u64,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Debug, Args)]
struct HowArgs {
    /// How long it stays closed for everybody; without it, as long as the holder may believe that it holds it
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    closed: Option<Duration>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

impl HowArgs {
    fn closed(&self) -> Closed {
        self.closed.map_or(Closed::Safely, Closed::For)
    }

    /// Asks on a terminal; where nobody can answer, the answer is no.
    fn confirmed(&self, what: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() {
            return Err(Failure::new(
                Exit::USAGE,
                anyhow!("{what} Nobody is there to confirm it: say --yes"),
            ));
        }
        let mut stderr = std::io::stderr();
        write!(stderr, "{what} Go on? [y/N] ")?;
        stderr.flush()?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        match answer.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(Failure::new(Exit::USAGE, anyhow!("nothing was done"))),
        }
    }
}

/// `palisade admin capacity`
#[derive(Debug, Args)]
#[command(
    after_help = "Tell its resources first: they refuse slots that they do not know. From then on it wins over what holders name, until
nobody holds or awaits the lock. Slots beyond a smaller one are not granted again; who holds one keeps it.

Exit codes: 0 set, 1 the lock is not in use, 3 no answer in time."
)]
pub(crate) struct CapacityArgs {
    /// The lock
    name: String,
    /// Its slots from now on (1 to 10000)
    slots: u32,
}

pub(super) async fn break_lock(globals: &Globals, arguments: &BreakArgs) -> Result<Exit, Failure> {
    let usage = |error: anyhow::Error| Failure::new(Exit::USAGE, error);
    let name = LockName::new(&arguments.name).map_err(|error| usage(error.into()))?;
    let client = client(globals)?;
    let token = match arguments.token {
        Some(token) => token,
        None => {
            let lock = client.lock_view(&name).await?;
            let slot = lock.slots.iter().find(|slot| slot.slot == arguments.slot);
            let Some(tenure) = slot.and_then(view::tenure) else {
                return Err(Failure::new(Exit::NO, anyhow!("slot {} of {name} is not held", arguments.slot)));
            };
            let holders = holders(&tenure.holders);
            arguments.how.confirmed(&format!("{name} is held by {holders} under token {}.", tenure.token))?;
            tenure.token
        }
    };
    let token = Token::new(token).ok_or_else(|| usage(anyhow!("{token} is no token")))?;
    let broken = client.break_lock(&name, Slot(arguments.slot), token, arguments.how.closed()).await?;
    let closed = Duration::from_millis(broken.closed_ms);
    Output::new(globals).answer(
        "palisade.admin.break/1",
        |_| {
            let open = if closed.is_zero() {
                "open at once".to_owned()
            } else {
                format!("closed for {}", span(closed))
            };
            format!("{name}: token {token} of {} is broken; {open}", holders(&broken.holders))
        },
        || {
            let of = |holder: &v1::Holder| {
                let session = holder.acquisition.as_ref().map_or(0, |id| id.session);
                json!({ "session": wide(session), "client": holder.client })
            };
            json!({
                "lock": name.as_str(),
                "slot": arguments.slot,
                "token": wide(token.get()),
                "holders": broken.holders.iter().map(of).collect::<Vec<_>>(),
                "closed_ms": wide(broken.closed_ms),
            })
        },
    )?;
    Ok(Exit::OK)
}

fn holders(holders: &[v1::Holder]) -> String {
    let of = |holder: &v1::Holder| {
        let session = holder.acquisition.as_ref().map_or(0, |id| id.session);
        format!("{} (session {session})", view::client(&holder.client))
    };
    holders.iter().map(of).collect::<Vec<_>>().join(", ")
}

pub(super) async fn end_session(globals: &Globals, arguments: &EndSessionArgs) -> Result<Exit, Failure> {
    let client = client(globals)?;
    let session = arguments.session;
    let page = client.list_sessions("", 1, session.saturating_sub(1)).await?;
    let Some(found) = page.sessions.iter().find(|found| found.session == session) else {
        return Err(Failure::new(Exit::NOT_FOUND, anyhow!("no session {session} is alive")));
    };
    let (name, holds, waits) = (view::client(&found.client), found.holds, found.waits);
    arguments.how.confirmed(&format!("Session {session} of {name} holds {holds} and waits for {waits}."))?;
    let stopped = client.end_session(SessionId(session), arguments.how.closed()).await?;
    Output::new(globals).answer(
        "palisade.admin.end-session/1",
        |_| {
            format!(
                "session {session} of {name} is ended; it held {} and waited for {}",
                stopped.held, stopped.waited
            )
        },
        || json!({ "session": wide(session), "held": stopped.held, "waited": stopped.waited }),
    )?;
    Ok(Exit::OK)
}

pub(super) async fn set_capacity(globals: &Globals, arguments: &CapacityArgs) -> Result<Exit, Failure> {
    let name = LockName::new(&arguments.name).map_err(|error| Failure::new(Exit::USAGE, error))?;
    client(globals)?.set_capacity(&name, arguments.slots).await?;
    Output::new(globals).answer(
        "palisade.admin.capacity/1",
        |_| format!("{name} has {} slots", arguments.slots),
        || json!({ "lock": name.as_str(), "capacity": arguments.slots }),
    )?;
    Ok(Exit::OK)
}
