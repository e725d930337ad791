//! What a script asks over HTTP and JSON: the same as over gRPC, by the same way, at every node. The page for its
//! readers, `docs/http.md`, is run by a suite of its own.

use std::time::Duration;

use serde_json::{Value, json};

use crate::live::{Http, Live, SECRET, Script, eventually, get, hold, holder, name, post, post_as, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_takes_and_frees_a_lock_through_every_node() {
    let live = Live::start(3).await;
    let mut last = 0;
    for node in 0..3 {
        let address = live.address(node);
        let script = Script::open(address, &format!("0{node}{SECRET}")).await;
        let again = Script::open(address, &format!("0{node}{SECRET}")).await;
        assert_eq!(script.session, again.session, "the same secret finds the same session");
        let renewed = script.ask("/v1/sessions/keepalive", json!({})).await;
        assert_eq!((renewed.status, &renewed.json()["renewed"]), (200, &json!(true)));

        let granted = script.acquire(1, json!({})).await;
        assert_eq!(granted.status, 200, "{granted:?}");
        let grant = granted.json();
        let token: u64 = grant["token"].as_str().unwrap().parse().unwrap();
        assert!(token > last, "tokens rise");
        last = token;
        assert_eq!(script.acquire(1, json!({})).await.json()["grant_index"], grant["grant_index"]);

        let who = get(address, "/v1/locks/who?name=orders%2Fshard-7").await.unwrap().json();
        assert_eq!(
            (&who["token"], &who["slots"][0]["holders"][0]["client"]),
            (&grant["token"], &json!("a script"))
        );
        let check = json!({ "sequencer": grant["sequencer"], "lock": "orders/shard-7" });
        assert_eq!(post(address, "/v1/sequencers/check", &check).await.unwrap().json()["current"], true);

        let release = json!({ "number": 1, "lock": "orders/shard-7", "token": grant["token"] });
        let released = script.ask("/v1/locks/release", release.clone()).await;
        assert_eq!((released.status, &released.json()["ended"]), (200, &json!("released")));
        assert_eq!(post(address, "/v1/sequencers/check", &check).await.unwrap().json()["state"], "ended");
        assert_eq!(script.ask("/v1/sessions/close", json!({})).await.status, 200);
        let late = script.ask("/v1/locks/release", release).await;
        assert_eq!((late.status, &late.json()["title"]), (410, &json!("SESSION_CLOSED")));
        assert!(late.head.contains("content-type: application/problem+json"), "{}", late.head);
    }
    let status = get(live.address(0), "/v1/status").await.unwrap().json();
    assert_eq!((&status["healthy"], status["nodes"].as_array().unwrap().len()), (&json!(true), 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_is_polled_under_its_number_and_keeps_its_place_over_a_lost_leader() {
    let mut live = Live::start(3).await;
    let client = live.client(Duration::from_secs(60));
    let session = client.open_session().await.unwrap();
    let guard = hold(&session, "orders/shard-7").await;
    let [stays, _] = live.followers().await;
    let script = Script::open(live.address(stays), SECRET).await;

    let refused = script.acquire(1, json!({})).await;
    let problem = refused.json();
    assert_eq!((refused.status, &problem["title"]), (409, &json!("LOCK_HELD")));
    assert_eq!(problem["holder"]["token"], guard.token().get().to_string());
    assert_eq!(problem["took_effect"], "no");

    let wait = json!({ "wait": "session", "poll_ms": 100 });
    let queued = script.acquire(2, wait.clone()).await;
    assert_eq!((queued.status, &queued.json()["place"]), (202, &json!(1)), "{queued:?}");
    let behind = client.open_session().await.unwrap();
    let later = tokio::spawn(async move { hold(&behind, "orders/shard-7").await });
    let both =
        async || (client.lock_view(&name("orders/shard-7")).await.ok()?.queue.len() == 2).then_some(());
    eventually("another waits behind it", both).await;

    let (leader, term) = live.leader_and_term().await;
    live.cluster.kill(leader);
    live.leader_after(term).await;
    let still = async || (script.acquire(2, wait.clone()).await.status == 202).then_some(());
    eventually("it still waits", still).await;
    let released = soon("the release", guard.release()).await;
    assert!(released.is_ok(), "{released:?}");
    let granted = eventually("it is granted", async || {
        let answer = script.acquire(2, wait.clone()).await;
        (answer.status == 200).then_some(answer.json())
    })
    .await;
    let view = client.lock_view(&name("orders/shard-7")).await.unwrap();
    let (acquisition, token) = holder(&view).unwrap();
    assert_eq!(acquisition.session.to_string(), script.session, "the one behind it did not overtake it");
    assert_eq!(granted["token"], token.to_string());

    let release = json!({ "number": 2, "lock": "orders/shard-7", "token": granted["token"] });
    assert_eq!(script.ask("/v1/locks/release", release).await.status, 200);
    drop(soon("the next one", later).await.unwrap());
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bounded_wait_ends_and_a_cancelled_one_leaves_nothing() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(60));
    let session = client.open_session().await.unwrap();
    let guard = hold(&session, "orders/shard-7").await;
    let script = Script::open(live.address(0), SECRET).await;
    let over = script.acquire(1, json!({ "wait_ms": "200" })).await;
    assert_eq!((over.status, &over.json()["title"]), (408, &json!("WAIT_TIMED_OUT")));
    let queued = script.acquire(0, json!({ "wait": "session", "poll_ms": 0 })).await;
    assert_eq!(queued.status, 202, "{queued:?}");
    let number = queued.json()["number"].clone();
    let cancelled = script.ask("/v1/locks/cancel", json!({ "number": number })).await.json();
    assert_eq!((&cancelled["was"], &cancelled["ended"]), (&json!("waiting"), &Value::Null));
    assert_eq!(client.lock_view(guard.lock()).await.unwrap().queue.len(), 0);
    let sessions = get(live.address(0), "/v1/sessions?client=a%20script").await.unwrap().json();
    assert_eq!(
        (&sessions["sessions"][0]["session"], &sessions["sessions"][0]["waits"]),
        (&json!(script.session), &json!(0))
    );
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_said_as_a_problem_and_nothing_else_happens() {
    let live = Live::start(1).await;
    let address = live.address(0);
    let script = Script::open(address, SECRET).await;
    let title = |answer: &Http| (answer.status, answer.json()["title"].as_str().unwrap().to_owned());
    let bad = (400, "BAD_ARGUMENT".to_owned());
    assert_eq!(title(&script.acquire(1, json!({ "wait_s": 5 })).await), bad, "an unknown field");
    assert_eq!(
        title(&script.acquire(1, json!({ "lock": "a\u{1}" })).await),
        bad,
        "a name with a control character"
    );
    assert_eq!(
        title(&post_as(address, "/v1/sessions/open", "text/plain", "{}").await.unwrap()),
        bad,
        "a page's form"
    );
    assert_eq!(title(&post_as(address, "/v1/sessions/open", "application/json", "{").await.unwrap()), bad);
    assert_eq!(title(&get(address, "/v1/locks/who?nam=x").await.unwrap()), bad);
    let mine = json!({ "session": script.session, "secret": "00" });
    let denied = post(address, "/v1/sessions/close", &mine).await.unwrap();
    assert_eq!(title(&denied), (401, "UNAUTHENTICATED".to_owned()));
    let unknown = json!({ "session": "999999", "secret": SECRET });
    let nobody = post(address, "/v1/sessions/keepalive", &unknown).await.unwrap();
    assert!(matches!(nobody.status, 404 | 421), "{nobody:?}");
    for (path, with_body) in [("/v1/nothing", false), ("/v1/locks/acquire", false), ("/v1/locks", true)] {
        let answer = if with_body { post(address, path, &json!({})).await } else { get(address, path).await };
        assert_eq!(title(&answer.unwrap()), (404, "NO_SUCH_CALL".to_owned()), "{path}");
    }
    assert_eq!(script.ask("/v1/sessions/keepalive", json!({})).await.status, 200);
    let who = get(address, "/v1/locks").await.unwrap().json();
    assert_eq!(who["locks"], json!([]));
}
