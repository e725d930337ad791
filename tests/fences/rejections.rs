//! What a resource refused, reported to the cluster: seen at every node, bounded, and told when it does not stop.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use palisade_client::{Client, ClientConfig};
use palisade_core::ids::{ClientName, ClusterId, GuardName};
use palisade_fence::adapters::memory::MemoryResource;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::keys::KeySet;
use palisade_fence::tally::Tally;
use palisade_fence::verifier::Verifier;
use palisade_host::Host;
use palisade_proto::v1;
use palisade_proto::v1::fences_client::FencesClient;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use serde_json::{Value, json};

use crate::live::{Live, PATIENCE, error_name, eventually, get, hold, name, post, status_name};

const LOCK: &str = "reported/orders";

/// A service behind the fence: it is shown sequencers.
struct Service {
    guard: Guard<MemoryResource<Vec<u64>>>,
    verifier: Verifier,
}

impl Service {
    async fn start(client: &Client, tally: &Arc<Tally>) -> Self {
        let cluster: ClusterId = client.status(false).await.unwrap().cluster_id.parse().unwrap();
        let keys = KeySet::from_jwks(&client.keys().await.unwrap()).unwrap();
        let guard = Guard::new(MemoryResource::new(Vec::new()), Scope::new(cluster, name(LOCK)));
        Self { guard: guard.counted_in(tally.clone()), verifier: Verifier::new(cluster, keys) }
    }

    /// Whether a write with this sequencer was taken; a refusal is as stale.
    fn takes(&self, sequencer: &str) -> bool {
        let presented = self.verifier.verify(sequencer).unwrap();
        let written = self.guard.write(&presented, |tokens| {
            tokens.push(presented.statement().token.get());
            Ok(())
        });
        assert!(written.as_ref().err().is_none_or(|error| error.is_stale()), "{written:?}");
        written.is_ok()
    }
}

/// Holds the lock once; what it showed to resources, and its token.
async fn held_once(live: &Live, client: &str) -> (String, u64) {
    let mut config = ClientConfig::new(live.cluster.endpoints());
    config.name = ClientName::new(client).unwrap();
    let client = Client::new(config, Host::system()).unwrap();
    let session = client.open_session().await.unwrap();
    let guard = hold(&session, LOCK).await;
    let (sequencer, token) = (guard.sequencer().await.unwrap(), guard.token().get());
    guard.release().await.unwrap();
    client.close().await;
    (sequencer, token)
}

/// What a node says of the lock's stale holders; none when it does not answer, or knows none.
async fn first_rejection(live: &Live, node: usize) -> Option<Value> {
    let answer = get(live.address(node), &format!("/v1/locks/who?name={LOCK}")).await?;
    answer.json()["rejections"].get(0).cloned()
}

/// The sum of a metric over all nodes.
async fn sum(live: &Live, series: &str) -> f64 {
    let mut sum = 0.0;
    for node in 0..live.cluster.nodes().len() {
        let Some(page) = get(live.address(node), "/metrics").await else { continue };
        let values =
            page.body.lines().filter_map(|line| line.strip_prefix(series)?.trim().parse::<f64>().ok());
        sum += values.sum::<f64>();
    }
    sum
}

