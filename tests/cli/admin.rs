//! `palisade admin` against a running cluster.

use std::process::{Output, Stdio};
use std::time::Duration;

use palisade_client::LostReason;
use palisade_core::reply::Ended;
use palisade_proto::v1;
use serde_json::Value;

use super::palisade;
use crate::live::{Live, hold, name, soon};

fn admin(live: &Live, arguments: &[&str]) -> Output {
    let mut command = palisade();
    command.args(["--endpoints", &live.cluster.endpoints().join(","), "-o", "json", "admin"]).args(arguments);
    command.stdin(Stdio::null()).output().unwrap()
}

fn done(live: &Live, arguments: &[&str]) -> Value {
    let output = admin(live, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(live: &Live, arguments: &[&str], code: i32) -> String {
    let output = admin(live, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_broken_for_its_holder_too_and_stays_closed_as_long_as_it_may_believe_in_it() {
    let live = Live::start(3).await;
    let client = live.client(Duration::from_secs(10));
    let session = client.open_session().await.unwrap();
    let guard = hold(&session, "jobs").await;
    let said = refused(&live, &["break", "jobs"], 2);
    assert!(said.contains("--yes") && said.contains(&format!("token {}", guard.token())), "{said}");
    let wrong = (guard.token().get() - 1).to_string();
    refused(&live, &["break", "jobs", "--token", &wrong], 1);
    guard.check().unwrap();
    let broken = done(&live, &["break", "jobs", "--yes"]);
    assert_eq!(broken["closed_ms"], "25000", "its TTL of 10 s, and the lock-delay of 15 s");
    assert_eq!(soon("the holder is told", guard.lost()).await, LostReason::Ended(Ended::Broken));
    let view = client.lock_view(&name("jobs")).await.unwrap();
    assert!(matches!(view.slots[0].state, Some(v1::slot_view::State::Delayed(_))), "{view:?}");
    refused(&live, &["break", "jobs", "--yes"], 1);

    // At once, where the operator says so.
    let other = hold(&session, "others").await;
    let broken = done(&live, &["break", "others", "--yes", "--closed", "0s"]);
    assert_eq!(broken["closed_ms"], "0");
    assert_eq!(soon("the holder is told", other.lost()).await, LostReason::Ended(Ended::Broken));
    assert!(hold(&session, "others").await.token() > other.token());
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_ended_with_all_that_it_holds() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(10));
    let session = client.open_session().await.unwrap();
    let guard = hold(&session, "jobs").await;
    let id = session.id().0.to_string();
    refused(&live, &["end-session", &id], 2);
    let ended = done(&live, &["end-session", &id, "--yes", "--closed", "0s"]);
    assert_eq!((ended["held"].as_u64(), ended["waited"].as_u64()), (Some(1), Some(0)));
    assert_eq!(soon("the holder is told", guard.lost()).await, LostReason::Ended(Ended::ByOperator));
    refused(&live, &["end-session", &id, "--yes"], 5);
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_shown_and_set_one_by_one() {
    let live = Live::start(3).await;
    let shown = done(&live, &["settings"]);
    assert_eq!(shown["settings"]["waiters_per_lock_max"], "10000");
    let set = done(&live, &["settings", "waiters_per_lock_max=7", "history_others_max=100"]);
    assert_eq!(set["settings"]["waiters_per_lock_max"], "7");
    assert_eq!(set["settings"]["history_others_max"], "100");
    assert_eq!(set["settings"]["sessions_max"], shown["settings"]["sessions_max"]);
    refused(&live, &["settings", "waiters=7"], 2);
    refused(&live, &["settings", "sessions_max=0"], 2);
    refused(&live, &["settings", "cluster_version=1"], 2);
    // Nothing of it reaches the log, which no node could read on.
    refused(&live, &["settings", "cluster_version=3"], 2);

    done(&live, &["delay-rule", "orders/", "--least", "1s", "--most", "5s"]);
    let shown = done(&live, &["settings"]);
    assert_eq!(shown["delay_rules"][0]["most_ms"], "5000");
    let client = live.client(Duration::from_secs(10));
    let session = client.open_session().await.unwrap();
    assert_eq!(
        hold(&session, "orders/7").await.lock_delay(),
        Duration::from_secs(5),
        "the default, moved into the bounds"
    );
    let outside = session.lock(name("orders/8")).lock_delay(Duration::from_secs(9)).acquire().await;
    assert!(matches!(outside, Err(palisade_client::AcquireError::DelayOutOfBounds { .. })), "{outside:?}");
    done(&live, &["delay-rule", "orders/", "--remove"]);
    assert_eq!(done(&live, &["settings"])["delay_rules"].as_array().map(Vec::len), Some(0));

    refused(&live, &["capacity", "gpu", "4"], 1);
    let _gpu = session.lock(name("gpu")).capacity(2).acquire().await.unwrap();
    done(&live, &["capacity", "gpu", "4"]);
    assert_eq!(client.lock_view(&name("gpu")).await.unwrap().capacity, 4);
    client.close().await;
}
