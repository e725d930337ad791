//! The example's schedulers, as processes: the leader is stopped past its lease, wakes up, and writes; leaders come and go.

use std::path::Path;

use rustix::process::Signal;

use crate::live::{Job, Live, example};

fn start(live: &Live, name: &str, book: &Path, more: &[&str]) -> Job {
    let endpoints = live.cluster.endpoints().join(",");
    let book = book.to_str().unwrap();
    let arguments = [book, "--name", name, "--endpoints", &endpoints, "--every", "1", "--ttl", "2"];
    Job::start(&example("scheduler"), &[&arguments, more].concat())
}

/// When it was due, the token, and who ran it.
fn runs(book: &Path) -> Vec<(u64, u64, String)> {
    let text = std::fs::read_to_string(book).unwrap();
    let run = |line: &str| {
        let mut words = line.split(' ');
        let mut number = || words.next().unwrap().parse().unwrap();
        (number(), number(), words.next().unwrap().to_owned())
    };
    text.lines().map(run).collect()
}

/// The first one leads, and has stopped before it wrote its first run; the second one leads, and has written one.
async fn overtaken(live: &Live, book: &Path, more: &[&str]) -> (Job, Job) {
    let mut first = start(live, "first", book, &[&["--new", "--stop"], more].concat());
    first.stopped().await;
    let mut second = start(live, "second", book, more);
    second.says("ran").await;
    (first, second)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_paused_runs_nothing_and_the_next_goes_on() {
    let mut live = Live::start(3).await;
    let folder = tempfile::tempdir().unwrap();
    let book = folder.path().join("runs.txt");
    let (mut first, mut second) = overtaken(&live, &book, &[]).await;
    first.signal(Signal::CONT);
    let refused = first.says("refused").await;
    assert!(refused.contains("stale"), "{refused}");

    // It resigns: the first is elected again, at once.
    second.says("ran").await;
    second.signal(Signal::TERM);
    let (code, said) = second.end().await;
    assert_eq!((code, said.lines().last()), (Some(0), Some("second resigned")));
    first.says("first leads").await;
    first.says("ran").await;

    // The cluster's own leader is gone, and it leads all the same.
    let leader = live.leader().await;
    live.cluster.kill(leader);
    live.leader().await;
    for _ in 0..2 {
        first.says("ran").await;
    }
    first.signal(Signal::TERM);
    assert_eq!(first.end().await.0, Some(0));

    let runs = runs(&book);
    assert!(runs.is_sorted_by(|a, b| a.0 < b.0), "each run once: {runs:?}");
    assert!(runs.is_sorted_by_key(|run| run.1), "tokens only rise: {runs:?}");
    assert_eq!(runs[0].2, "second", "{runs:?}");
    assert_eq!(runs.last().unwrap().2, "first", "{runs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_fence_its_run_lies_over_newer_ones() {
    let live = Live::start(1).await;
    let folder = tempfile::tempdir().unwrap();
    let book = folder.path().join("runs.txt");
    let (mut first, _second) = overtaken(&live, &book, &["--unfenced"]).await;
    first.signal(Signal::CONT);
    first.says("ran").await;
    let runs = runs(&book);
    assert!(!runs.is_sorted_by_key(|run| run.1), "an older token's run comes later: {runs:?}");
    let at = runs.iter().position(|run| run.2 == "first").unwrap();
    assert!(at > 0 && runs[at].0 <= runs[at - 1].0, "what was due before, or once more: {runs:?}");
}
