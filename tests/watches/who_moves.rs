//! A watcher that changes its node all the time, while the leader changes.

use std::collections::{BTreeMap, BTreeSet};

use palisade_client::Watched;
use palisade_client::watch::From;
use palisade_proto::v1::{self, lock_event::Kind};

use super::{TTL, begun, below, entry, next, of_lock};
use crate::faults::load::Load;
use crate::live::{Live, hold};

/// What the watcher must see at least.
const EVENTS: usize = 10_000;
/// It leaves its node after so many events.
const STAYS: usize = 10;

/// What a watcher has seen, checked as it comes.
#[derive(Default)]
struct Sight {
    events: usize,
    last_index: u64,
    /// Who holds, by lock: the token of the last grant that has not ended.
    held: BTreeMap<String, u64>,
    grants: BTreeSet<(String, u64)>,
}

impl Sight {
    fn entry(&mut self, entry: &v1::WatchEntry) {
        assert!(entry.index > self.last_index, "index {} came after {}", entry.index, self.last_index);
        self.last_index = entry.index;
        for event in &entry.events {
            self.events += 1;
            self.event(entry.index, event);
        }
    }

    /// A lost event would leave a grant over a grant, or an end without one.
    fn event(&mut self, index: u64, event: &v1::LockEvent) {
        let (lock, token) = (event.lock.clone(), event.token);
        match event.kind() {
            Kind::Granted => {
                assert_eq!(token, index, "a token is the index of its entry");
                assert_eq!(self.held.insert(lock.clone(), token), None, "{lock} is granted while it is held");
                assert!(self.grants.insert((lock, token)), "told twice: {event:?}");
            }
            Kind::HoldEnded => assert_eq!(self.held.remove(&lock), Some(token), "{event:?}"),
            Kind::Queued | Kind::WaitEnded => {}
            Kind::DelayStarted | Kind::DelayEnded | Kind::Unspecified => panic!("nobody expired: {event:?}"),
            Kind::Metadata | Kind::Broken | Kind::Capacity | Kind::Confirmed => {
                panic!("nobody asked for that: {event:?}")
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b98_a_watcher_that_moves_on_after_every_tenth_event_sees_each_once_over_two_leader_changes() {
    let mut live = Live::start(3).await;
    let client = live.client(TTL);
    let mut watch = client.watch(below("load/"), From::Now);
    begun(&mut watch).await;
    let load = Load::start(&live, 24, 2).await;
    let (mut sight, mut kills, mut since_move) = (Sight::default(), 0, 0);
    while sight.events < EVENTS {
        if kills < 2 && sight.events > (kills + 1) * EVENTS / 3 {
            kills += 1;
            let (leader, term) = live.leader_and_term().await;
            live.cluster.kill(leader);
            live.leader_after(term).await;
            live.cluster.start_node(leader).unwrap();
        }
        let seen = entry(&mut watch).await;
        sight.entry(&seen);
        since_move += seen.events.len();
        if since_move >= STAYS {
            since_move = 0;
            watch.move_on();
        }
    }
    assert_eq!(kills, 2);
    // What is acknowledged by now is seen at last, each once.
    let acknowledged = load.granted();
    load.finish().await;
    while !acknowledged.iter().all(|grant| sight.grants.contains(grant)) || !sight.held.is_empty() {
        sight.entry(&entry(&mut watch).await);
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b106_a_lock_that_is_acquired_again_is_a_new_grant_with_a_new_token_on_every_node() {
    let live = Live::start(3).await;
    let client = live.client(TTL);
    let mut watches = Vec::new();
    for node in 0..3 {
        let mut watch = live.client_of(node).watch(of_lock("again"), From::Now);
        begun(&mut watch).await;
        watches.push(watch);
    }
    let session = client.open_session().await.unwrap();
    let mut tokens = Vec::new();
    for _ in 0..2 {
        // Others are neither its prefix nor below it.
        for other in ["aga", "again/b"] {
            hold(&session, other).await.release().await.unwrap();
        }
        let guard = hold(&session, "again").await;
        tokens.push(guard.token().get());
        guard.release().await.unwrap();
    }
    for watch in &mut watches {
        let mut seen = Vec::new();
        for _ in 0..4 {
            let told = entry(watch).await;
            let [event] = &told.events[..] else { panic!("{told:?}") };
            assert_eq!(event.lock, "again", "b97: names are exact");
            seen.push((event.kind(), event.token));
        }
        let expected = tokens.iter().flat_map(|token| [(Kind::Granted, *token), (Kind::HoldEnded, *token)]);
        assert_eq!(seen, expected.collect::<Vec<_>>());
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b95_a_state_and_what_comes_after_it_leave_no_gap_between_them() {
    let live = Live::start(1).await;
    let client = live.client(TTL);
    let session = client.open_session().await.unwrap();
    let guard = hold(&session, "state/held").await;
    let mut watch = client.watch(below("state/"), From::Snapshot);
    let Watched::Snapshot { missing: None, locks } = next(&mut watch).await else { panic!("a snapshot") };
    let [view] = &locks[..] else { panic!("{locks:?}") };
    assert_eq!(
        (view.lock.as_str(), crate::live::holder(view).unwrap().1),
        ("state/held", guard.token().get())
    );
    // The same from a list and its index.
    let list = client.list_locks("state/", 0, "").await.unwrap();
    let position = palisade_client::watch::Position { incarnation: None, index: list.index };
    let mut after = client.watch(below("state/"), From::After(position));
    guard.release().await.unwrap();
    for watch in [&mut watch, &mut after] {
        let told = entry(watch).await;
        assert_eq!(told.events[0].kind(), Kind::HoldEnded);
    }
    client.close().await;
}
