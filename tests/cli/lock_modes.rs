//! `palisade lock` beyond one exclusive lock: shared, in slots, several at once; batons and deadlines.

use std::time::Duration;

use palisade_client::Client;
use palisade_proto::v1;
use serde_json::Value;

use super::wrapper::{Wrapper, code};
use crate::live::{Live, eventually, name};

async fn view(client: &Client, lock: &str) -> v1::LockView {
    client.lock_view(&name(lock)).await.unwrap()
}

fn tenures(view: &v1::LockView) -> Vec<v1::Tenure> {
    let held = view.slots.iter().filter_map(|slot| match &slot.state {
        Some(v1::slot_view::State::Held(tenure)) => Some(tenure.clone()),
        _ => None,
    });
    held.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_holders_run_together_and_a_writer_after_them() {
    let live = Live::start(3).await;
    let client = live.client(Duration::from_secs(10));
    let script = ["sh", "-c", "echo $PALISADE_TOKEN; exec sleep 1000"];
    let reader = [&["catalogue", "--shared", "--"][..], &script].concat();
    let mut readers = [Wrapper::start(&live, &reader), Wrapper::start(&live, &reader)];
    let tokens = [readers[0].line().await.unwrap(), readers[1].line().await.unwrap()];
    assert_eq!(tokens[0], tokens[1], "one tenure, one token");
    assert_eq!(tenures(&view(&client, "catalogue").await)[0].holders.len(), 2);
    let mut writer = Wrapper::start(&live, &[&["catalogue", "--"][..], &script].concat());
    let waits = async || (view(&client, "catalogue").await.queue.len() == 1).then_some(());
    eventually("the writer waits", waits).await;
    // A reader that comes later does not overtake it.
    assert_eq!(code(&live, &["catalogue", "--shared", "--nonblock", "--", "true"]).await, Some(124));
    for reader in &mut readers {
        reader.signal(rustix::process::Signal::TERM);
        assert_eq!(reader.code().await, Some(143));
    }
    let token: u64 = writer.line().await.unwrap().parse().unwrap();
    assert!(token > tokens[0].parse().unwrap());
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_holder_of_a_semaphore_has_a_slot_of_its_own() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(10));
    let script = ["sh", "-c", "echo $PALISADE_SLOT $PALISADE_TOKEN; exec sleep 1000"];
    let arguments = [&["gpu", "--capacity", "2", "--"][..], &script].concat();
    let mut holders = [Wrapper::start(&live, &arguments), Wrapper::start(&live, &arguments)];
    let mut slots = Vec::new();
    for holder in &mut holders {
        let line = holder.line().await.unwrap();
        slots.push(line.split(' ').next().unwrap().to_owned());
    }
    slots.sort();
    assert_eq!(slots, ["0", "1"]);
    assert_eq!(code(&live, &["gpu", "--capacity", "2", "-n", "--", "true"]).await, Some(124));
    assert_eq!(code(&live, &["gpu", "--capacity", "3", "-n", "--", "true"]).await, Some(125));
    // All slots of another lock, in one step.
    let all = "echo $PALISADE_HELD";
    let mut both =
        Wrapper::start(&live, &["cpu", "--capacity", "2", "--permits", "2", "--", "sh", "-c", all]);
    let held: Value = serde_json::from_str(&both.line().await.unwrap()).unwrap();
    assert_eq!((held[0]["slot"].as_u64(), held[1]["slot"].as_u64()), (Some(0), Some(1)));
    assert_eq!(held[0]["token"], held[1]["token"]);
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_locks_are_held_together_or_not_at_all() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(10));
    let mut one = Wrapper::start(&live, &["accounts/9", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
    assert_eq!(one.line().await.as_deref(), Some("ready"));
    let script = "echo $PALISADE_HELD; exec sleep 1000";
    let mut both = Wrapper::start(&live, &["accounts/7", "accounts/9", "--", "sh", "-c", script]);
    let waits = async || (view(&client, "accounts/9").await.queue.len() == 1).then_some(());
    eventually("it waits for both", waits).await;
    assert_eq!(tenures(&view(&client, "accounts/7").await), [], "and holds none meanwhile");
    one.signal(rustix::process::Signal::TERM);
    let held: Value = serde_json::from_str(&both.line().await.unwrap()).unwrap();
    let locks: Vec<_> = held.as_array().unwrap().iter().map(|part| part["lock"].as_str().unwrap()).collect();
    assert_eq!(locks, ["accounts/7", "accounts/9"]);
    assert!(held[1]["sequencer"].as_str().unwrap().split('.').count() == 3);
    for lock in ["accounts/7", "accounts/9"] {
        assert_eq!(tenures(&view(&client, lock).await).len(), 1, "{lock}");
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_leaves_in_its_baton_the_next_one_finds_also_after_a_crash() {
    let live = Live::start(1).await;
    let run = async |script: &str| {
        let mut wrapper = Wrapper::start(
            &live,
            &["nightly", "--baton", "--ttl", "2s", "--lock-delay", "0s", "--", "sh", "-c", script],
        );
        let line = wrapper.line().await;
        (line, wrapper.code().await)
    };
    let leave = "cat $PALISADE_BATON_FILE; echo; printf 'page 7' > $PALISADE_BATON_FILE";
    assert_eq!(run(leave).await, (Some(String::new()), Some(0)));
    let found = "echo $(cat $PALISADE_BATON_FILE) after $PALISADE_PREVIOUS_ENDED";
    assert_eq!(run(found).await.0.as_deref(), Some("page 7 after released"));
    // One that is killed before it wrote leaves what it found.
    let mut killed = Wrapper::start(
        &live,
        &[
            "nightly",
            "--baton",
            "--ttl",
            "2s",
            "--lock-delay",
            "0s",
            "--",
            "sh",
            "-c",
            "echo ready; exec sleep 1000",
        ],
    );
    assert_eq!(killed.line().await.as_deref(), Some("ready"));
    killed.kill().await;
    assert_eq!(run(found).await.0.as_deref(), Some("page 7 after expired"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_holds_too_long_or_stands_still_is_stopped_and_the_lock_goes_on() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(10));
    let common = ["--lock-delay", "0s", "--kill-after", "300ms"];
    let sleeps = ["--", "sh", "-c", "echo ready; exec sleep 1000"];
    for (lock, flags) in [("long", ["--hold-max", "2s"]), ("still", ["--progress-every", "2s"])] {
        let arguments = [&[lock][..], &common, &flags, &sleeps].concat();
        let mut wrapper = Wrapper::start(&live, &arguments);
        assert_eq!(wrapper.line().await.as_deref(), Some("ready"));
        assert_eq!(wrapper.code().await, Some(123), "{lock}");
        let free = async || tenures(&view(&client, lock).await).is_empty().then_some(());
        eventually("the lock goes on", free).await;
        // The holder stops before the cluster does.
        let page = client.history(&name(lock), 1, 0).await.unwrap();
        assert_eq!(page.holds[0].ended(), v1::Ended::Released, "{lock}");
    }
    // One that cannot is not waited for.
    let arguments = [&["stopped"][..], &common, &["--ttl", "60s", "--hold-max", "2s"], &sleeps].concat();
    let mut wrapper = Wrapper::start(&live, &arguments);
    assert_eq!(wrapper.line().await.as_deref(), Some("ready"));
    wrapper.signal(rustix::process::Signal::STOP);
    let free = async || tenures(&view(&client, "stopped").await).is_empty().then_some(());
    eventually("the lock goes on without it", free).await;
    let page = client.history(&name("stopped"), 1, 0).await.unwrap();
    assert_eq!(page.holds[0].ended(), v1::Ended::Overdue);
    wrapper.signal(rustix::process::Signal::CONT);
    assert_eq!(wrapper.code().await, Some(123));
    // One that gets on is left alone for longer than its interval.
    let works = "for i in 1 2 3 4 5 6 7 8; do : > $PALISADE_PROGRESS_FILE; sleep 0.5; done; exit 7";
    let arguments = [&["works"][..], &common, &["--progress-every", "2s", "--", "sh", "-c", works]].concat();
    assert_eq!(code(&live, &arguments).await, Some(7));
    client.close().await;
}
