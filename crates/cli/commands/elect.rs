//! `palisade elect`: runs a command while being the leader, or shows who leads.

use std::io::{self, Write};

use palisade_client::Leader;
use palisade_client::{CallError, Part};
use palisade_core::ids::LockName;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::under::{self, Asked};
use super::{Failure, client, view};
use crate::args::{ElectArgs, Format, Globals};
use crate::exit::Exit;
use crate::output::wide;

/// Must run on the process's main thread (see [`crate::child::spawn`]).
///
/// # Errors
///
/// Whatever keeps palisade itself from doing its part; the caller turns each into 125 where a command was to be run.
pub(crate) async fn run(globals: &Globals, arguments: &ElectArgs) -> Result<Exit, Failure> {
    let name = LockName::new(&arguments.name).map_err(|error| Failure::new(Exit::USAGE, error))?;
    if arguments.observe {
        return observe(globals, name, arguments.count).await;
    }
    let asked = Asked {
        shown: arguments.name.clone(),
        parts: vec![Part::new(name)],
        metadata: &arguments.value,
        baton: false,
        command: &arguments.command,
        acquired: "leads",
    };
    under::run(globals, &asked, &arguments.under).await
}

/// A line for each leader, until told to stop. That no node answers is said once, and waited out.
async fn observe(globals: &Globals, name: LockName, count: Option<u64>) -> Result<Exit, Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let client = client(globals)?;
    let mut observer = client.election(name.clone()).observe();
    let mut told = 0;
    while count.is_none_or(|count| told < count) {
        let news = tokio::select! {
            news = observer.next() => news,
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        };
        match news {
            Ok(leader) => {
                told += u64::from(leader.is_some());
                let leader = leader.as_ref();
                let text = match globals.output {
                    Format::Table => line(&name, leader),
                    Format::Json => document(&name, leader).to_string(),
                };
                match writeln!(io::stdout().lock(), "{text}") {
                    Err(gone) if gone.kind() == io::ErrorKind::BrokenPipe => break,
                    written => written?,
                }
            }
            Err(CallError::Unavailable { last }) => {
                say!("palisade: no node answers ({last}); still asking")
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Exit::OK)
}

fn line(name: &LockName, leader: Option<&Leader>) -> String {
    match leader {
        None => format!("{name}   nobody leads"),
        Some(leader) => {
            let value = leader.value.escape_ascii();
            let who = view::client(leader.client.as_str());
            format!("{name}   token {}   {who} (session {})   {value}", leader.token, leader.session)
        }
    }
}

fn document(name: &LockName, leader: Option<&Leader>) -> Value {
    json!({
        "schema": "palisade.elect/1",
        "election": name.as_str(),
        "leader": leader.map(|leader| json!({
            "token": wide(leader.token.get()),
            "value": String::from_utf8_lossy(&leader.value),
            "client": leader.client.as_str(),
            "session": wide(leader.session.0),
        })),
    })
}
