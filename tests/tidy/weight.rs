//! What whoever guards a resource links: little, unless an adapter is asked for, and never a second stack of one kind.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::{assert_none, root};

/// Packages that the resource's library brings without features, itself included.
const PACKAGES_MAX: usize = 39;
/// TLS, and SQL clients beside those of the adapters.
const FOREIGN: [&str; 11] = [
    "aws-lc-rs",
    "boring",
    "diesel",
    "mbedtls",
    "native-tls",
    "openssl",
    "openssl-sys",
    "ring",
    "rustls",
    "sqlx",
    "sqlx-core",
];

/// What the resource's library links without features. Every build has fetched that much.
fn linked() -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "-p",
            "palisade-fence",
            "-e",
            "normal",
            "--prefix",
            "none",
            "--no-dedupe",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// What anything here can link, with whatever features: name and version.
fn locked(lock: &str) -> BTreeSet<String> {
    let quoted = |line: &str, key: &str| {
        line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"').map(str::to_owned)
    };
    let names = lock.lines().filter_map(|line| quoted(line, "name"));
    // The format of the file itself has a version, but no quotes.
    let versions = lock.lines().filter_map(|line| quoted(line, "version"));
    names.zip(versions).map(|(name, version)| format!("{name} v{version}")).collect()
}

fn check_foreign(packages: &BTreeSet<String>) -> Vec<String> {
    let name = |package: &str| package.split(' ').next().unwrap_or_default().to_owned();
    let foreign = packages.iter().filter(|package| FOREIGN.contains(&name(package).as_str()));
    let mut findings: Vec<_> = foreign.map(|package| format!("{package} could be linked")).collect();
    let engines = packages.iter().filter(|package| name(package) == "libsqlite3-sys").count();
    findings.extend((engines > 1).then(|| format!("{engines} versions of SQLite")));
    findings
}

#[test]
fn a_resource_links_little() {
    let packages = linked();
    assert!(packages.len() <= PACKAGES_MAX, "{} packages: {packages:#?}", packages.len());
}

#[test]
fn the_adapters_bring_no_second_stack() {
    let packages = locked(&fs::read_to_string(root().join("Cargo.lock")).unwrap());
    assert!(packages.iter().any(|package| package.starts_with("tokio-postgres v")), "{packages:#?}");
    assert_none(&check_foreign(&packages));
}

#[test]
fn a_second_stack_is_found() {
    let lock =
        "version = 4\n\n[[package]]\nname = \"ring\"\nversion = \"0.17.14\"\ndependencies = [\n \"cc\",\n]\n";
    assert_eq!(check_foreign(&locked(lock)), ["ring v0.17.14 could be linked"]);
    let packages = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(check_foreign(&packages(&["rustls v0.23.46", "serde v1.0.0"])).len(), 1);
    assert_eq!(check_foreign(&packages(&["libsqlite3-sys v0.40.0", "libsqlite3-sys v0.30.1"])).len(), 1);
    assert!(check_foreign(&packages(&["libsqlite3-sys v0.40.0", "tokio-postgres v0.7.18"])).is_empty());
}
