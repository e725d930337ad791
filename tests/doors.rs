//! What operators and resources ask of a node over plain HTTP, and orchestrators over gRPC.

use std::time::Duration;

use palisade_fence::keys::KeySet;
use palisade_fence::verifier::Verifier;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::live::{Live, eventually, get, hold, name};

/// The metrics that the page names in its table.
fn documented() -> Vec<String> {
    let page = include_str!("../docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `palisade_"));
    rows.filter_map(|row| Some(format!("palisade_{}", row.split_once('`')?.0))).collect()
}

async fn health(live: &Live, node: usize) -> Option<ServingStatus> {
    let request = HealthCheckRequest { service: String::new() };
    let answer: HealthCheckResponse =
        HealthClient::new(live.channel(node)).check(request).await.ok()?.into_inner();
    Some(answer.status())
}

async fn says(live: &Live, node: usize, status: ServingStatus) {
    let look = async || (health(live, node).await? == status).then_some(());
    eventually("orchestrators are told", look).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_tells_its_health_its_metrics_and_the_public_keys() {
    let mut live = Live::start(3).await;
    let client = live.client(Duration::from_secs(60));
    let session = client.open_session().await.unwrap();
    let guard = session.lock(name("orders")).with_sequencer().acquire().await.unwrap();
    let sequencer = guard.sequencer().await.unwrap();
    for node in 0..3 {
        assert_eq!(get(live.address(node), "/livez").await.unwrap().status, 200);
        says(&live, node, ServingStatus::Serving).await;

        let metrics = get(live.address(node), "/metrics").await.unwrap();
        assert_eq!(metrics.status, 200);
        assert!(metrics.head.contains("content-type: application/openmetrics-text"), "{}", metrics.head);
        assert!(metrics.body.ends_with("# EOF\n"));
        let names = documented();
        assert!(names.len() > 15, "the page names {names:?}");
        for metric in names {
            assert!(metrics.body.contains(&metric), "{metric} is not exposed:\n{}", metrics.body);
        }

        // The key that signed is among the published ones, on every node that has applied its grant.
        let keys = eventually("the key set", async || {
            let keys = get(live.address(node), "/.well-known/jwks.json").await?;
            let document: serde_json::Value = serde_json::from_str(&keys.body).unwrap();
            (keys.status == 200 && !document["keys"].as_array()?.is_empty()).then_some(document)
        })
        .await;
        for key in keys["keys"].as_array().unwrap() {
            assert_eq!((key["kty"].as_str(), key["crv"].as_str()), (Some("OKP"), Some("Ed25519")), "{key}");
            assert!(key["kid"].is_string() && key["x"].is_string(), "{key}");
        }
    }
    let keys = KeySet::from_jwks(&client.keys().await.unwrap()).unwrap();
    let cluster = client.status(false).await.unwrap().cluster_id.parse().unwrap();
    let presented = Verifier::new(cluster, keys).verify(&sequencer).unwrap();
    assert_eq!(presented.statement().token, guard.token(), "a resource verifies it without a call");

    // A node that is left alone lives, and is not ready.
    let [other, _] = live.followers().await;
    let leader = live.leader().await;
    live.cluster.kill(leader);
    live.cluster.kill(other);
    let last = (0..3).find(|node| live.cluster.pid(*node).is_some()).unwrap();
    eventually("it is not ready", async || {
        (get(live.address(last), "/readyz").await?.status == 503).then_some(())
    })
    .await;
    assert_eq!(get(live.address(last), "/livez").await.unwrap().status, 200);
    says(&live, last, ServingStatus::NotServing).await;
    live.cluster.start_all().unwrap();
    live.ready().await;
    let again = client.open_session().await.unwrap();
    hold(&again, "another").await.release().await.unwrap();
    client.close().await;
}
