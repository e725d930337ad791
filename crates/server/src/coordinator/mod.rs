//! The use cases, free of transport: what a leader does with a client's frame.
//!
//! A frame becomes one submit. Replies leave from the apply loop, through the attachment's queue, in log order with
//! the grants of later entries. Nothing here decides who holds what: the log does.

mod attachment;
mod bind;
mod check;
mod floor;
mod history;
mod operator;
mod reads;
mod rejections;
mod renew;
mod requests;
mod room;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use palisade_core::ids::{LogIndex, NodeId, Term};
use palisade_host::{Host, Moment};
use palisade_raft::Replica;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

pub(crate) use attachment::Attachment;

use crate::config::ServerConfig;
use crate::error;
use crate::lease::LeaseClock;
use crate::metrics::Metrics;
use crate::rejections::Rejections;
use crate::rounds::Rounds;
use crate::signals::Signals;
use crate::signer::{SequencerVerifier, Signer};
use crate::waiters::Waiters;
use crate::watches::Watches;

/// Verified sequencers that a node remembers.
const REMEMBERED_SEQUENCERS: usize = 65_536;

/// In which term this node serves, and under which lease epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Serving {
    pub(crate) term: Term,
    pub(crate) epoch: LogIndex,
}

/// One node's use cases.
pub(crate) struct Coordinator {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) host: Host,
    pub(crate) node: NodeId,
    /// Drawn by this process; a restarted leader of the same term is another.
    pub(crate) nonce: u64,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) signer: Signer,
    pub(crate) verifier: SequencerVerifier,
    pub(crate) waiters: Waiters,
    pub(crate) watches: Arc<Watches>,
    /// What holders told of themselves.
    pub(crate) signals: Signals,
    /// What resources told of stale holders.
    pub(crate) rejections: Rejections,
    /// Locked after the table where both are, never before it.
    pub(crate) clock: Mutex<LeaseClock>,
    pub(crate) rounds: Arc<Rounds>,
    /// Signatures that are verified, or made for resources, in progress.
    verifying: Arc<Semaphore>,
    serving: watch::Sender<Option<Serving>>,
    /// A majority has not answered for an election timeout.
    without_quorum: AtomicBool,
    attachments: Mutex<Vec<Weak<Attachment>>>,
    started: Moment,
    replica: OnceLock<Replica>,
}

/// What a coordinator is made of.
pub(crate) struct CoordinatorParts {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) host: Host,
    pub(crate) node: NodeId,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) signer: Signer,
    pub(crate) clock: LeaseClock,
}

impl Coordinator {
    pub(crate) fn new(parts: CoordinatorParts) -> Arc<Self> {
        let nonce = parts.host.entropy.number();
        let started = parts.host.clock.now();
        let verifying = Arc::new(Semaphore::new(parts.config.door.verifications_max));
        let (watch_limits, rejection_limits) = (parts.config.watch, parts.config.rejections);
        Arc::new(Self {
            config: parts.config,
            host: parts.host,
            node: parts.node,
            nonce,
            metrics: parts.metrics,
            signer: parts.signer,
            verifier: SequencerVerifier::new(REMEMBERED_SEQUENCERS),
            waiters: Waiters::default(),
            watches: Watches::new(watch_limits),
            signals: Signals::default(),
            rejections: Rejections::new(rejection_limits),
            clock: Mutex::new(parts.clock),
            rounds: Arc::default(),
            verifying,
            serving: watch::Sender::new(None),
            without_quorum: AtomicBool::new(false),
            attachments: Mutex::default(),
            started,
            replica: OnceLock::new(),
        })
    }

    /// Since this process started.
    pub(crate) fn uptime(&self) -> Duration {
        self.host.clock.now().since(self.started)
    }

    /// The replica; set once, right after both were made.
    pub(crate) fn set_replica(&self, replica: Replica) {
        let _ = self.replica.set(replica);
    }

    /// None only while the node is being built.
    pub(crate) fn replica(&self) -> Option<&Replica> {
        self.replica.get()
    }

    /// In which term this node serves, if it does.
    pub(crate) fn serving(&self) -> Option<Serving> {
        *self.serving.borrow()
    }

    /// Returns once this node serves.
    pub(crate) async fn starts_serving(&self) -> Serving {
        let mut changes = self.serving.subscribe();
        loop {
            if let Some(serving) = *changes.borrow_and_update() {
                return serving;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns when this node no longer serves as it did.
    pub(crate) async fn stopped_serving(&self, from: Serving) {
        let mut changes = self.serving.subscribe();
        while *changes.borrow_and_update() == Some(from) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// From now on this node answers as the leader: its own `LeaderReady` is applied. Every lease, delay and bounded
    /// wait starts in full.
    pub(crate) fn serve(&self, term: Term) -> bool {
        let Some(replica) = self.replica() else { return false };
        let now = self.host.clock.now();
        let serving = replica.read(|table| {
            let lease = table.header().lease?;
            let mine = lease.node == self.node && lease.nonce == self.nonce && lease.term == term;
            mine.then(|| {
                self.clock.lock().lead(now, lease.epoch, table);
                self.rejections.begin(self.wall(), &self.metrics);
                let serving = Serving { term, epoch: lease.epoch };
                self.serving.send_replace(Some(serving));
                serving
            })
        });
        self.without_quorum.store(false, Ordering::Relaxed);
        serving.is_some()
    }

    /// This node no longer leads, or not in that term.
    pub(crate) fn stop_serving(&self) {
        self.serving.send_replace(None);
        self.clock.lock().follow();
        self.waiters.clear();
        self.signals.clear();
        self.rejections.begin(self.wall(), &self.metrics);
    }

    /// A stream gets its answers here from now on.
    pub(crate) fn attach(&self, attachment: &Arc<Attachment>) {
        let mut attachments = self.attachments.lock();
        // Gone ones are dropped when the list would grow.
        if attachments.len() == attachments.capacity() {
            attachments.retain(|attachment| attachment.strong_count() > 0);
        }
        attachments.push(Arc::downgrade(attachment));
    }

    /// The stream is gone, or has another way now.
    pub(crate) fn detach(&self, attachment: &Arc<Attachment>) {
        self.waiters.detach(attachment);
    }

    /// Whether a majority answered within the last election timeout.
    pub(crate) fn has_quorum(&self) -> bool {
        !self.without_quorum.load(Ordering::Relaxed)
    }

    /// Looks at the quorum. A leader without one stops answering as one: what is open is answered as unknown, at
    /// once, and what comes is refused.
    pub(crate) fn watch_quorum(&self) {
        let limit = self.config.timing.election_timeout();
        let age = self.replica().and_then(Replica::quorum_age);
        let without = self.serving().is_some() && age.is_some_and(|age| age > limit);
        let before = self.without_quorum.swap(without, Ordering::Relaxed);
        if without && !before {
            tracing::warn!(node = %self.config.name, "no majority answered for an election timeout");
        }
        if without {
            let all = self.host.clock.now() + limit;
            let attachments: Vec<_> = self.attachments.lock().iter().filter_map(Weak::upgrade).collect();
            for attachment in attachments {
                attachment.answer_all_before(all, &error::outcome_unknown());
            }
        }
    }
}
