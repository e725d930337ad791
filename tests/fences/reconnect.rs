//! The feed's node is gone: it goes on at another, and misses nothing.

use std::collections::BTreeMap;

use palisade_client::LockGuard;
use palisade_proto::v1::fences_client::FencesClient;
use palisade_proto::v1::{self, feed_message::Message, feed_request, resynchronise::Reason};

use super::{floor, prefix};
use crate::live::{Live, hold, soon};

const TTL: std::time::Duration = std::time::Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_goes_on_at_another_node_and_loses_nothing() {
    let mut live = Live::start(3).await;
    let client = live.client(TTL);
    let feed = client.fence_feed(&prefix("move/"));
    let session = client.open_session().await.unwrap();
    let mut held: BTreeMap<String, LockGuard> = BTreeMap::new();
    let mut ended: BTreeMap<String, u64> = BTreeMap::new();
    for node in 0..3 {
        live.cluster.kill(node);
        // Whichever node the feed was at: things happen while it finds another one.
        for at in 0..12 {
            let lock = format!("move/{}", at % 4);
            if let Some(guard) = held.remove(&lock) {
                ended.insert(lock.clone(), guard.token().get());
                guard.release().await.unwrap();
            }
            if at % 3 != 0 {
                held.insert(lock.clone(), hold(&session, &lock).await);
            }
        }
        let last = hold(&session, "move/last").await;
        soon("the feed is there", feed.reached(last.token().get())).await;
        last.release().await.unwrap();
        for (lock, guard) in &held {
            assert_eq!(floor(&feed, lock), Some(guard.token().get()), "{lock} is held");
        }
        for (lock, token) in &ended {
            assert!(floor(&feed, lock) > Some(*token), "{token} of {lock} is over");
        }
        live.cluster.start_node(node).unwrap();
        live.node_ready(node).await;
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_of_another_incarnation_or_too_old_is_answered_with_a_snapshot() {
    let mut live = Live::prepare(1);
    live.cluster = live.cluster.with_arguments(&["--events-kept", "10"]);
    live.cluster.start_all().unwrap();
    live.ready().await;
    let client = live.client(TTL);
    let session = client.open_session().await.unwrap();
    for _ in 0..10 {
        hold(&session, "l").await.release().await.unwrap();
    }
    let guard = hold(&session, "l").await;
    let other = v1::Position { incarnation: "a5".repeat(16), index: 1_000_000 };
    let old = v1::Position { incarnation: String::new(), index: 1 };
    for (after, reason) in [(other, Reason::Incarnation), (old, Reason::TooOld)] {
        let what = Some(feed_request::What::Prefix(String::new()));
        let asked = v1::FeedRequest { what, after: Some(after) };
        let mut stream = FencesClient::new(live.channel(0)).feed(asked).await.unwrap().into_inner();
        let mut next = async || soon("the feed goes on", stream.message()).await.unwrap().unwrap().message;
        let Some(Message::Resynchronise(why)) = next().await else { panic!("it says that it cannot go on") };
        assert_eq!(why.reason(), reason);
        let Some(Message::Snapshot(part)) = next().await else { panic!("a snapshot follows") };
        let [slot] = &part.slots[..] else { panic!("{part:?}") };
        assert_eq!((slot.lock.as_str(), slot.held, part.last), ("l", guard.token().get(), true));
        let Some(Message::Mark(mark)) = next().await else { panic!("a mark follows") };
        assert!(mark.position.unwrap().index >= part.position.unwrap().index && !mark.cut_off);
    }
    client.close().await;
}
