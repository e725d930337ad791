//! The hidden worker process: a holder that does what it is told, and asks nobody whether it still may.
//!
//! Orders come as lines of JSON on stdin, one report for each goes out on stdout. Like most programs it acts on what it
//! believes: no check of the lease before a write. In the fenced round the resource that it calls does what a service
//! would do with the request: it verifies the sequencer, and lets the mark decide. Ends with its stdin.

use std::fs::OpenOptions;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use palisade_client::{Client, LockGuard, ReleaseError, Session};
use palisade_core::holding::Holding;
use palisade_core::ids::{ClusterId, LockName, Slot};
use palisade_fence::adapters::file::FileResource;
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::keys::KeySet;
use palisade_fence::verifier::{Presented, Verifier};
use palisade_host::Host;
use palisade_proto::v1;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::{Failure, client_config};
use super::story::Line;
use crate::args::Globals;
use crate::exit::Exit;

/// For closing the session at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// `palisade demo-worker`
#[derive(Debug, Args)]
pub(crate) struct DemoWorkerArgs {
    #[arg(long)]
    name: String,
    #[arg(long)]
    lock: String,
    #[arg(long)]
    ttl_ms: u64,
    /// What is written to.
    #[arg(long)]
    file: PathBuf,
    /// The file is behind a guard.
    #[arg(long)]
    fenced: bool,
}

/// What a worker is told to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub(super) enum Order {
    Acquire,
    Claim,
    Write { text: String },
    Release,
}

/// What came of it. The first one, unasked, is `Ready`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub(super) enum Report {
    Ready,
    Acquired { token: u64 },
    Claimed { mark: u64 },
    NothingToClaim,
    Wrote { token: u64, mark: Option<u64> },
    Refused { token: u64, mark: u64 },
    Released,
    ReleaseRefused { reason: String, superseded_by: Option<u64> },
    Failed { message: String },
}

pub(crate) async fn run(globals: &Globals, arguments: &DemoWorkerArgs) -> Result<Exit, Failure> {
    let mut orders = orders()?;
    let mut settings = client_config(globals, Some(&arguments.name))?;
    settings.ttl = Duration::from_millis(arguments.ttl_ms);
    let client = Client::new(settings, Host::system())?;
    let mut worker = Worker::begin(client.clone(), arguments).await?;
    tell(&Report::Ready)?;
    while let Some(order) = orders.recv().await {
        let report = match worker.obey(order).await {
            Ok(report) => report,
            Err(error) => Report::Failed { message: format!("{error:#}") },
        };
        tell(&report)?;
    }
    drop(worker);
    // A session that is not closed in time expires.
    let _ = timeout(FAREWELL, client.close()).await;
    Ok(Exit::OK)
}

