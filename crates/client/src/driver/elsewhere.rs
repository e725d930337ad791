//! Another node, asked who leads while the present one says nothing.
//!
//! The connection to a node that was stopped or cut off looks alive for long. So when something is unanswered and nothing
//! comes, this client opens a stream to another node, which names the leader at once and again at each change. It moves
//! when a leader of a later term is named, and stays otherwise: a leader that is merely slow keeps its clients. One other
//! node is asked at a time. A wait for a lock is no question: it is answered when it is queued.

use std::time::Duration;

use palisade_proto::v1::{self, ClientFrame};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::Streaming;

use super::link::{Happened, Link, Opened, Route};
use super::{Driver, Leave, TICK};

/// Something is unanswered, and nothing came, for so long: another node is asked. Up to half as long again, so that the
/// clients of one leader do not ask all at once.
const SILENCE: Duration = Duration::from_millis(250);
/// A stream that is being opened may take so long, and up to half as long again.
const OPENING: Duration = Duration::from_millis(750);
/// For the other node to say something.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// Rest after a node that did not, and up to twice as long.
const REST: Duration = Duration::from_millis(100);
/// A node that names nobody newer makes way for the next one after this, if there is silence still; then after twice as
/// long, and so on.
const NEXT_MIN: Duration = Duration::from_secs(2);
/// At most.
const NEXT_MAX: Duration = Duration::from_secs(8);
/// The stream is kept for so long after the silence, lest each of many short ones costs a connection.
const KEPT: Duration = Duration::from_secs(10);

/// A stream to another node, on which nothing is asked.
pub(super) struct Elsewhere {
    link: Option<Link>,
    address: String,
    stream: Option<Sending>,
    /// Whom it named last.
    named: Option<v1::Leader>,
    /// Which of the other nodes.
    at: usize,
    /// When it makes way for the next one, if there is silence still.
    until: Instant,
    next: Duration,
    /// When there was silence last.
    wanted: Instant,
}

/// What goes with the stream's inbound half.
struct Sending {
    outbound: mpsc::Sender<ClientFrame>,
    window: u32,
}

/// A stream that becomes the client's own.
struct Adopted {
    address: String,
    outbound: mpsc::Sender<ClientFrame>,
    inbound: Box<Streaming<v1::ServerFrame>>,
    window: u32,
}

impl Elsewhere {
    /// Begins with one of the other nodes. `share` is random, from 0 to 1.
    pub(super) fn new(share: f64) -> Self {
        let now = Instant::now();
        let at = (share * f64::from(u16::MAX)) as usize;
        Self {
            link: None,
            address: String::new(),
            stream: None,
            named: None,
            at,
            until: now,
            next: NEXT_MIN,
            wanted: now,
        }
    }

    /// Loses nothing when it is dropped before it ends.
    pub(super) async fn next(&mut self) -> Happened {
        match &mut self.link {
            Some(link) => link.next().await,
            None => std::future::pending().await,
        }
    }

    /// `share` is random, from 0 to 1.
    pub(super) fn happened(&mut self, happened: Happened, share: f64) {
        let now = Instant::now();
        match happened {
            Happened::Rested => self.link = None,
            Happened::Opened(opened) => {
                let Opened { outbound, inbound, first } = *opened;
                self.stream = Some(Sending { outbound, window: first.window });
                self.link = Some(Link::Up(Box::new(inbound)));
                self.until = now + self.next;
                self.named = first.leader;
            }
            Happened::Frame(frame) => {
                if frame.leader.is_some() {
                    self.named = frame.leader;
                }
            }
            Happened::Failed(why) => {
                tracing::debug!(node = self.address, why, "the other node does not say who leads");
                let until = now + REST.mul_f64(1.0 + share);
                self.give_up();
                self.link = Some(Link::Resting(until));
                self.until = until + TICK;
            }
        }
    }

    fn ask(&mut self, now: Instant, address: String, link: Link) {
        self.link = Some(link);
        self.address = address;
        self.until = now + ANSWER_MAX;
    }

    /// The next node's turn.
    fn give_up(&mut self) {
        self.link = None;
        self.stream = None;
        self.named = None;
        self.at = self.at.wrapping_add(1);
    }

    /// Nothing is wanted of it now.
    fn quiet(&mut self, now: Instant) {
        self.next = NEXT_MIN;
        if now >= self.wanted + KEPT {
            self.link = None;
            self.stream = None;
            self.named = None;
        } else if self.stream.is_some() {
            self.until = now + self.next;
        }
    }

    /// There is silence at `here`. Whether another node is to be asked.
    fn is_due(&mut self, here: &str, now: Instant) -> bool {
        self.wanted = now;
        if self.link.is_some() && (now >= self.until || self.address == here) {
            self.next = (self.next * 2).min(NEXT_MAX);
            self.give_up();
        }
        self.link.is_none()
    }

    fn take(&mut self) -> Option<Adopted> {
        let Sending { outbound, window } = self.stream.take()?;
        match self.link.take()? {
            Link::Up(inbound) => Some(Adopted { address: self.address.clone(), outbound, inbound, window }),
            Link::Resting(_) | Link::Connecting(_) => None,
        }
    }
}

impl Driver {
    /// Asks another node while there is silence.
    pub(super) fn look_elsewhere(
        &mut self,
        elsewhere: &mut Elsewhere,
        link: &mut Link,
        outbound: &mut Option<mpsc::Sender<ClientFrame>>,
    ) {
        let now = Instant::now();
        if !self.is_silent(now, outbound.is_some()) {
            return elsewhere.quiet(now);
        }
        if elsewhere.is_due(self.route.address(), now)
            && let Some(address) = self.route.other(elsewhere.at)
        {
            tracing::debug!(node = self.route.address(), asked = address, "silent; another node is asked");
            let link = Route::connect_to(address, &self.host, self.settings.connection_keepalive());
            elsewhere.ask(now, address.to_owned(), link);
        }
        self.move_to_newer(elsewhere, link, outbound);
    }

    /// Moves where the other node says that a newer leader is than the one of the present stream.
    pub(super) fn move_to_newer(
        &mut self,
        elsewhere: &mut Elsewhere,
        link: &mut Link,
        outbound: &mut Option<mpsc::Sender<ClientFrame>>,
    ) {
        let now = Instant::now();
        let newer = elsewhere.named.take_if(|leader| self.is_newer(leader, now, outbound.is_some()));
        let Some(leader) = newer else { return };
        tracing::debug!(node = elsewhere.address, term = leader.term, "another node names a newer leader");
        let moves = outbound.is_some() && !leader.here && self.settings.follow_leader;
        if moves && self.route.follow(&leader.client_address, now) {
            self.leave = Some(Leave::ToLeader);
        } else if let Some(adopted) = elsewhere.take() {
            self.unbind();
            self.route.adopted(&adopted.address, now);
            *outbound = Some(adopted.outbound);
            *link = Link::Up(adopted.inbound);
            self.started(adopted.window);
            self.leader_is(&leader);
        }
    }

    /// `up`: there is a stream.
    fn is_silent(&self, now: Instant, up: bool) -> bool {
        let patience = if up { SILENCE } else { OPENING }.mul_f64(1.0 + self.phase / 2.0);
        self.unanswered_since.is_some_and(|since| now >= since + patience)
    }

    /// A leader is named only while it serves, and a term has one. Where no stream comes about, any leader will do.
    fn is_newer(&self, leader: &v1::Leader, now: Instant, up: bool) -> bool {
        let known = leader.here || !leader.client_address.is_empty();
        known && if up { leader.term > self.leader_term } else { self.is_silent(now, up) }
    }
}
