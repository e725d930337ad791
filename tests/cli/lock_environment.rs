//! What `palisade lock` tells its command.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::palisade;
use super::wrapper::Wrapper;
use crate::live::{Live, holder, name};

/// Prints what is told, then asks the cluster about it with nothing but that.
const SCRIPT: &str = "env | grep ^PALISADE_; echo FILE=$(cat \"$PALISADE_SEQUENCER_FILE\"); \
    echo MODE=$(ls -l \"$PALISADE_SEQUENCER_FILE\" | cut -c1-10); \"$0\" check --lock jobs >/dev/null; echo CHECK=$?; echo; \
    sleep 1000";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_is_told_its_lock_token_session_and_sequencer() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(10));
    let program = env!("CARGO_BIN_EXE_palisade");
    let mut wrapper = Wrapper::start(&live, &["jobs", "--ttl", "30s", "--", "sh", "-c", SCRIPT, program]);
    let mut told = BTreeMap::new();
    while let Some(line) = wrapper.line().await.filter(|line| !line.is_empty()) {
        let (key, value) = line.split_once('=').unwrap();
        told.insert(key.to_owned(), value.to_owned());
    }
    let (acquisition, token) = holder(&client.lock_view(&name("jobs")).await.unwrap()).unwrap();
    assert_eq!(told["PALISADE_LOCK"], "jobs");
    assert_eq!(told["PALISADE_TOKEN"], token.to_string());
    assert_eq!(told["PALISADE_SESSION"], acquisition.session.to_string());
    assert_eq!(told["PALISADE_ENDPOINTS"], live.cluster.endpoints().join(","));
    assert_eq!(told["FILE"], told["PALISADE_SEQUENCER"]);
    assert_eq!(told["MODE"], "-rw-------", "the proof is for nobody else");
    assert_eq!(told["CHECK"], "0", "the sequencer is current while the command runs");
    assert!(told["PALISADE_SAFE_UNTIL_BOOTTIME_NS"].parse::<u64>().unwrap() > 0);
    assert!(told["PALISADE_LOST_FD"].parse::<u32>().unwrap() > 2);

    let file = &told["PALISADE_SEQUENCER_FILE"];
    assert!(Path::new(file).exists());
    wrapper.signal(rustix::process::Signal::TERM);
    assert_eq!(wrapper.code().await, Some(143));
    assert!(!Path::new(file).exists(), "the file goes with the lock");
    let mut check = palisade();
    check.args(["check", &told["PALISADE_SEQUENCER"], "--endpoints", live.address(0), "-o", "json"]);
    let answer = check.output().unwrap();
    assert_eq!(answer.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!((document["current"].as_bool(), document["state"].as_str()), (Some(false), Some("ended")));
    client.close().await;
}
