//! `palisade bench grant`: it measures, and checks every grant.

use std::time::Duration;

use serde_json::Value;

use super::palisade;
use crate::live::Live;

const SHORT: [&str; 8] = ["--tasks", "1,4", "--rounds", "1", "--warmup", "10ms", "--duration", "200ms"];

fn grant(globals: &[&str], more: &[&str]) -> Value {
    let arguments = [globals, &["-o", "json", "bench", "grant"], &SHORT, more].concat();
    let answer = palisade().args(arguments).output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    serde_json::from_slice(&answer.stdout).unwrap()
}

fn assert_measured(document: &Value) {
    assert_eq!(document["schema"], "palisade.bench.grant/1");
    assert_eq!(document["tokens_rise"], true, "{document}");
    assert_eq!(document["tokens_not_rising"], "0");
    let checked: u64 = document["grants_checked"].as_str().unwrap().parse().unwrap();
    assert!(checked > 0, "{document}");
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["tasks"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 4]);
    for row in rows {
        assert_eq!(row["errors"], "0", "{document}");
        assert!(row["grants_per_second"].as_f64().unwrap() > 0.0, "{document}");
    }
}

#[test]
fn a_cluster_of_its_own_is_measured_and_gone() {
    let folder = tempfile::tempdir().unwrap();
    assert_measured(&grant(&[], &["--data-dir", folder.path().to_str().unwrap()]));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "data is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_given_cluster_is_measured_and_tasks_may_share_a_lock() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(10));
    assert_measured(&grant(&["--endpoints", live.address(0)], &["--locks", "1"]));
    let locks = client.list_locks("bench/", 0, "").await.unwrap();
    assert_eq!(locks.locks.len(), 0, "locks are left behind");
    client.close().await;
}
