//! Every metric is described to its reader: `docs/metrics.md` names what a node exposes, and nothing else.

use std::collections::BTreeSet;
use std::fs;

use super::{assert_none, has_word, root, texts};

/// The names that a source registers: the first text after each `register(`, with the product's prefix.
fn registered(source: &str) -> BTreeSet<String> {
    let calls = source.split("register").skip(1).filter_map(|rest| {
        let arguments = rest.split_once('(')?.1.trim_start();
        let name = arguments.strip_prefix('"')?.split('"').next()?;
        Some(if name.starts_with("palisade_") { name.to_owned() } else { format!("palisade_{name}") })
    });
    calls.collect()
}

/// The metric names that a page mentions.
fn documented(page: &str) -> BTreeSet<&str> {
    page.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("palisade_"))
        .collect()
}

/// Suffixes that the exposition adds to a registered name.
const SUFFIXES: [&str; 5] = ["", "_total", "_bucket", "_sum", "_count"];

fn check(names: &BTreeSet<String>, page: &str) -> Vec<String> {
    let exposed = |name: &str, suffix: &str| format!("{name}{suffix}");
    let missing =
        names.iter().filter(|name| !SUFFIXES.iter().any(|suffix| has_word(page, &exposed(name, suffix))));
    let missing = missing.map(|name| format!("{name} is not in docs/metrics.md"));
    let known =
        |word: &str| names.iter().any(|name| SUFFIXES.iter().any(|suffix| word == exposed(name, suffix)));
    let stale = documented(page).into_iter().filter(|word| !known(word) && !word.ends_with('_'));
    missing.chain(stale.map(|word| format!("docs/metrics.md names {word}, which no node exposes"))).collect()
}

#[test]
fn every_metric_is_documented() {
    let Ok(page) = fs::read_to_string(root().join("docs/metrics.md")) else { return };
    let sources = texts("crates/server/src").into_iter().filter(|file| file.path.contains("metrics"));
    let names: BTreeSet<String> = sources.flat_map(|file| registered(&file.text)).collect();
    assert!(!names.is_empty(), "docs/metrics.md describes metrics, but none is registered");
    assert_none(&check(&names, &page));
}

#[test]
fn a_metric_without_its_line_is_found() {
    let names = registered(
        "registry.register(\"grants\", \"Grants\", g);\nr.register(\n    \"palisade_term\", \"T\", t);",
    );
    assert_eq!(names, ["palisade_grants", "palisade_term"].map(String::from).into());
    assert!(check(&names, "`palisade_grants_total`, `palisade_term`").is_empty());
    assert_eq!(check(&names, "`palisade_grants_total`").len(), 1);
    assert_eq!(check(&names, "`palisade_grants_total`, `palisade_term`, `palisade_gone`").len(), 1);
}
