//! A vote that a power failure takes back could be given twice.

use rustix::process::Signal;

use super::holder::{Holder, leader};
use super::http2::exchanges;
use super::trace::{Trace, wrap};
use super::{log_file, nodes};

/// The traced node stands for election after everybody else, so that it is the one that is asked.
const PATIENT: [&str; 6] = ["--heartbeat", "50ms", "--election-min", "320ms", "--election-max", "330ms"];
const EAGER: [&str; 6] = ["--heartbeat", "40ms", "--election-min", "130ms", "--election-max", "160ms"];

/// The key of the vote's record in the log.
const VOTE: &[u8] = b"M:vote";

#[tokio::test]
async fn a_voter_answers_after_the_flush_of_its_vote() {
    let mut cluster = nodes(3).with_arguments(&EAGER);
    let file = wrap(&mut cluster, 2, &[]);
    cluster.start_node(0).expect("it starts");
    cluster.start_node(1).expect("it starts");
    let mut cluster = cluster.with_arguments(&PATIENT);
    cluster.start_node(2).expect("it starts");
    let mut holder = Holder::open(&cluster, 0).await;
    holder.acquire("before-the-election").await.expect("it is granted");

    let first = super::within("somebody leads", async {
        loop {
            match leader(&cluster, 2).await {
                Some(leader) => return leader,
                None => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
    })
    .await;
    assert_ne!(first, 2, "the patient node does not lead");
    cluster.kill(first);
    holder.go_to(&cluster, 1 - first);
    super::within("the other node is elected", async {
        while holder.acquire("after-the-election").await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    cluster.signal(2, Signal::TERM);
    let trace = Trace::read(&file).await;

    let log = log_file(&cluster, 2);
    let calls = exchanges(&trace.calls, &cluster.nodes()[2].peer_address);
    let mut asked = 0;
    let mut votes = 0;
    let mut after = 0;
    while let Some(vote) = trace.written(&log, VOTE, after) {
        votes += 1;
        after = vote.ended;
        let durable = trace.flushed(&log, vote.ended);
        // Streams of appends stay open for long; a vote is a call of one message and one answer.
        let open = calls.iter().filter(|call| call.requests.len() == 1 && call.answers.len() == 1);
        let open = open.filter(|call| call.requests[0].at < vote.began);
        for answered in open.filter_map(|call| call.answered).filter(|answered| *answered > vote.began) {
            asked += 1;
            assert!(
                durable.is_some_and(|durable| durable < answered),
                "vote written at line {}, durable at {durable:?}, a call answered at {answered}",
                vote.began
            );
        }
    }
    assert!(votes >= 2, "{votes} votes in the log: the election did not reach this voter");
    assert!(
        asked >= 1,
        "no vote was asked for while it was written: it was answered before it was in the log"
    );
}
