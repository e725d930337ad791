//! Many sessions on one stream to one node, spoken by hand (`docs/protocol.md`).
//!
//! What the client's library keeps of each session and each lock would be most of this process's memory and time, and
//! half of the machine's. Here a session is its number and its secret. The rules are the same: every request has a tag of
//! its own, what is unanswered is repeated under its number after a change of leader, and leases count from the sending.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use palisade_host::{Host, channel};
use palisade_proto::v1;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use palisade_proto::v1::sessions_client::SessionsClient;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::super::report::Latencies;
use super::beat::{Beat, slice_of};

/// Requests of one frame.
const FRAME_REQUESTS: usize = 256;
/// Frames that wait to be written.
const FRAMES_MAX: usize = 4;
/// Bytes of one frame of the node.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// A silent node is dead after twice this.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// After what the cluster had no room or no leader for.
const REST: Duration = Duration::from_millis(50);
/// For any answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a crowd does. It is asked for requests and told of answers and events, in the order of the log.
pub(super) trait Work {
    /// The next request, if there is one now.
    fn next(&mut self) -> Option<Ask>;

    /// An answer; errors that a repeat may mend are repeated and not told.
    fn answered(&mut self, ask: &Ask, answer: &Answer) -> anyhow::Result<()>;

    /// Something happened to a member.
    fn told(&mut self, _member: usize, _event: &v1::Event) -> anyhow::Result<()> {
        Ok(())
    }

    /// Whether nothing more is to be asked or told.
    fn is_over(&self) -> bool;
}

/// One request of one member.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) member: usize,
    pub(super) op: Op,
    /// An earlier copy may have been decided.
    pub(super) repeated: bool,
}

struct Member {
    /// 0 before it is opened.
    session: u64,
    secret: [u8; 32],
    /// When its last renewal that was answered left.
    renewed: Instant,
    ended: bool,
}

pub(super) struct Crowd {
    outbound: mpsc::Sender<v1::ClientFrame>,
    inbound: Streaming<v1::ServerFrame>,
    host: Host,
    window: usize,
    generation: u64,
    ttl: Duration,
    members: Vec<Member>,
    by_session: HashMap<u64, usize>,
    tag: u64,
    unanswered: HashMap<u64, Ask>,
    again: VecDeque<Ask>,
    rest_until: Instant,
    heard: Instant,
    beat: Beat,
    leader_changes: u64,
}

impl Crowd {
    /// One stream to the node at `address`, for sessions of this lease.
    pub(super) async fn connect(address: &str, ttl: Duration) -> anyhow::Result<Self> {
        let host = Host::system();
        let channel = channel(host.net.clone(), address, KEEPALIVE)?;
        let mut sessions = SessionsClient::new(channel).max_decoding_message_size(FRAME_BYTES_MAX);
        let (outbound, frames) = mpsc::channel(FRAMES_MAX);
        let mut inbound = sessions.stream(ReceiverStream::new(frames)).await?.into_inner();
        let first = inbound.message().await?.context("the node ended the stream")?;
        let now = Instant::now();
        Ok(Self {
            outbound,
            inbound,
            host,
            window: first.window.max(1) as usize,
            generation: first.leader.map_or(0, |leader| leader.generation),
            ttl,
            members: Vec::new(),
            by_session: HashMap::new(),
            tag: 0,
            unanswered: HashMap::new(),
            again: VecDeque::new(),
            rest_until: now,
            heard: now,
            beat: Beat::new(ttl, now),
            leader_changes: 0,
        })
    }

    /// Opens so many sessions more.
    pub(super) async fn open(&mut self, count: usize) -> anyhow::Result<()> {
        let first = self.members.len();
        for _ in 0..count {
            let mut secret = [0; 32];
            self.host.entropy.fill(&mut secret);
            self.members.push(Member { session: 0, secret, renewed: Instant::now(), ended: false });
        }
        let ttl_ms = u64::try_from(self.ttl.as_millis())?;
        let opens: Vec<Op> = self.members[first..]
            .iter()
            .map(|member| {
                let secret_hash = Sha256::digest(member.secret).to_vec();
                Op::Open(v1::OpenSession { ttl_ms, client: "bench".to_owned(), secret_hash, replaces: None })
            })
            .collect();
        self.run(&mut Opening { first, opens: opens.into_iter().enumerate() }).await
    }

