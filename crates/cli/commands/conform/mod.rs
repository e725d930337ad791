//! `palisade conform`: plays the fence's scenarios against somebody's own HTTP or gRPC service.
//!
//! Sequencers come from the cluster, by acquiring the lock that guards the service again and again: a superseded one is
//! truly superseded. What the service answers is all that is judged, and, with `--read`, what it holds afterwards. What
//! only the inside of a service shows, such as a crash between check and commit, is for the library's suite
//! (`palisade_fence::conformance`).

mod holders;
mod refusal;
mod report;
mod scenarios;
mod subject;
mod wire;

use clap::Args;
use http::{HeaderName, HeaderValue};
use palisade_client::Client;
use palisade_core::ids::LockName;
use palisade_host::Host;

use self::holders::{Forger, Holders};
use self::report::{Report, Verdict};
use self::scenarios::Scenario;
use self::subject::{ID, Subject, Trouble};
use self::wire::{Call, Protocol, Service, Url, header};
use super::{Failure, client_config};
use crate::args::Globals;
use crate::exit::Exit;
use crate::output::Output;

/// `palisade conform`
#[derive(Debug, Args)]
#[command(after_help = "\
It writes to the service, under a lock that it takes from whoever wants it: use a service of a test environment. No TLS:
name the service itself, behind whatever ends it. Every write has a word of its own in the place of {id}; with --read, what
was taken must be in that answer, in the order of the tokens, and what was refused must not.

