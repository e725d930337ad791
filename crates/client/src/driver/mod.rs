//! The client's task: the one owner of the connection and of everything that is undecided.
//!
//! Callers hand it commands over a bounded channel and wait on a channel of their own; nothing here is behind a lock.
//! Everything that is ready at one time goes into one frame. [`outgoing`] is the queue towards the node, [`record`] the
//! memory of one session, [`link`] the connection; [`requests`] turns commands into requests, [`answers`] takes what
//! comes back, [`grants`] what is queued and granted, [`holding`] and [`changes`] what becomes of it; [`opening`] begins
//! sessions; [`binding`] starts over
//! on a new stream or under a new leader, [`elsewhere`] finds that leader when the present one is silent, [`upkeep`] is what
//! time asks for.

mod answers;
mod binding;
mod changes;
mod elsewhere;
mod grants;
mod holding;
mod link;
mod opening;
mod outgoing;
mod record;
mod requests;
mod signals;
mod upkeep;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use palisade_core::ids::{AcquisitionId, LockName, SessionId};
use palisade_host::{Host, Moment, PauseMeter};
use palisade_proto::v1;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::client::{Answered, ClientHandle, LeftQueue};
use crate::config::Settings;
use crate::error::{CallError, LostReason, OpenError};
use crate::lock::Granted;
use crate::session::{SessionHandle, SessionShared};
use crate::spec::AcquireSpec;
use crate::state_file::Secret;

use self::elsewhere::Elsewhere;
use self::link::{Happened, Link, Route};
use self::outgoing::Outgoing;
use self::record::{Opening, SessionRecord};
use self::signals::OwnSignals;

pub(crate) use self::changes::Change;

/// Requests of one frame, and commands that are taken at once.
const BATCH_MAX: usize = 512;
/// How often deadlines and patience are looked at.
const TICK: Duration = Duration::from_millis(100);

/// What callers ask of the task.
pub(crate) enum Command {
    Open {
        client: Arc<ClientHandle>,
        secret: Secret,
        replaces: Option<v1::Replaces>,
        purpose: Purpose,
        reply: oneshot::Sender<Result<Opened, OpenError>>,
    },
    /// Takes what a session took over.
    Adopt {
        session: Arc<SessionHandle>,
        number: u64,
        lock: LockName,
        reply: Granted,
    },
    Acquire {
        session: Arc<SessionHandle>,
        spec: AcquireSpec,
        reply: Granted,
    },
    /// Ends or changes what is held of an acquisition: the part at a place of its grant, or all of it.
    Change {
        acquisition: AcquisitionId,
        session: Arc<SessionShared>,
        place: Option<usize>,
        change: Change,
    },
    Close {
        session: Arc<SessionShared>,
        reply: oneshot::Sender<Result<(), CallError>>,
    },
    Renew {
        session: Arc<SessionShared>,
        reply: oneshot::Sender<Result<(), CallError>>,
    },
    Ask {
        session: Option<Arc<SessionShared>>,
        message: v1::request::Op,
        reply: oneshot::Sender<Result<Answered, CallError>>,
    },
    Shutdown {
        reply: oneshot::Sender<()>,
    },
}

/// What a session is opened for, and so what becomes of one that nobody is there to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be had by the caller, or closed.
    Open,
    /// To be had by the caller, or found by its secret another time.
    Resume,
    /// To learn which one the secret opened. It is left as it is.
    Find,
}

/// A session that was opened.
pub(crate) struct Opened {
    pub(crate) session: SessionId,
    /// None of one that was only to be found.
    pub(crate) handle: Option<Arc<SessionHandle>>,
    pub(crate) took_over: Option<v1::TookOver>,
}

/// A Renew that was sent and not answered.
struct Renewal {
    sent: Moment,
    at: Instant,
    /// Unanswered for longer than this, the connection is taken for dead.
    patience: Duration,
    sessions: Vec<u64>,
    report: v1::HolderReport,
}

