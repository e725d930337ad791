//! A node that is cut off from the others: what is superseded stays so.

use palisade_client::FeedFloor;
use palisade_core::ids::{ClusterId, Slot};
use palisade_fence::adapters::memory::MemoryResource;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::keys::KeySet;
use palisade_fence::verifier::Verifier;

use super::{Orders, TTL, floor, hold_and_forget, prefix};
use crate::live::{Live, eventually, hold, name, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_of_a_node_that_is_cut_off_keeps_rejecting() {
    let mut live = Live::start(3).await;
    let [node, other] = live.followers().await;
    let client = live.client_of(node);
    let feed = client.fence_feed(&prefix(""));
    let (gone, mut raw) = (live.client(TTL), live.raw(other).await);
    let stale = hold_and_forget(&live, &mut raw, other, "cut/off").await;
    let session = gone.open_session().await.unwrap();
    let held = hold(&session, "cut/held").await;
    let orders = Orders::new("cut/off", feed.clone());
    soon("the feed has the grant", feed.reached(stale)).await;
    orders.write(stale).unwrap();
    eventually("the lease ends", async || orders.refuses(stale).then_some(())).await;
    for peer in (0..3).filter(|peer| *peer != node) {
        live.cluster.kill(peer);
    }
    eventually("the feed says that it is lost", async || {
        matches!(feed.floor(&name("cut/off"), Slot(0)), FeedFloor::Lost(_)).then_some(())
    })
    .await;
    assert!(orders.refuses(stale));
    assert_eq!(floor(&feed, "cut/held"), Some(held.token().get()), "and it refuses nobody else");

    // Also one that begins only now, and one that trusts nothing but signatures.
    let late = client.fence_feed_of(name("cut/off"));
    soon("it has a snapshot", late.reached(0)).await;
    assert!(Orders::new("cut/off", late).refuses(stale));
    let status = live.status(node).await.unwrap();
    let cluster: ClusterId = status.cluster_id.parse().unwrap();
    let verifier = Verifier::new(cluster, KeySet::from_jwks(&client.keys().await.unwrap()).unwrap());
    let signed = client.signed_floor(&name("cut/off"), Slot(0), stale).await.unwrap();
    let signed = verifier.floor(&signed.text).unwrap();
    let guard = Guard::new(MemoryResource::new(()), Scope::new(cluster, name("cut/off")));
    assert!(guard.raise(&signed).unwrap().0.get() > stale);
    // It signs nothing of what it has not applied.
    let ahead = client.signed_floor(&name("cut/off"), Slot(0), u64::MAX / 2).await;
    assert!(ahead.is_err(), "{ahead:?}");
}
