//! Signals to `palisade lock` and `elect`: passed on while the command runs, the end of the wait before.

use std::time::Duration;

use rustix::process::Signal;

use super::wrapper::{WRAPPERS, Wrapper};
use crate::live::{Live, eventually, hold, name};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_are_passed_on_to_the_command() {
    let live = Live::start(1).await;
    let signals = [
        ("TERM", Signal::TERM, 41),
        ("INT", Signal::INT, 42),
        ("HUP", Signal::HUP, 43),
        ("QUIT", Signal::QUIT, 44),
        ("USR1", Signal::USR1, 45),
    ];
    for (wrapper, (word, signal, expected)) in WRAPPERS.into_iter().flat_map(|w| signals.map(|s| (w, s))) {
        let script = format!("trap 'exit {expected}' {word}; echo ready; while :; do sleep 0.05; done");
        let mut wrapper = Wrapper::start_as(wrapper, &live, &["jobs", "--", "sh", "-c", &script]);
        assert_eq!(wrapper.line().await.as_deref(), Some("ready"));
        wrapper.signal(signal);
        assert_eq!(wrapper.code().await, Some(expected), "{word}");
    }
    // A command that does not catch it ends by it.
    let ends = [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)];
    for (wrapper, (signal, expected)) in WRAPPERS.into_iter().flat_map(|w| ends.map(|e| (w, e))) {
        let mut wrapper =
            Wrapper::start_as(wrapper, &live, &["jobs", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
        assert_eq!(wrapper.line().await.as_deref(), Some("ready"));
        wrapper.signal(signal);
        assert_eq!(wrapper.code().await, Some(expected));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_the_wait_and_leaves_nothing_in_the_queue() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(60));
    let session = client.open_session().await.unwrap();
    let guard = hold(&session, "jobs").await;
    let ends = [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)];
    for (wrapper, (signal, expected)) in WRAPPERS.into_iter().flat_map(|w| ends.map(|e| (w, e))) {
        let mut waiting = Wrapper::start_as(wrapper, &live, &["jobs", "--", "echo", "it ran"]);
        let queued = async || (client.lock_view(guard.lock()).await.unwrap().queue.len() == 1).then_some(());
        eventually("it waits", queued).await;
        waiting.signal(signal);
        assert_eq!(waiting.code().await, Some(expected));
        assert_eq!(client.lock_view(guard.lock()).await.unwrap().queue.len(), 0);
        assert_eq!(waiting.line().await, None, "the command did not run");
    }
    guard.check().unwrap();
    guard.release().await.unwrap();
    let view = client.lock_view(&name("jobs")).await.unwrap();
    assert_eq!(crate::live::holder(&view), None, "no one who left is granted it");
    client.close().await;
}
