//! Palisade for a load generator of another program: starts three nodes as processes with their data on disk, and does
//! on stdin's lines what they say (`ID VERB ARGUMENTS`), answering on stdout in any order (`ID ok ANSWER`, `ID err TEXT`).
//!
//! ```text
//! hello 1                    pids → 101,102,103          leader → 0
//! open 2 | open any → s7     acquire s7 LOCK 1 → TOKEN   release s7 LOCK TOKEN     check s7 LOCK TOKEN → 1
//! leases 0 333 10000 → g1    beat g1 0 64 → 64           counters                  restart 1      quit
//! ```
//!
//! Each `open` is a client of its own: a connection with one session. Like every client by default it moves to the
//! leader; `--stay` keeps it at the node that was named, which relays. It measures nothing itself.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, bail};
use palisade_client::{Client, ClientConfig, LockGuard, Session};
use palisade_core::ids::LockName;
use palisade_host::Host;
use palisade_proto::v1;
use palisade_testkit::cluster::ProcessCluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep};

/// From the start of the processes to a healthy cluster.
const READY_PATIENCE: Duration = Duration::from_secs(30);
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

fn main() -> anyhow::Result<()> {
    let stay = std::env::args().any(|argument| argument == "--stay");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let driver = Rc::new(Driver::start(stay).await?);
        let writer = spawn_local(write(driver.clone()));
        let read = read(&driver).await;
        driver.answers.close();
        let wrote = writer.await?;
        read.and(wrote)
    })
}

/// The program beside this one, of the same build.
fn palisade() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().and_then(Path::parent).context("this program has no folder")?;
    let program = folder.join("palisade");
    if !program.is_file() {
        bail!("{} is missing: build the program with the same profile", program.display());
    }
    Ok(program)
}

/// Answers that wait to be written, all of them at once.
#[derive(Default)]
struct Answers {
    text: RefCell<String>,
    closed: RefCell<bool>,
    arrived: Notify,
}

impl Answers {
    fn put(&self, id: &str, answer: &anyhow::Result<String>) {
        let mut text = self.text.borrow_mut();
        text.push_str(id);
        match answer {
            Ok(answer) => {
                text.push_str(" ok ");
                text.push_str(answer);
            }
            Err(error) => {
                text.push_str(" err ");
                text.push_str(&format!("{error:#}").replace('\n', " "));
            }
        }
        text.push('\n');
        self.arrived.notify_one();
    }

    fn close(&self) {
        *self.closed.borrow_mut() = true;
        self.arrived.notify_one();
    }
}

struct Driver {
    stay: bool,
    cluster: RefCell<ProcessCluster>,
    observer: Client,
    sessions: RefCell<HashMap<String, Rc<Held>>>,
    groups: RefCell<HashMap<String, Rc<Vec<Session>>>>,
    answers: Rc<Answers>,
}

/// A session and what it holds.
struct Held {
    client: Client,
    session: Session,
    guards: RefCell<HashMap<String, LockGuard>>,
}

async fn read(driver: &Rc<Driver>) -> anyhow::Result<()> {
    let mut input = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let mut bytes = Vec::with_capacity(READ_BYTES);
    loop {
        if input.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        let Some(end) = bytes.iter().rposition(|&byte| byte == b'\n') else { continue };
        for line in bytes[..end].split(|&byte| byte == b'\n') {
            let line = std::str::from_utf8(line)?.to_owned();
            let (id, rest) = line.split_once(' ').context("a line has an id and a verb")?;
            if rest == "quit" {
                driver.answers.put(id, &Ok(String::new()));
                return Ok(());
            }
            let (driver, id, rest) = (driver.clone(), id.to_owned(), rest.to_owned());
            spawn_local(async move {
                let answer = driver.answer(&id, &rest).await;
                driver.answers.put(&id, &answer);
            });
        }
        bytes.drain(..=end);
    }
}

async fn write(driver: Rc<Driver>) -> anyhow::Result<()> {
    let answers = driver.answers.clone();
    let mut output = pipe::Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?;
    loop {
        answers.arrived.notified().await;
        // What else is ready goes with it.
        tokio::task::yield_now().await;
        let text = std::mem::take(&mut *answers.text.borrow_mut());
        output.write_all(text.as_bytes()).await?;
        if *answers.closed.borrow() {
            return Ok(());
        }
    }
}

impl Driver {
    async fn start(stay: bool) -> anyhow::Result<Self> {
        let cluster = ProcessCluster::start(&palisade()?, 3)?;
        let observer = Client::new(ClientConfig::new(cluster.endpoints()), Host::system())?;
        let driver = Self {
            stay,
            cluster: RefCell::new(cluster),
            observer,
            sessions: RefCell::default(),
            groups: RefCell::default(),
            answers: Rc::default(),
        };
        driver.ready().await?;
        Ok(driver)
    }