    /// Keeps all sessions alive for so long.
    pub(super) async fn idle(&mut self, time: Duration) -> anyhow::Result<()> {
        self.run(&mut Idle { until: Instant::now() + time }).await
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn session(&self, member: usize) -> u64 {
        self.members[member].session
    }

    /// Sessions that ended, or for which nothing was heard for their whole lease.
    pub(super) fn lost(&self) -> u64 {
        let lost = |member: &&Member| member.ended || member.renewed.elapsed() > self.ttl;
        self.members.iter().filter(lost).count() as u64
    }

    pub(super) fn leader_changes(&self) -> u64 {
        self.leader_changes
    }

    /// Round trips of keepalives since the last time, and how many sessions they renewed.
    pub(super) fn take_keepalives(&mut self) -> (Latencies, u64) {
        (std::mem::take(&mut self.beat.latencies), std::mem::take(&mut self.beat.answered))
    }

    /// Works until the work is over and all of it is answered; all sessions are kept alive meanwhile.
    pub(super) async fn run(&mut self, work: &mut impl Work) -> anyhow::Result<()> {
        let mut frame = None;
        loop {
            let done = work.is_over() && self.unanswered.is_empty() && self.again.is_empty();
            if done && frame.is_none() {
                return Ok(());
            }
            frame = frame.or_else(|| self.frame(work));
            let wakes = self.beat.at;
            let message = tokio::select! {
                permit = self.outbound.reserve(), if frame.is_some() => {
                    let permit = permit.context("the stream is gone")?;
                    if let Some(frame) = frame.take() {
                        permit.send(frame);
                    }
                    None
                }
                message = self.inbound.message() => Some(message?.context("the node ended the stream")?),
                () = sleep_until(wakes) => None,
            };
            self.beat.tick(Instant::now());
            if let Some(message) = message {
                self.hear(message, work)?;
            }
            let silent = !self.unanswered.is_empty() && self.heard.elapsed() > PATIENCE;
            ensure!(!silent, "nothing was answered for {PATIENCE:?}");
        }
    }

    /// As much as there is to ask now, and as the window has room for.
    fn frame(&mut self, work: &mut impl Work) -> Option<v1::ClientFrame> {
        let mut requests = Vec::new();
        let rests = self.rest_until > Instant::now();
        while requests.len() < FRAME_REQUESTS && self.unanswered.len() < self.window && !rests {
            let Some(ask) = self.again.pop_front().or_else(|| work.next()) else { break };
            self.tag += 1;
            let session = match &ask.op {
                Op::Open(_) => 0,
                _ => self.members[ask.member].session,
            };
            requests.push(v1::Request { tag: self.tag, session, op: Some(ask.op.clone()) });
            self.unanswered.insert(self.tag, ask);
        }
        let renew = self.renew();
        let empty = requests.is_empty() && renew.is_none();
        (!empty).then_some(v1::ClientFrame { requests, renew, generation: self.generation })
    }

    fn renew(&mut self) -> Option<v1::Renew> {
        let slice = self.beat.due.pop_front()?;
        let members =
            self.members[slice_of(slice, self.members.len())].iter().filter(|member| member.session > 0);
        let sessions: Vec<u64> = members.map(|member| member.session).collect();
        if sessions.is_empty() {
            return None;
        }
        self.beat.number += 1;
        self.beat.sent.insert(self.beat.number, (Instant::now(), slice));
        Some(v1::Renew { number: self.beat.number, sessions, report: None })
    }

    fn hear(&mut self, frame: v1::ServerFrame, work: &mut impl Work) -> anyhow::Result<()> {
        self.heard = Instant::now();
        if let Some(leader) = frame.leader.filter(|leader| leader.generation != self.generation) {
            self.follow(leader.generation);
        }
        if let Some(renewed) = frame.renewed {
            self.renewed(&renewed);
        }
        for item in frame.items {
            match item.item {
                Some(v1::item::Item::Response(response)) => self.answered(response, work)?,
                Some(v1::item::Item::Event(event)) => {
                    let Some(member) = self.by_session.get(&event.session).copied() else { continue };
                    if let Some(v1::event::What::SessionEnded(_)) = event.what {
                        self.members[member].ended = true;
                    }
                    work.told(member, &event)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// After a change of leader: every session is bound again, and what is unanswered is repeated.
    fn follow(&mut self, generation: u64) {
        self.generation = generation;
        self.leader_changes += 1;
        self.beat.due.extend(self.beat.sent.values().map(|(_, slice)| *slice));
        self.beat.sent.clear();
        let mut unanswered: Vec<(u64, Ask)> = self.unanswered.drain().collect();
        unanswered.sort_by_key(|(tag, _)| *tag);
        let later = std::mem::take(&mut self.again);
        let open = self.members.iter().enumerate().filter(|(_, known)| known.session > 0 && !known.ended);
        self.again.extend(open.map(|(member, known)| bind(member, known)));
        let bound = |ask: &Ask| !matches!(ask.op, Op::Bind(_));
        let repeats = unanswered.into_iter().map(|(_, ask)| ask).chain(later).filter(bound);
        self.again.extend(repeats.map(|ask| Ask { repeated: true, ..ask }));
    }

    fn renewed(&mut self, renewed: &v1::Renewed) {
        let Some((sent, slice)) = self.beat.sent.remove(&renewed.number) else { return };
        if renewed.error.is_some() {
            self.beat.due.push_front(slice);
            return;
        }
        self.beat.latencies.record(sent.elapsed());
        let ended: HashMap<u64, i32> = renewed.ended.iter().map(|one| (one.session, one.ended)).collect();
        for member in slice_of(slice, self.members.len()) {
            let member = &mut self.members[member];
            match ended.get(&member.session) {
                None if member.session == 0 => {}
                None => {
                    member.renewed = sent;
                    self.beat.answered += 1;
                }
                // Not bound here yet, or its expiry is being decided.
                Some(0) => {}
                Some(_) => member.ended = true,
            }
        }
    }

    fn answered(&mut self, response: v1::Response, work: &mut impl Work) -> anyhow::Result<()> {
        let Some(mut ask) = self.unanswered.remove(&response.tag) else { return Ok(()) };
        let Some(answer) = response.result else { bail!("an answer without a result") };
        match &answer {
            // Its binding was lost with a leader.
            Answer::Error(error) if error.name == "UNAUTHENTICATED" && !matches!(ask.op, Op::Bind(_)) => {
                ask.repeated = true;
                self.again.extend([bind(ask.member, &self.members[ask.member]), ask]);
                return Ok(());
            }
            Answer::Error(error) if mends(&error.name) => {
                ask.repeated = true;
                self.rest_until = Instant::now() + REST;
                self.again.push_back(ask);
                return Ok(());
            }
            Answer::Opened(opened) => {
                let member = &mut self.members[ask.member];
                member.session = opened.session;
                member.renewed = Instant::now();
                self.by_session.insert(opened.session, ask.member);
            }
            _ => {}
        }
        work.answered(&ask, &answer)
    }
}

/// Proves that this stream may speak for a member.
fn bind(member: usize, known: &Member) -> Ask {
    Ask { member, op: Op::Bind(v1::Bind { secret: known.secret.to_vec() }), repeated: true }
}

/// Whether nothing took effect, or a repeat tells what did.
fn mends(error: &str) -> bool {
    ["NO_QUORUM", "NOT_LEADER", "OVERLOADED", "OUTCOME_UNKNOWN", "RATE_LIMITED"].contains(&error)
}

struct Opening<I> {
    first: usize,
    opens: I,
}

impl<I: ExactSizeIterator<Item = (usize, Op)>> Work for Opening<I> {
    fn next(&mut self) -> Option<Ask> {
        let (at, op) = self.opens.next()?;
        Some(Ask { member: self.first + at, op, repeated: false })
    }

    fn answered(&mut self, _ask: &Ask, answer: &Answer) -> anyhow::Result<()> {
        expected(matches!(answer, Answer::Opened(_) | Answer::Bound(_)), answer)
    }

    fn is_over(&self) -> bool {
        self.opens.len() == 0
    }
}

struct Idle {
    until: Instant,
}

impl Work for Idle {
    fn next(&mut self) -> Option<Ask> {
        None
    }

    fn answered(&mut self, _ask: &Ask, answer: &Answer) -> anyhow::Result<()> {
        expected(matches!(answer, Answer::Bound(_)), answer)
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}

/// An error that says what came instead.
pub(super) fn expected(as_expected: bool, answer: &Answer) -> anyhow::Result<()> {
    match answer {
        _ if as_expected => Ok(()),
        Answer::Error(error) => bail!("{}: {}", error.name, error.message),
        other => bail!("an answer that nobody asked for: {other:?}"),
    }
}
