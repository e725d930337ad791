//! `palisade drill` with the example's worker: it passes where the service is fenced, and says what was corrupted where not.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::palisade;
use super::wrapper::alive;
use crate::live::{Live, Service, eventually, example, soon};

const LOCK: &str = "orders/shard-7";

/// Claims, is stopped in the first run, and sends an order.
const WORKER: &str = r#"
"$1" "$2" --claim
[ "$PALISADE_DRILL" != first ] || kill -STOP 0
"$1" "$2" --claimed "an order of the $PALISADE_DRILL""#;

async fn drill(live: &Live, flags: &[&str], command: &[&str]) -> Output {
    let mut drill = palisade();
    drill.args(["--endpoints", live.address(0), "drill", LOCK]).args(flags).arg("--").args(command);
    drill.stdin(Stdio::null());
    soon("the drill ends", tokio::process::Command::from(drill).output()).await.unwrap()
}

/// Over the example service, as the fault has it.
async fn over(live: &Live, folder: &Path, fault: Option<&str>, flags: &[&str]) -> (Output, Vec<String>) {
    let wrong = fault.map_or_else(Vec::new, |fault| vec!["--wrong", fault]);
    let service = Service::start(live, LOCK, &folder.join(fault.unwrap_or("right")), &wrong).await;
    let worker = example("order_worker");
    let command = ["sh", "-ec", WORKER, "worker", worker.to_str().unwrap(), &service.address];
    let output = drill(live, flags, &command).await;
    (output, service.book())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_write_is_refused_by_a_fenced_service_and_taken_by_one_that_is_not() {
    let live = Live::start(1).await;
    let folder = tempfile::tempdir().unwrap();

    // The fenced one: refused, by the code that the worker has for it.
    let (output, book) = over(&live, folder.path(), None, &["--refused-code", "4", "-o", "json"]).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["schema"], &report["verdict"]),
        (&"palisade.drill/1".into(), &"refused".into()),
        "{report}"
    );
    assert_eq!(report["stopped"], "itself");
    let token = |name: &str| report[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(token("first_token") < token("second_token"), "{report}");
    assert_eq!(book, [format!("{} an order of the second", token("second_token"))]);

    // The one that looks at no sequencer.
    let (output, book) = over(&live, folder.path(), Some("unfenced"), &["--refused-code", "4"]).await;
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(page.starts_with("ACCEPTED") && page.contains("lies over newer data"), "{page}");
    let texts: Vec<_> = book.iter().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(texts, ["an order of the second", "an order of the first"]);

    // The one that refuses what it has written: believed, until somebody looks.
    let data = folder.path().join("writes-first");
    let verify = format!("! grep \"^$PALISADE_DRILL_FIRST \" {}", data.display());
    let flags = ["--refused-code", "4", "--verify", &verify];
    let (output, book) = over(&live, folder.path(), Some("writes-first"), &flags).await;
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(
        page.contains("--verify found the resource damaged") && page.contains("an order of the first"),
        "{page}"
    );
    assert_eq!(book.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_shows_nothing_is_no_pass() {
    let live = Live::start(1).await;
    let shown = async |flags: &[&str], script: &str| {
        let output = drill(&live, flags, &["sh", "-c", script]).await;
        let page = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(2), "{page}");
        assert!(page.starts_with("NOT SHOWN"), "{page}");
        page
    };
    // Nothing left to write when its moment came.
    assert!(shown(&[], "exit 4").await.contains("before it was stopped"));
    let page = shown(&[], "[ $PALISADE_DRILL = second ] && exit 1; sleep 1000").await;
    assert!(page.contains("the second run failed"), "{page}");
    let script = "[ $PALISADE_DRILL = second ] || { kill -STOP 0; exit 1; }";
    assert!(shown(&["--refused-code", "4"], script).await.contains("not the refusal's code"));
    // Nothing ends the first run before the second one ran.
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let script = format!(
        "echo ready; [ $PALISADE_DRILL = first ] || {{ : > {ran}; exit; }}; until [ -e {ran} ]; do sleep 0.05; done; exit 4",
        ran = ran.display()
    );
    let page = shown(&["--when", "ready", "--refused-says", "STALE"], &script).await;
    assert!(page.contains("did not say"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_drill_leaves_no_stopped_command() {
    let live = Live::start(1).await;
    let mut drill = palisade();
    drill.args(["--endpoints", live.address(0), "drill", LOCK, "--ttl", "60s", "--", "sh", "-c"]);
    drill
        .arg("sleep 1000 & echo $$; kill -STOP 0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut drill = tokio::process::Command::from(drill).kill_on_drop(true).spawn().unwrap();
    let mut said = BufReader::new(drill.stderr.take().unwrap()).lines();
    let mut group = None;
    while let Some(line) = soon("the drill says something", said.next_line()).await.unwrap() {
        if let Some((_, id)) = line.split_once("| ") {
            group = Pid::from_raw(id.trim().parse().unwrap());
        }
        if line.contains("stopped itself") {
            break;
        }
    }
    let group = group.unwrap();
    assert!(alive(|_, its| its == group) >= 2);
    let id = i32::try_from(drill.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    assert_eq!(soon("the drill ends", drill.wait()).await.unwrap().code(), Some(143));
    eventually("nothing of it is left", async || (alive(|_, its| its == group) == 0).then_some(())).await;
}
