//! What a run says when nobody can hear it is lost, and nothing else is: `/dev/full` takes no byte of stderr.
#![cfg(target_os = "linux")]

use std::fs::OpenOptions;
use std::time::Duration;

use palisade_client::operators::Closed;
use palisade_core::ids::Slot;
use palisade_core::token::Token;

use super::palisade;
use super::wrapper::{WRAPPERS, Wrapper};
use crate::live::{Live, eventually, hold, holder, name};

/// A wrapper that says what it does, to nobody.
fn unheard(live: &Live, words: &[&str]) -> Wrapper {
    let mut command = palisade();
    command.args(["--endpoints", &live.cluster.endpoints().join(",")]).args(words);
    command.stderr(OpenOptions::new().write(true).open("/dev/full").unwrap());
    Wrapper::of(command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrapper_that_nobody_hears_runs_its_command_and_a_loss_still_ends_it() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(10));
    for wrapper in WRAPPERS {
        let words = [wrapper, "jobs", "--", "sh", "-c", "exit 7"];
        assert_eq!(unheard(&live, &words).code().await, Some(7), "{wrapper}");
    }
    // The command outlives a SIGTERM by its last word: a loss that only killed it would leave none.
    let script = "trap 'echo told; exit 0' TERM; echo begun; while :; do sleep 0.1; done";
    let mut wrapper = unheard(&live, &["lock", "jobs", "--", "sh", "-c", script]);
    assert_eq!(wrapper.line().await.as_deref(), Some("begun"));
    let held = async || holder(&client.lock_view(&name("jobs")).await.unwrap());
    let (_, token) = eventually("it is held", held).await;
    let token = Token::new(token).unwrap();
    client.break_lock(&name("jobs"), Slot(0), token, Closed::For(Duration::ZERO)).await.unwrap();
    assert_eq!(wrapper.line().await.as_deref(), Some("told"));
    assert_eq!(wrapper.code().await, Some(123));
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_log_cannot_be_written_serves() {
    let mut live = Live::prepare(1);
    let unheard = ["sh", "-c", r#"exec "$@" 2> /dev/full"#, "sh"];
    live.cluster.wrap(0, unheard.map(str::to_owned).to_vec());
    live.cluster.start_all().unwrap();
    live.ready().await;
    let client = live.client(Duration::from_secs(10));
    let session = client.open_session().await.unwrap();
    hold(&session, "jobs").await.release().await.unwrap();
    client.close().await;
}