/// The state of the task. Its maps are ordered, so that a simulation replays it exactly.
pub(crate) struct Driver {
    settings: Arc<Settings>,
    host: Host,
    left: Arc<LeftQueue>,
    sessions: BTreeMap<u64, SessionRecord>,
    openings: BTreeMap<u64, Opening>,
    next_opening: u64,
    outgoing: Outgoing,
    route: Route,
    renewals: BTreeMap<u64, Renewal>,
    next_renewal: u64,
    /// Some session's keepalive is due.
    renew_wanted: bool,
    /// Of the last leader frame of this stream.
    generation: Option<u64>,
    /// Of the last leader that this stream named.
    leader_term: u64,
    /// Since when a stream is being opened, or something is unanswered and nothing came.
    unanswered_since: Option<Instant>,
    /// Random, from 0 to 1, so that clients do not all lose patience at once.
    phase: f64,
    /// What went wrong last, for those who are told that nothing could be decided.
    last_trouble: String,
    pauses: PauseMeter,
    signals: OwnSignals,
    /// The stream is to be left for another node.
    leave: Option<Leave>,
    /// Everything is being closed, until then at the latest.
    ending: Option<Instant>,
    shutdowns: Vec<oneshot::Sender<()>>,
}

/// What the task did, or has to look at, in one turn.
enum Next {
    Done,
    Ticked,
    /// To the client's own connection.
    Here(Happened),
    /// To the one that is only asked who leads.
    Elsewhere(Happened),
}

/// Why a working stream is left.
enum Leave {
    /// For the leader, which the route already names.
    ToLeader,
    /// It does not do its work.
    Failed(String),
}

impl Driver {
    pub(crate) fn new(settings: Arc<Settings>, host: Host, left: Arc<LeftQueue>) -> Self {
        let route = Route::new(settings.endpoints.clone());
        let signals = OwnSignals::new(host.clock.clone());
        let spread = host.entropy.number();
        let phase = share(&host);
        Self {
            settings,
            host,
            left,
            sessions: BTreeMap::new(),
            openings: BTreeMap::new(),
            next_opening: 1,
            outgoing: Outgoing::new(spread),
            route,
            renewals: BTreeMap::new(),
            next_renewal: 1,
            renew_wanted: false,
            generation: None,
            leader_term: 0,
            unanswered_since: None,
            phase,
            last_trouble: "no node was reached yet".to_owned(),
            pauses: PauseMeter::default(),
            signals,
            leave: None,
            ending: None,
            shutdowns: Vec::new(),
        }
    }

