//! The lock is lost, or the wrapper is: what becomes of the command.
#![cfg(target_os = "linux")]

use std::time::Duration;

use rustix::process::Signal;

use super::wrapper::{Wrapper, alive};
use crate::live::{Live, eventually, name};

/// A command with a child of its own, both of which will not hear of SIGTERM, and that tells its process id (which is
/// its group's, too) and, in a file, that the lock is lost.
const STUBBORN: &str =
    "trap '' TERM; (cat /dev/fd/$PALISADE_LOST_FD; : > \"$0\"; sleep 1000) & echo $$; wait";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_cluster_the_command_is_ended_when_the_lease_is() {
    let mut live = Live::start(3).await;
    let told = live.cluster.directory().join("told");
    let mut wrapper = Wrapper::start(
        &live,
        &["jobs", "--ttl", "2s", "--kill-after", "1s", "--", "sh", "-c", STUBBORN, told.to_str().unwrap()],
    );
    let group = wrapper.process().await;
    assert!(alive(|_, its| its == group) >= 2);
    live.cluster.kill_all();
    assert_eq!(wrapper.code().await, Some(123));
    assert_eq!(alive(|_, its| its == group), 0, "nothing of it survives");
    assert!(told.exists(), "it could see why");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrapper_that_was_suspended_past_its_lease_stops_its_command() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(60));
    let script = "sleep 1000 & echo $$; wait";
    let arguments = ["jobs", "--ttl", "2s", "--lock-delay", "0s", "--", "sh", "-c", script];
    let mut wrapper = Wrapper::start(&live, &arguments);
    let group = wrapper.process().await;
    wrapper.signal(Signal::STOP);
    // Another has it meanwhile.
    let session = client.open_session().await.unwrap();
    let guard = crate::live::hold(&session, "jobs").await;
    wrapper.signal(Signal::CONT);
    assert_eq!(wrapper.code().await, Some(123));
    assert_eq!(alive(|_, its| its == group), 0);
    let view = client.lock_view(guard.lock()).await.unwrap();
    assert_eq!(
        crate::live::holder(&view).unwrap().1,
        guard.token().get(),
        "its end took nothing from another"
    );
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_the_command_outlives_the_wrapper() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(60));
    // Told to end: all of the group, before the lock is free.
    let script = "sleep 1000 & sleep 1000 & echo $$; wait";
    let mut wrapper = Wrapper::start(&live, &["jobs", "--", "sh", "-c", script]);
    let group = wrapper.process().await;
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await, Some(143));
    assert_eq!(alive(|_, its| its == group), 0);

    // Killed: the command itself, by the system; and the lock is not free before its lease and its delay are over.
    let script = "echo $$; exec sleep 1000";
    let mut wrapper = Wrapper::start(&live, &["jobs", "--", "sh", "-c", script]);
    let command = wrapper.process().await;
    wrapper.kill().await;
    eventually("the command is gone", async || (alive(|pid, _| pid == command) == 0).then_some(())).await;
    let view = client.lock_view(&name("jobs")).await.unwrap();
    assert!(crate::live::holder(&view).is_some(), "{view:?}");
    client.close().await;
}
