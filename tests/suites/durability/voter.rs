//! A vote that a power failure takes back could be given twice.
//!
//! Before it asks for a vote a candidate asks whether it would get one, with the same term and id; that answer promises
//! nothing. The question that counts is the last of them: the one that made the voter write.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use palisade_raft::EngineKind;
use palisade_testkit::cluster::ProcessCluster;
use rustix::process::Signal;

use super::holder::{Holder, leader};
use super::http2::{Exchange, exchanges};
use super::strace::Call;
use super::trace::{Trace, holds, wrap};
use super::{log_file, nodes, told, within};

/// The traced node stands for election after everybody else, so that it is the one that is asked.
const PATIENT: [&str; 6] = ["--heartbeat", "50ms", "--election-min", "320ms", "--election-max", "330ms"];
const EAGER: [&str; 6] = ["--heartbeat", "40ms", "--election-min", "130ms", "--election-max", "160ms"];
/// On a busy machine the patient node can be first all the same; then another cluster is tried.
const CLUSTERS_MAX: usize = 5;

#[tokio::test]
async fn a_voter_answers_after_the_flush_of_its_vote() {
    for kind in EngineKind::ALL {
        check(kind).await;
    }
}

async fn check(kind: EngineKind) {
    for _ in 0..CLUSTERS_MAX {
        let Some((cluster, trace)) = election(kind).await else { continue };
        let log = log_file(&cluster, kind, 2);
        let calls = exchanges(&trace.calls, &cluster.nodes()[2].peer_address);
        let mut later_terms = 0;
        for about in candidacies(&calls) {
            let Some(vote) = vote(&trace, &log, about) else { continue };
            let questions = questions(&calls, about).filter(|call| call.requests[0].at < vote.began);
            let question = questions.max_by_key(|call| call.requests[0].at);
            let Some(question) = question else { continue };
            let (durable, answered) = (trace.durable_write(&log, vote), question.answered);
            assert!(
                durable.is_some_and(|durable| answered.is_none_or(|answered| durable < answered)),
                "vote written at line {}, durable at {durable:?}, answered at {answered:?}",
                vote.began
            );
            // The first term began with the founding; any other one with the leader's end.
            let first_term = about.starts_with(&1_u64.to_le_bytes());
            later_terms += usize::from(answered.is_some() && !first_term);
        }
        assert!(later_terms >= 1, "no vote in the trace that was asked for, written and answered");
        return;
    }
    panic!("in {CLUSTERS_MAX} clusters the patient node was the first to stand for election");
}

/// Has the leader end, and the traced node asked for its vote. None when it became the leader itself.
async fn election(kind: EngineKind) -> Option<(ProcessCluster, Trace)> {
    let mut cluster = told(nodes(kind, 3), kind, &EAGER);
    let file = wrap(&mut cluster, 2, &[]);
    cluster.start_node(0).expect("it starts");
    cluster.start_node(1).expect("it starts");
    let mut cluster = told(cluster, kind, &PATIENT);
    cluster.start_node(2).expect("it starts");
    let mut holder = Holder::open(&cluster, 0).await;
    let first = leads(&cluster).await;
    if first == 2 {
        return None;
    }
    cluster.kill(first);
    holder.go_to(&cluster, 1 - first);
    within("another node is elected", async {
        while holder.acquire("after-the-election").await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let second = leads(&cluster).await;
    cluster.signal(2, Signal::TERM);
    let trace = Trace::read(&file).await;
    (second != 2).then_some((cluster, trace))
}

/// The leader, as the traced node knows it.
async fn leads(cluster: &ProcessCluster) -> usize {
    within("somebody leads", async {
        loop {
            match leader(cluster, 2).await {
                Some(leader) => return leader,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await
}

/// What each call that could ask for a vote is about, as the log records it: term and candidate.
fn candidacies(calls: &[Exchange]) -> BTreeSet<[u8; 16]> {
    calls.iter().filter_map(candidacy).collect()
}

/// Behind the field's head and the version: the term, that there is a candidate, and its id.
fn candidacy(call: &Exchange) -> Option<[u8; 16]> {
    let [question] = &call.requests[..] else { return None };
    let (term, rest) = question.bytes.get(3..20)?.split_at(8);
    let (1, candidate) = (rest[0], &rest[1..]) else { return None };
    [term, candidate].concat().try_into().ok()
}

/// The calls that ask on behalf of a candidacy.
fn questions(calls: &[Exchange], about: [u8; 16]) -> impl Iterator<Item = &Exchange> {
    calls.iter().filter(move |call| candidacy(call) == Some(about))
}

/// The first write of the vote for a candidate that is no leader yet: one that leads is recorded with another mark.
fn vote<'a>(trace: &'a Trace, log: &Path, about: [u8; 16]) -> Option<&'a Call> {
    let record = [&about[..], &[0]].concat();
    trace.written(log, &record, 0).filter(|write| holds(write.bytes(), b"vote"))
}
