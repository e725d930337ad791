//! What the program tells of itself, without a cluster: topics, man pages, completions, settings, errors.

use std::process::Output;

use serde_json::Value;

use super::palisade;

fn run(arguments: &[&str]) -> Output {
    let output = palisade().args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(arguments: &[&str]) -> String {
    String::from_utf8(run(arguments).stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_slice(&run(arguments).stdout).unwrap()
}

#[test]
fn topics_are_pages_of_help() {
    let page = text(&["help", "fencing"]);
    assert!(page.starts_with("Fencing: why a lock alone is not enough"), "{page}");
    assert!(!page.contains("Usage:"), "{page}");
    assert_eq!(page, text(&["fencing"]));
    assert!(text(&["help", "exit-codes"]).contains("123  the lock was lost"));
    assert!(text(&["help", "environment"]).contains("PALISADE_ENDPOINTS"));
    let help = text(&["--help"]);
    assert!(help.contains("palisade help fencing") && !help.contains("  fencing "), "{help}");
}

#[test]
fn every_command_has_a_man_page_and_every_shell_its_completions() {
    let folder = tempfile::tempdir().unwrap();
    run(&["man", "--dir", folder.path().to_str().unwrap()]);
    let lock = std::fs::read_to_string(folder.path().join("palisade-lock.1")).unwrap();
    assert!(lock.contains(".TH") && lock.contains("PALISADE") || lock.contains("palisade"), "{lock}");
    assert!(folder.path().join("palisade-config-show.1").exists());
    assert!(text(&["man"]).contains(".TH palisade 1"));
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(text(&["completions", shell]).contains("wait-ready"), "{shell}");
    }
}

#[test]
fn a_setting_says_where_it_comes_from() {
    let line = ["serve", "--name", "n1", "--members", "n1=127.0.0.1:7171"];
    let arguments = [&["-o", "json", "config", "show", "--origin", "--"], &line[..]].concat();
    let output = palisade().env("PALISADE_STREAMS_MAX", "7").args(&arguments).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let setting = |name: &str| {
        let settings = document["settings"].as_array().unwrap();
        let found = settings.iter().find(|setting| setting["name"] == name);
        found
            .map(|found| (found["values"][0].as_str().map(str::to_owned), found["origin"].as_str().unwrap()))
            .unwrap()
    };
    assert_eq!(setting("--name"), (Some("n1".to_owned()), "flag"));
    assert_eq!(setting("--streams-max"), (Some("7".to_owned()), "environment"));
    assert_eq!(setting("--listen"), (Some("127.0.0.1:7170".to_owned()), "default"));
    assert_eq!(setting("--data-dir"), (None, "not set"), "what is left out may be missing");
    assert_eq!(setting("--timeout"), (Some("10s".to_owned()), "default"));

    let own = json(&["-o", "json", "--timeout", "3s", "config", "show"]);
    let timeout = own["settings"].as_array().unwrap().iter().find(|setting| setting["name"] == "--timeout");
    assert_eq!(timeout.unwrap()["origin"], "flag");
}

#[test]
fn errors_and_exit_codes_are_explained() {
    assert!(text(&["explain", "not_held"]).contains("Stop work that relied on it."));
    let lost = json(&["-o", "json", "explain", "123"]);
    assert_eq!(lost["exit"]["meaning"], "the lock was lost while the command ran; the command was stopped");
    assert!(text(&["explain", "6"]).contains("LOCK_HELD"));
    assert!(text(&["explain"]).lines().count() > 20);
    assert_eq!(palisade().args(["explain", "NO_SUCH_NAME"]).output().unwrap().status.code(), Some(5));
    assert_eq!(palisade().args(["explain", "42"]).output().unwrap().status.code(), Some(5));
}
