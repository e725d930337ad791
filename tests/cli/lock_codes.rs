//! Exit codes of `palisade lock`: the command's own, and the few that the wrapper keeps for itself.

use std::time::Duration;

use palisade_client::Client;

use super::wrapper::{WRAPPERS, Wrapper, code, code_of};
use crate::live::{Live, eventually, holder, name};

async fn is_held(client: &Client, lock: &str) -> bool {
    holder(&client.lock_view(&name(lock)).await.unwrap()).is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wrapper_returns_what_its_command_returned_or_why_it_did_not_run() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(10));
    let table: [(&[&str], i32); 11] = [
        (&["jobs", "--", "true"], 0),
        (&["jobs", "--", "sh", "-c", "exit 7"], 7),
        // Its own, even where the wrapper has a meaning for it.
        (&["jobs", "--", "sh", "-c", "exit 124"], 124),
        (&["jobs", "--", "sh", "-c", "kill -TERM $$"], 143),
        (&["jobs", "--", "sh", "-c", "kill -KILL $$"], 137),
        (&["jobs", "--", "/"], 126),
        (&["jobs", "--", "no-such-command-anywhere"], 127),
        (&["jobs", "--foreground", "--", "sh", "-c", "exit 9"], 9),
        (&["", "--", "true"], 125),
        (&["jobs", "--ttl", "1s", "--", "true"], 125),
        (&["jobs", "--lock-delay", "61s", "--", "true"], 125),
    ];
    for (wrapper, (arguments, expected)) in WRAPPERS.into_iter().flat_map(|w| table.map(|t| (w, t))) {
        assert_eq!(code_of(wrapper, &live, arguments).await, Some(expected), "{wrapper} {arguments:?}");
        assert!(!is_held(&client, "jobs").await, "released by {wrapper} {arguments:?}");
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_not_acquired_in_time_is_told_by_124_or_the_named_code() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(10));
    let mut holding = Wrapper::start(&live, &["jobs", "--", "sleep", "1000"]);
    eventually("it is held", async || is_held(&client, "jobs").await.then_some(())).await;
    let before = holder(&client.lock_view(&name("jobs")).await.unwrap());
    let table: [(&[&str], i32); 5] = [
        (&["jobs", "--nonblock", "--", "true"], 124),
        (&["jobs", "-n", "-E", "9", "--", "true"], 9),
        (&["jobs", "-n", "-E", "0", "--", "false"], 0),
        (&["jobs", "--wait", "200ms", "--", "true"], 124),
        (&["jobs", "-w", "200ms", "--conflict-exit-code", "77", "--", "true"], 77),
    ];
    for (arguments, expected) in table {
        assert_eq!(code(&live, arguments).await, Some(expected), "{arguments:?}");
        let view = client.lock_view(&name("jobs")).await.unwrap();
        assert_eq!((view.queue.len(), holder(&view)), (0, before), "{arguments:?}");
    }
    let mut next = Wrapper::start(&live, &["jobs", "--wait", "1m", "--", "sh", "-c", "exit 3"]);
    eventually("it waits", async || {
        (client.lock_view(&name("jobs")).await.unwrap().queue.len() == 1).then_some(())
    })
    .await;
    holding.signal(rustix::process::Signal::TERM);
    assert_eq!(holding.code().await, Some(143));
    assert_eq!(next.code().await, Some(3), "whoever waits long enough has it");
    client.close().await;
}