    async fn ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_PATIENCE;
        loop {
            let status = self.observer.status(false).await;
            if status.as_ref().is_ok_and(|status| {
                status.healthy && status.nodes.iter().all(|node| node.role != "unreachable")
            }) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                bail!("the cluster was not ready within {READY_PATIENCE:?}: {status:?}");
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn answer(&self, id: &str, request: &str) -> anyhow::Result<String> {
        let words: Vec<&str> = request.split(' ').collect();
        match *words.as_slice() {
            ["hello", _] | ["prepare", ..] | ["counters"] => Ok(String::new()),
            ["pids"] => {
                let cluster = self.cluster.borrow();
                let pids: Vec<String> =
                    (0..3).filter_map(|node| cluster.pid(node)).map(|pid| pid.to_string()).collect();
                Ok(pids.join(","))
            }
            ["leader"] => self.leader().await,
            ["open", node] => self.open(id, node).await,
            ["acquire", session, lock, wait] => self.acquire(session, lock, wait == "1").await,
            ["release", session, lock, _token] => self.release(session, lock).await,
            ["check", session, lock, token] => self.check(session, lock, token.parse()?).await,
            ["leases", node, count, ttl] => self.leases(id, node, count.parse()?, ttl.parse()?).await,
            ["beat", group, from, to] => self.beat(group, from.parse()?, to.parse()?).await,
            ["restart", node] => {
                let mut cluster = self.cluster.borrow_mut();
                let node: usize = node.parse()?;
                cluster.kill(node);
                cluster.start_node(node)?;
                Ok(String::new())
            }
            _ => bail!("not understood: {request}"),
        }
    }

    async fn leader(&self) -> anyhow::Result<String> {
        let status = self.observer.status(false).await?;
        let name = status.leader.map(|leader| leader.name).context("nobody leads")?;
        let cluster = self.cluster.borrow();
        let at = cluster.nodes().iter().position(|node| node.name == name).context("an unknown leader")?;
        Ok(at.to_string())
    }

    /// The named node first; the others when it fails.
    fn client(&self, node: &str, ttl: Option<Duration>) -> anyhow::Result<Client> {
        let mut endpoints = self.cluster.borrow().endpoints();
        if let Ok(node) = node.parse::<usize>() {
            let count = endpoints.len();
            endpoints.rotate_left(node % count);
        }
        let mut config = ClientConfig::new(endpoints);
        config.follow_leader = !self.stay;
        config.ttl = ttl.unwrap_or(config.ttl);
        Ok(Client::new(config, Host::system())?)
    }

    async fn open(&self, id: &str, node: &str) -> anyhow::Result<String> {
        let client = self.client(node, None)?;
        let session = client.open_session().await?;
        let name = format!("s{id}");
        let held = Held { client, session, guards: RefCell::default() };
        self.sessions.borrow_mut().insert(name.clone(), Rc::new(held));
        Ok(name)
    }

    fn session(&self, name: &str) -> anyhow::Result<Rc<Held>> {
        self.sessions.borrow().get(name).cloned().context("no such session")
    }

    async fn acquire(&self, session: &str, lock: &str, wait: bool) -> anyhow::Result<String> {
        let held = self.session(session)?;
        let asked = held.session.lock(LockName::new(lock)?);
        let asked = if wait { asked } else { asked.try_now() };
        let guard = asked.acquire().await?;
        let token = guard.token().get().to_string();
        held.guards.borrow_mut().insert(lock.to_owned(), guard);
        Ok(token)
    }

    async fn release(&self, session: &str, lock: &str) -> anyhow::Result<String> {
        let held = self.session(session)?;
        let guard = held.guards.borrow_mut().remove(lock).context("not held")?;
        guard.release().await?;
        Ok(String::new())
    }

    async fn check(&self, session: &str, lock: &str, token: u64) -> anyhow::Result<String> {
        let held = self.session(session)?;
        let acquisition = {
            let guards = held.guards.borrow();
            let guard = guards.get(lock).context("not held")?;
            guard.acquisition()
        };
        let plain = v1::PlainCheck {
            acquisition: Some(v1::AcquisitionId {
                session: acquisition.session.0,
                number: acquisition.number.0,
            }),
            lock: lock.to_owned(),
            token,
            mode: v1::Mode::Exclusive.into(),
            ..v1::PlainCheck::default()
        };
        let item = v1::CheckItem { what: Some(v1::check_item::What::Plain(plain)), lock: lock.to_owned() };
        let verdicts = held.client.check(vec![item]).await?;
        let current = verdicts.first().is_some_and(|verdict| verdict.state() == v1::verdict::State::Current);
        Ok(u8::from(current).to_string())
    }

    /// Many sessions on one connection. The client keeps them alive by itself, as it always does.
    async fn leases(&self, id: &str, node: &str, count: usize, ttl_ms: u64) -> anyhow::Result<String> {
        let client = self.client(node, Some(Duration::from_millis(ttl_ms)))?;
        let openings: Vec<_> = (0..count)
            .map(|_| {
                let client = client.clone();
                spawn_local(async move { client.open_session().await })
            })
            .collect();
        let mut sessions = Vec::with_capacity(count);
        for opening in openings {
            sessions.push(opening.await??);
        }
        let name = format!("g{id}");
        self.groups.borrow_mut().insert(name.clone(), Rc::new(sessions));
        Ok(name)
    }

    async fn beat(&self, group: &str, from: usize, to: usize) -> anyhow::Result<String> {
        let sessions = self.groups.borrow().get(group).cloned().context("no such group")?;
        let renewals: Vec<_> = (from..to.min(sessions.len()))
            .map(|at| {
                let sessions = sessions.clone();
                spawn_local(async move { sessions[at].renew_now().await })
            })
            .collect();
        let mut renewed = 0;
        for renewal in renewals {
            renewed += u64::from(renewal.await?.is_ok());
        }
        Ok(renewed.to_string())
    }
}
