//! Keeps the house: what the compiler cannot forbid, a test does.
//!
//! Each check is a pure function from text to findings, proved once on a bad sample, and one test that runs it over
//! the repository. What clippy or rustfmt can check is not here.

mod arrows;
mod cases;
mod errors;
mod invariants;
mod lengths;
mod metrics;
mod pages;
mod suites;
mod weight;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository: its path from the root, with slashes, and its text.
struct Text {
    path: String,
    text: String,
}

/// Every text file of ours below `folder`, in order; built things, Git's own and the lock file left out.
fn texts(folder: &str) -> Vec<Text> {
    let mut found = Vec::new();
    collect(&root().join(folder), &mut found);
    found.sort();
    let texts = found.into_iter().filter_map(|path| {
        let text = fs::read_to_string(&path).ok()?;
        let path = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
        Some(Text { path, text })
    });
    texts.collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    const SKIPPED: [&str; 5] = [".git", "target", "data", "Cargo.lock", "node_modules"];
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let entry = entry.unwrap();
        if SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

/// Every Rust source of the crates, the program included.
fn sources() -> Vec<Text> {
    texts("crates").into_iter().filter(|file| file.path.ends_with(".rs")).collect()
}

/// What Cargo reads from the manifests.
fn manifests() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether `text` contains `word` with no letter, digit or underscore on either side.
fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(part) && !text[at + word.len()..].starts_with(part))
}

/// Fails with every finding at once.
fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn a_word_is_found_only_whole() {
    assert!(has_word("use rand::Rng;", "rand"));
    assert!(!has_word("use operand::Rng;", "rand"));
    assert!(!has_word("let rand_core = 1;", "rand"));
}