Over HTTP/1.1 a request is METHOD PATH, and the sequencer goes into the header Palisade-Sequencer. In gRPC it is
package.Service/Method, and the sequencer is the metadata palisade-sequencer. A message is JSON with the numbers of its fields
for names, as the .proto has them: {\"1\": \"{id}\", \"2\": 7, \"3\": {\"1\": true}}. Text is a string, a whole number an int, a uint
or an enum, a fraction a double, a list a repeated field, an object a message. Others say what they are: {\"sint\": -1},
{\"fixed32\": 7}, {\"fixed64\": 7}, {\"float\": 0.5}, {\"double\": 2}, {\"hex\": \"00ff\"} for bytes. One message is sent, one or a stream
comes back; a claim and a read have no fields.

Examples:
  palisade conform http://127.0.0.1:8080 --lock orders/shard-7 --write 'POST /orders' --claim 'POST /claim'
  palisade conform http://127.0.0.1:8080 --lock orders/shard-7 --write 'PUT /orders/7' --body '{\"text\": \"{id}\"}' \\
      --header 'Content-Type: application/json' --read /orders --restart 'systemctl restart orders'
  palisade conform grpc://127.0.0.1:8080 --lock orders/shard-7 --write orders.v1.Orders/Append --body '{\"1\": \"{id}\"}' \\
      --claim orders.v1.Orders/Claim --read orders.v1.Orders/List

Exit codes: 0 all was right that was run, 1 something was wrong, 2 what was typed makes no sense, 3 no answer from the
service or the cluster.")]
pub(crate) struct ConformArgs {
    /// The service: http://host:port, and a path that all others are below; or grpc://host:port
    #[arg(value_parser = checked_url)]
    url: String,
    /// The lock that guards what is written
    #[arg(long, value_parser = LockName::new)]
    lock: LockName,
    /// A request that writes: METHOD PATH, in gRPC package.Service/Method
    #[arg(long, value_name = "REQUEST", value_parser = Call::parse, default_value = "POST /")]
    write: Call,
    /// A request that raises the mark and changes nothing
    #[arg(long, value_name = "REQUEST", value_parser = Call::parse)]
    claim: Option<Call>,
    /// A request that shows all that was written, in its order: PATH, in gRPC package.Service/Method
    #[arg(long, value_name = "PATH", value_parser = Call::read)]
    read: Option<Call>,
    /// What is written; {id} becomes another word each time [default: {id}, in gRPC {"1": "{id}"}]
    #[arg(long)]
    body: Option<String>,
    /// A header, in gRPC metadata, for every request; may be given again and again
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// A lock that does not guard the service
    #[arg(long, value_name = "NAME", value_parser = LockName::new, default_value = "palisade/conform")]
    other_lock: LockName,
    /// A shell command that restarts the service, and returns
    #[arg(long, value_name = "COMMAND")]
    restart: Option<String>,
    /// The service was made for shared writers: nothing is asked about them
    #[arg(long)]
    shared_writers: bool,
    /// How many write at once
    #[arg(long, value_parser = clap::value_parser!(u16).range(2..=1_000), default_value_t = 32)]
    racers: u16,
}

fn checked_url(text: &str) -> Result<String, String> {
    Url::parse(text).map(|_| text.to_owned())
}

pub(crate) async fn run(globals: &Globals, arguments: &ConformArgs) -> Result<Exit, Failure> {
    let (service, body) =
        typed(globals, arguments).map_err(|what| Failure::new(Exit::USAGE, anyhow::anyhow!(what)))?;
    service.listens().await.map_err(|error| Failure::new(Exit::UNAVAILABLE, anyhow::anyhow!(error)))?;
    let host = Host::system();
    let forger = Forger::new(&host.entropy);
    let client = Client::new(client_config(globals, None)?, host)?;
    let holders = Holders::new(&client, arguments.lock.clone(), globals.timeout).await?;
    let mut subject = Subject {
        service,
        write: arguments.write.clone(),
        claim: arguments.claim.clone(),
        read: arguments.read.clone(),
        body,
        restart: arguments.restart.clone(),
        racers: usize::from(arguments.racers),
        shared_writers: arguments.shared_writers,
        other_lock: arguments.other_lock.clone(),
        holders,
        forger,
        sent: Vec::new(),
        writes: 0,
    };
    let verdicts = play(&mut subject).await;
    drop(subject);
    // Frees the lock.
    client.close().await;
    let report = Report { url: arguments.url.clone(), lock: arguments.lock.to_string(), verdicts: verdicts? };
    Output::new(globals).answer("palisade.conform/1", |output| report.people(output), || report.scripts())?;
    Ok(if report.right() { Exit::OK } else { Exit::NO })
}

/// The service and what is written to it, if they fit each other.
fn typed(globals: &Globals, arguments: &ConformArgs) -> Result<(Service, String), String> {
    let url = Url::parse(&arguments.url)?;
    let (default, how) = match url.protocol {
        Protocol::Http => (ID.to_owned(), "METHOD PATH, and of a read PATH"),
        Protocol::Grpc => (format!(r#"{{"1": "{ID}"}}"#), "package.Service/Method"),
    };
    let mut calls = [Some(&arguments.write), arguments.claim.as_ref(), arguments.read.as_ref()].into_iter();
    if !calls.all(|call| call.is_none_or(|call| call.protocol() == url.protocol)) {
        return Err(format!("a request to {} is {how}: see --write, --claim and --read", arguments.url));
    }
    let body = arguments.body.clone().unwrap_or(default);
    if arguments.read.is_some() && !body.contains(ID) {
        return Err(format!("with --read, the body needs a {ID} to be found by"));
    }
    let service = Service { url, headers: arguments.headers.clone(), patience: globals.timeout };
    service.takes(&body.replace(ID, "a"))?;
    Ok((service, body))
}

async fn play(subject: &mut Subject) -> Result<Vec<(Scenario, Verdict)>, Failure> {
    let mut verdicts = Vec::with_capacity(Scenario::ALL.len());
    for scenario in Scenario::ALL {
        let verdict = match scenario.left_out(subject) {
            Some(why) => Verdict::NotRun(why),
            None => match scenario.play(subject).await {
                Ok(()) => Verdict::Right,
                Err(Trouble::Wrong(what)) => Verdict::Wrong(what),
                Err(Trouble::Failed(failure)) => return Err(failure),
            },
        };
        verdicts.push((scenario, verdict));
    }
    Ok(verdicts)
}
