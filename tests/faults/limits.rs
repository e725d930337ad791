//! Each bound at a node's door, and one more than it: the one more is refused by name, and the node goes on.

use std::time::Duration;

use palisade_proto::v1;
use palisade_proto::v1::locks_client::LocksClient;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::sequencers_client::SequencersClient;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tonic::Code;

use crate::live::{
    Live, PATIENCE, Raw, Seen, acquire, error_name, eventually, get, hold, name, no_wait, open_session, post,
    post_as, soon, while_session,
};

/// A client that was there before the bound was met keeps its lock, and another takes and frees one.
async fn assert_unharmed(live: &Live, what: &str) {
    let client = live.client(Duration::from_secs(10));
    let session = client.open_session().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    hold(&session, "another").await.release().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    client.close().await;
    assert_eq!(get(live.address(0), "/readyz").await.unwrap().status, 200, "{what}");
}

/// One node with these flags.
async fn node(flags: &[&str]) -> Live {
    Live::start_with(1, flags).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_a_frame_and_of_a_window() {
    for bound in ["--frame-requests-max", "--window"] {
        let live = node(&[bound, "4"]).await;
        for count in [4, 5] {
            let mut raw = live.raw(0).await;
            let get = || Op::GetLock(v1::GetLock { lock: "orders".to_owned() });
            let requests = (0..count).map(|_| raw.request(0, get())).collect::<Vec<_>>();
            raw.send(v1::ClientFrame { requests, ..v1::ClientFrame::default() }).await;
            let mut answers = 0;
            while answers < 4
                && let Some(seen) = raw.next(PATIENCE).await
            {
                answers += usize::from(matches!(seen, Seen::Response(_)));
            }
            assert_eq!(answers, if count == 4 { 4 } else { 0 }, "{count} requests, {bound} 4");
        }
        assert_unharmed(&live, bound).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_and_single_calls_at_one_time() {
    let live = node(&["--streams-max", "2", "--calls-max", "1"]).await;
    let script = open_session(live.channel(0), Duration::from_secs(60), "a test").await;
    // Its reads go over a stream, and are no single calls.
    let client = live.client(Duration::from_secs(60));
    let call = |number, lock: &str, wait| v1::AcquireCall {
        session: script.id,
        secret: script.secret.clone(),
        acquire: Some(acquire(number, lock, wait)),
    };
    let mut locks = LocksClient::new(live.channel(0));
    locks.acquire(call(1, "orders", no_wait())).await.unwrap();
    // One call waits, and takes the only place.
    let mut waiting = locks.clone();
    let asked = call(2, "orders", while_session());
    let waiting = tokio::spawn(async move { waiting.acquire(asked).await });
    let queued = async || (client.lock_view(&name("orders")).await.ok()?.queue.len() == 1).then_some(());
    eventually("the call waits", queued).await;
    client.close().await;
    let refused = eventually("one more is refused", async || {
        let status = locks.get(v1::GetLock { lock: "orders".to_owned() }).await.err()?;
        (status.code() == Code::ResourceExhausted).then_some(status)
    })
    .await;
    assert!(refused.message().starts_with("OVERLOADED"), "{refused}");
    let over = get(live.address(0), "/v1/locks").await.unwrap();
    assert_eq!((over.status, &over.json()["title"]), (429, &json!("OVERLOADED")));
    assert!(over.head.contains("retry-after: 1"), "{}", over.head);
    waiting.abort();
    let free = async || locks.get(v1::GetLock { lock: "orders".to_owned() }).await.ok();
    eventually("the place is free again", free).await;

    // Single calls are streams as well, so the last is let go before.
    let (first, second) = (live.raw(0).await, live.raw(0).await);
    assert!(Raw::connect(live.channel(0)).await.is_none(), "one more stream is refused");
    drop((first, second));
    eventually("there is room again", async || Raw::connect(live.channel(0)).await.map(drop)).await;
    assert_unharmed(&live, "streams").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_of_a_message_and_of_a_body_and_sequencers_of_a_check() {
    let live =
        node(&["--message-bytes-max", "4096", "--body-bytes-max", "1000", "--check-items-max", "3"]).await;
    let mut sequencers = SequencersClient::new(live.channel(0));
    let items = |count: usize, bytes: usize| {
        let what = Some(v1::check_item::What::Sequencer("x".repeat(bytes)));
        v1::Check { items: vec![v1::CheckItem { what, lock: String::new() }; count] }
    };
    assert_eq!(sequencers.check(items(3, 4)).await.unwrap().into_inner().verdicts.len(), 3);
    let status = sequencers.check(items(4, 4)).await.unwrap_err();
    assert!(status.message().starts_with("BAD_ARGUMENT"), "{status}");
    assert!(sequencers.check(items(1, 4_000)).await.is_ok());
    assert_eq!(sequencers.check(items(1, 4_097)).await.unwrap_err().code(), Code::OutOfRange);

    let address = live.address(0);
    let body = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    let fits = post_as(address, "/v1/sessions/open", "application/json", &body(1_000)).await.unwrap();
    assert_eq!(fits.status, 200, "{fits:?}");
    let over = post_as(address, "/v1/sessions/open", "application/json", &body(1_001)).await.unwrap();
    assert_eq!(
        (over.status, &over.json()["title"], &over.json()["limit"]),
        (413, &json!("TOO_LARGE"), &json!("1000"))
    );
    assert_unharmed(&live, "bytes").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_at_one_time() {
    let live = node(&["--connections-max", "12"]).await;
    // Others of this test have connections, too: so many more that some are one too many.
    let mut open = Vec::new();
    for _ in 0..24 {
        open.push(TcpStream::connect(live.address(0)).await.unwrap());
    }
    let closed = eventually("one more is closed", async || {
        let mut byte = [0];
        let mut closed = 0;
        for stream in &mut open {
            let read = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut byte)).await;
            closed += usize::from(matches!(read, Ok(Ok(0) | Err(_))));
        }
        (closed >= 12).then_some(closed)
    })
    .await;
    assert!(closed < 24, "those within the bound stay");
    drop(open);
    eventually("there is room again", async || {
        (get(live.address(0), "/readyz").await?.status == 200).then_some(())
    })
    .await;
    assert_unharmed(&live, "connections").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_one_client_in_a_second() {
    let live = node(&["--client-requests-per-second", "2"]).await;
    let address = live.address(0);
    let limited = eventually("one more is refused", async || {
        let mut asking = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let address = address.to_owned();
            asking.spawn(async move { get(&address, "/v1/locks").await });
        }
        asking.join_all().await.into_iter().flatten().find(|answer| answer.status == 429)
    })
    .await;
    assert_eq!((&limited.json()["title"], &limited.json()["limit"]), (&json!("RATE_LIMITED"), &json!("2")));
    assert!(limited.head.contains("retry-after: 1"), "{}", limited.head);
    let mut locks = LocksClient::new(live.channel(0));
    let status = eventually("gRPC is told by a status", async || {
        locks.get(v1::GetLock { lock: "orders".to_owned() }).await.err()
    })
    .await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().starts_with("RATE_LIMITED"), "{status}");
    // Health is not for clients alone.
    assert_eq!(get(address, "/readyz").await.unwrap().status, 200);

    // A stream's requests count each; its keepalives do not.
    let script = eventually("a session is opened", async || {
        let opened = post(address, "/v1/sessions/open", &json!({ "ttl_ms": "60000" })).await?;
        (opened.status == 200).then(|| opened.json())
    })
    .await;
    let session: u64 = script["session"].as_str().unwrap().parse().unwrap();
    let secret = script["secret"].as_str().unwrap();
    let secret: Vec<u8> =
        (0..64).step_by(2).map(|at| u8::from_str_radix(&secret[at..at + 2], 16).unwrap()).collect();
    let mut raw = live.raw(0).await;
    let bound = eventually("it is bound", async || {
        let bind = Op::Bind(v1::Bind { secret: secret.clone() });
        let answer = raw.ask(session, bind).await;
        matches!(answer.result, Some(v1::response::Result::Bound(_))).then_some(())
    });
    bound.await;
    let mut refused = 0;
    for _ in 0..100 {
        let answer = raw.ask(0, Op::GetLock(v1::GetLock { lock: "orders".to_owned() })).await;
        refused += usize::from(error_name(&answer) == "RATE_LIMITED");
    }
    assert!(refused > 0, "a stream has no way round it");
    let renewed = soon("a keepalive is answered", raw.renew(1, &[session])).await;
    assert!(renewed.error.is_none() && renewed.ended.is_empty(), "{renewed:?}");
    let client = live.client(Duration::from_secs(10));
    let patient = client.open_session().await.unwrap();
    let guard =
        soon("a client repeats until it passes", patient.lock(name("another")).acquire()).await.unwrap();
    guard.release().await.unwrap();
    client.close().await;
}
