//! Many tasks over one stream that is cut, loses answers and changes leaders. Behind it stands the real lock table, so
//! that every repeat meets the memory that SPEC 6 promises.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use palisade_client::{AcquireError, LockGuard, Session};
use palisade_core::command::{CloseSession, Member};
use palisade_core::command::{ClusterVersion, Command, Envelope, Found, LeaderReady, OpenSession};
use palisade_core::ids::{
    ClusterId, ClusterName, Incarnation, LockName, LogIndex, Millis, NodeId, NodeName, Principal, SessionId,
    Term, WallTime,
};
use palisade_core::limits::Limits;
use palisade_core::table::LockTable;
use palisade_core::token::TokenBase;
use palisade_host::ManualClock;
use palisade_proto::convert;
use palisade_proto::v1::item::Item;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use palisade_proto::v1::{self, ServerFrame};
use tokio::sync::{oneshot, watch};

use crate::fake::{Node, Stream, client, leader};

const LOCKS: usize = 4;
const SESSIONS: usize = 3;
const TASKS_PER_SESSION: usize = 6;
const ROUNDS: usize = 40;
/// One frame in so many meets a fault.
const FAULT_EVERY: u64 = 8;
const FAULTS_MAX: u32 = 30;

/// The same numbers for the same seed (Knuth's MMIX generator).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What happens to a frame.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Served,
    CutBefore,
    CutAfter,
    Unknown,
    NotLeader,
    OtherLeaderBefore,
    OtherLeaderAfter,
}

/// A leader of one: the table, and what a node knows of its stream.
struct Leader {
    table: LockTable,
    index: u64,
    generation: u64,
    bound: BTreeSet<u64>,
    chance: Chance,
    faults: u32,
    /// What is held and what waits.
    busy: watch::Sender<u64>,
}

impl Leader {
    fn new(busy: watch::Sender<u64>) -> Self {
        let chance = Chance(7);
        let bound = BTreeSet::new();
        let mut leader =
            Self { table: LockTable::new(), index: 0, generation: 1, bound, chance, faults: 0, busy };
        let name = ClusterName::new("storm").expect("a name");
        let member = Member { node: NodeId(1), name: NodeName::new("a").expect("a name") };
        leader.apply(Command::Found(Found {
            cluster: ClusterId([1; 16]),
            name,
            incarnation: Incarnation([2; 16]),
            limits: Limits::default(),
            token_base: TokenBase::default(),
            version: ClusterVersion::CURRENT,
            members: vec![member],
        }));
        leader.apply(Command::LeaderReady(LeaderReady { term: Term(1), node: NodeId(1), nonce: 1 }));
        leader
    }

    fn apply(&mut self, command: Command) -> palisade_core::reply::Applied {
        self.index += 1;
        let envelope = Envelope { wall: WallTime(self.index), node: NodeId(1), command };
        let applied = self.table.apply(LogIndex(self.index), &envelope);
        let counts = self.table.counts();
        self.busy.send_replace(counts.held + counts.waiting);
        applied
    }

    fn fate(&mut self) -> Fate {
        if self.faults >= FAULTS_MAX || self.chance.below(FAULT_EVERY) > 0 {
            return Fate::Served;
        }
        self.faults += 1;
        match self.chance.below(6) {
            0 => Fate::CutBefore,
            1 => Fate::CutAfter,
            2 => Fate::Unknown,
            3 => Fate::NotLeader,
            4 => Fate::OtherLeaderBefore,
            _ => Fate::OtherLeaderAfter,
        }
    }

