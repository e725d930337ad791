//! Who may use whom. ARCHITECTURE.md draws the arrows and says what the missing ones buy.

use super::{assert_none, manifests};

/// Each crate of ours with all of ours that it may use in its product.
const ARROWS: [(&str, &[&str]); 9] = [
    ("palisade", &["server", "client", "fence", "proto", "host", "core"]),
    ("palisade-testkit", &["server", "client", "fence", "raft", "proto", "host", "core"]),
    ("palisade-server", &["raft", "proto", "host", "core"]),
    ("palisade-client", &["proto", "host", "core"]),
    ("palisade-raft", &["proto", "host", "core"]),
    ("palisade-proto", &["core"]),
    ("palisade-fence", &["core"]),
    ("palisade-core", &[]),
    ("palisade-host", &[]),
];

/// Libraries that are named in one place: their names' beginning, and the crates that may depend on them.
const DOORS: [(&str, &[&str]); 3] = [
    ("openraft", &["palisade-raft"]),
    ("sled", &["palisade-raft", "palisade-fence"]),
    ("bincode", &["palisade-raft"]),
];

/// One dependency in a manifest.
struct Edge {
    from: String,
    to: String,
    dev: bool,
}

fn edges() -> Vec<Edge> {
    let manifests = manifests();
    let mut edges = Vec::new();
    for package in manifests["packages"].as_array().unwrap() {
        for dependency in package["dependencies"].as_array().unwrap() {
            edges.push(Edge {
                from: package["name"].as_str().unwrap().to_owned(),
                to: dependency["name"].as_str().unwrap().to_owned(),
                dev: dependency["kind"] == "dev",
            });
        }
    }
    edges
}

fn check(edges: &[Edge]) -> Vec<String> {
    edges.iter().filter_map(check_edge).collect()
}

fn check_edge(Edge { from, to, dev }: &Edge) -> Option<String> {
    if let Some((_, users)) = DOORS.iter().find(|(library, _)| to.starts_with(library)) {
        return (!users.contains(&from.as_str())).then(|| format!("{from} must not depend on {to}"));
    }
    let ours = to.strip_prefix("palisade-")?;
    let Some((_, allowed)) = ARROWS.iter().find(|(user, _)| user == from) else {
        return Some(format!("{from} is a new crate: draw its arrows here and in ARCHITECTURE.md"));
    };
    // Tests may look further, but core, host and proto stay where they are for whoever links them alone.
    if *dev || allowed.contains(&ours) {
        return None;
    }
    Some(format!("{from} must not depend on {to}"))
}

#[test]
fn crates_follow_the_arrows() {
    assert_none(&check(&edges()));
}

#[test]
fn a_wrong_arrow_is_found() {
    let edge = |from: &str, to: &str, dev| Edge { from: from.into(), to: to.into(), dev };
    assert!(check(&[edge("palisade-server", "palisade-raft", false)]).is_empty());
    assert!(check(&[edge("palisade", "palisade-testkit", true)]).is_empty());
    for (from, to) in [
        ("palisade-core", "palisade-host"),
        ("palisade-fence", "palisade-client"),
        ("palisade-client", "palisade-server"),
        ("palisade", "palisade-testkit"),
        ("palisade-common", "palisade-core"),
        ("palisade-server", "openraft-rt"),
        ("palisade-server", "sled"),
        ("palisade-core", "bincode"),
    ] {
        assert_eq!(check(&[edge(from, to, false)]).len(), 1, "{from} to {to}");
    }
}
