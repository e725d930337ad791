//! The table of invariants can be trusted: each test that ARCHITECTURE.md names exists.

use std::fs;

use super::{assert_none, root, texts};

/// The tests named in the last column of the table of invariants: words in backticks with several underscores.
fn named(page: &str) -> Vec<&str> {
    let section = page.split("\n## Invariants").nth(1).unwrap_or("").split("\n## ").next().unwrap_or("");
    let rows = section.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let words = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    words
        .filter(|word| word.contains('_') && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .collect()
}

fn check(page: &str, code: &str) -> Vec<String> {
    let missing = named(page).into_iter().filter(|name| !code.contains(&format!("fn {name}(")));
    missing.map(|name| format!("ARCHITECTURE.md names the test {name}, which does not exist")).collect()
}

#[test]
fn every_named_test_exists() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(!named(&page).is_empty(), "the table of invariants names no test");
    let code: String = ["crates", "tests"].into_iter().flat_map(texts).map(|file| file.text).collect();
    assert_none(&check(&page, &code));
}

#[test]
fn a_test_that_is_gone_is_found() {
    let page = "\n## Invariants\n\n| 1 | x | `a_b.rs` | `it_holds`; `Table::check_it`: not yet |\n\n## Errors\n| `no_such` |";
    assert!(check(page, "fn it_holds() {}").is_empty());
    assert_eq!(check(page, "fn it_held() {}").len(), 1);
}
