//! From the moment of expiry on, before any successor.

use std::time::{Duration, Instant};

use palisade_client::watch::{Filter, From};
use palisade_client::{FeedFloor, Watched};
use palisade_core::ids::Slot;
use palisade_proto::v1::{self, lock_event::Kind};

use super::{Orders, hold_and_forget, prefix};
use crate::live::{Live, PATIENCE, name, soon};

/// What users are told: so long after the expiry's entry is applied at the node of the feed, a write is refused.
const PROMISED: Duration = Duration::from_millis(100);
/// For a machine that runs everything at once: the news crosses four tasks and one connection on loopback.
const SLACK: Duration = Duration::from_millis(400);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_holders_write_is_refused_at_once_and_before_any_successor() {
    let live = Live::start(3).await;
    let [node, other] = live.followers().await;
    let client = live.client_of(node);
    let feed = client.fence_feed(&prefix("feed/"));
    let mut raw = live.raw(other).await;
    let mut watch = client.watch(Filter::Prefix("feed/".to_owned()), From::Now);
    assert_eq!(soon("the watch begins", watch.next()).await.unwrap(), Watched::Progress);
    let mut holders = Vec::new();
    for at in 0..5 {
        let lock = format!("feed/{at}");
        let token = hold_and_forget(&live, &mut raw, other, &lock).await;
        soon("the feed has the grant", feed.reached(token)).await;
        assert_eq!(feed.floor(&name("elsewhere"), Slot(0)), FeedFloor::Unknown);
        let orders = Orders::new(&lock, feed.clone());
        orders.write(token).unwrap();
        holders.push((lock, token, orders));
    }
    // Each writes on and on, as a holder that does not know that its lease is over.
    let writers = holders.into_iter().map(|(lock, token, orders)| {
        std::thread::spawn(move || {
            let until = Instant::now() + PATIENCE;
            while orders.write(token).is_ok() {
                assert!(Instant::now() < until, "{lock} is written to for ever");
                std::thread::sleep(Duration::from_millis(1));
            }
            let refused = Instant::now();
            assert!(orders.refuses(token));
            let counts = orders.guard.counts();
            assert_eq!((counts.claimed, counts.other), (0, 0), "nobody came after: the floor refused it");
            (lock, refused)
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut expired = Vec::new();
    while expired.len() < writers.len() {
        let Watched::Entry(entry) = soon("the leases end", watch.next()).await.unwrap() else { continue };
        let seen = Instant::now();
        let ends = entry.events.iter().filter(|event| event.kind() == Kind::HoldEnded);
        for end in ends {
            assert_eq!(end.ended(), v1::Ended::Expired);
            expired.push((end.lock.clone(), seen));
        }
    }
    for writer in writers {
        let (lock, refused) = tokio::task::spawn_blocking(|| writer.join().unwrap()).await.unwrap();
        let (_, seen) = expired.iter().find(|(ended, _)| *ended == lock).unwrap();
        let took = refused.saturating_duration_since(*seen);
        assert!(took <= PROMISED + SLACK, "{lock} was refused {took:?} after its expiry was seen");
    }
    client.close().await;
}
