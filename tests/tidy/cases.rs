//! The table of what others met can be trusted: each test that `tests/CASES.md` names exists, and each test that bears
//! the number of a case stands in its line.

use std::collections::BTreeMap;
use std::fs;

use super::{assert_none, root, texts};

/// By its number, the last cell of a case's line.
fn cases(page: &str) -> BTreeMap<u32, &str> {
    let rows = page.lines().filter_map(|line| {
        let (number, rest) = line.strip_prefix("| B")?.split_once(' ')?;
        let shown = rest.trim_end_matches([' ', '|']).rsplit('|').next()?;
        Some((number.parse().ok()?, shown))
    });
    rows.collect()
}

/// The words in backticks.
fn named(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The cases that a test's name begins with: `b01_b04_` is of two.
fn numbers(test: &str) -> Vec<u32> {
    let leading = test.split('_').map_while(|word| word.strip_prefix('b')?.parse().ok());
    leading.collect()
}

/// Each function whose name begins with the number of a case.
fn numbered(code: &str) -> Vec<&str> {
    let names = code.lines().filter_map(|line| line.split_once("fn ")?.1.split_once('('));
    names.map(|(name, _)| name).filter(|name| !numbers(name).is_empty()).collect()
}

fn check(page: &str, code: &str) -> Vec<String> {
    let cases = cases(page);
    let mut found = Vec::new();
    for (number, shown) in &cases {
        if named(shown).next().is_none() && !shown.contains("Not covered") {
            found.push(format!("B{number:02} names no test, and does not say that it is not covered"));
        }
        let missing = named(shown).filter(|name| !code.contains(&format!("fn {name}(")));
        found.extend(missing.map(|name| format!("B{number:02} names the test {name}, which does not exist")));
    }
    for test in numbered(code) {
        let unnamed = numbers(test)
            .into_iter()
            .filter(|number| cases.get(number).is_none_or(|shown| named(shown).all(|name| name != test)));
        found.extend(unnamed.map(|number| format!("{test} is not in the line of B{number:02}")));
    }
    found
}

#[test]
fn every_case_names_its_tests() {
    let page = fs::read_to_string(root().join("tests/CASES.md")).unwrap();
    assert!(!cases(&page).is_empty(), "the table has no case");
    let files = ["crates", "tests"].into_iter().flat_map(texts).filter(|file| file.path.ends_with(".rs"));
    let code: String = files.map(|file| file.text).collect();
    assert_none(&check(&page, &code));
}

#[test]
fn a_case_without_its_test_is_found() {
    let page = "| B07 | x#1 | y | `it_holds`, `b07_b09_it_does` |\n| B09 | x#2 | y | Not covered: z |";
    let code =
        |names: &[&str]| names.iter().map(|name| format!("    fn {name}() {{}}\n")).collect::<String>();
    // One of two lines has the test of both.
    let found = check(page, &code(&["it_holds", "b07_b09_it_does"]));
    assert_eq!(found, ["b07_b09_it_does is not in the line of B09"]);
    let page = page.replace("Not covered: z", "`b07_b09_it_does`");
    assert!(check(&page, &code(&["it_holds", "b07_b09_it_does"])).is_empty());
    assert_eq!(check(&page, &code(&["b07_b09_it_does"])).len(), 1, "a test that is gone");
    assert_eq!(check(&page, &code(&["it_holds", "b07_b09_it_does", "b8_new"])).len(), 1, "a test in no line");
    assert_eq!(check("| B07 | x#1 | y | surely |", "").len(), 1, "a line that shows nothing");
}
