//! What whoever guards a resource links: little, unless an adapter is asked for, and never a second stack of one kind.

use std::collections::BTreeSet;
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

fn packages(features: &[&str]) -> BTreeSet<String> {
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
        .args(features)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn check_foreign(packages: &BTreeSet<String>) -> Vec<String> {
    let name = |package: &str| package.split(' ').next().unwrap_or_default().to_owned();
    let foreign = packages.iter().filter(|package| FOREIGN.contains(&name(package).as_str()));
    let mut findings: Vec<_> =
        foreign.map(|package| format!("the resource's library brings {package}")).collect();
    let engines = packages.iter().filter(|package| name(package) == "libsqlite3-sys").count();
    findings.extend((engines > 1).then(|| format!("{engines} versions of SQLite")));
    findings
}

#[test]
fn a_resource_links_little() {
    let packages = packages(&[]);
    assert!(packages.len() <= PACKAGES_MAX, "{} packages: {packages:#?}", packages.len());
}

#[test]
fn the_adapters_bring_no_second_stack() {
    let packages = packages(&["--all-features"]);
    assert!(packages.iter().any(|package| package.starts_with("tokio-postgres ")), "{packages:#?}");
    assert_none(&check_foreign(&packages));
}

#[test]
fn a_second_stack_is_found() {
    let packages = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(check_foreign(&packages(&["rustls v0.23.46", "serde v1.0.0"])).len(), 1);
    assert_eq!(check_foreign(&packages(&["libsqlite3-sys v0.40.0", "libsqlite3-sys v0.30.1"])).len(), 1);
    assert!(check_foreign(&packages(&["libsqlite3-sys v0.40.0", "tokio-postgres v0.7.18"])).is_empty());
}
