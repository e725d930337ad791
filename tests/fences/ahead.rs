//! Fence-ahead: a guard that made the floor durable spares the next holder the rest of the lock-delay.

use std::sync::Arc;
use std::time::{Duration, Instant};

use palisade_client::{Client, FenceAhead, FenceFeed, FloorToRaise};
use palisade_core::ids::{ClusterId, GuardName, Slot};
use palisade_core::token::Token;
use palisade_fence::adapters::file::FileResource;
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::keys::KeySet;
use palisade_fence::trusted::TrustedToken;
use palisade_fence::verifier::Verifier;
use tempfile::TempDir;
use tokio::sync::watch;

use super::prefix;
use crate::live::{Live, acquire, eventually, name, open_session, soon, while_session};

/// What users are told: a crashed holder's lock is granted so long after its TTL, whatever its lock-delay.
const PROMISED: Duration = Duration::from_secs(1);
/// For a machine that runs everything at once: three flushes on real disks, and two connections that are made for it.
const SLACK: Duration = Duration::from_secs(3);
/// Of the holder's session.
const TTL: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(15);
const LOCK: &str = "ahead/orders";

/// A guard over a file, as another process would have it.
struct Database {
    guard: Guard<FileResource>,
    verifier: Verifier,
}

impl Database {
    async fn over(client: &Client, resource: FileResource) -> Arc<Self> {
        let cluster: ClusterId = client.status(false).await.unwrap().cluster_id.parse().unwrap();
        let keys = KeySet::from_jwks(&client.keys().await.unwrap()).unwrap();
        let guard = Guard::new(resource, Scope::new(cluster, name(LOCK)));
        Arc::new(Self { guard, verifier: Verifier::new(cluster, keys) })
    }

    fn raise(&self, floor: &FloorToRaise) -> Result<(), FenceError> {
        let signed = self.verifier.floor(&floor.signed)?;
        assert!(signed.statement().floor >= floor.asked);
        self.guard.raise(&signed).map(drop)
    }

    fn refuses(&self, token: u64) -> bool {
        let late = TrustedToken::exclusive(name(LOCK), Token::new(token).unwrap());
        self.guard.claim(&late).is_err_and(|error| error.is_stale())
    }
}

fn guards(database: &Arc<Database>, client: &Client, feed: &FenceFeed) -> FenceAhead {
    let database = database.clone();
    client.fence_ahead(GuardName::new("orders-db").unwrap(), feed, move |floor| {
        let raised = database.raise(&floor);
        async move { raised }
    })
}

/// A holder that crashes as soon as it holds; its token, and when it was last heard from.
async fn crash(live: &Live, node: usize, delay: Duration) -> (u64, Instant) {
    let mut raw = live.raw(node).await;
    let session = open_session(live.channel(node), TTL, "crashed").await;
    raw.bind(&session).await;
    let mut asked = acquire(1, LOCK, while_session());
    asked.parts[0].lock_delay_ms = Some(u64::try_from(delay.as_millis()).unwrap());
    asked.parts[0].fenced_by = vec!["orders-db".to_owned()];
    let token = raw.granted(session.id, asked).await.parts[0].token;
    (token, Instant::now())
}

/// Waits for the lock; how long after `since` it was granted.
async fn granted_after(client: &Client, since: Instant) -> Duration {
    let session = client.open_session().await.unwrap();
    let guard = soon("the lock is granted", session.lock(name(LOCK)).acquire()).await.unwrap();
    let took = since.elapsed();
    guard.release().await.unwrap();
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_that_confirms_spares_the_next_holder_the_delay() {
    let live = Live::start(3).await;
    let (client, directory) = (live.client(Duration::from_secs(60)), TempDir::new().unwrap());
    let feed = client.fence_feed(&prefix("ahead/"));
    let database =
        Database::over(&client, FileResource::create(directory.path().join("orders")).unwrap()).await;
    let _ahead = guards(&database, &client, &feed);
    let (stale, crashed) = crash(&live, live.leader().await, LONG).await;
    let took = granted_after(&client, crashed).await;
    assert!(took <= TTL + PROMISED + SLACK, "granted {took:?} after the holder was last heard from");
    assert!(database.refuses(stale), "the floor was durable before");
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_that_does_not_answer_costs_the_normal_delay_and_no_more() {
    let live = Live::start(3).await;
    let client = live.client(Duration::from_secs(60));
    let delay = Duration::from_secs(3);
    let (_, crashed) = crash(&live, live.leader().await, delay).await;
    let took = granted_after(&client, crashed).await;
    assert!(took >= TTL + delay, "granted {took:?} after the holder was last heard from");
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmation_outlives_the_leader_and_a_restart_of_the_guard() {
    let mut live = Live::start(3).await;
    let (client, directory) = (live.client(Duration::from_secs(60)), TempDir::new().unwrap());
    let feed = client.fence_feed(&prefix("ahead/"));
    let path = directory.path().join("orders");
    let database = Database::over(&client, FileResource::create(&path).unwrap()).await;
    // Its first life: it makes the floor durable, and is gone before it can confirm.
    let (raised, was_raised) = watch::channel(0_u32);
    let (first, raised) = (database.clone(), Arc::new(raised));
    let ahead = client.fence_ahead(GuardName::new("orders-db").unwrap(), &feed, move |floor| {
        let outcome = first.raise(&floor);
        raised.send_modify(|count| *count += 1);
        async move {
            outcome?;
            std::future::pending::<Result<(), FenceError>>().await
        }
    });
    let (leader, term) = live.leader_and_term().await;
    let (stale, crashed) = crash(&live, leader, LONG).await;
    eventually("the floor is durable", async || (*was_raised.borrow() > 0).then_some(())).await;
    drop(ahead);
    drop((feed, database));
    live.cluster.kill(leader);
    live.leader_after(term).await;
    // Its second: it learns from the snapshot of a new feed what is asked of it.
    let feed = client.fence_feed(&prefix("ahead/"));
    let database = Database::over(&client, FileResource::open(&path).unwrap()).await;
    assert!(database.refuses(stale), "the first life's floor");
    let _ahead = guards(&database, &client, &feed);
    let took = granted_after(&client, crashed).await;
    assert!(took < TTL + LONG, "granted {took:?} after the holder was last heard from");
    // Late and repeated, it changes nothing.
    let guard = GuardName::new("orders-db").unwrap();
    for _ in 0..2 {
        client.confirm_floor(&guard, &name(LOCK), Slot(0), Token::new(stale + 1_000).unwrap()).await.unwrap();
    }
    eventually("nothing is asked any more", async || feed.asked_of(&guard).is_empty().then_some(())).await;
    client.close().await;
}
