//! Positions that cannot be gone on from are answered with how things stand.

use palisade_client::Watched;
use palisade_client::watch::{From, Position};
use palisade_proto::v1::resynchronise::Reason;

use super::{TTL, begun, entry, next, of_lock};
use crate::live::{Live, eventually, hold, holder};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_before_what_is_kept_is_answered_with_a_snapshot_and_the_watch_goes_on() {
    let mut live = Live::prepare(1);
    live.cluster = live.cluster.with_arguments(&["--events-kept", "10"]);
    live.cluster.start_all().unwrap();
    live.ready().await;
    let client = live.client(TTL);
    let mut watch = client.watch(of_lock("l"), From::Now);
    let old = begun(&mut watch).await;
    let session = client.open_session().await.unwrap();
    for _ in 0..10 {
        hold(&session, "l").await.release().await.unwrap();
    }
    let guard = hold(&session, "l").await;
    let mut late = client.watch(of_lock("l"), From::After(old));
    let Watched::Snapshot { missing: Some(Reason::TooOld), locks } = next(&mut late).await else {
        panic!("a snapshot")
    };
    assert_eq!(holder(&locks[0]).unwrap().1, guard.token().get());
    let position = late.position().unwrap();
    assert!(position.index >= guard.token().get() && position.incarnation == old.incarnation);
    guard.release().await.unwrap();
    let told = entry(&mut late).await;
    assert!(told.index > position.index);
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b73_a_position_of_another_incarnation_is_answered_loudly() {
    let live = Live::start(1).await;
    let client = live.client(TTL);
    let other = "a5".repeat(16).parse().unwrap();
    // Also one that is ahead of this cluster, as after a restore.
    let position = Position { incarnation: Some(other), index: 1_000_000 };
    let mut watch = client.watch(of_lock("l"), From::After(position));
    let Watched::Snapshot { missing: Some(Reason::Incarnation), locks } = next(&mut watch).await else {
        panic!("a snapshot")
    };
    assert_eq!(locks.len(), 1, "also a lock that is free is told of");
    assert!(watch.position().unwrap().incarnation.is_some_and(|present| present != other));
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_behind_waits_for_itself_and_then_sends_its_watcher_on() {
    let live = Live::start(3).await;
    let client = live.client(TTL);
    let session = client.open_session().await.unwrap();
    let mut anywhere = client.watch(of_lock("l"), From::Now);
    begun(&mut anywhere).await;
    let [behind, _] = live.followers().await;
    live.pause(behind).await;
    let guard = hold(&session, "l").await;
    let granted = entry(&mut anywhere).await;
    // While it stands still it cannot have the position; when it wakes it has to catch up first.
    let incarnation = anywhere.position().unwrap().incarnation;
    let mut watch = live
        .client_of(behind)
        .watch(of_lock("l"), From::After(Position { incarnation, index: granted.index }));
    live.cluster.wake(behind);
    guard.release().await.unwrap();
    let released = entry(&mut watch).await;
    assert!(released.index > granted.index, "it never goes back");

    // A position that no node has reached is refused by each of them.
    let ahead = Position { incarnation, index: released.index + 1_000_000 };
    for node in 0..3 {
        let asked = palisade_proto::v1::WatchRequest {
            what: Some(palisade_proto::v1::watch_request::What::Lock("l".to_owned())),
            from: Some(palisade_proto::v1::watch_request::From::After(
                palisade_proto::convert::watch::position(ahead.incarnation, ahead.index),
            )),
        };
        let mut raw = palisade_proto::v1::watches_client::WatchesClient::new(live.channel(node));
        let status = eventually("the node answers", async || {
            let mut stream = raw.watch(asked.clone()).await.ok()?.into_inner();
            stream.message().await.err()
        })
        .await;
        let error = palisade_proto::convert::error::error_of(&status).unwrap();
        assert_eq!(error.name, "NODE_BEHIND", "{error:?}");
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_goes_on_over_a_restart_of_its_node_and_sees_what_happened_meanwhile() {
    let mut live = Live::start(3).await;
    let client = live.client(TTL);
    let session = client.open_session().await.unwrap();
    let [node, _] = live.followers().await;
    let mut watch = live.client_of(node).watch(of_lock("l"), From::Now);
    begun(&mut watch).await;
    live.cluster.kill(node);
    let guard = hold(&session, "l").await;
    let token = guard.token().get();
    guard.release().await.unwrap();
    live.cluster.start_node(node).unwrap();
    live.node_ready(node).await;
    // Also from the beginning: the node has applied its whole log again.
    let beginning = From::After(Position { incarnation: None, index: 0 });
    let mut all = live.client_of(node).watch(of_lock("l"), beginning);
    assert_eq!((begun(&mut all).await.index, entry(&mut all).await.index), (0, token));
    let (granted, released) = (entry(&mut watch).await, entry(&mut watch).await);
    assert_eq!((granted.index, granted.events[0].token), (token, token));
    assert!(released.index > granted.index && released.events[0].token == token);
    client.close().await;
}
