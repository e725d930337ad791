//! Every error is described to its reader: `docs/errors.md` has the rows of the code's table, and no others.

use std::fs;

use palisade_proto::convert::error::{ErrorName, Row};

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

/// A row, as the page must have it.
fn expected(name: ErrorName) -> String {
    let Row { name, code, http, exit, meaning, advice } = name.row();
    format!("| `{name}` | `{}` | {http} | {exit} | {meaning} | {advice} |", spelled(code))
}

fn check(page: &str) -> Vec<String> {
    let rows: Vec<&str> = page.lines().filter(|line| is_row(line)).collect();
    let known: Vec<String> = ErrorName::ALL.map(expected).into();
    let missing = known.iter().filter(|row| !rows.iter().any(|found| found == row));
    let missing = missing.map(|row| format!("docs/errors.md has no row {row}"));
    let stale = rows.iter().filter(|found| !known.iter().any(|row| row == *found));
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
    assert_eq!(check(&all.replacen("Stop work", "Go on", 1)).len(), 2);
}
