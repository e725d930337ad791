//! The pages for people hold: their code is compiled, and their links lead somewhere.

use std::fs;

use super::{Text, assert_none, manifests, root, texts};

/// The pages.
fn pages() -> Vec<Text> {
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].into_iter();
    let top =
        top.map(|path| Text { path: path.into(), text: fs::read_to_string(root().join(path)).unwrap() });
    let docs = texts("docs").into_iter().filter(|page| page.path.ends_with(".md"));
    top.chain(docs).collect()
}

/// Rust that a page shows stands in an example or in a test of the adapters, word for word.
fn check_code(page: &Text, examples: &[Text]) -> Vec<String> {
    let blocks = page.text.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
    let unknown = blocks.filter(|block| !examples.iter().any(|example| example.text.contains(*block)));
    unknown.map(|block| format!("{}: no example has this code:\n{block}", page.path)).collect()
}

/// A comment that names the page in which the item below it stands, and that item.
fn shown(text: &str) -> impl Iterator<Item = (&str, &str)> {
    const SHOWS: &str = ".md shows this";
    text.match_indices(SHOWS).filter_map(|(at, _)| {
        let page = text[..at + ".md".len()].rsplit_once("\n// ")?.1;
        let item = text[at..].split_once('\n')?.1;
        let end = item.find("\n}\n")?;
        (!page.contains('\n')).then_some((page, &item[..end + "\n}\n".len()]))
    })
}

fn check_shown(file: &Text, pages: &[Text]) -> Vec<String> {
    let stands =
        |page: &str, item: &str| pages.iter().any(|text| text.path == page && text.text.contains(item));
    let missing = shown(&file.text).filter(|(page, item)| !stands(page, item));
    missing.map(|(page, item)| format!("{}: {page} does not show this:\n{item}", file.path)).collect()
}

/// A heading's name in a link, as the usual viewers make it.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The targets of a page's links to the repository itself.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
}

/// A link's path, from the folder of its page, as it stands from the repository's.
fn resolve(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

fn check_link(page: &Text, target: &str, read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (path, section) = target.split_once('#').unwrap_or((target, ""));
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let path = if path.is_empty() { page.path.clone() } else { resolve(folder, path) };
    let Some(text) = read(&path) else { return Some(format!("{}: no {path}", page.path)) };
    let found =
        section.is_empty() || text.lines().any(|line| line.starts_with('#') && anchor(line) == section);
    (!found).then(|| format!("{}: {path} has no section {section}", page.path))
}

#[test]
fn what_pages_show_is_compiled() {
    let examples: Vec<Text> =
        ["examples", "crates/fence/tests", "tests/suites/stores"].into_iter().flat_map(texts).collect();
    assert!(!examples.is_empty());
    let pages = pages();
    let foreign = pages.iter().flat_map(|page| check_code(page, &examples));
    let missing = examples.iter().flat_map(|file| check_shown(file, &pages));
    assert_none(&foreign.chain(missing).collect::<Vec<_>>());
}

/// What stands in `examples` and is no target is compiled by nobody.
#[test]
fn every_example_is_built() {
    let manifests = manifests();
    let targets: Vec<_> = manifests["packages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|package| package["targets"].as_array().unwrap())
        .filter(|target| target["kind"][0] == "example")
        .map(|target| target["src_path"].as_str().unwrap().to_owned())
        .collect();
    let examples = texts("examples").into_iter().filter(|file| file.text.contains("fn main()"));
    let built = |file: &Text| targets.iter().any(|target| target.ends_with(&file.path));
    let missing = examples.filter(|file| !built(file));
    assert_none(&missing.map(|file| format!("{}: no target", file.path)).collect::<Vec<_>>());
}

#[test]
fn links_lead_somewhere() {
    let read = |path: &str| {
        let path = root().join(path);
        if path.is_dir() { Some(String::new()) } else { fs::read_to_string(path).ok() }
    };
    let pages = pages();
    let findings =
        pages.iter().flat_map(|page| links(&page.text).filter_map(|link| check_link(page, link, read)));
    assert_none(&findings.collect::<Vec<_>>());
}

#[test]
fn a_dead_link_and_foreign_code_are_found() {
    let page = |text: &str| Text { path: "docs/a.md".into(), text: text.into() };
    let read = |path: &str| (path == "docs/b.md").then(|| "# A title, of `b`\n".to_owned());
    assert_eq!(links("[b](b.md#x) [c](https://example.org/c)").collect::<Vec<_>>(), ["b.md#x"]);
    assert!(check_link(&page(""), "b.md#a-title-of-b", read).is_none());
    assert!(check_link(&page(""), "../docs/b.md", read).is_none());
    assert_eq!(resolve("docs/adapters", "../../crates/a.sql"), "crates/a.sql");
    assert_eq!(resolve("", "docs/b.md"), "docs/b.md");
    assert!(check_link(&page(""), "b.md#another", read).is_some());
    assert!(check_link(&page(""), "c.md", read).is_some());
    let examples = [Text { path: "examples/e.rs".into(), text: "fn a() {}\n".into() }];
    assert!(check_code(&page("```rust\nfn a() {}\n```\n```sh\nls\n```"), &examples).is_empty());
    assert_eq!(check_code(&page("```rust\nfn b() {}\n```"), &examples).len(), 1);
    let file = page("use x;\n\n// docs/a.md shows this.\nfn a() {\n    b();\n}\n\nfn c() {}\n");
    assert!(check_shown(&file, &[page("```rust\nfn a() {\n    b();\n}\n```")]).is_empty());
    assert_eq!(check_shown(&file, &[page("```rust\nfn a() {\n    c();\n}\n```")]).len(), 1);
}
