//! `--watch` and `top`: what is asked again and again.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::palisade;
use crate::live::{Live, eventually, get, hold, name, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watched_answer_is_a_line_a_time_and_ends_when_told() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(60));
    let session = client.open_session().await.unwrap();
    for command in [&["status"][..], &["locks"], &["who", "jobs"], &["sessions"]] {
        let guard = hold(&session, "jobs").await;
        let mut watch = tokio::process::Command::from(palisade());
        watch.args(["-o", "json", "--endpoints", live.address(0)]).args(command).args(["--watch", "50ms"]);
        let mut watch = watch.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let mut next = async || -> Value {
            let line = soon("another answer", lines.next_line()).await.unwrap().expect("it goes on");
            serde_json::from_str(&line).unwrap()
        };
        let first = next().await;
        assert_eq!(first["schema"], format!("palisade.{}/1", command[0]));
        guard.release().await.unwrap();
        while next().await == first {}
        let pid = Pid::from_raw(i32::try_from(watch.id().unwrap()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        assert_eq!(soon("it ends", watch.wait()).await.unwrap().code(), Some(0), "{command:?}");
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_at_the_top_shows_the_cluster_its_locks_and_its_sessions() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(60));
    let session = client.open_session().await.unwrap();
    let guard = hold(&session, "jobs").await;
    let top = |arguments: &[&str]| {
        let output =
            palisade().args(["--endpoints", live.address(0), "top"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let document: Value = serde_json::from_str(&top(&["-o", "json"])).unwrap();
    assert_eq!(
        (&document["schema"], &document["status"]["healthy"]),
        (&"palisade.top/1".into(), &true.into())
    );
    assert_eq!(document["locks"][0]["token"], guard.token().get().to_string());
    assert_eq!(document["sessions"][0]["holds"], 1);
    let screen = top(&["--once"]);
    assert!(screen.starts_with("Healthy: ") && screen.contains("\njobs "), "{screen}");
    client.close().await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_stood_still_is_seen_in_metrics_who_and_sessions() {
    use super::wrapper::Wrapper;

    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(60));
    let mut wrapper =
        Wrapper::start(&live, &["jobs", "--ttl", "6s", "--", "sh", "-c", "echo ready; sleep 1000"]);
    assert_eq!(wrapper.line().await.as_deref(), Some("ready"));
    let signals = async || {
        let view = client.lock_view(&name("jobs")).await.ok()?;
        let Some(palisade_proto::v1::slot_view::State::Held(tenure)) = &view.slots.first()?.state else {
            return None;
        };
        tenure.holders.first()?.signals
    };
    let before = eventually("it told of itself", async || signals().await.filter(|told| told.working)).await;
    assert!(before.left_least_ms.is_some_and(|left| left <= 6_000), "{before:?}");

    // A pause that the lease outlives.
    wrapper.signal(Signal::STOP);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    wrapper.signal(Signal::CONT);
    let paused = eventually("it told of its pause", async || {
        signals().await.filter(|signals| signals.pause_longest_ms >= 1_000)
    })
    .await;
    let sessions = client.list_sessions("", 0, 0).await.unwrap();
    assert!(sessions.sessions.iter().any(|session| {
        session.signals.as_ref().is_some_and(|seen| seen.pause_longest_ms == paused.pause_longest_ms)
    }));
    let metrics = get(live.address(0), "/metrics").await.unwrap().body;
    let value = |metrics: &str, metric: &str| -> f64 {
        let line =
            metrics.lines().find(|line| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(' ')));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("no {metric}"))
    };
    assert!(value(&metrics, "palisade_holder_pause_seconds_sum") >= 1.0);
    assert!(value(&metrics, "palisade_holder_pause_ttl_ratio_count") >= 1.0);

    // One that it does not: the session expires while work is in progress.
    wrapper.signal(Signal::STOP);
    eventually("it is counted", async || {
        let metrics = get(live.address(0), "/metrics").await?.body;
        (value(&metrics, "palisade_session_expirations_working_total") >= 1.0).then_some(())
    })
    .await;
    wrapper.signal(Signal::CONT);
    assert_eq!(wrapper.code().await, Some(123));
    client.close().await;
}
