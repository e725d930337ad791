//! The client: its settings, the handle to its task, and calls that need no session.

use std::fmt;
use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use palisade_core::ids::{AcquisitionId, LockName, SessionId};
use palisade_host::{Host, Moment, channel};
use palisade_proto::v1;
use palisade_proto::v1::cluster_client::ClusterClient;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use palisade_proto::v1::sequencers_client::SequencersClient;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::transport::Channel;

use crate::config::{ClientConfig, ConfigError, Settings};
use crate::driver::{Command, Driver, Opened, Purpose};
use crate::error::{CallError, OpenError};
use crate::session::{Session, SessionShared};
use crate::state_file::{Secret, StateFile};
use crate::taken_over::Resuming;
use crate::watch::{Filter, From, Watch};
use crate::wire;

/// Commands that may wait for the client's task.
const COMMANDS_MAX: usize = 1_024;
/// One node's time to answer a unary call, while others can be asked.
const UNARY_TIMEOUT: Duration = Duration::from_secs(2);

/// What somebody left behind by dropping it. The task ends it on the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Some caller of this session no longer waits; its answer channel is closed.
    Wait(SessionId),
    /// The guard of a part, by its place in the grant.
    Guard(AcquisitionId, usize),
    /// What a session took over and nobody adopted.
    Kept(SessionId),
    /// The last handle of a session.
    Session(SessionId),
}

/// What was left behind and not collected yet. Bounded by what exists: each wait, guard and session comes here once.
#[derive(Debug, Default)]
pub(crate) struct LeftQueue {
    items: Mutex<Vec<Left>>,
    arrived: Notify,
}

impl LeftQueue {
    pub(crate) fn push(&self, left: Left) {
        self.items.lock().push(left);
        self.arrived.notify_one();
    }

    pub(crate) fn take(&self) -> Vec<Left> {
        std::mem::take(&mut *self.items.lock())
    }

    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

/// What became of a request.
pub(crate) struct Answered {
    /// When its first copy left: the cluster can have decided it for that one.
    pub(crate) sent: Moment,
    /// Refusals are answers.
    pub(crate) answer: Result<Answer, v1::Error>,
}

/// The way to the client's task.
pub(crate) struct ClientHandle {
    commands: mpsc::Sender<Command>,
    left: Arc<LeftQueue>,
    /// Where tasks of this client run.
    pub(crate) runtime: Handle,
    pub(crate) host: Host,
    pub(crate) settings: Arc<Settings>,
    pub(crate) resuming: Option<tokio::sync::Mutex<Resuming>>,
}

impl fmt::Debug for ClientHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientHandle").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl ClientHandle {
    /// Hands `command` to the task. `Unavailable`: there was no room for a caller's whole patience, and it did not go.
    pub(crate) async fn call(&self, command: Command) -> Result<(), CallError> {
        let command = match self.commands.try_send(command) {
            Ok(()) => return Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(CallError::ClientClosed),
            Err(mpsc::error::TrySendError::Full(command)) => command,
        };
        match timeout(self.settings.request_timeout, self.commands.send(command)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(CallError::ClientClosed),
            Err(_) => {
                Err(CallError::Unavailable { last: "too many requests wait in this client".to_owned() })
            }
        }
    }

    /// Asks what names all that it is about, so that it can be repeated: a read, an operator's request, or something of a
    /// session.
    pub(crate) async fn ask(
        &self,
        session: Option<Arc<SessionShared>>,
        message: Op,
    ) -> Result<Answered, CallError> {
        let (reply, answer) = oneshot::channel();
        self.call(Command::Ask { session, message, reply }).await?;
        answer.await.unwrap_or(Err(CallError::ClientClosed))
    }

    pub(crate) fn leave(&self, left: Left) {
        self.left.push(left);
    }
}

/// A client of one cluster: one connection, any number of sessions. Clones are the same client.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) handle: Arc<ClientHandle>,
}

