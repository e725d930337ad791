//! A client that does not read what it watches.

use palisade_client::watch::{Filter, From, Position};
use palisade_proto::v1::watch_request;
use palisade_proto::v1::watches_client::WatchesClient;
use palisade_proto::v1::{self, watch_message::Message};

use super::{TTL, begun, below, entry};
use crate::live::{Live, eventually, get, hold, soon};

/// Long enough that the buffers of the connection are full before the watcher's own.
const NAME_BYTES: usize = 500;
/// Bytes that the node may send before the client reads: the least that there is.
const WINDOW: u32 = 65_535;

async fn cuts(live: &Live) -> u64 {
    let text = get(live.address(0), "/metrics").await.unwrap().body;
    let line = text.lines().find(|line| line.starts_with("palisade_watch_cuts_total")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_does_not_read_loses_its_own_stream_and_nobody_else_notices() {
    let mut live = Live::prepare(1);
    live.cluster = live.cluster.with_arguments(&["--watch-buffer", "100"]);
    live.cluster.start_all().unwrap();
    live.ready().await;
    let prefix = format!("slow/{}", "x".repeat(NAME_BYTES));
    let asked = v1::WatchRequest {
        what: Some(watch_request::What::Prefix(prefix.clone())),
        from: Some(watch_request::From::Now(true)),
    };
    let narrow = tonic::transport::Endpoint::from_shared(format!("http://{}", live.address(0)))
        .unwrap()
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let channel = narrow.connect().await.unwrap();
    let mut slow = WatchesClient::new(channel).watch(asked).await.unwrap().into_inner();
    let client = live.client(TTL);
    let mut reader = client.watch(below(&prefix), From::Now);
    begun(&mut reader).await;

    let session = client.open_session().await.unwrap();
    let mut read = 0;
    let working = async {
        loop {
            let guard = hold(&session, &prefix).await;
            guard.release().await.unwrap();
            read += entry(&mut reader).await.events.len();
            read += entry(&mut reader).await.events.len();
            if cuts(&live).await == 1 {
                return;
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(120), working).await.expect("the slow one is cut");
    assert!(read > 100, "{read}");

    // It still gets what was on its way, and then why there is no more.
    let mut position = None;
    let error = loop {
        match soon("the stream ends", slow.message()).await {
            Ok(Some(message)) => match message.message.unwrap() {
                Message::Entries(told) => {
                    let index = told.entries.last().unwrap().index;
                    assert!(position < Some(index));
                    position = Some(index);
                }
                Message::Progress(_) => {}
                other => panic!("{other:?}"),
            },
            Ok(None) => panic!("the stream ended without a word"),
            Err(status) => break palisade_proto::convert::error::error_of(&status).unwrap(),
        }
    };
    assert_eq!(error.name, "WATCH_TOO_SLOW");
    let (Some(index), filter) = (position, Filter::Prefix(prefix)) else { panic!("it saw nothing") };
    let mut again = client.watch(filter, From::After(Position { incarnation: None, index }));
    assert!(entry(&mut again).await.index > index);
    assert_eq!(cuts(&live).await, 1);
    eventually("its place is free", async || {
        let text = get(live.address(0), "/metrics").await?.body;
        text.contains("palisade_watch_streams 2").then_some(())
    })
    .await;
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_watch_stream_too_many_is_refused_with_the_limit() {
    let mut live = Live::prepare(1);
    live.cluster = live.cluster.with_arguments(&["--watches-max", "2"]);
    live.cluster.start_all().unwrap();
    live.ready().await;
    let client = live.client(TTL);
    let mut watches = [client.watch(below(""), From::Now), client.watch(below(""), From::Now)];
    for watch in &mut watches {
        begun(watch).await;
    }
    let asked = v1::WatchRequest {
        what: Some(watch_request::What::Prefix(String::new())),
        from: Some(watch_request::From::Now(true)),
    };
    let refused = WatchesClient::new(live.channel(0)).watch(asked.clone()).await.unwrap_err();
    let error = palisade_proto::convert::error::error_of(&refused).unwrap();
    assert_eq!((error.name.as_str(), error.limit), ("LIMIT_REACHED", 2));
    drop(watches);
    eventually("a place is free again", async || {
        WatchesClient::new(live.channel(0)).watch(asked.clone()).await.ok().map(drop)
    })
    .await;
    client.close().await;
}
