//! Each bound of the whole cluster, lowered while it serves, and one more than it; and each bound of what a call may
//! name. The one more is refused by name, and what was there goes on.

use serde_json::{Value, json};

use crate::live::{Http, Live, SECRET, Script, get, post};

async fn set(live: &Live, settings: Value) -> Http {
    post(live.address(0), "/v1/operators/settings", &settings).await.expect("an answer")
}

async fn lowered(live: &Live, limit: &str, to: u64) {
    let answer = set(live, json!({ limit: to })).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// What refuses one more names the bound.
fn assert_limit(answer: &Http, max: u64) {
    let said = answer.json();
    assert_eq!((answer.status, &said["title"]), (429, &json!("LIMIT_REACHED")), "{said}");
    assert_eq!((&said["limit"], &said["took_effect"]), (&json!(max.to_string()), &json!("no")), "{said}");
}

/// A try of one lock of its own.
fn of(lock: &str) -> Value {
    json!({ "lock": lock, "sequencer": false })
}

async fn open(live: &Live, number: u8) -> Script {
    Script::open(live.address(0), &format!("{number:02x}{SECRET}")).await
}

/// One that was there before the bound was met keeps its lock and takes another.
async fn assert_unharmed(live: &Live, first: &Script, number: u64) {
    let who = get(live.address(0), "/v1/locks/who?name=first").await.unwrap().json();
    assert_eq!(who["slots"][0]["holders"][0]["session"], first.session, "{who}");
    let granted = first.acquire(number, of("another")).await;
    assert_eq!(granted.status, 200, "{granted:?}");
    let release = json!({ "number": number, "lock": "another", "token": granted.json()["token"] });
    assert_eq!(first.ask("/v1/locks/release", release).await.status, 200);
    assert_eq!(get(live.address(0), "/readyz").await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_more_than_a_replicated_limit_is_refused_and_the_rest_goes_on() {
    let live = Live::start(1).await;
    let first = open(&live, 1).await;
    assert_eq!(first.acquire(1, of("first")).await.status, 200);
    let second = open(&live, 2).await;

    // What would stop everything is refused as a whole.
    let nothing = set(&live, json!({ "sessions_max": 0, "locks_max": 1 })).await;
    assert_eq!((nothing.status, &nothing.json()["title"]), (400, &json!("BAD_ARGUMENT")), "{nothing:?}");
    // At what is there, and below it: what is there goes on.
    let third = json!({ "secret": format!("03{SECRET}") });
    for sessions in [2, 1] {
        lowered(&live, "sessions_max", sessions).await;
        assert_limit(&post(live.address(0), "/v1/sessions/open", &third).await.unwrap(), sessions);
    }
    assert_unharmed(&live, &first, 2).await;
    lowered(&live, "sessions_max", 200_000).await;
    let third = open(&live, 3).await;

    lowered(&live, "locks_max", 2).await;
    assert_eq!(second.acquire(1, of("second")).await.status, 200);
    assert_limit(&second.acquire(2, of("one more")).await, 2);
    lowered(&live, "locks_max", 2_000_000).await;
    assert_unharmed(&live, &first, 3).await;

    lowered(&live, "acquisitions_per_session_max", 2).await;
    assert_eq!(second.acquire(3, of("its second")).await.status, 200);
    assert_limit(&second.acquire(4, of("its third")).await, 2);
    lowered(&live, "acquisitions_per_session_max", 100_000).await;
    assert_unharmed(&live, &first, 4).await;

    lowered(&live, "waiters_per_lock_max", 1).await;
    let wait = json!({ "lock": "first", "wait": "session", "poll_ms": 0, "sequencer": false });
    assert_eq!(second.acquire(5, wait.clone()).await.status, 202);
    assert_limit(&third.acquire(1, wait.clone()).await, 1);
    lowered(&live, "waiters_per_lock_max", 2).await;
    assert_eq!(third.acquire(2, wait).await.status, 202);
    assert_unharmed(&live, &first, 5).await;

    // Outcomes: the first session has four, of what it took and released.
    lowered(&live, "outcomes_per_session_max", 4).await;
    assert_limit(&first.acquire(6, of("another")).await, 4);
    let marked = json!({ "lock": "another", "mark": 6, "sequencer": false });
    let granted = first.acquire(6, marked).await;
    assert_eq!(granted.status, 200, "a mark makes room: {granted:?}");
    let release = json!({ "number": 6, "lock": "another", "token": granted.json()["token"] });
    assert_eq!(first.ask("/v1/locks/release", release).await.status, 200);
    assert_unharmed(&live, &first, 7).await;

    lowered(&live, "delay_rules_max", 1).await;
    let rule = |prefix: &str| json!({ "prefix": prefix, "rule": { "least_ms": 0, "most_ms": 60_000 } });
    let ruled =
        async |prefix: &str| post(live.address(0), "/v1/operators/delay_rule", &rule(prefix)).await.unwrap();
    assert_eq!(ruled("a/").await.status, 200);
    assert_limit(&ruled("b/").await, 1);
    assert_eq!(ruled("a/").await.status, 200, "the same one is another of itself");
    assert_unharmed(&live, &first, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn past_their_bounds_batons_are_dropped_and_searches_given_up() {
    let live = Live::start(1).await;
    let first = open(&live, 1).await;
    let grant = first.acquire(1, of("first")).await.json();
    lowered(&live, "baton_bytes_max", 4_096).await;
    let long = "b".repeat(4_000);
    for lock in ["old", "new"] {
        let number = if lock == "old" { 2 } else { 3 };
        let token = first.acquire(number, of(lock)).await.json()["token"].clone();
        let baton = json!({ "number": number, "lock": lock, "token": token, "revision": 1, "baton": long });
        assert_eq!(first.ask("/v1/locks/baton", baton).await.status, 200);
    }
    for (lock, left) in [("old", json!([])), ("new", json!(long))] {
        let who = get(live.address(0), &format!("/v1/locks/who?name={lock}")).await.unwrap().json();
        let found = if left.is_array() { &who["batons"] } else { &who["batons"][0]["baton"] };
        assert_eq!(*found, left, "{lock}");
    }
    let metrics = get(live.address(0), "/metrics").await.unwrap().body;
    assert!(metrics.contains("\npalisade_baton_bytes 4000\n"), "{metrics}");

    // A cycle that is longer than a search may be is not found: the request just waits, and is counted.
    lowered(&live, "cycle_search_max", 1).await;
    let owned = |lock: &str, owner: &str, more: Value| {
        let mut body = json!({ "lock": lock, "owner": owner, "sequencer": false });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let scripts = [open(&live, 2).await, open(&live, 3).await, open(&live, 4).await];
    for (at, script) in scripts.iter().enumerate() {
        let own = owned(&format!("ring/{at}"), &format!("task {at}"), json!({}));
        assert_eq!(script.acquire(1, own).await.status, 200);
    }
    let wait = json!({ "wait": "session", "poll_ms": 0 });
    for (at, script) in scripts.iter().enumerate() {
        let next = owned(&format!("ring/{}", (at + 1) % 3), &format!("task {at}"), wait.clone());
        let answer = script.acquire(2, next).await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    let metrics = get(live.address(0), "/metrics").await.unwrap().body;
    let given_up = metrics.lines().find(|line| line.starts_with("palisade_cycle_searches_given_up_total"));
    assert!(given_up.is_some_and(|line| !line.ends_with(" 0")), "{given_up:?}");
    let release = json!({ "number": 1, "lock": "first", "token": grant["token"] });
    assert_eq!(first.ask("/v1/locks/release", release).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_more_than_a_call_may_name_is_refused_and_nothing_happens() {
    let live = Live::start(1).await;
    let first = open(&live, 1).await;
    let mut number = 0;
    let parts =
        |count: usize| (0..count).map(|at| json!({ "lock": format!("many/{at}") })).collect::<Vec<_>>();
    let guards = |count: usize| (0..count).map(|at| format!("guard {at}")).collect::<Vec<_>>();
    let day = 24 * 3_600 * 1_000_u64;
    let cases = [
        (json!({ "lock": "n".repeat(512) }), json!({ "lock": "n".repeat(513) })),
        (json!({ "parts": parts(64) }), json!({ "parts": parts(65) })),
        (json!({ "lock": "c", "capacity": 10_000 }), json!({ "lock": "c2", "capacity": 10_001 })),
        (
            json!({ "lock": "p", "capacity": 4, "permits": 4 }),
            json!({ "lock": "p2", "capacity": 4, "permits": 5 }),
        ),
        (json!({ "lock": "g", "fenced_by": guards(16) }), json!({ "lock": "g2", "fenced_by": guards(17) })),
        (
            json!({ "lock": "f", "fenced_by": ["g".repeat(128)] }),
            json!({ "lock": "f2", "fenced_by": ["g".repeat(129)] }),
        ),
        (json!({ "lock": "d", "lock_delay_ms": 60_000 }), json!({ "lock": "d2", "lock_delay_ms": 60_001 })),
        (json!({ "lock": "w", "wait_ms": day }), json!({ "lock": "w2", "wait_ms": day + 1 })),
        (json!({ "lock": "o", "owner": "o".repeat(128) }), json!({ "lock": "o2", "owner": "o".repeat(129) })),
        (
            json!({ "lock": "h", "hold_max_ms": 30 * day }),
            json!({ "lock": "h2", "hold_max_ms": 30 * day + 1 }),
        ),
        (
            json!({ "lock": "e", "progress_every_ms": 1_000 }),
            json!({ "lock": "e2", "progress_every_ms": 999 }),
        ),
        (
            json!({ "lock": "m", "metadata": "m".repeat(4_096) }),
            json!({ "lock": "m2", "metadata": "m".repeat(4_097) }),
        ),
    ];
    for (within, over) in cases {
        number += 1;
        let answer = first.ask("/v1/locks/acquire", named(&over, number)).await;
        assert_eq!((answer.status, &answer.json()["title"]), (400, &json!("BAD_ARGUMENT")), "{over}");
        let answer = first.ask("/v1/locks/acquire", named(&within, number)).await;
        assert_eq!(answer.status, 200, "{within}: {answer:?}");
    }
    let token = first.acquire(100, of("mine")).await.json()["token"].clone();
    for (bytes, status) in [(4_097, 400), (4_096, 200)] {
        let text = "b".repeat(bytes);
        let metadata = json!({ "number": 100, "token": token, "revision": 1, "metadata": text });
        assert_eq!(first.ask("/v1/locks/metadata", metadata).await.status, status);
        let baton = json!({ "number": 100, "token": token, "lock": "mine", "revision": 1, "baton": text });
        assert_eq!(first.ask("/v1/locks/baton", baton).await.status, status);
    }
    let operate = async |call: &str, body: Value| {
        post(live.address(0), &format!("/v1/operators/{call}"), &body).await.unwrap().status
    };
    let longest = day + 60_000;
    for (closed, status) in [(longest + 1, 400), (longest, 200)] {
        assert_eq!(
            operate("break", json!({ "lock": "mine", "token": token, "closed_ms": closed })).await,
            status
        );
    }
    for (guards, status) in [(guards(17), 400), (guards(16), 200)] {
        let rule = json!({ "least_ms": 0, "most_ms": 60_000, "fenced_by": guards });
        assert_eq!(operate("delay_rule", json!({ "prefix": "x/", "rule": rule })).await, status);
    }
    assert_eq!(get(live.address(0), "/readyz").await.unwrap().status, 200);
}

fn named(body: &Value, number: u64) -> Value {
    let mut body = body.clone();
    let fields = body.as_object_mut().unwrap();
    fields.insert("number".to_owned(), number.into());
    fields.insert("sequencer".to_owned(), false.into());
    body
}
