//! With one voter, the client's answer is the acknowledgement.

use std::fs;

use palisade_raft::EngineKind;
use rustix::process::Signal;

use super::holder::Holder;
use super::http2::{Exchange, exchanges};
use super::trace::{Trace, holds, wrap};
use super::{data, log_file, nodes};

#[tokio::test]
async fn a_client_is_answered_after_the_flush_of_what_it_asked_for() {
    for kind in EngineKind::ALL {
        check(kind).await;
    }
}

async fn check(kind: EngineKind) {
    let mut cluster = nodes(kind, 1);
    let file = wrap(&mut cluster, 0, &[]);
    cluster.start_all().expect("it starts");
    let held = Holder::open(&cluster, 0).await.acquire_many("answered-after-the-flush", 40).await;
    cluster.signal(0, Signal::TERM);
    let trace = Trace::read(&file).await;

    let log = log_file(&cluster, kind, 0);
    let calls = exchanges(&trace.calls, &cluster.nodes()[0].client_address);
    for (lock, _) in &held {
        let asks =
            |call: &&Exchange| call.requests.iter().any(|message| holds(&message.bytes, lock.as_bytes()));
        let call = calls.iter().find(asks).unwrap_or_else(|| panic!("no request for {lock} in the trace"));
        let (read, answered) = (call.requests[0].at, call.answered.expect("it was answered"));
        let durable = trace.durable(&log, lock.as_bytes(), read);
        assert!(
            durable.is_some_and(|durable| durable < answered),
            "{lock}: read at line {read}, durable at {durable:?}, answered at {answered}"
        );
    }
    if kind == EngineKind::Sled {
        let blobs = fs::read_dir(data(&cluster, 0).join("log/blobs")).expect("the store has it");
        assert_eq!(blobs.count(), 0, "a blob is a file that no flush covers");
    }
}
