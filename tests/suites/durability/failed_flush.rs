//! A failed flush ends the process and is never tried again: what a disk dropped once, a second flush calls written.

use palisade_raft::EngineKind;

use super::holder::{Holder, leader};
use super::trace::{Trace, wrap};
use super::{log_file, nodes, until};

/// The flush of one thread that fails, counted from its start; those after it would succeed.
/// An engine uses either the one call or the other.
const FAILS: &str = "inject=fdatasync,pwritev2:error=EIO:when=25";

#[tokio::test]
async fn the_node_ends_and_what_it_acknowledged_is_there_after_a_restart() {
    for kind in EngineKind::ALL {
        check_end(kind).await;
    }
}

async fn check_end(kind: EngineKind) {
    let mut cluster = nodes(kind, 1);
    let file = wrap(&mut cluster, 0, &["-e", FAILS]);
    cluster.start_all().expect("it starts");
    let mut holder = Holder::open(&cluster, 0).await;
    let mut held = Vec::new();
    let unanswered = loop {
        let lock = format!("failed-flush-{:04}", held.len());
        match holder.acquire(&lock).await {
            Ok(token) => held.push((lock, token)),
            Err(_) => break lock,
        }
        assert!(held.len() < 100, "the flush did not fail");
    };
    let code = until("the node ends itself", || cluster.ended(0)).await;
    assert!(code.is_some_and(|code| code != 0), "{code:?}");
    assert!(cluster.log(0).contains("the log could not be written"), "it says why");

    let trace = Trace::read(&file).await;
    let log = log_file(&cluster, kind, 0);
    let of_log = trace.calls.iter().filter(|call| call.on == log.to_str().expect("a path in UTF-8"));
    let mut flushes = of_log.filter(|call| call.flushes());
    assert!(flushes.any(|call| call.result == -1), "the flush failed");
    assert_eq!(flushes.next().map(|call| &call.name), None, "the flush was tried again");

    cluster.wrap(0, Vec::new());
    cluster.start_all().expect("it starts");
    let mut last = 0;
    for (lock, token) in &held {
        assert_eq!(holder.token(lock).await, Some(*token), "{lock}");
        last = *token;
    }
    // The outcome of the unanswered one was unknown: it may be there, under a later token.
    assert!(holder.token(&unanswered).await.is_none_or(|token| token > last));
}

#[tokio::test]
async fn the_others_go_on_and_it_comes_back() {
    for kind in EngineKind::ALL {
        check_others(kind).await;
    }
}

async fn check_others(kind: EngineKind) {
    let mut cluster = nodes(kind, 3);
    wrap(&mut cluster, 0, &["-e", "inject=fdatasync,pwritev2:error=EIO:when=40"]);
    cluster.start_all().expect("they start");
    let mut holder = Holder::open(&cluster, 1).await;
    let mut held = Vec::new();
    let mut number = 0;
    // Its flush fails while it leads or while it follows: what is acknowledged must not depend on it.
    while cluster.ended(0).is_none() {
        let lock = format!("others-go-on-{number:04}");
        number += 1;
        assert!(number < 300, "the flush did not fail");
        if let Ok(token) = holder.acquire(&lock).await {
            held.push((lock, token));
        }
    }
    super::within("the others go on", async {
        while holder.acquire("without-it").await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_ne!(leader(&cluster, 1).await, Some(0));
    cluster.wrap(0, Vec::new());
    cluster.start_node(0).expect("it starts");
    holder.go_to(&cluster, 0);
    assert!(!held.is_empty());
    for (lock, token) in &held {
        assert_eq!(holder.token(lock).await, Some(*token), "{lock}");
    }
}
