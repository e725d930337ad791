//! No test is left out in silence: none is ignored, and a suite that `cargo test` leaves out says what it needs and is
//! run by `.ci/run`.

use std::fs;

use super::{Text, assert_none, manifests, root, texts};

/// How the line at the top of such a suite begins, after the comment's mark.
const NEEDS: &str = "Needs:";

fn check_needs(suite: &str, text: &str) -> Option<String> {
    let mut top = text.lines().take_while(|line| line.starts_with("//!") || line.is_empty());
    let says = top.any(|line| line.trim_start_matches("//!").trim_start().starts_with(NEEDS));
    (!says).then(|| format!("{suite}: a suite with test = false opens with a line `//! {NEEDS} …`"))
}

/// The script lists a suite as `"name:commands that it needs"`.
fn check_listed(suite: &str, script: &str) -> Option<String> {
    let listed = script.lines().any(|line| line.trim().starts_with(&format!("\"{suite}:")));
    (!listed).then(|| format!("{suite}: a suite with test = false that .ci/run does not list"))
}

fn check_ignored(files: &[Text]) -> Vec<String> {
    let ignored = files.iter().flat_map(|file| {
        let lines = file.text.lines().enumerate();
        lines.filter(|(_, line)| line.trim_start().starts_with("#[ignore")).map(move |(at, _)| (file, at + 1))
    });
    ignored.map(|(file, line)| format!("{}:{line}: an ignored test", file.path)).collect()
}

#[test]
fn suites_say_what_they_need() {
    let manifests = manifests();
    let packages = manifests["packages"].as_array().unwrap().iter();
    let targets = packages.flat_map(|package| package["targets"].as_array().unwrap());
    let suites = targets.filter(|target| target["kind"][0] == "test" && target["test"] == false);
    let script = fs::read_to_string(root().join(".ci/run")).unwrap();
    let findings = suites.flat_map(|suite| {
        let path = suite["src_path"].as_str().unwrap();
        let needs = check_needs(path, &fs::read_to_string(path).unwrap());
        [needs, check_listed(suite["name"].as_str().unwrap(), &script)].into_iter().flatten()
    });
    assert_none(&findings.collect::<Vec<_>>());
}

#[test]
fn no_test_is_ignored() {
    let files = ["crates", "tests", "benches"].into_iter().flat_map(texts);
    assert_none(&check_ignored(&files.collect::<Vec<_>>()));
}

#[test]
fn a_silent_suite_and_an_ignored_test_are_found() {
    assert!(check_needs("s", "//! Flushes.\n//!\n//! Needs: strace.\nuse std::fs;").is_none());
    assert!(check_needs("s", "//! Flushes.\nuse std::fs;\n// Needs: strace.").is_some());
    assert!(check_listed("flush", "SUITES=(\n    \"flush:strace\"\n)").is_none());
    assert!(check_listed("flush", "SUITES=(\n    # \"flush:strace\"\n)").is_some());
    let text = format!("    #[{}]\n    fn a() {{}}\n", "ignore = \"slow\"");
    assert_eq!(check_ignored(&[Text { path: "a.rs".into(), text }]).len(), 1);
}
