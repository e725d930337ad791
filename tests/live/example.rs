//! Examples of this repository, as programs to run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// An example, built as the tests are.
pub(crate) fn example(name: &str) -> PathBuf {
    built(name, &["--workspace"])
}

/// Built with Cargo's flags for the packages and features that whoever asks is built with.
pub(crate) fn built(name: &str, selected: &[&str]) -> PathBuf {
    static BUILT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_BIN_EXE_palisade")).parent().unwrap();
    let program = folder.join("examples").join(name);
    if built.contains(&program) {
        return program;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--offline", "--locked", "--example", name]).args(selected);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
    assert!(status.success(), "example {name}: {status}");
    built.insert(program.clone());
    program
}
