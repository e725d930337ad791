//! Answers for scripts: every command that answers gives one document with a schema.

use std::collections::BTreeSet;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use super::palisade;
use crate::live::{Live, name};

/// They run something, or go on: what the watch, the bench, the elections, the operator's commands, the demo, the drill and conform tell is looked at where they are run.
const SILENT: [&str; 14] = [
    "serve",
    "dev",
    "lock",
    "elect",
    "admin",
    "watch",
    "storage",
    "bench",
    "conform",
    "demo",
    "drill",
    "help",
    "man",
    "completions",
];

/// The commands that the program lists.
fn commands() -> BTreeSet<String> {
    let help = String::from_utf8(palisade().arg("--help").output().unwrap().stdout).unwrap();
    let section = help.split("\nCommands:\n").nth(1).unwrap();
    let lines = section.lines().take_while(|line| !line.is_empty());
    // Further lines of one command are indented deeper.
    let first = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    first.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
}

fn ask(live: &Live, arguments: &[&str]) -> Output {
    palisade().args(["--endpoints", live.address(0), "-o", "json"]).args(arguments).output().unwrap()
}

/// No number is so wide that a reader of JSON could lose some of it.
fn assert_no_wide_number(value: &Value) {
    match value {
        Value::Number(number) => {
            assert!(number.as_u64().is_some_and(|number| number < 1 << 32), "{number} is a number");
        }
        Value::Array(items) => items.iter().for_each(assert_no_wide_number),
        Value::Object(fields) => fields.values().for_each(assert_no_wide_number),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_that_answers_answers_scripts_as_well() {
    let live = Live::start(1).await;
    let client = live.client(Duration::from_secs(60));
    let session = client.open_session().await.unwrap();
    let guard = session.lock(name("orders")).with_sequencer().acquire().await.unwrap();
    let sequencer = guard.sequencer().await.unwrap();
    let asked: [(&[&str], i32); 18] = [
        (&["sessions"], 0),
        (&["sessions", "no-such-prefix"], 0),
        (&["top"], 0),
        (&["config", "show"], 0),
        (&["explain", "lock_held"], 0),
        (&["explain", "3"], 0),
        (&["status"], 0),
        (&["status", "--local"], 0),
        (&["who", "orders"], 0),
        (&["who", "nobody/holds/this"], 1),
        (&["why", "orders"], 0),
        (&["history", "orders"], 0),
        (&["audit"], 0),
        (&["audit", "orders", "--since", "1h"], 0),
        (&["locks"], 0),
        (&["locks", "no-such-prefix"], 0),
        (&["check", &sequencer], 0),
        (&["check", "--lock", "another", &sequencer], 1),
    ];
    for (arguments, code) in asked {
        let answer = ask(&live, arguments);
        let said = String::from_utf8_lossy(&answer.stderr);
        assert_eq!(answer.status.code(), Some(code), "{arguments:?}: {said}");
        let document: Value = serde_json::from_slice(&answer.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?} answers no document: {error}"));
        assert_eq!(document["schema"], format!("palisade.{}/1", arguments[0]), "{document}");
        assert_no_wide_number(&document);
    }
    let answered: BTreeSet<String> = asked.iter().map(|(arguments, _)| arguments[0].to_owned()).collect();
    let all = answered.into_iter().chain(SILENT.map(str::to_owned)).collect::<BTreeSet<_>>();
    assert_eq!(commands().difference(&all).count(), 0, "{:?}", commands());
    guard.release().await.unwrap();
    client.close().await;
}