    /// Serves one stream until it is cut; true when it was the client that left.
    async fn serve(&mut self, stream: &mut Stream) -> bool {
        self.bound.clear();
        let leader = Some(leader(self.generation, true, ""));
        stream.say(ServerFrame { window: 64, leader, ..ServerFrame::default() }).await;
        while let Some(frame) = stream.next_frame().await {
            if frame.generation != self.generation {
                continue;
            }
            let fate = self.fate();
            let items = match fate {
                Fate::CutBefore => return false,
                Fate::OtherLeaderBefore => Vec::new(),
                Fate::NotLeader => refused(&frame.requests, "NOT_LEADER"),
                Fate::Served | Fate::CutAfter | Fate::Unknown | Fate::OtherLeaderAfter => {
                    let keep = fate != Fate::Unknown;
                    frame.requests.iter().flat_map(|request| self.take(request, keep)).collect()
                }
            };
            match fate {
                Fate::CutBefore | Fate::CutAfter => return false,
                Fate::OtherLeaderBefore | Fate::OtherLeaderAfter => {
                    self.generation += 1;
                    self.bound.clear();
                    stream.leader(crate::fake::leader(self.generation, true, "")).await;
                }
                Fate::Served | Fate::Unknown | Fate::NotLeader => {
                    let renewed = frame
                        .renew
                        .map(|renew| v1::Renewed { number: renew.number, ..v1::Renewed::default() });
                    let items = items.into_iter().map(|item| v1::Item { item: Some(item) }).collect();
                    stream.say(ServerFrame { items, renewed, ..ServerFrame::default() }).await;
                }
            }
        }
        true
    }

    /// Events first, then the answer, as the log orders them. Without `keep`, the answer is lost to "unknown".
    fn take(&mut self, request: &v1::Request, keep: bool) -> Vec<Item> {
        let session = SessionId(request.session);
        let answer = |result, renewed| {
            let response = v1::Response {
                tag: request.tag,
                session: session.0,
                index: 0,
                renewed,
                result: Some(result),
            };
            Item::Response(response)
        };
        let op = request.op.as_ref().expect("an operation");
        if let Op::Bind(_) = op {
            return vec![answer(self.bind(session), false)];
        }
        if !matches!(op, Op::Open(_)) && !self.bound.contains(&session.0) {
            return refused(std::slice::from_ref(request), "UNAUTHENTICATED");
        }
        let applied = self.apply(command(session, op));
        let index = self.index;
        let events = applied.events.iter().filter_map(|event| convert::session::event(event, index));
        let mut items: Vec<Item> =
            events.filter(|event| self.bound.contains(&event.session)).map(Item::Event).collect();
        let result = convert::session::reply(&applied.reply).expect("an answer");
        if let (Answer::Opened(opened), true) = (&result, keep) {
            self.bound.insert(opened.session);
        }
        items.extend(match keep {
            true => vec![answer(result, applied.renewed.is_some())],
            false => refused(std::slice::from_ref(request), "OUTCOME_UNKNOWN"),
        });
        items
    }

    fn bind(&mut self, id: SessionId) -> Answer {
        let Some(session) = self.table.session(id) else {
            return Answer::Error(convert::refusal::refusal(&self.table.why_no_session(id)));
        };
        self.bound.insert(id.0);
        let listed = session.acquisitions.iter_whole().map(|(number, _)| {
            let acquisition = palisade_core::ids::AcquisitionId { session: id, number };
            (number, self.table.grant(acquisition))
        });
        Answer::Bound(convert::session::bound(listed))
    }
}

fn command(session: SessionId, op: &Op) -> Command {
    match op {
        Op::Open(open) => {
            let opening = convert::session::open_session(open).expect("an opening");
            Command::OpenSession(OpenSession {
                secret: opening.secret.expect("a secret"),
                owner: Principal::anonymous(),
                client: opening.client,
                ttl: opening.ttl,
                replaces: None,
            })
        }
        Op::Close(_) => Command::CloseSession(CloseSession { session }),
        Op::Acquire(acquire) => {
            Command::Acquire(convert::lock::acquire(session, acquire, Millis(15_000)).expect("an acquire"))
        }
        Op::Release(release) => {
            Command::Release(convert::lock::release(session, release).expect("a release"))
        }
        Op::Cancel(cancel) => Command::Cancel(convert::lock::cancel(session, cancel).expect("a cancel")),
        other => panic!("{other:?} is not part of this storm"),
    }
}

