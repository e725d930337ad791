//! Every node takes every call, and a token is the log index of the entry that made the grant.

use std::process::Command;

use crate::live::{Live, eventually, hold};

fn number(document: &serde_json::Value, field: &str) -> u64 {
    let text = document[field].as_str().unwrap_or_else(|| panic!("{field}: {document}"));
    text.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_through_each_node_bears_the_index_of_its_entry() {
    let live = Live::start(3).await;
    let mut last = 0;
    for node in 0..3 {
        let client = live.client_of(node);
        let session = client.open_session().await.unwrap();
        let lock = format!("orders/{node}");
        let guard = hold(&session, &lock).await;
        let token = guard.token().get();
        assert!(token > last, "{token} after {last}");
        last = token;

        let mut who = Command::new(env!("CARGO_BIN_EXE_palisade"));
        who.args(["who", &lock, "-o", "json", "--endpoints", live.address((node + 1) % 3)]);
        let answer = who.output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
        assert_eq!(number(&document, "token"), token);
        assert_eq!(number(&document, "index") + number(&document, "token_base"), token, "{document}");

        // Each replica wrote down the same grant at the same index.
        let line = [format!("index={token} "), format!("token={token} "), format!("lock={lock} ")];
        for replica in 0..3 {
            eventually("the grant is in the audit log", async || {
                let log = live.cluster.log(replica);
                let found = log.lines().any(|text| {
                    text.contains("granted") && line.iter().all(|part| text.contains(part.as_str()))
                });
                found.then_some(())
            })
            .await;
        }
        guard.release().await.unwrap();
        client.close().await;
    }
}