    /// Runs until the client is closed, or nobody is left who could ask for anything.
    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let left = self.left.clone();
        let mut batch = Vec::with_capacity(BATCH_MAX);
        let mut link = self.connect();
        let mut elsewhere = Elsewhere::new(self.phase);
        let mut outbound: Option<mpsc::Sender<v1::ClientFrame>> = None;
        let mut asked = true;
        let timer = sleep(TICK);
        tokio::pin!(timer);
        while !self.ended() {
            let sendable = self.renew_wanted || self.outgoing.sendable();
            let next = tokio::select! {
                biased;
                () = &mut timer => {
                    self.tick(outbound.is_some());
                    timer.as_mut().reset(Instant::now() + TICK);
                    Next::Ticked
                }
                () = left.arrived() => {
                    self.collect_left();
                    Next::Done
                }
                happened = link.next() => Next::Here(happened),
                happened = elsewhere.next() => Next::Elsewhere(happened),
                taken = commands.recv_many(&mut batch, BATCH_MAX), if asked && self.outgoing.has_room() => {
                    asked = taken > 0;
                    self.take(&mut batch);
                    Next::Done
                }
                // Last, so that everything that is ready goes into one frame.
                room = room(outbound.as_ref()), if sendable => {
                    self.send(room.ok());
                    Next::Done
                }
            };
            match next {
                Next::Done => {}
                Next::Here(happened) => self.linked(happened, &mut link, &mut outbound),
                Next::Ticked => self.look_elsewhere(&mut elsewhere, &mut link, &mut outbound),
                Next::Elsewhere(happened) => {
                    elsewhere.happened(happened, self.share());
                    self.move_to_newer(&mut elsewhere, &mut link, &mut outbound);
                }
            }
            self.leave_if_asked(&mut link, &mut outbound);
        }
        self.end();
    }

    /// Nothing to take: no handle of this client is left.
    fn take(&mut self, batch: &mut Vec<Command>) {
        let now = Instant::now();
        if batch.is_empty() {
            self.end_by(now + self.settings.request_timeout);
        }
        for command in batch.drain(..) {
            self.command(command, now);
        }
    }

    fn send(&mut self, room: Option<mpsc::Permit<'_, v1::ClientFrame>>) {
        match room {
            Some(permit) => {
                if let Some(frame) = self.frame() {
                    self.unanswered_since.get_or_insert_with(Instant::now);
                    permit.send(frame);
                }
            }
            None => self.leave = Some(Leave::Failed("the stream was closed".to_owned())),
        }
    }

    fn connect(&mut self) -> Link {
        self.unanswered_since = Some(Instant::now());
        self.route.connect(&self.host, self.settings.connection_keepalive())
    }

    fn linked(
        &mut self,
        happened: Happened,
        link: &mut Link,
        outbound: &mut Option<mpsc::Sender<v1::ClientFrame>>,
    ) {
        match happened {
            Happened::Rested => *link = self.connect(),
            Happened::Opened(opened) => {
                let link::Opened { outbound: sender, inbound, first } = *opened;
                tracing::debug!(node = self.route.address(), "stream was opened");
                *outbound = Some(sender);
                *link = Link::Up(Box::new(inbound));
                self.unanswered_since = None;
                self.started(first.window);
                self.frame_in(first);
            }
            Happened::Frame(frame) => self.frame_in(frame),
            Happened::Failed(why) => self.leave = Some(Leave::Failed(why)),
        }
    }

    fn leave_if_asked(&mut self, link: &mut Link, outbound: &mut Option<mpsc::Sender<v1::ClientFrame>>) {
        let Some(leave) = self.leave.take() else { return };
        *outbound = None;
        self.unbind();
        *link = match leave {
            Leave::ToLeader => {
                let share = self.share();
                match self.route.moved(Instant::now(), share) {
                    Some(rest) => rest,
                    None => self.connect(),
                }
            }
            Leave::Failed(why) => {
                tracing::debug!(node = self.route.address(), why, "stream was lost");
                self.last_trouble = format!("{}: {why}", self.route.address());
                let share = self.share();
                self.route.failed(Instant::now(), share)
            }
        };
    }

    fn ended(&self) -> bool {
        let Some(by) = self.ending else { return false };
        (self.sessions.is_empty() && self.openings.is_empty()) || Instant::now() >= by
    }

    fn end_by(&mut self, by: Instant) {
        self.ending = Some(self.ending.map_or(by, |before| before.min(by)));
    }

    fn end(mut self) {
        for record in std::mem::take(&mut self.sessions).into_values() {
            record.lose(LostReason::ClientClosed);
        }
    }

    /// Random, from 0 to 1.
    fn share(&self) -> f64 {
        share(&self.host)
    }
}

fn share(host: &Host) -> f64 {
    // 53 bits, as many as the fraction of an f64 holds.
    (host.entropy.number() >> 11) as f64 / (1u64 << 53) as f64
}

/// Room for one more frame; never, without a stream.
async fn room(
    outbound: Option<&mpsc::Sender<v1::ClientFrame>>,
) -> Result<mpsc::Permit<'_, v1::ClientFrame>, mpsc::error::SendError<()>> {
    match outbound {
        Some(outbound) => outbound.reserve().await,
        None => std::future::pending().await,
    }
}
