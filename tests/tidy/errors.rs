//! Every error is described to its reader: `docs/errors.md` has the rows of the code's table, and no others.
//!
//! The exit codes are checked beside the code that gives them, in the program.

use std::fs;

use palisade_proto::convert::ErrorName;

use super::{assert_none, root};

/// As the protocol spells a code.
fn spelled(code: impl std::fmt::Debug) -> String {
    let mut spelled = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && !spelled.is_empty() {
            spelled.push('_');
        }
        spelled.push(letter.to_ascii_uppercase());
    }
    spelled
}

/// The first three cells of a row, as the page must have them.
fn expected(name: ErrorName) -> String {
    let (name, code, http) = name.row();
    format!("| `{name}` | `{}` | {http} |", spelled(code))
}

fn check(page: &str) -> Vec<String> {
    let rows: Vec<&str> = page.lines().filter(|line| is_row(line)).collect();
    let known: Vec<String> = ErrorName::ALL.map(expected).into();
    let missing = known.iter().filter(|row| !rows.iter().any(|found| found.starts_with(row.as_str())));
    let missing = missing.map(|row| format!("docs/errors.md has no row {row}"));
    let stale = rows.iter().filter(|found| !known.iter().any(|row| found.starts_with(row.as_str())));
    missing.chain(stale.map(|row| format!("docs/errors.md has a row that the code has not: {row}"))).collect()
}

/// Rows of errors begin with a name in capitals.
fn is_row(line: &str) -> bool {
    let name = line.strip_prefix("| `").and_then(|rest| rest.split('`').next());
    name.is_some_and(|name| name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_'))
}

#[test]
fn every_error_is_documented() {
    assert_none(&check(&fs::read_to_string(root().join("docs/errors.md")).unwrap()));
}

#[test]
fn an_error_without_its_row_is_found() {
    let all = ErrorName::ALL.map(expected).join("\n");
    assert!(check(&all).is_empty());
    assert_eq!(check(all.split_once('\n').unwrap().1).len(), 1);
    assert_eq!(check(&format!("{all}\n| `GONE` | `UNKNOWN` | 500 |")).len(), 1);
    assert_eq!(check(&all.replacen("404", "400", 1)).len(), 2);
}
