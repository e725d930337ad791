//! More is asked than the cluster can do: what waits is bounded, each request is decided in the end, and nobody who lives
//! loses a session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use palisade_client::{Client, ClientConfig, Session, SessionState};
use palisade_host::Host;
use tokio::task::JoinSet;

use crate::live::{Live, get, hold, name};

/// Clients that flood, in turn at each node.
const FLOODS: usize = 9;
/// Tasks of each.
const TASKS: usize = 1_000;
/// Cycles of each task.
const CYCLES: usize = 3;
/// Idle sessions at each node.
const IDLE: usize = 20;
const IDLE_TTL: Duration = Duration::from_secs(10);
/// For one request of the flood: it may be refused again and again, on a machine that may be busy with other tests.
const FLOOD_PATIENCE: Duration = Duration::from_secs(60);
/// What waits when there is a queue: some 200 commands.
const QUEUE_BYTES: u64 = 128 << 10;
/// All that a node lets wait for the log.
const UNDECIDED_BYTES_MAX: u64 = 64 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_costs_no_session_and_what_waits_is_bounded() {
    let live = Live::start(3).await;
    let at = |node: usize, ttl| {
        let mut settings = ClientConfig::new(live.cluster.endpoints());
        settings.endpoints.rotate_left(node);
        settings.follow_leader = false;
        settings.ttl = ttl;
        settings.request_timeout = FLOOD_PATIENCE;
        Client::new(settings, Host::system()).unwrap()
    };
    let clients: Vec<Client> = (0..3).map(|node| at(node, IDLE_TTL)).collect();
    let mut idle: Vec<Session> = Vec::new();
    for client in &clients {
        for _ in 0..IDLE {
            idle.push(client.open_session().await.unwrap());
        }
    }

    let ended = AtomicBool::new(false);
    let mut floods = JoinSet::new();
    for number in 0..FLOODS {
        floods.spawn(flood(at(number % 3, FLOOD_PATIENCE), number));
    }
    let watched = async {
        let mut most = 0;
        while !ended.load(Ordering::Relaxed) {
            for node in 0..3 {
                most = most.max(metric(&live, node, "palisade_proposals_undecided_bytes").await);
            }
            let lost = idle.iter().filter(|one| matches!(one.state(), SessionState::Lost(_))).count();
            assert_eq!(lost, 0, "sessions that do nothing but live");
        }
        most
    };
    let flooded = async {
        while let Some(flood) = floods.join_next().await {
            flood.unwrap();
        }
        ended.store(true, Ordering::Relaxed);
    };
    let (most, ()) = tokio::join!(watched, flooded);

    assert!((QUEUE_BYTES..UNDECIDED_BYTES_MAX).contains(&most), "{most} bytes waited at most");
    for node in 0..3 {
        assert_eq!(metric(&live, node, "palisade_session_expirations_total").await, 0);
    }
    let session = clients[0].open_session().await.unwrap();
    hold(&session, "afterwards").await.release().await.unwrap();
    for client in clients {
        client.close().await;
    }
}

/// As many at one time as a stream takes, and more; each is granted in the end.
async fn flood(client: Client, number: usize) {
    let session = client.open_session().await.unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (session, lock) = (session.clone(), name(&format!("flood/{number}/{task}")));
        tasks.spawn(async move {
            for _ in 0..CYCLES {
                session.lock(lock.clone()).acquire().await.unwrap().release().await.unwrap();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    client.close().await;
}

async fn metric(live: &Live, node: usize, name: &str) -> u64 {
    let page = get(live.address(node), "/metrics").await.expect("it answers").body;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    // What never happened has no line of its own.
    line.map_or(0, |value| value.parse::<f64>().unwrap() as u64)
}
