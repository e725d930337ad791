//! A follower's answer to an append is the acknowledgement that the leader counts.

use palisade_raft::EngineKind;
use rustix::process::Signal;

use super::holder::Holder;
use super::http2::{Exchange, exchanges};
use super::trace::{Trace, holds, wrap};
use super::{log_file, nodes, told};

/// The longest timeouts that the shortest TTL allows: with them the traced node never stands for election in time.
const PATIENT: [&str; 6] = ["--heartbeat", "50ms", "--election-min", "320ms", "--election-max", "330ms"];

#[tokio::test]
async fn a_follower_acknowledges_an_append_after_its_flush() {
    for kind in EngineKind::ALL {
        check_appends(kind).await;
    }
}

async fn check_appends(kind: EngineKind) {
    let mut cluster = nodes(kind, 3);
    let file = wrap(&mut cluster, 2, &[]);
    cluster.start_node(0).expect("it starts");
    cluster.start_node(1).expect("it starts");
    let mut cluster = told(cluster, kind, &PATIENT);
    cluster.start_node(2).expect("it starts");
    let held = Holder::open(&cluster, 0).await.acquire_many("appended-after-the-flush", 40).await;
    // What is below the last one was sent before; a majority may have done without this follower.
    let last = held.last().expect("there is one").0.clone();
    super::until("the last append reaches the follower", || {
        let trace = std::fs::read_to_string(&file).unwrap_or_default();
        let escaped: String = last.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        trace.lines().any(|line| line.contains("pwrite") && line.contains(&escaped)).then_some(())
    })
    .await;
    cluster.signal(2, Signal::TERM);
    let trace = Trace::read(&file).await;

    let log = log_file(&cluster, kind, 2);
    let calls = exchanges(&trace.calls, &cluster.nodes()[2].peer_address);
    for (lock, _) in &held {
        let acknowledged = calls.iter().flat_map(|call| check(&trace, &log, call, lock)).count();
        // A stream that broke is opened again: then a message comes twice, and one of them may stay unanswered.
        assert!(acknowledged >= 1, "no acknowledged append of {lock} in the trace");
    }
}

/// The acknowledgements of appends that brought `lock`; each was sent after the flush.
fn check(trace: &Trace, log: &std::path::Path, call: &Exchange, lock: &str) -> Vec<usize> {
    assert!(call.answers.len() <= call.requests.len(), "an answer that nothing asked for");
    let pairs = call.requests.iter().zip(&call.answers);
    let first =
        call.requests.iter().find(|append| holds(&append.bytes, lock.as_bytes())).map(|append| append.at);
    let pairs = pairs.filter(|(append, _)| holds(&append.bytes, lock.as_bytes()));
    pairs
        .map(|(append, answer)| {
            let durable = trace.durable(log, lock.as_bytes(), first.unwrap_or(append.at));
            assert!(
                durable.is_some_and(|durable| durable < answer.at),
                "{lock}: read at line {}, durable at {durable:?}, acknowledged at {}",
                append.at,
                answer.at
            );
            answer.at
        })
        .collect()
}