fn palisade(live: &Live, node: usize, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade"));
    command.env_remove("PALISADE_ENDPOINTS").args(["--endpoints", live.address(node), "--color", "never"]);
    let output = command.args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn logged(live: &Live, words: &str) -> usize {
    (0..live.cluster.nodes().len()).map(|node| live.cluster.log(node).matches(words).count()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_writer_that_does_not_stop_is_seen_at_every_node() {
    let live = Live::start(3).await;
    let [node, other] = live.followers().await;
    let (client, tally) = (live.client_of(node), Arc::new(Tally::default()));
    let service = Service::start(&client, &tally).await;
    let counted = tally.clone();
    let guard = GuardName::new("orders-db").unwrap();
    let _reporter = client.rejection_reporter(guard, move || counted.take_rejections());
    let (late, stale) = held_once(&live, "worker-a").await;
    let (present, newer) = held_once(&live, "worker-b").await;
    assert!(service.takes(&present));

    // It writes on and on. What its resource says at one node is seen at another, that was told nothing.
    let told = eventually("the other node tells of a storm", async || {
        assert!(!service.takes(&late));
        first_rejection(&live, other).await.filter(|told| told["storm"] == true)
    })
    .await;
    let (presented, mark) = (stale.to_string(), newer.to_string());
    assert_eq!((&told["presented"], &told["mark"]), (&json!(presented), &json!(mark)));
    assert_eq!((&told["client"], &told["guard"]), (&json!("worker-a"), &json!("orders-db")));
    assert_eq!((&told["by"], &told["gap_max"]), (&json!("mark"), &json!((newer - stale).to_string())));
    let count: u64 = told["count"].as_str().unwrap().parse().unwrap();
    assert!((10..=tally.counts().stale).contains(&count), "{told}");
    assert!(told["session"].is_string() && told["number"].is_string(), "{told}");

    let who = palisade(&live, other, &["who", LOCK]);
    let line = format!("refused: worker-a, token {stale} below mark {newer}, ");
    assert!(who.contains(&line) && who.contains("STORM"), "{who}");
    let top = palisade(&live, other, &["top", "--once"]);
    assert!(top.contains(&format!("{LOCK}  {line}")), "{top}");
    let audit = palisade(&live, other, &["audit", "reported/"]);
    let row = |line: &&str| line.starts_with(LOCK) && line.contains("orders-db") && line.contains(&presented);
    assert!(audit.lines().any(|line| row(&line)), "{audit}");
    assert!(audit.contains("as resources reported it to the present leader"), "{audit}");
    let audit: Value = serde_json::from_str(&palisade(&live, other, &["-o", "json", "audit"])).unwrap();
    assert_eq!(audit["late_writers"]["rejections"][0]["presented"], presented);

    assert!(sum(&live, r#"palisade_resource_rejections_total{why="mark"}"#).await >= 10.0);
    assert!(sum(&live, "palisade_resource_rejection_gap_entries_count").await >= 1.0);
    assert!(sum(&live, "palisade_rejection_storms ").await >= 1.0);
    let begun = sum(&live, "palisade_rejection_storms_begun_total").await;
    assert_eq!(logged(&live, "rejection storm began") as f64, begun, "each storm is told once");
    assert!(logged(&live, "rejected by a resource") >= 1, "the audit log has it");

    // It stopped.
    eventually("the storm is over", async || {
        let over = first_rejection(&live, other).await.is_none_or(|told| told["storm"] == false);
        (over && sum(&live, "palisade_rejection_storms ").await == 0.0).then_some(())
    })
    .await;
    client.close().await;
}

fn report(presented: u64, count: u64) -> v1::RejectionReport {
    let refusal = v1::StaleRefusal {
        lock: LOCK.to_owned(),
        presented,
        mark: 1_000,
        client: "worker-a".to_owned(),
        count,
        ..v1::StaleRefusal::default()
    };
    let guard = "orders-db".to_owned();
    v1::RejectionReport { guard, stale: vec![refusal], ..v1::RejectionReport::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_that_floods_is_told_to_wait_and_harms_nothing_else() {
    let live = Live::start_with(1, &["--reports-per-second", "1"]).await;
    let mut fences = FencesClient::new(live.channel(0));
    let flooded = eventually("one more is refused", async || fences.report(report(34, 1)).await.err()).await;
    assert_eq!(status_name(&flooded), "RATE_LIMITED");
    let over_http = eventually("also over HTTP", async || {
        let body = json!({ "guard": "orders-db", "others": [{ "reason": "forged" }] });
        let answer = post(live.address(0), "/v1/rejections", &body).await?;
        (answer.status == 429).then_some(answer)
    })
    .await;
    assert!(over_http.head.contains("retry-after: "), "{over_http:?}");
    // On a stream, what else is in the frame passes.
    let mut raw = live.raw(0).await;
    eventually("also on a stream", async || {
        let reported = raw.request(0, Op::ReportRejections(report(34, 1)));
        let read = raw.request(0, Op::GetLock(v1::GetLock { lock: LOCK.to_owned() }));
        let (told, asked) = (reported.tag, read.tag);
        raw.send(v1::ClientFrame { requests: vec![reported, read], ..v1::ClientFrame::default() }).await;
        let told = raw.response(told).await;
        let asked = raw.response(asked).await;
        assert!(matches!(asked.result, Some(Answer::Lock(_))), "{asked:?}");
        (error_name(&told) == "RATE_LIMITED").then_some(())
    })
    .await;
    // The client waits as it is told, and gets through.
    let client = live.client(Duration::from_secs(60));
    let guard = GuardName::new("orders-db").unwrap();
    let empty = palisade_core::rejections::Rejections::default();
    tokio::time::timeout(PATIENCE, client.report_rejections(&guard, empty, Duration::ZERO))
        .await
        .expect("it is taken in time")
        .unwrap();
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_remembered_is_bounded_and_a_new_leader_begins_with_nothing() {
    let flags = ["--rejections-kept", "3", "--reports-per-second", "0"];
    let mut live = Live::start_with(3, &flags).await;
    let [node, _] = live.followers().await;
    let (leader, term) = live.leader_and_term().await;
    let mut fences = FencesClient::new(live.channel(node));
    for presented in 1..=5 {
        fences.report(report(presented, 1)).await.unwrap();
    }
    let list = fences.rejections(v1::ListRejections::default()).await.unwrap().into_inner();
    let tokens: Vec<_> =
        list.rejections.iter().filter_map(|told| Some(told.refusal.as_ref()?.presented)).collect();
    assert_eq!((tokens, list.forgotten), (vec![5, 4, 3], 2), "the last first, the oldest forgotten");

    let many = v1::RejectionReport { stale: vec![report(34, 1).stale[0].clone(); 257], ..report(34, 1) };
    for refused in
        [many, report(1_000, 1), report(34, 0), v1::RejectionReport { guard: String::new(), ..report(34, 1) }]
    {
        let status = fences.report(refused).await.unwrap_err();
        assert_eq!(status_name(&status), "BAD_ARGUMENT", "{status}");
    }

    live.cluster.kill(leader);
    live.leader_after(term).await;
    let later = eventually("the new leader answers", async || {
        Some(fences.rejections(v1::ListRejections::default()).await.ok()?.into_inner())
    })
    .await;
    assert_eq!((later.rejections.len(), later.forgotten), (0, 0));
    assert!(later.known_since_us > list.known_since_us);
    eventually("it takes reports", async || fences.report(report(34, 2)).await.ok()).await;
    let told = eventually("it tells of them", async || first_rejection(&live, node).await).await;
    assert_eq!(told["presented"], "34");
}
