//! A holder dies without a word: its lock stays closed for its lock-delay, whoever leads.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use palisade_client::AcquireError;
use palisade_proto::v1::slot_view::State;

use crate::live::{Live, eventually, hold, holder, name, soon};

/// Long enough for the leader to be lost meanwhile.
const DELAY: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_of_a_dead_holder_stays_closed_across_a_leader_change() {
    let mut live = Live::start(3).await;
    let client = live.client(Duration::from_secs(60));
    let session = client.open_session().await.unwrap();
    let lock = name("orders");

    let mut dying = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args(["lock", "orders", "--ttl", "2s", "--lock-delay", "4s", "--endpoints"])
        .arg(live.cluster.endpoints().join(","))
        .args(["--", "sleep", "1000"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let dead = eventually("the holder holds", async || {
        holder(&client.lock_view(&lock).await.unwrap()).map(|(_, token)| token)
    })
    .await;
    dying.kill().unwrap();
    dying.wait().unwrap();

    // The delay began after the last try that met the holder was sent.
    let mut last_held = Instant::now();
    let lock_delay = eventually("the session expires", async || {
        let asked = Instant::now();
        match session.lock(lock.clone()).try_now().acquire().await {
            Err(AcquireError::Held { .. }) => {
                last_held = asked;
                None
            }
            Err(AcquireError::Closed { lock_delay, .. }) => Some(lock_delay),
            other => panic!("{other:?}"),
        }
    })
    .await;
    assert_eq!(lock_delay, DELAY);

    let waiter = client.open_session().await.unwrap();
    let waiting = tokio::spawn(async move {
        let guard = hold(&waiter, "orders").await;
        (guard, Instant::now())
    });
    let (leader, term) = live.leader_and_term().await;
    live.cluster.kill(leader);
    assert!(last_held.elapsed() < DELAY, "the leader is lost during the delay");
    live.leader_after(term).await;
    let view = client.lock_view(&lock).await.unwrap();
    if !waiting.is_finished() {
        assert!(matches!(view.slots[0].state, Some(State::Delayed(_) | State::Held(_))), "{view:?}");
    }
    let (guard, at) = soon("the waiter is granted", waiting).await.unwrap();
    assert!(at - last_held >= DELAY, "granted after {:?}", at - last_held);
    assert!(guard.token().get() > dead);
    guard.release().await.unwrap();
    client.close().await;
}
