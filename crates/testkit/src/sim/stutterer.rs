//! A client that says everything more than once: what a lossy network with delayed copies amounts to.
//!
//! It speaks the stream protocol itself. It tries a lock, repeats the request while it holds (the same token must come
//! back), releases, and repeats the same request again, as a copy that was delayed on the way: that must never be
//! granted (SPEC 6). Through every leader change and lost connection it goes on under the same numbers.

use std::sync::Arc;
use std::time::Duration;

use palisade_proto::v1::sessions_client::SessionsClient;
use palisade_proto::v1::{self, ClientFrame, item, request, response};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use turmoil::Sim;

use super::clients::name;
use super::{Skew, World, draw, host, nodes};

/// An answer that does not come within this time is asked for again.
const PATIENCE: Duration = Duration::from_secs(1);
/// The lock that it has to itself, and one that it shares with the others.
const LOCKS: [&str; 2] = ["stutter", "lock-0"];

pub(crate) fn start(sim: &mut Sim<'_>, world: &World, client: usize) {
    let world = world.clone();
    sim.client(name(client).as_str(), async move {
        let until = world.scenario.hurt + world.scenario.heal;
        let mut stutterer = Stutterer::new(&world, client);
        while turmoil::sim_elapsed().unwrap_or_default() < until {
            // Without a session or a node it begins again.
            if stutterer.live(until).await.is_none() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    });
}

/// What stands for a secret in the log.
fn hash(secret: &[u8]) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    Sha256::digest(secret).to_vec()
}

struct Stutterer {
    world: World,
    seed: u64,
    turn: u64,
    host: palisade_host::Host,
    stream: Option<Stream>,
    session: u64,
    secret: Vec<u8>,
    number: u64,
}

struct Stream {
    frames: mpsc::Sender<ClientFrame>,
    answers: tonic::Streaming<v1::ServerFrame>,
    generation: u64,
    tag: u64,
}

impl Stutterer {
    fn new(world: &World, client: usize) -> Self {
        let seed = draw(world.scenario.seed, 900 + client as u64);
        let host = host(seed, Arc::<Skew>::default());
        Self {
            world: world.clone(),
            seed,
            turn: 0,
            host,
            stream: None,
            session: 0,
            secret: Vec::new(),
            number: 0,
        }
    }

    fn chance(&mut self, below: u64) -> u64 {
        self.turn += 1;
        draw(self.seed, self.turn) % below
    }

    /// One session's life. None when it is over.
    async fn live(&mut self, until: Duration) -> Option<()> {
        self.turn += 1;
        self.secret = draw(self.seed, self.turn).to_le_bytes().to_vec();
        (self.session, self.number) = (0, 0);
        let open = v1::OpenSession {
            ttl_ms: 5_000,
            client: "stutterer".to_owned(),
            secret_hash: hash(&self.secret),
            replaces: None,
        };
        let opened = self.ask(request::Op::Open(open)).await?;
        let response::Result::Opened(opened) = opened else { return None };
        self.session = opened.session;
        while turmoil::sim_elapsed().unwrap_or_default() < until {
            self.turn_with_a_lock().await?;
            let rest = 20 + self.chance(200);
            tokio::time::sleep(Duration::from_millis(rest)).await;
        }
        Some(())
    }

