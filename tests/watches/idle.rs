//! A watcher to whom nothing happens.

use palisade_client::Watched;
use palisade_client::watch::From;

use super::{TTL, begun, next, of_lock};
use crate::live::{Live, hold, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b100_an_idle_watcher_hears_how_far_it_is() {
    let live = Live::start(3).await;
    let client = live.client(TTL);
    let session = client.open_session().await.unwrap();
    for node in 0..3 {
        let mut watch = live.client_of(node).watch(of_lock("idle"), From::Now);
        begun(&mut watch).await;
        // Things happen, but not to this lock.
        let guard = hold(&session, "busy").await;
        let index = guard.token().get();
        guard.release().await.unwrap();
        let far = async {
            loop {
                assert_eq!(next(&mut watch).await, Watched::Progress);
                if watch.position().unwrap().index > index {
                    return;
                }
            }
        };
        soon("the progress passes what happened elsewhere", far).await;
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_a_majority_sends_its_watchers_away() {
    let mut live = Live::start(3).await;
    let leader = live.leader().await;
    let mut watch = live.client_of(leader).watch(of_lock("l"), From::Now);
    begun(&mut watch).await;
    for node in (0..3).filter(|node| *node != leader) {
        live.cluster.kill(node);
    }
    let ended = async {
        loop {
            let mut raw = palisade_proto::v1::watches_client::WatchesClient::new(live.channel(leader));
            let asked = palisade_proto::v1::WatchRequest {
                what: Some(palisade_proto::v1::watch_request::What::Lock("l".to_owned())),
                from: None,
            };
            let mut stream = raw.watch(asked).await.unwrap().into_inner();
            loop {
                match stream.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(status) => return status,
                }
            }
        }
    };
    let status = soon("the watch ends", ended).await;
    assert_eq!(palisade_proto::convert::error::error_of(&status).unwrap().name, "NO_QUORUM");
}
