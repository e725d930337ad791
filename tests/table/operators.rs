//! What an operator does to a lock, a session, a prefix, the cluster; and guards that confirm.

use palisade_proto::v1;
use palisade_proto::v1::event::What;
use palisade_proto::v1::operators_client::OperatorsClient;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use serde_json::{Value, json};

use super::{TTL, acquire, caller, part};
use crate::live::{
    Live, Seen, error_name, eventually, get, insist, no_wait, open_session, post, status_name, while_session,
};

async fn operate(live: &Live, node: usize, call: &str, body: Value) -> (u16, Value) {
    let answer = eventually("an answer", async || {
        let answer = post(live.address(node), &format!("/v1/operators/{call}"), &body).await?;
        (![421, 503].contains(&answer.status)).then_some(answer)
    })
    .await;
    (answer.status, answer.json())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_broken_under_its_token_and_closed_for_as_long_as_its_holder_may_believe() {
    let live = Live::start(3).await;
    let node = live.followers().await[0];
    let session = open_session(live.channel(node), TTL, "stuck").await;
    let mut raw = live.raw(node).await;
    raw.bind(&session).await;
    let grant = raw.granted(session.id, acquire(1, vec![part("orders/7")], no_wait())).await;
    let token = grant.parts[0].token;

    let wrong = json!({ "lock": "orders/7", "token": (token - 1).to_string() });
    assert_eq!(operate(&live, node, "break", wrong).await.1["title"], "NOT_HELD");
    let (status, broken) = operate(&live, node, "break", json!({ "lock": "orders/7", "token": token })).await;
    assert_eq!((status, &broken["holders"][0]["client"]), (200, &json!("stuck")), "{broken}");
    assert_eq!(broken["closed_ms"], "60000", "its TTL, and a lock-delay of 0");
    let ended = raw
        .find("the holder is told", |seen| match seen {
            Seen::Event(v1::Event { what: Some(What::HoldEnded(ended)), .. }) => Some(ended.clone()),
            Seen::Event(_) | Seen::Response(_) | Seen::Leader(_) | Seen::Renewed(_) => None,
        })
        .await;
    assert_eq!((ended.ended(), ended.token), (v1::Ended::Broken, token));
    let mut next = caller(&live, node, "next").await;
    let closed = next.acquire(acquire(1, vec![part("orders/7")], no_wait())).await.unwrap_err();
    assert_eq!(status_name(&closed), "LOCK_CLOSED");

    // An operator who knows that it is dead says so, and gives up what that promises.
    let grant = raw.granted(session.id, acquire(2, vec![part("orders/8")], no_wait())).await;
    let now = json!({ "lock": "orders/8", "token": grant.parts[0].token.to_string(), "closed_ms": 0 });
    assert_eq!(operate(&live, node, "break", now).await.1["closed_ms"], "0");
    next.acquire(acquire(2, vec![part("orders/8")], no_wait())).await.unwrap();

    // A session is ended, with all that it holds and awaits.
    raw.granted(session.id, acquire(3, vec![part("orders/9")], no_wait())).await;
    let waits = raw.ask(session.id, Op::Acquire(acquire(4, vec![part("orders/8")], while_session()))).await;
    assert!(matches!(waits.result, Some(Answer::Queued(_))), "{waits:?}");
    let end = json!({ "session": session.id.to_string(), "closed_ms": "0" });
    assert_eq!(
        operate(&live, node, "end_session", end.clone()).await,
        (200, json!({ "held": 1, "waited": 1 }))
    );
    assert_eq!(operate(&live, node, "end_session", end).await.1["ended"], "ended by an operator");
    let after = raw.ask(session.id, Op::Acquire(acquire(5, vec![part("orders/9")], no_wait()))).await;
    assert_eq!(error_name(&after), "SESSION_ENDED");
    next.acquire(acquire(3, vec![part("orders/9")], no_wait())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_rules_and_capacities_outlive_a_leader() {
    let mut live = Live::start(3).await;
    let [stays, other] = live.followers().await;
    let rule = json!({ "least_ms": "1000", "most_ms": "2000", "fenced_by": ["orders-db"] });
    let set = json!({ "set": true });
    let (_, answer) = operate(&live, stays, "delay_rule", json!({ "prefix": "orders/", "rule": rule })).await;
    assert_eq!(answer, set);
    let some = json!({ "waiters_per_lock_max": 5, "lock_delay_default_ms": "3000" });
    assert_eq!(operate(&live, other, "settings", some).await.1, set);
    let mut one = caller(&live, stays, "one").await;
    let permits = |permits| vec![v1::AcquirePart { capacity: 4, permits, ..part("pool") }];
    one.acquire(acquire(1, permits(2), no_wait())).await.unwrap();
    assert_eq!(operate(&live, stays, "capacity", json!({ "lock": "pool", "capacity": 2 })).await.1, set);
    let unused = operate(&live, stays, "capacity", json!({ "lock": "nothing", "capacity": 2 })).await.1;
    assert_eq!(unused["title"], "NOT_IN_USE");
    // Below what is there, and of two kinds at once.
    for bad in [json!({ "sessions_max": 0 }), json!({ "cluster_version": 2, "keys_max": 63 })] {
        assert_eq!(operate(&live, stays, "settings", bad).await.0, 400);
    }
    assert_eq!(
        operate(&live, stays, "settings", json!({ "cluster_version": 1 })).await.1["title"],
        "VERSION_DIFFERS"
    );

    let (leader, term) = live.leader_and_term().await;
    live.cluster.kill(leader);
    live.leader_after(term).await;
    let mut operators = OperatorsClient::new(live.channel(stays));
    let ask = async || Ok(operators.get_settings(v1::GetSettings {}).await?.into_inner());
    let settings = insist("the settings", ask).await.unwrap();
    let present = settings.present.unwrap();
    assert_eq!((present.waiters_per_lock_max, present.lock_delay_default_ms), (Some(5), Some(3_000)));
    assert_eq!((present.sessions_max, present.keys_max), (Some(200_000), Some(64)), "the rest stays");
    assert_eq!(settings.delay_rules[0].prefix, "orders/");
    let named = |delay: u64| vec![v1::AcquirePart { lock_delay_ms: Some(delay), ..part("orders/7") }];
    let outside = one.acquire(acquire(2, named(0), no_wait())).await.unwrap_err();
    assert_eq!(status_name(&outside), "DELAY_OUT_OF_BOUNDS");
    let moved = vec![v1::AcquirePart { lock_delay_ms: None, ..part("orders/7") }];
    let moved = one.acquire(acquire(3, moved, no_wait())).await.unwrap();
    assert_eq!(moved.parts[0].lock_delay_ms, 2_000, "a default is moved into the bounds");
    let full = one.acquire(acquire(4, permits(1), no_wait())).await.unwrap_err();
    assert_eq!(status_name(&full), "LOCK_HELD", "two of two are held");
    let more = one.acquire(acquire(5, permits(3), no_wait())).await.unwrap_err();
    assert_eq!(status_name(&more), "CAPACITY_DIFFERS");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delay_ends_when_its_guard_confirmed_the_floor_that_it_asks_for() {
    let live = Live::start(3).await;
    let node = live.followers().await[0];
    let mut dead = caller(&live, node, "dead").await;
    let fenced = v1::AcquirePart {
        lock_delay_ms: Some(60_000),
        fenced_by: vec!["orders-db".to_owned()],
        ..part("orders/7")
    };
    let grant = dead.acquire(acquire(1, vec![fenced], no_wait())).await.unwrap();
    let end = json!({ "session": dead.session.id.to_string() });
    assert_eq!(operate(&live, node, "end_session", end).await.1, json!({ "held": 1, "waited": 0 }));
    let who = get(live.address(node), "/v1/locks/who?name=orders%2F7").await.unwrap().json();
    let slot = &who["slots"][0];
    assert_eq!((&slot["state"], &slot["guards"]), (&json!("delayed"), &json!(["orders-db"])));
    let began: u64 = slot["began"].as_str().unwrap().parse().unwrap();
    assert!(began > grant.parts[0].token);
    let confirm = async |guard: &str, floor: u64| {
        let body = json!({ "guard": guard, "lock": "orders/7", "floor": floor });
        post(live.address(node), "/v1/guards/confirm", &body).await.unwrap()
    };
    assert_eq!(confirm("orders-db", began - 1).await.status, 400, "a floor below it keeps the dead one in");
    let mut next = caller(&live, node, "next").await;
    let closed = next.acquire(acquire(1, vec![part("orders/7")], no_wait())).await.unwrap_err();
    assert_eq!(status_name(&closed), "LOCK_CLOSED");
    assert_eq!(confirm("orders-db", began).await.json(), json!({ "confirmed": true }));
    next.acquire(acquire(2, vec![part("orders/7")], no_wait())).await.unwrap();
}