fn refused(requests: &[v1::Request], name: &str) -> Vec<Item> {
    let refuse = |request: &v1::Request| {
        let error = Answer::Error(v1::Error { name: name.to_owned(), ..v1::Error::default() });
        let (tag, session) = (request.tag, request.session);
        Item::Response(v1::Response { tag, session, index: 0, renewed: false, result: Some(error) })
    };
    requests.iter().map(refuse).collect()
}

/// What a lock protects: it sees at most one holder, and tokens that rise.
#[derive(Default)]
struct Resource {
    used: AtomicBool,
    mark: AtomicU64,
    uses: AtomicU64,
}

impl Resource {
    async fn use_under(&self, guard: &LockGuard) {
        assert!(!self.used.swap(true, Ordering::SeqCst), "two holders at once");
        let token = guard.token().get();
        assert!(self.mark.swap(token, Ordering::SeqCst) < token, "a token did not rise");
        assert_eq!(guard.check(), Ok(()));
        tokio::task::yield_now().await;
        self.uses.fetch_add(1, Ordering::SeqCst);
        self.used.store(false, Ordering::SeqCst);
    }
}

async fn rests(turns: u64) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// Waits, tries, and gives up half way; releases, or just drops.
async fn work(session: Session, resources: Arc<Vec<Resource>>, seed: u64) {
    let mut chance = Chance(seed);
    for _ in 0..ROUNDS {
        let at = usize::try_from(chance.below(LOCKS as u64)).expect("small");
        let ask = session.lock(LockName::new(&format!("lock-{at}")).expect("a name"));
        let (tries, patience) = (chance.below(4) == 0, 5 + chance.below(200));
        let ask = if tries { ask.try_now() } else { ask };
        let granted = tokio::select! {
            granted = ask.acquire() => granted,
            () = rests(patience), if chance.below(2) == 0 => continue,
        };
        let guard = match granted {
            Ok(guard) => guard,
            Err(AcquireError::Held { .. } | AcquireError::QueuedAhead { .. }) if tries => continue,
            Err(other) => panic!("{other}"),
        };
        resources[at].use_under(&guard).await;
        match chance.below(4) {
            0 => drop(guard),
            _ => assert!(guard.release().await.is_ok()),
        }
    }
}

#[tokio::test]
async fn whatever_the_stream_loses_locks_exclude_and_nothing_is_left_behind() {
    let mut node = Node::start().await;
    let client = client(&[&node], &Arc::new(ManualClock::default()));
    let (finish, mut finished) = oneshot::channel::<()>();
    let (busy, mut idle) = watch::channel(0);
    let serving = tokio::spawn(async move {
        let mut leader = Leader::new(busy);
        loop {
            tokio::select! {
                mut stream = node.silent_stream() => { leader.serve(&mut stream).await; }
                _ = &mut finished => return leader,
            }
        }
    });
    let storm = async {
        let resources: Arc<Vec<Resource>> = Arc::new((0..LOCKS).map(|_| Resource::default()).collect());
        let (mut tasks, mut sessions) = (Vec::new(), Vec::new());
        for _ in 0..SESSIONS {
            let session = client.open_session().await.expect("a session");
            for _ in 0..TASKS_PER_SESSION {
                let seed = tasks.len() as u64 + 1;
                tasks.push(tokio::spawn(work(session.clone(), resources.clone(), seed)));
            }
            sessions.push(session);
        }
        for task in tasks {
            task.await.expect("it worked");
        }
        // While the sessions live: what was given up or dropped is ended on the cluster all the same.
        idle.wait_for(|busy| *busy == 0).await.expect("the leader lives");
        client.close().await;
        let _ = finish.send(());
        resources
    };
    let resources = tokio::time::timeout(Duration::from_secs(60), storm).await.expect("it ends");
    let leader = serving.await.expect("it served");
    assert!(leader.faults > 10, "the storm was a breeze: {} faults", leader.faults);
    assert!(resources.iter().all(|resource| resource.uses.load(Ordering::SeqCst) > 0));
    assert_eq!(leader.table.check_invariants(), Ok(()));
    assert_eq!(leader.table.session_count(), 0);
}
