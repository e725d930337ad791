//! The paused holder, as `palisade demo` tells it: real nodes, real workers, a real pause.

use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use super::palisade;
use crate::live::Turn;

/// Runs the demo with its files below a folder of its own.
fn demo(arguments: &[&str]) -> (Output, TempDir) {
    let _turn = Turn::wait();
    let folder = tempfile::tempdir().unwrap();
    let mut demo = palisade();
    demo.args(["demo"]).args(arguments).env("TMPDIR", folder.path());
    (demo.output().unwrap(), folder)
}

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

fn events<'a>(round: &'a Value, what: &str) -> Vec<&'a Value> {
    round["events"].as_array().unwrap().iter().filter(|event| event["what"] == what).collect()
}

fn texts(round: &Value) -> Vec<&str> {
    round["file"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap()).collect()
}

#[test]
fn a_paused_holders_write_lands_in_a_plain_file_and_is_refused_by_a_guarded_one() {
    let (output, folder) = demo(&["-o", "json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let story: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(story["schema"], "palisade.demo/1");
    assert_eq!(story["ok"], true);
    let [unfenced, fenced] = story["rounds"].as_array().unwrap().as_slice() else { panic!("{story:#}") };

    assert_eq!((&unfenced["verdict"], &unfenced["stale_write"]), (&"corrupt".into(), &"accepted".into()));
    assert_eq!(texts(unfenced), ["A1", "B1", "A2"]);
    assert_eq!((&fenced["verdict"], &fenced["stale_write"]), (&"correct".into(), &"refused".into()));
    assert_eq!(texts(fenced), ["A1", "B1"]);

    // The cluster granted each tenure a higher token, and A's ended by expiry, before B's began.
    let rounds = [unfenced, fenced];
    let granted: Vec<u64> = rounds
        .iter()
        .flat_map(|round| events(round, "acquired"))
        .map(|event| number(&event["token"]))
        .collect();
    assert!(granted.len() == 4 && granted.is_sorted_by(|one, next| one < next), "{granted:?}");
    for (round, grants) in rounds.iter().zip(granted.chunks(2)) {
        assert_eq!(number(&events(round, "expired")[0]["token"]), grants[0]);
        // Its late release freed nothing and said who superseded it.
        assert_eq!(number(&events(round, "release_refused")[0]["superseded_by"]), grants[1]);
        let held = events(round, "still_held")[0];
        assert_eq!((&held["by"], number(&held["token"])), (&"B".into(), grants[1]));
    }
    let refused = events(fenced, "refused")[0];
    assert_eq!((number(&refused["token"]), number(&refused["mark"])), (granted[2], granted[3]));
    assert_left_nothing(&folder);
}

#[test]
fn one_round_is_told_and_drawn_alone() {
    let picture = tempfile::NamedTempFile::new().unwrap();
    let (output, folder) = demo(&["--round", "unfenced", "--svg", picture.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("ROUND 1  the resource does not check the token"), "{page}");
    assert!(page.contains("✗ CORRUPT") && !page.contains("ROUND 2"), "{page}");
    let picture = std::fs::read_to_string(picture.path()).unwrap();
    assert!(picture.contains("✗ CORRUPT") && !picture.contains(r#"class="fenced""#));
    assert_left_nothing(&folder);
}

#[test]
fn a_pause_within_the_lease_is_no_demo() {
    let (output, _) = demo(&["--ttl", "3s", "--pause", "2s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}

/// Neither files nor processes that name them.
fn assert_left_nothing(folder: &TempDir) {
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    #[cfg(target_os = "linux")]
    assert_eq!(below(folder), Vec::<String>::new());
}

/// The command lines that name the folder, of processes that are alive.
#[cfg(target_os = "linux")]
fn below(folder: &TempDir) -> Vec<String> {
    let name = folder.path().to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    processes.filter(|line| line.contains(name)).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_demo_takes_its_nodes_and_workers_along() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let folder = tempfile::tempdir().unwrap();
    let mut demo = palisade();
    demo.arg("demo").env("TMPDIR", folder.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut demo = demo.spawn().unwrap();
    let mut said = BufReader::new(demo.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("leader")));
    assert!(!below(&folder).is_empty());
    demo.kill().unwrap();
    demo.wait().unwrap();
    while !below(&folder).is_empty() {
        std::thread::yield_now();
    }
}
