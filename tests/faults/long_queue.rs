//! A thousand waiters of one lock, over three nodes, while the leader is killed: each is granted once, in the queue's order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use palisade_client::watch::{Filter, From};
use palisade_client::{Client, ClientConfig, Session, Watch, Watched};
use palisade_core::ids::AcquisitionId;
use palisade_host::Host;
use palisade_proto::v1;
use palisade_proto::v1::lock_event::Kind;
use tokio::task::JoinSet;

use crate::live::{Live, PATIENCE, hold, name, soon};

const WAITERS: usize = 1_000;
/// After so many grants the leader is killed.
const KILLED_AFTER: usize = 300;
/// Nobody's lease ends meanwhile.
const TTL: Duration = Duration::from_secs(60);
/// A thousand releases, one after the other, on a slow disk.
const ALL_GRANTED: Duration = Duration::from_secs(120);

/// A client that stays with whichever node it reaches, this one first.
fn staying(live: &Live, node: usize) -> Client {
    let mut endpoints = live.cluster.endpoints();
    endpoints.rotate_left(node);
    let mut config = ClientConfig::new(endpoints);
    (config.ttl, config.follow_leader) = (TTL, false);
    Client::new(config, Host::system()).unwrap()
}

fn id(of: &v1::AcquisitionId) -> (u64, u64) {
    (of.session, of.number)
}

/// The next events of the lock, in log order.
async fn events(watch: &mut Watch) -> Vec<v1::LockEvent> {
    loop {
        match soon("the watch goes on", watch.next()).await.unwrap() {
            Watched::Entry(entry) => return entry.events,
            Watched::Progress => {}
            Watched::Snapshot { missing, .. } => panic!("events are missing: {missing:?}"),
        }
    }
}

/// Of one kind, until there are so many.
async fn told(watch: &mut Watch, kind: Kind, enough: usize) -> Vec<((u64, u64), u64)> {
    let mut told = Vec::new();
    while told.len() < enough {
        let of_kind = events(watch).await.into_iter().filter(|event| event.kind() == kind);
        told.extend(of_kind.map(|event| (id(&event.acquisition.unwrap()), event.token)));
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_are_granted_in_their_order_while_the_leader_is_killed() {
    let mut live = Live::start(3).await;
    let (leader, term) = live.leader_and_term().await;
    let clients: Vec<Client> = (0..3).map(|node| staying(&live, node)).collect();
    let mut sessions: Vec<Session> = Vec::new();
    for client in &clients {
        sessions.push(client.open_session().await.unwrap());
    }
    let first = hold(&sessions[0], "long").await;
    let mut watch = clients[(leader + 1) % 3].watch(Filter::Lock(name("long")), From::Now);
    assert_eq!(soon("the watch begins", watch.next()).await.unwrap(), Watched::Progress);

    let held: Arc<Mutex<Vec<(AcquisitionId, u64)>>> = Arc::default();
    let mut waiting = JoinSet::new();
    for waiter in 0..WAITERS {
        let (asked, held) = (sessions[waiter % 3].lock(name("long")), held.clone());
        waiting.spawn(async move {
            let guard = asked.acquire().await.unwrap();
            held.lock().unwrap().push((guard.acquisition(), guard.token().get()));
            guard.release().await.unwrap();
        });
    }
    let queued: Vec<_> =
        told(&mut watch, Kind::Queued, WAITERS).await.into_iter().map(|(id, _)| id).collect();
    first.release().await.unwrap();
    let mut granted = told(&mut watch, Kind::Granted, KILLED_AFTER).await;
    live.cluster.kill(leader);
    live.leader_after(term).await;
    granted.extend(told(&mut watch, Kind::Granted, WAITERS - granted.len()).await);
    let all = async { while waiting.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(ALL_GRANTED, all).await.expect("each of them released");

    let order: Vec<_> = granted.iter().map(|(id, _)| *id).collect();
    assert_eq!(order, queued, "granted as they queued, each once");
    assert!(granted.windows(2).all(|pair| pair[0].1 < pair[1].1), "tokens only rise");
    // What the log tells is what the holders saw.
    let mut held = std::mem::take(&mut *held.lock().unwrap());
    held.sort_by_key(|(_, token)| *token);
    let held: Vec<_> = held.iter().map(|(id, token)| ((id.session.0, id.number.0), *token)).collect();
    assert_eq!(held, granted);
    for client in clients {
        tokio::time::timeout(PATIENCE, client.close()).await.unwrap();
    }
}
