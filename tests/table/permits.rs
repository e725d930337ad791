//! Semaphores, several locks at once, and waits without end.

use palisade_proto::convert::error::error_of;
use palisade_proto::v1;
use serde_json::json;

use super::{acquire, caller, part, slots};
use crate::live::{
    Live, SECRET, Script, eventually, get, insist, no_wait, release, status_name, while_session,
};

fn permits(lock: &str, capacity: u32, permits: u32) -> Vec<v1::AcquirePart> {
    vec![v1::AcquirePart { capacity, permits, ..part(lock) }]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_and_several_locks_are_granted_all_or_none_over_a_lost_leader() {
    let mut live = Live::start(3).await;
    let [stays, other] = live.followers().await;
    let mut one = caller(&live, stays, "one").await;
    let pool = one.acquire(acquire(1, permits("pool", 3, 2), no_wait())).await.unwrap();
    assert_eq!(slots(&pool), [("pool", 0), ("pool", 1)]);
    let left = one.acquire(acquire(2, vec![part("left")], no_wait())).await.unwrap();
    let mut two = caller(&live, other, "two").await;
    let last = two.acquire(acquire(1, permits("pool", 3, 1), no_wait())).await.unwrap();
    assert_eq!(slots(&last), [("pool", 2)]);
    let differs = two.acquire(acquire(2, permits("pool", 4, 1), no_wait())).await.unwrap_err();
    assert_eq!(status_name(&differs), "CAPACITY_DIFFERS");

    // One that waits for a lock and a permit holds neither meanwhile.
    let script = Script::open(live.address(stays), SECRET).await;
    let parts = json!([{ "lock": "left" }, { "lock": "right" }, { "lock": "pool", "capacity": 3 }]);
    let both = json!({ "number": 1, "parts": parts, "wait": "session", "poll_ms": 0, "sequencer": false });
    assert_eq!(script.insist("/v1/locks/acquire", both.clone()).await.status, 202);
    let right = get(live.address(stays), "/v1/locks/who?name=right").await.unwrap().json();
    assert_eq!((&right["held"], right["queue"][0]["locks"].as_array().unwrap().len()), (&json!(false), 3));
    // Whoever comes behind it waits for an idle lock, too.
    let behind = two.acquire(acquire(3, vec![part("right")], no_wait())).await.unwrap_err();
    assert_eq!(status_name(&behind), "QUEUED_AHEAD");

    let (leader, term) = live.leader_and_term().await;
    live.cluster.kill(leader);
    live.leader_after(term).await;
    insist("the first release", async || one.release(release(&left)).await).await.unwrap();
    assert_eq!(script.insist("/v1/locks/acquire", both.clone()).await.status, 202, "a permit is missing");
    // One of two permits, by its slot.
    let permit = v1::Release { slot: 1, ..release(&pool) };
    insist("a permit", async || one.release(permit.clone()).await).await.unwrap();
    let granted = eventually("it has all of them", async || {
        let answer = script.insist("/v1/locks/acquire", both.clone()).await;
        (answer.status == 200).then(|| answer.json())
    })
    .await;
    let parts: Vec<_> = granted["parts"].as_array().unwrap().iter().collect();
    assert_eq!(parts.iter().map(|part| &part["slot"]).collect::<Vec<_>>(), [0, 0, 1]);
    assert!(parts.iter().all(|part| part["token"] == granted["token"]), "under one token: {granted}");
    let all = json!({ "number": 1, "token": granted["token"] });
    assert_eq!(script.ask("/v1/locks/release", all).await.json()["ended"], "released");
    let after = two.acquire(acquire(4, vec![part("left"), part("right")], no_wait())).await.unwrap();
    assert_eq!(slots(&after), [("left", 0), ("right", 0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_without_end_is_refused_with_the_whole_cycle() {
    let live = Live::start(3).await;
    let (mut one, mut two) = (caller(&live, 0, "one").await, caller(&live, 1, "two").await);
    let owned = |number, lock: &str, owner: &str, wait| v1::Acquire {
        owner: owner.to_owned(),
        ..acquire(number, vec![part(lock)], wait)
    };
    one.acquire(owned(1, "up", "task 1", no_wait())).await.unwrap();
    two.acquire(owned(1, "down", "task 2", no_wait())).await.unwrap();
    let mut waiting = one.clone();
    let wait = owned(2, "down", "task 1", while_session());
    let waiting = tokio::spawn(async move { waiting.acquire(wait).await });
    let queued = async || (live.status(0).await?.waiters == 1).then_some(());
    eventually("the first waits", queued).await;
    let refused = two.acquire(owned(2, "up", "task 2", while_session())).await.unwrap_err();
    let error = error_of(&refused).unwrap();
    let steps: Vec<_> = error.cycle.iter().map(|step| (step.owner.as_str(), step.lock.as_str())).collect();
    assert_eq!(
        (error.name.as_str(), &steps[..]),
        ("WOULD_DEADLOCK", &[("task 2", "up"), ("task 1", "down")][..])
    );
    // Nothing took effect: it goes on when the other lets go.
    let down = v1::Release { acquisition: two.id(1), token: 0, ..v1::Release::default() };
    let token = match get(live.address(2), "/v1/locks/who?name=down").await.unwrap().json()["token"].as_str()
    {
        Some(token) => token.parse().unwrap(),
        None => panic!("it is held"),
    };
    two.release(v1::Release { token, ..down }).await.unwrap();
    assert_eq!(slots(&waiting.await.unwrap().unwrap()), [("down", 0)]);
    let metrics = {
        let leader = live.leader().await;
        get(live.address(leader), "/metrics").await.unwrap().body
    };
    assert!(metrics.contains("palisade_wait_cycles_total{met=\"acquire\"} 1"), "it is counted");
}