/// Lines from stdin. A thread of its own, because nothing else can wait for them.
fn orders() -> io::Result<mpsc::Receiver<Order>> {
    let (sender, orders) = mpsc::channel(1);
    let read = move || {
        for line in io::stdin().lock().lines() {
            let Some(order) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { return };
            if sender.blocking_send(order).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("orders".to_owned()).spawn(read)?;
    Ok(orders)
}

fn tell(report: &Report) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", serde_json::to_string(report)?)?;
    stdout.flush()
}

struct Worker {
    client: Client,
    session: Session,
    lock: LockName,
    resource: Resource,
    held: Option<Held>,
}

struct Held {
    guard: LockGuard,
    sequencer: String,
}

/// What is written to.
enum Resource {
    Plain(PathBuf),
    Fenced { verifier: Verifier, guard: Box<Guard<FileResource>> },
}

impl Worker {
    async fn begin(client: Client, arguments: &DemoWorkerArgs) -> anyhow::Result<Self> {
        let lock = LockName::new(&arguments.lock)?;
        let resource = if arguments.fenced {
            let cluster: ClusterId = client
                .status(false)
                .await?
                .cluster_id
                .parse()
                .map_err(|error| anyhow!("cluster id: {error}"))?;
            let file = FileResource::open(&arguments.file)?;
            Resource::Fenced {
                verifier: Verifier::new(cluster, keys(&client).await?),
                guard: Box::new(Guard::new(file, Scope::new(cluster, lock.clone()))),
            }
        } else {
            Resource::Plain(arguments.file.clone())
        };
        let session = client.open_session().await?;
        Ok(Self { client, session, lock, resource, held: None })
    }

    async fn obey(&mut self, order: Order) -> anyhow::Result<Report> {
        match order {
            Order::Acquire => self.acquire().await,
            Order::Claim => self.claim().await,
            Order::Write { text } => self.write(&text).await,
            Order::Release => self.release().await,
        }
    }

    async fn acquire(&mut self) -> anyhow::Result<Report> {
        let lock = self.session.lock(self.lock.clone()).lock_delay(Duration::ZERO).with_sequencer();
        let guard = lock.acquire().await?;
        let (sequencer, token) = (guard.sequencer().await?, guard.token().get());
        self.held = Some(Held { guard, sequencer });
        Ok(Report::Acquired { token })
    }

    async fn claim(&self) -> anyhow::Result<Report> {
        let Resource::Fenced { guard, .. } = &self.resource else { return Ok(Report::NothingToClaim) };
        let presented = self.present().await?;
        Ok(Report::Claimed { mark: guard.claim(&presented)?.0.get() })
    }

    /// Writes at once, on nothing but the belief of holding the lock.
    async fn write(&self, text: &str) -> anyhow::Result<Report> {
        let held = self.holding()?;
        let token = held.guard.token();
        let line = format!("{}\n", Line::encode(text, token.get()));
        let guard = match &self.resource {
            Resource::Plain(path) => {
                let mut file = OpenOptions::new().create(true).append(true).open(path)?;
                file.write_all(line.as_bytes())?;
                return Ok(Report::Wrote { token: token.get(), mark: None });
            }
            Resource::Fenced { guard, .. } => guard,
        };
        let presented = self.present().await?;
        match guard.write(&presented, |file| file.append(line.as_bytes())) {
            Ok(()) => {
                let mark = guard.mark(&self.lock, Slot(0))?.map(|mark| mark.0.get());
                Ok(Report::Wrote { token: token.get(), mark })
            }
            Err(FenceError::Stale { presented, mark, .. }) => {
                held.guard.rejected(mark);
                Ok(Report::Refused { token: presented.get(), mark: mark.get() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The resource's side of a request: verifies the sequencer, with keys fetched again when it does not know one.
    async fn present(&self) -> anyhow::Result<Presented> {
        let Resource::Fenced { verifier, .. } = &self.resource else {
            return Err(anyhow!("a plain file takes no sequencer"));
        };
        let sequencer = &self.holding()?.sequencer;
        match verifier.verify(sequencer) {
            Err(FenceError::UnknownKey { .. }) => {
                verifier.replace_keys(keys(&self.client).await?);
                Ok(verifier.verify(sequencer)?)
            }
            verified => Ok(verified?),
        }
    }

    async fn release(&mut self) -> anyhow::Result<Report> {
        let held = self.held.take().context("a release of nothing")?;
        let (reason, superseded_by) = match held.guard.release().await {
            Ok(_) => return Ok(Report::Released),
            Err(ReleaseError::NotHeld { ended, superseded_by: Some(holder) }) => {
                (ended.map_or("not held", |ended| ended.words()).to_owned(), Some(holder.token.get()))
            }
            Err(ReleaseError::SessionLost(how)) => {
                (format!("session {how}"), superseded(&self.client, held.sequencer).await?)
            }
            Err(error) => (error.to_string(), superseded(&self.client, held.sequencer).await?),
        };
        Ok(Report::ReleaseRefused { reason, superseded_by })
    }

    fn holding(&self) -> anyhow::Result<&Held> {
        self.held.as_ref().context("told to write without ever having held the lock")
    }
}

async fn keys(client: &Client) -> anyhow::Result<KeySet> {
    Ok(KeySet::from_jwks(&client.keys().await?)?)
}

/// The token that superseded a sequencer, as the cluster tells it.
async fn superseded(client: &Client, sequencer: String) -> anyhow::Result<Option<u64>> {
    let what = Some(v1::check_item::What::Sequencer(sequencer));
    let verdicts = client.check(vec![v1::CheckItem { what, ..v1::CheckItem::default() }]).await?;
    let token = verdicts.first().map_or(0, |verdict| verdict.superseded_by);
    Ok((token > 0).then_some(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_reports_are_one_line_each() {
        let order = Order::Write { text: "A1".to_owned() };
        let line = serde_json::to_string(&order).unwrap();
        assert_eq!(line, r#"{"order":"write","text":"A1"}"#);
        assert_eq!(serde_json::from_str::<Order>(&line).unwrap(), order);
        let report = Report::Refused { token: 35, mark: 36 };
        let line = serde_json::to_string(&report).unwrap();
        assert_eq!(line, r#"{"report":"refused","token":35,"mark":36}"#);
        assert_eq!(serde_json::from_str::<Report>(&line).unwrap(), report);
    }
}
