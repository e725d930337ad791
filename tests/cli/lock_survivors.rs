//! However a wrapper ends, nothing of its command works on without the lock.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal};

use super::wrapper::{WRAPPERS, Wrapper, alive};
use crate::live::{Live, eventually, holder, name};

/// How the wrapper meets its end.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It is told to end.
    Told(Signal),
    /// Its lease ends: it is stopped for longer, and woken.
    Loss,
}

/// A command that ends when it is told, with children that will not hear of anything: one of its own, and one of a
/// shell in between.
const FAMILY: &str = "(trap '' TERM INT HUP QUIT; sleep 1000 & sleep 1000) & echo $$; exec sleep 1000";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_the_command_s_group_survives_however_the_wrapper_ends() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(60));
    let table = [
        (End::Told(Signal::TERM), 143),
        (End::Told(Signal::INT), 130),
        (End::Told(Signal::HUP), 129),
        (End::Told(Signal::QUIT), 131),
        (End::Loss, 123),
    ];
    for (wrapper, (end, expected)) in WRAPPERS.into_iter().flat_map(|w| table.map(|t| (w, t))) {
        let arguments =
            ["jobs", "--ttl", "2s", "--lock-delay", "0s", "--kill-after", "300ms", "--", "sh", "-c", FAMILY];
        let mut wrapper = Wrapper::start_as(wrapper, &live, &arguments);
        let group = wrapper.process().await;
        eventually("its family is there", async || (members(group) >= 3).then_some(())).await;
        match end {
            End::Told(signal) => wrapper.signal(signal),
            End::Loss => {
                wrapper.signal(Signal::STOP);
                let over =
                    async || holder(&client.lock_view(&name("jobs")).await.ok()?).is_none().then_some(());
                eventually("its lease is over", over).await;
                wrapper.signal(Signal::CONT);
            }
        }
        assert_eq!(wrapper.code().await, Some(expected), "{end:?}");
        assert_eq!(members(group), 0, "{end:?}");
        let view = client.lock_view(&name("jobs")).await.unwrap();
        assert_eq!(holder(&view), None, "{end:?}");
    }
    client.close().await;
}

fn members(group: Pid) -> usize {
    alive(|_, its| its == group)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_wrapper_leaves_no_command_and_its_file_goes_with_the_next() {
    let live = Live::start(1).await;
    let script = "echo $$; echo $PALISADE_SEQUENCER_FILE; exec sleep 1000";
    let mut leader = Wrapper::start_as("elect", &live, &["scheduler", "--", "sh", "-c", script]);
    let led = leader.process().await;
    leader.kill().await;
    eventually("the leader's command is gone", async || (alive(|pid, _| pid == led) == 0).then_some(()))
        .await;

    let mut wrapper = Wrapper::start(&live, &["jobs", "--", "sh", "-c", script]);
    let command = wrapper.process().await;
    let file = PathBuf::from(wrapper.line().await.unwrap());
    let mut living =
        Wrapper::start(&live, &["others", "--", "sh", "-c", "echo $PALISADE_SEQUENCER_FILE; sleep 1000"]);
    let held = PathBuf::from(living.line().await.unwrap());
    wrapper.kill().await;
    eventually("the command is gone", async || (alive(|pid, _| pid == command) == 0).then_some(())).await;
    assert!(file.exists(), "nobody was there to remove it");

    age(&file);
    age(&held);
    assert_eq!(super::wrapper::code(&live, &["third", "--", "true"]).await, Some(0));
    assert!(!file.exists(), "the next wrapper removed it");
    assert!(held.exists(), "and none that is in use");
    living.signal(Signal::TERM);
    assert_eq!(living.code().await, Some(143));
}

/// As if it were there for some minutes.
fn age(file: &Path) {
    let file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(300)).unwrap();
}
