//! A minute of `palisade bench soak`: a follower is killed, one is held back until it needs a snapshot, and one is killed
//! and stays away for a while, all under a saturating load.
//!
//! Needs: two cores for a minute.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::process::Command;

use serde_json::Value;

/// Snapshots and purges come often enough for a build that is not optimised.
const WORDS: [&str; 8] = [
    "-o=json",
    "bench",
    "soak",
    "--minutes=1",
    "--every=20s",
    "--tasks=128",
    "--snapshot-every=4000",
    "--keep-log=1000",
];

#[test]
fn a_minute_of_load_and_hurt_followers_loses_nothing_and_grows_nothing() {
    let answer = Command::new(env!("CARGO_BIN_EXE_palisade")).args(WORDS).output().unwrap();
    let told = String::from_utf8_lossy(&answer.stderr);
    let document: Value = serde_json::from_slice(&answer.stdout).unwrap_or_else(|_| panic!("{told}"));
    assert!(answer.status.success(), "{document}\n{told}");
    for held in [
        "tokens_rise",
        "one_holder_at_a_time",
        "acknowledgements_kept",
        "sessions_kept",
        "memory_flat",
        "disk_flat",
        "snapshots_were_needed",
    ] {
        assert_eq!(document[held], true, "{held}: {document}\n{told}");
    }
    let sum = |figure: &str| {
        let rows = document["rows"].as_array().unwrap().iter();
        rows.map(|row| row[figure].as_u64().unwrap()).sum::<u64>()
    };
    // A fault only counts when it struck.
    assert!(sum("killed") >= 1 && sum("held_back") >= 1 && sum("snapshots_installed") >= 1, "{document}");
}