impl Client {
    /// Starts the client's task, which connects in the background. The task ends after [`Client::close`], or once the
    /// last handle, session and guard are dropped.
    ///
    /// # Errors
    ///
    /// When the configuration is refused, or there is no runtime to run the task.
    pub fn new(config: ClientConfig, host: Host) -> Result<Self, ConfigError> {
        let resuming = config.state_file.as_deref().map(taken).transpose()?;
        let settings = Arc::new(Settings::try_from(config)?);
        let runtime = Handle::try_current().map_err(|_| ConfigError::NoRuntime)?;
        let (commands, incoming) = mpsc::channel(COMMANDS_MAX);
        let left = Arc::new(LeftQueue::default());
        let driver = Driver::new(settings.clone(), host.clone(), left.clone());
        runtime.spawn(driver.run(incoming));
        let resuming = resuming.map(tokio::sync::Mutex::new);
        Ok(Self { handle: Arc::new(ClientHandle { commands, left, runtime, host, settings, resuming }) })
    }

    /// Opens a session, kept alive until it is closed, dropped or lost. Many share the one connection.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub async fn open_session(&self) -> Result<Session, OpenError> {
        let opened = self.open(self.draw(), None, Purpose::Open).await?;
        opened.handle.map(Session::new).ok_or(OpenError::ClientClosed)
    }

    /// A new secret.
    pub(crate) fn draw(&self) -> Secret {
        let mut secret = [0; 32];
        self.handle.host.entropy.fill(&mut secret);
        secret
    }

    pub(crate) async fn open(
        &self,
        secret: Secret,
        replaces: Option<v1::Replaces>,
        purpose: Purpose,
    ) -> Result<Opened, OpenError> {
        let (reply, answer) = oneshot::channel();
        let client = self.handle.clone();
        let command = Command::Open { client, secret, replaces, purpose, reply };
        self.handle.call(command).await.map_err(|error| match error {
            CallError::Unavailable { last } => OpenError::Unavailable { last },
            CallError::SessionLost(_) | CallError::Refused { .. } | CallError::ClientClosed => {
                OpenError::ClientClosed
            }
        })?;
        answer.await.unwrap_or(Err(OpenError::ClientClosed))
    }

    /// Who holds a lock, who waits, what came before. Linearizable.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn lock_view(&self, lock: &LockName) -> Result<v1::LockView, CallError> {
        match self.read(Op::GetLock(v1::GetLock { lock: lock.as_str().to_owned() })).await? {
            Answer::Lock(view) => Ok(view),
            _ => Err(wire::unexpected()),
        }
    }

    /// Locks whose names begin with `prefix`, after the name `after`. A `limit` of 0 means 1,000. Linearizable.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn list_locks(&self, prefix: &str, limit: u32, after: &str) -> Result<v1::LockList, CallError> {
        let op = v1::ListLocks { prefix: prefix.to_owned(), limit, after: after.to_owned() };
        match self.read(Op::ListLocks(op)).await? {
            Answer::Locks(list) => Ok(list),
            _ => Err(wire::unexpected()),
        }
    }

    /// What happens to a lock, or to all whose names begin so. It connects by itself, to any node, when it is asked for
    /// the first news.
    pub fn watch(&self, filter: Filter, from: From) -> Watch {
        Watch::new(self.handle.clone(), filter, from)
    }

    /// How the last holds of a lock ended, the newest first; `before` is the number of the last one of the page before,
    /// 0 for the first page. A `limit` of 0 means 100. Linearizable.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn history(
        &self,
        lock: &LockName,
        limit: u32,
        before: u64,
    ) -> Result<v1::HistoryPage, CallError> {
        let op = v1::GetHistory { lock: lock.as_str().to_owned(), limit, before };
        match self.read(Op::History(op)).await? {
            Answer::History(page) => Ok(page),
            _ => Err(wire::unexpected()),
        }
    }

    /// Where tenures ended without their holders' doing (expired, broken, overdue), the newest first. Linearizable.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn audit(&self, asked: v1::GetAudit) -> Result<v1::AuditPage, CallError> {
        match self.read(Op::Audit(asked)).await? {
            Answer::Audit(page) => Ok(page),
            _ => Err(wire::unexpected()),
        }
    }

    /// Live sessions whose clients' names begin with `client`, after the session `after` (0: from the first), in the
    /// order of their numbers. A `limit` of 0 means 1,000. Linearizable.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn list_sessions(
        &self,
        client: &str,
        limit: u32,
        after: u64,
    ) -> Result<v1::SessionList, CallError> {
        let op = v1::ListSessions { client: client.to_owned(), limit, after };
        match self.read(Op::ListSessions(op)).await? {
            Answer::Sessions(list) => Ok(list),
            _ => Err(wire::unexpected()),
        }
    }

    /// Whether sequencers are current: one verdict for each item, in order. Linearizable.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn check(&self, items: Vec<v1::CheckItem>) -> Result<Vec<v1::Verdict>, CallError> {
        match self.read(Op::Check(v1::Check { items })).await? {
            Answer::Check(answer) => Ok(answer.verdicts),
            _ => Err(wire::unexpected()),
        }
    }

    /// The cluster as the first endpoint that answers sees it; with `local`, that node's own view, without a quorum.
    ///
    /// # Errors
    ///
    /// `Unavailable` when no endpoint answers in time.
    pub async fn status(&self, local: bool) -> Result<v1::StatusAnswer, CallError> {
        self.unary(|channel| async move {
            let answer = ClusterClient::new(channel).status(v1::StatusRequest { local }).await?;
            Ok(answer.into_inner())
        })
        .await
    }

    /// The cluster's public keys, as a JWKS document.
    ///
    /// # Errors
    ///
    /// `Unavailable` when no endpoint answers in time.
    pub async fn keys(&self) -> Result<String, CallError> {
        self.unary(|channel| async move {
            let answer = SequencersClient::new(channel).keys(v1::KeysRequest {}).await?;
            Ok(answer.into_inner().jwks)
        })
        .await
    }

    /// Closes every session and ends the client's task. Other handles of this client are closed with it.
    pub async fn close(self) {
        let (reply, done) = oneshot::channel();
        if self.handle.call(Command::Shutdown { reply }).await.is_ok() {
            // The task drops the sender at its end, however it ends.
            let _ = done.await;
        }
    }

    /// Asks for what is of no session.
    pub(crate) async fn read(&self, op: Op) -> Result<Answer, CallError> {
        self.handle.ask(None, op).await?.answer.map_err(wire::call_error)
    }

    /// Asks the endpoints in order, until one answers.
    pub(crate) async fn unary<T, F>(&self, ask: impl Fn(Channel) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, tonic::Status>>,
    {
        let settings = &self.handle.settings;
        let patience = Instant::now() + settings.request_timeout;
        let mut last = "no endpoint".to_owned();
        for endpoint in &settings.endpoints {
            let net = self.handle.host.net.clone();
            let channel = match channel(net, endpoint, settings.connection_keepalive()) {
                Ok(channel) => channel,
                Err(error) => {
                    last = format!("{endpoint}: {error}");
                    continue;
                }
            };
            match timeout_at(patience.min(Instant::now() + UNARY_TIMEOUT), ask(channel)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => last = format!("{endpoint}: {}", status.message()),
                Err(_) => last = format!("{endpoint}: no answer in time"),
            }
        }
        Err(CallError::Unavailable { last })
    }
}

fn taken(path: &Path) -> Result<Resuming, ConfigError> {
    let file = StateFile::take(path).map_err(|error| {
        let message = match error.kind() {
            ErrorKind::WouldBlock => "another process has it: only one can go on from it".to_owned(),
            _ => error.to_string(),
        };
        ConfigError::StateFile { path: path.to_owned(), message }
    })?;
    Ok(Resuming::new(file))
}
