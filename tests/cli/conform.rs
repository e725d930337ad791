//! `palisade conform` over the example service, over HTTP and in gRPC: it is right, and each fault of it is noticed by the
//! scenarios that are about it, and by no other.

use std::collections::BTreeSet;
use std::process::Output;

use serde_json::Value;

use super::palisade;
use crate::live::{Live, Service};

const LOCK: &str = "orders/shard-7";

/// Each fault with what it gets wrong.
const FAULTS: [(&str, &[&str]); 11] = [
    ("unfenced", &UNFENCED),
    (
        "accepts-stale",
        &[
            "stale_after_newer",
            "claim_then_stale",
            "identical_bytes",
            "refused_once_refused_always",
            "shared_claim_and_write",
            "concurrent_racers",
            "marks_survive_reopening",
        ],
    ),
    ("accepts-unsigned", &["forged_moves_no_mark", "unknown_key", "other_cluster"]),
    ("accepts-missing", &["missing_token"]),
    ("ignores-lock", &["wrong_lock"]),
    ("ignores-mode", &["shared_claim_and_write"]),
    ("claims-nothing", &["claim_then_stale", "shared_claim_and_write", "marks_survive_reopening"]),
    ("compares-first", &["concurrent_racers"]),
    (
        "writes-first",
        &[
            "stale_after_newer",
            "claim_then_stale",
            "refused_once_refused_always",
            "shared_claim_and_write",
            "concurrent_racers",
            "marks_survive_reopening",
        ],
    ),
    ("forgets-marks", &["marks_survive_reopening"]),
    ("answers500", &UNFENCED),
];

/// All but what a true holder sees.
const UNFENCED: [&str; 13] = [
    "stale_after_newer",
    "claim_then_stale",
    "identical_bytes",
    "refused_once_refused_always",
    "missing_token",
    "malformed",
    "forged_moves_no_mark",
    "unknown_key",
    "other_cluster",
    "wrong_lock",
    "shared_claim_and_write",
    "concurrent_racers",
    "marks_survive_reopening",
];

/// A way to the service: its scheme, and what writes, claims and reads.
struct Way {
    scheme: &'static str,
    write: &'static str,
    claim: &'static str,
    read: &'static str,
}

const HTTP: Way = Way { scheme: "http", write: "POST /orders", claim: "POST /claim", read: "/orders" };
const GRPC: Way = Way {
    scheme: "grpc",
    write: "orders.v1.Orders/Append",
    claim: "orders.v1.Orders/Claim",
    read: "orders.v1.Orders/List",
};

/// In a thread of its own: the service's output is read meanwhile.
async fn conform(live: &Live, service: &Service, way: &Way, more: &[&str]) -> Output {
    let mut command = palisade();
    let url = format!("{}://{}", way.scheme, service.address);
    command.args(["--endpoints", live.address(0), "conform", &url]);
    command.args(["--lock", LOCK, "--write", way.write]).args(more);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn named<'a>(report: &'a Value, is: &str) -> BTreeSet<&'a str> {
    let scenarios = report["scenarios"].as_array().unwrap().iter();
    scenarios.filter(|one| one["is"] == is).map(|one| one["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_service_passes_and_each_fault_is_noticed() {
    each_fault_is_noticed(&HTTP).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_grpc_service_passes_and_each_fault_is_noticed() {
    each_fault_is_noticed(&GRPC).await;
}

async fn each_fault_is_noticed(way: &Way) {
    let live = Live::start(1).await;
    let folder = tempfile::tempdir().unwrap();
    let right = (None, &[][..]);
    let all = FAULTS.iter().map(|(fault, wrong)| (Some(*fault), *wrong));
    for (fault, wrong) in std::iter::once(right).chain(all) {
        let flags = fault.map_or_else(Vec::new, |fault| vec!["--wrong", fault]);
        let data = folder.path().join(fault.unwrap_or("right"));
        let service = Service::start(&live, LOCK, &data, &flags).await;
        let restart = service.restart();
        let flags = ["--claim", way.claim, "--read", way.read, "--restart", &restart, "-o", "json"];
        let output = conform(&live, &service, way, &flags).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(i32::from(fault.is_some())), "{fault:?}: {said}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["schema"], "palisade.conform/1");
        assert_eq!(report["ok"], fault.is_none());
        assert_eq!(named(&report, "wrong"), wrong.iter().copied().collect(), "{fault:?}: {report:#}");
        assert!(named(&report, "not_run").is_empty(), "{report:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_told_is_not_run_and_said() {
    let live = Live::start(1).await;
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&live, LOCK, &folder.path().join("orders"), &[]).await;
    let output = conform(&live, &service, &HTTP, &[]).await;
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{page}");
    assert!(page.contains("13 right, 0 wrong, 2 not run"), "{page}");
    assert!(page.contains("no --claim") && page.contains("no --restart"), "{page}");
    let tokens: Vec<u64> =
        service.book().iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(tokens.len() > 12 && tokens.is_sorted(), "{tokens:?}");

    // A wrong lock is not found to be right because every write is refused.
    let output = conform(&live, &service, &HTTP, &["--lock", "another"]).await;
    assert_eq!(output.status.code(), Some(2), "the flag stands twice");
    drop(service);
    let service = Service::start(&live, "another", &folder.path().join("another"), &[]).await;
    let output = conform(&live, &service, &HTTP, &[]).await;
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(page.contains("current_token") && page.contains("WRONG_LOCK"), "{page}");
}

#[test]
fn a_service_that_is_not_there_is_no_verdict() {
    let conform = |url: &str, more: &[&str]| {
        let mut command = palisade();
        command.args(["conform", url, "--lock", LOCK]).args(more);
        command.output().unwrap().status.code()
    };
    // A port that was free a moment ago, at an address that nobody uses.
    assert_eq!(conform("http://127.43.0.1:9", &[]), Some(3));
    assert_eq!(conform("https://127.43.0.1:9", &[]), Some(2));
    assert_eq!(conform("http://127.43.0.1:9", &["--read", "/", "--body", "no place for a mark"]), Some(2));
    assert_eq!(conform("grpc://127.43.0.1:9", &["--write", "orders.v1.Orders/Append"]), Some(3));
    assert_eq!(conform("grpc://127.43.0.1:9", &[]), Some(2), "POST / is no method of a service");
    assert_eq!(conform("http://127.43.0.1:9", &["--write", "orders.v1.Orders/Append"]), Some(2));
    let names = ["--write", "orders.v1.Orders/Append", "--body", r#"{"line": "{id}"}"#];
    assert_eq!(conform("grpc://127.43.0.1:9", &names), Some(2));
}

/// What the service refuses in gRPC is told in the names of gRPC.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_the_service_does_not_have_is_told() {
    let live = Live::start(1).await;
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&live, LOCK, &folder.path().join("orders"), &[]).await;
    let absent = Way { write: "orders.v1.Orders/Absent", ..GRPC };
    let output = conform(&live, &service, &absent, &[]).await;
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(page.contains("UNIMPLEMENTED"), "{page}");
    assert!(page.contains("in place of FAILED_PRECONDITION"), "{page}");
}
