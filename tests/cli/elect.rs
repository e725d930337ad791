//! `palisade elect`: who leads, told while leaders come and go.

use std::time::Duration;

use serde_json::Value;

use super::wrapper::Wrapper;
use crate::live::{Live, eventually, name};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_sees_each_leader_with_its_value_and_rising_tokens() {
    let live = Live::start(3).await;
    let mut observer = Wrapper::start_as("elect", &live, &["scheduler", "--observe"]);
    assert_eq!(observer.line().await.as_deref(), Some("scheduler   nobody leads"));
    let script = "echo $PALISADE_TOKEN; exec sleep 1000";
    let candidate = |value: &str| {
        let arguments = ["scheduler", "--value", value, "--client-name", value, "--", "sh", "-c", script];
        Wrapper::start_as("elect", &live, &arguments)
    };
    let client = live.client(Duration::from_secs(10));
    let mut last = 0;
    for value in ["10.0.0.1:80", "10.0.0.2:80"] {
        let mut leader = candidate(value);
        let token: u64 = leader.line().await.unwrap().parse().unwrap();
        assert!(token > last);
        last = token;
        let told = observer.line().await.unwrap();
        assert!(told.starts_with(&format!("scheduler   token {token}   {value} (session ")), "{told}");
        assert!(told.ends_with(&format!("   {value}")), "{told}");
        leader.signal(rustix::process::Signal::TERM);
        assert_eq!(leader.code().await, Some(143));
        assert_eq!(observer.line().await.as_deref(), Some("scheduler   nobody leads"));
    }
    // While one leads the others wait, and one of them is next.
    let (mut first, mut second) = (candidate("a"), candidate("b"));
    let queued =
        async || (client.lock_view(&name("scheduler")).await.unwrap().queue.len() == 1).then_some(());
    eventually("one waits", queued).await;
    let told = observer.line().await.unwrap();
    let (leader, next) =
        if told.ends_with('a') { (&mut first, &mut second) } else { (&mut second, &mut first) };
    assert!(leader.line().await.is_some());
    leader.signal(rustix::process::Signal::TERM);
    assert!(next.line().await.is_some());
    observer.signal(rustix::process::Signal::TERM);
    assert_eq!(observer.code().await, Some(0));
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_get_a_document_a_leader() {
    let live = Live::start(1).await;
    let mut leader =
        Wrapper::start_as("elect", &live, &["e", "--value", "v", "--", "sh", "-c", "echo up; sleep 1000"]);
    assert_eq!(leader.line().await.as_deref(), Some("up"));
    let mut observer = Wrapper::start_as("elect", &live, &["-o", "json", "e", "--observe", "--count", "1"]);
    let told: Value = serde_json::from_str(&observer.line().await.unwrap()).unwrap();
    assert_eq!(
        (told["schema"].as_str(), told["leader"]["value"].as_str()),
        (Some("palisade.elect/1"), Some("v"))
    );
    assert!(told["leader"]["token"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(observer.code().await, Some(0));
}
