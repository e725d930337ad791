//! A process that restarted and goes on where it stopped.

use serde_json::{Value, json};

use super::{acquire, caller, part, slots};
use crate::live::{
    Caller, Http, Live, SECRET, Script, eventually, get, insist, no_wait, post, release, status_name,
};

/// Opens a session that replaces another one; the secret of each is hexadecimal digits.
async fn take_over(address: &str, secret: &str, old: &Script, more: &Value) -> Http {
    let mut replaces = json!({ "session": old.session, "secret": old.secret });
    replaces.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let open = json!({ "client": "again", "ttl_ms": "60000", "secret": secret, "replaces": replaces });
    eventually("an answer", async || {
        let answer = post(address, "/v1/sessions/open", &open).await?;
        (![421, 503, 504].contains(&answer.status)).then_some(answer)
    })
    .await
}

async fn holder_of(address: &str, lock: &str) -> (Value, u64) {
    let path = format!("/v1/locks/who?name={}", lock.replace('/', "%2F"));
    let who = eventually("the view", async || {
        let answer = get(address, &path).await?;
        (answer.status == 200).then(|| answer.json())
    })
    .await;
    let token = who["token"].as_str().and_then(|token| token.parse().ok()).unwrap_or(0);
    (who["slots"][0].clone(), token)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_process_s_locks_and_places_go_on_under_new_tokens_over_a_lost_leader() {
    let mut live = Live::start(3).await;
    let [stays, other] = live.followers().await;
    let address = live.address(stays).to_owned();
    let before = Script::open(&address, SECRET).await;
    let mut old = Caller::new(live.channel(stays), &before.raw());
    let held = old.acquire(acquire(1, vec![part("orders/7")], no_wait())).await.unwrap();
    let mut busy = caller(&live, other, "busy").await;
    let busy_grant = busy.acquire(acquire(1, vec![part("orders/8")], no_wait())).await.unwrap();
    let wait = json!({ "lock": "orders/8", "wait": "session", "poll_ms": 0 });
    assert_eq!(before.acquire(2, wait.clone()).await.status, 202);
    let behind = Script::open(&address, &format!("01{SECRET}")).await;
    assert_eq!(behind.acquire(1, wait.clone()).await.status, 202);

    let secret = format!("02{SECRET}");
    let thief =
        Script { secret: format!("03{SECRET}"), address: address.clone(), session: before.session.clone() };
    let dead = json!({ "proven_dead": true });
    assert_eq!(take_over(&address, &secret, &thief, &dead).await.json()["title"], "UNAUTHENTICATED");
    let opened = take_over(&address, &secret, &before, &dead).await.json();
    let kept =
        |was: &str, state: &str| json!({ "was": was, "number": was, "state": state, "closed_ms": null });
    assert_eq!(opened["took_over"]["replaced"], before.session);
    assert_eq!(opened["took_over"]["kept"], json!([kept("1", "holds"), kept("2", "waits")]));

    let (leader, term) = live.leader_and_term().await;
    live.cluster.kill(leader);
    live.leader_after(term).await;
    let again = take_over(&address, &secret, &before, &dead).await.json();
    assert_eq!(again, opened, "its answer may have been lost");

    // The earlier process is fenced, and hears why.
    let late = insist("a late release", async || old.release(release(&held)).await).await.unwrap_err();
    assert_eq!(status_name(&late), "TAKEN_OVER");
    let (slot, token) = holder_of(live.address(other), "orders/7").await;
    assert_eq!(slot["holders"][0]["session"], opened["session"]);
    assert!(token > held.parts[0].token, "under a new token");

    // Its wait kept its place, ahead of the one that came later.
    insist("the release", async || busy.release(release(&busy_grant)).await).await.unwrap();
    let (slot, _) = holder_of(live.address(other), "orders/8").await;
    assert_eq!(slot["holders"][0]["session"], opened["session"], "{slot}");
    assert_eq!(behind.acquire(1, wait).await.status, 202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_process_may_still_believe_in_is_closed_first_and_goes_on_ahead_of_the_queue() {
    let live = Live::start(3).await;
    let node = live.followers().await[0];
    let address = live.address(node).to_owned();
    let short = json!({ "client": "before", "ttl_ms": "2000", "secret": SECRET });
    let session = post(&address, "/v1/sessions/open", &short).await.unwrap().json()["session"].clone();
    let session = session.as_str().unwrap().to_owned();
    let before = Script { address: address.clone(), session, secret: SECRET.to_owned() };
    let mut old = Caller::new(live.channel(node), &before.raw());
    let held = old.acquire(acquire(1, vec![part("orders/7")], no_wait())).await.unwrap();
    let behind = Script::open(&address, &format!("01{SECRET}")).await;
    let wait = json!({ "lock": "orders/7", "wait": "session", "poll_ms": 0 });
    assert_eq!(behind.acquire(1, wait.clone()).await.status, 202);

    let secret = format!("02{SECRET}");
    let opened = take_over(&address, &secret, &before, &json!({})).await.json();
    let closed = json!({ "was": "1", "number": "1", "state": "closed", "closed_ms": "2000" });
    assert_eq!(opened["took_over"]["kept"], json!([closed]), "its TTL, and a lock-delay of 0");
    let (slot, _) = holder_of(&address, "orders/7").await;
    assert_eq!((&slot["state"], &slot["kept_for"]["session"]), (&json!("delayed"), &opened["session"]));

    // It asks for it again under its new number, and is answered when the time has passed.
    let session = opened["session"].as_str().unwrap().to_owned();
    let after = Script { address: address.clone(), session, secret };
    let mut new = Caller::new(live.channel(node), &after.raw());
    let again = new.acquire(acquire(1, vec![part("orders/7")], no_wait())).await.unwrap();
    assert_eq!(slots(&again), [("orders/7", 0)]);
    assert!(again.parts[0].token > held.parts[0].token);
    assert_eq!(behind.acquire(1, wait.clone()).await.status, 202, "the queue comes after it");
    new.release(release(&again)).await.unwrap();
    let next = async || (behind.acquire(1, wait.clone()).await.status == 200).then_some(());
    eventually("the next one", next).await;
}
