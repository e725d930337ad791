//! The keys of a resource: fetched from the nodes over HTTP, while leader after leader signs with its own and somebody invents
//! others.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use palisade_client::Session;
use palisade_core::ids::ClusterId;
use palisade_core::mode::Mode;
use palisade_core::sequencer_text;
use palisade_fence::conformance::SigningCluster;
use palisade_fence::error::FenceError;
use palisade_fence::keys::{KeyRefresh, KeySet, Pace};
use palisade_fence::verifier::Verifier;

use crate::live::{Live, eventually, get, name, soon};

const PACE: Pace = Pace { pause: Duration::from_millis(500), age_max: Duration::from_secs(2) };
const NODES: usize = 3;
/// Leaders that die until each node has led and signed.
const KILLS_MAX: usize = 20;
/// Between two sequencers of one thread, so that the nodes get their share of the machine.
const STEP: Duration = Duration::from_millis(1);

/// A resource that is asked all the time, by true holders and by inventors of keys.
struct Resource {
    verifier: Arc<Verifier>,
    refresh: KeyRefresh,
    /// Of true holders.
    sequencers: Mutex<Vec<String>>,
    verified: AtomicU64,
    invented: AtomicU64,
    over: AtomicBool,
}

impl Resource {
    /// With the keys that the nodes tell, asked in turn: one that is down has no answer.
    fn of(live: &Live, cluster: ClusterId) -> Self {
        let verifier = Arc::new(Verifier::new(cluster, KeySet::default()));
        let (runtime, endpoints) = (tokio::runtime::Handle::current(), live.cluster.endpoints());
        let mut asked = 0;
        let fetch = move || {
            asked += 1;
            let node: &str = &endpoints[asked % NODES];
            let answer = runtime.block_on(get(node, "/.well-known/jwks.json"))?;
            KeySet::from_jwks(&answer.body).ok()
        };
        let refresh = KeyRefresh::start(Arc::clone(&verifier), PACE, fetch).unwrap();
        Self {
            verifier,
            refresh,
            sequencers: Mutex::default(),
            verified: AtomicU64::new(0),
            invented: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// What a service's layer does with each request.
    fn serve(&self, sequencer: &str) -> Result<(), FenceError> {
        let verified = self.verifier.verify(sequencer).map(drop);
        if let Err(FenceError::UnknownKey { .. }) = &verified {
            self.refresh.ask();
        }
        verified
    }

    /// True holders, again and again.
    fn verify_until_over(&self) {
        while !self.over.load(Ordering::Acquire) {
            let sequencers = self.sequencers.lock().unwrap().clone();
            for sequencer in &sequencers {
                self.serve(sequencer).unwrap();
                self.verified.fetch_add(1, Ordering::Relaxed);
                thread::sleep(STEP);
            }
        }
    }

    /// Each one with a key of its own that nobody has.
    fn invent_until_over(&self, cluster: ClusterId) {
        let stranger = SigningCluster::new(9);
        let mut statement = stranger.statement("orders", 0, Mode::Exclusive, 90);
        statement.cluster = cluster;
        while !self.over.load(Ordering::Acquire) {
            let count = self.invented.fetch_add(1, Ordering::Relaxed);
            let mut header = stranger.header();
            header.kid = format!("invented-{count}");
            let refused = self.serve(&stranger.sign(&header, &statement));
            assert!(
                matches!(&refused, Err(FenceError::UnknownKey { kid }) if *kid == header.kid),
                "{refused:?}"
            );
            thread::sleep(STEP);
        }
    }
}

/// The next holder's sequencer, and the key that signed it.
async fn next(session: &Session) -> (String, String) {
    let guard = soon("a grant", session.lock(name("orders")).with_sequencer().acquire()).await.unwrap();
    let sequencer = guard.sequencer().await.unwrap();
    guard.release().await.unwrap();
    let kid = sequencer_text::parse(&sequencer).unwrap().header.kid;
    (sequencer, kid)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_fetched_in_bounds_and_no_true_holder_is_refused_by_any_leader_s_key() {
    let mut live = Live::start(NODES).await;
    let cluster: ClusterId = live.status(0).await.unwrap().cluster_id.parse().unwrap();
    let session = live.client(Duration::from_secs(60)).open_session().await.unwrap();
    let resource = Arc::new(Resource::of(&live, cluster));
    // It begins with no key at all: the first holder is the one that makes it fetch.
    let (first, _) = next(&session).await;
    assert!(matches!(resource.serve(&first), Err(FenceError::UnknownKey { .. })));
    eventually("the keys of all nodes are known", async || {
        (resource.verifier.keys().len() == NODES).then_some(())
    })
    .await;

    let began = Instant::now();
    let before = resource.refresh.fetches();
    let threads: Vec<_> = (0..4)
        .map(|at| {
            let resource = Arc::clone(&resource);
            thread::spawn(move || match at {
                0 => resource.invent_until_over(cluster),
                _ => resource.verify_until_over(),
            })
        })
        .collect();
    let mut signed = BTreeSet::new();
    for _ in 0..KILLS_MAX {
        let (sequencer, kid) = next(&session).await;
        signed.insert(kid);
        resource.sequencers.lock().unwrap().push(sequencer);
        if signed.len() == NODES {
            break;
        }
        let (leader, term) = live.leader_and_term().await;
        live.cluster.kill(leader);
        live.leader_after(term).await;
        live.cluster.start_node(leader).unwrap();
        live.node_ready(leader).await;
    }
    let verified = resource.verified.load(Ordering::Relaxed);
    eventually("all keys are verified with", async || {
        (resource.verified.load(Ordering::Relaxed) > verified + 1_000).then_some(())
    })
    .await;
    resource.over.store(true, Ordering::Release);
    for thread in threads {
        thread.join().expect("no true holder was refused, and no inventor taken");
    }
    assert_eq!(signed.len(), NODES, "each node has signed: {signed:?}");

    let (fetches, elapsed) = (resource.refresh.fetches() - before, began.elapsed());
    let fetches_max = elapsed.as_millis() / PACE.pause.as_millis() + 2;
    let (verified, invented) =
        (resource.verified.load(Ordering::Relaxed), resource.invented.load(Ordering::Relaxed));
    println!(
        "{elapsed:?}: {verified} verified, {invented} keys invented, {fetches} fetches, {fetches_max} allowed"
    );
    assert!(u128::from(fetches) <= fetches_max, "{fetches} fetches in {elapsed:?}");
    assert!(invented > 100, "{invented}");
    assert_eq!(resource.verifier.keys().len(), NODES);
}