    async fn turn_with_a_lock(&mut self) -> Option<()> {
        self.number += 1;
        let lock = LOCKS[self.chance(2) as usize];
        let acquire = request::Op::Acquire(v1::Acquire {
            number: self.number,
            // It goes on repeating the last few.
            mark: self.number.saturating_sub(3).max(1),
            parts: vec![v1::AcquirePart {
                lock: lock.to_owned(),
                lock_delay_ms: Some(0),
                ..v1::AcquirePart::default()
            }],
            wait: Some(v1::Wait { kind: Some(v1::wait::Kind::None(true)) }),
            ..v1::Acquire::default()
        });
        let first = self.ask(acquire.clone()).await?;
        let again = self.ask(acquire.clone()).await?;
        match (&first, &again) {
            (response::Result::Granted(first), response::Result::Granted(again)) if first == again => {}
            (response::Result::Error(first), response::Result::Error(again)) if first.name == again.name => {}
            (first, again) => {
                let lapsed =
                    matches!(again, response::Result::Error(error) if error.name.starts_with("SESSION"));
                if !lapsed {
                    self.wrong(format!("number {}: {first:?}, and repeated {again:?}", self.number));
                }
            }
        }
        let response::Result::Granted(grant) = again else { return Some(()) };
        let part = grant.parts.first()?;
        let release = v1::Release {
            acquisition: grant.acquisition,
            lock: part.lock.clone(),
            slot: part.slot,
            token: part.token,
        };
        self.ask(request::Op::Release(release)).await?;
        if let response::Result::Granted(grant) = self.ask(acquire).await? {
            self.wrong(format!("number {} was released, and its copy is granted: {grant:?}", self.number));
        }
        Some(())
    }

    fn wrong(&self, words: String) {
        self.world.history.lock().violation(format!("session {}, {words}", self.session));
    }

    /// Asks until it is answered, over whatever connection there is. None when the session is over.
    async fn ask(&mut self, op: request::Op) -> Option<response::Result> {
        for _ in 0..60 {
            match self.try_once(&op).await {
                Some(response::Result::Error(error)) => match error.name.as_str() {
                    "NOT_LEADER" | "NO_QUORUM" | "OUTCOME_UNKNOWN" | "OVERLOADED" | "NOT_FOUNDED" => {}
                    "SESSION_EXPIRED" | "SESSION_UNKNOWN" | "SESSION_CLOSED" | "SESSION_ENDED" => {
                        return None;
                    }
                    "UNAUTHENTICATED" => self.stream = None,
                    _ => return Some(response::Result::Error(error)),
                },
                Some(result) => return Some(result),
                None => self.stream = None,
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        None
    }

    async fn try_once(&mut self, op: &request::Op) -> Option<response::Result> {
        if self.stream.is_none() {
            self.connect().await?;
        }
        let session = self.session;
        let stream = self.stream.as_mut()?;
        tokio::time::timeout(PATIENCE, stream.ask(session, op.clone())).await.ok()?
    }

    async fn connect(&mut self) -> Option<()> {
        let node = self.chance(self.world.scenario.nodes as u64) as usize;
        let address = nodes::client_address(node);
        let channel = palisade_host::channel(self.host.net.clone(), &address, PATIENCE).ok()?;
        let (frames, queue) = mpsc::channel(16);
        let opened = async {
            let mut client = SessionsClient::new(channel);
            let mut answers = client.stream(ReceiverStream::new(queue)).await.ok()?.into_inner();
            let generation = answers.next().await?.ok()?.leader?.generation;
            Some(Stream { frames, answers, generation, tag: 0 })
        };
        let mut stream = tokio::time::timeout(PATIENCE, opened).await.ok()??;
        if self.session != 0 {
            let bind = request::Op::Bind(v1::Bind { secret: self.secret.clone() });
            let bound = tokio::time::timeout(PATIENCE, stream.ask(self.session, bind)).await.ok()??;
            if !matches!(bound, response::Result::Bound(_)) {
                return None;
            }
        }
        self.stream = Some(stream);
        Some(())
    }
}

impl Stream {
    /// One request, one answer. None when the connection or the route is lost: everything is asked again then.
    async fn ask(&mut self, session: u64, op: request::Op) -> Option<response::Result> {
        self.tag += 1;
        let request = v1::Request { tag: self.tag, session, op: Some(op) };
        let frame =
            ClientFrame { requests: vec![request], generation: self.generation, ..ClientFrame::default() };
        self.frames.send(frame).await.ok()?;
        loop {
            let frame = self.answers.next().await?.ok()?;
            if frame.leader.is_some_and(|leader| leader.generation != self.generation) {
                return None;
            }
            for answer in frame.items {
                if let Some(item::Item::Response(response)) = answer.item
                    && response.tag == self.tag
                {
                    return response.result;
                }
            }
        }
    }
}
