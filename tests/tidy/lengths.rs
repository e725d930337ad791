//! Files stay short enough to be read at once.

use super::{Text, assert_none, sources};

/// Lines of a source file, its tests included. Past it, look for the second idea in the file.
const LINES_MAX: usize = 400;

fn check(files: &[Text]) -> Vec<String> {
    let long =
        files.iter().map(|file| (file, file.text.lines().count())).filter(|(_, lines)| *lines > LINES_MAX);
    long.map(|(file, lines)| format!("{}: {lines} lines, more than {LINES_MAX}", file.path)).collect()
}

#[test]
fn no_source_file_is_long() {
    assert_none(&check(&sources()));
}

#[test]
fn a_long_file_is_found() {
    let file = |lines| Text { path: "long.rs".into(), text: "\n".repeat(lines) };
    assert!(check(&[file(LINES_MAX)]).is_empty());
    assert_eq!(check(&[file(LINES_MAX + 1)]).len(), 1);
}
