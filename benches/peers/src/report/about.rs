//! The machine, what ran on it, and how it was asked to.

use serde_json::Value;

use super::measured::Measured;

/// Of the line that tells of the machine; nothing without one.
pub(super) fn machine(measured: &Measured) -> String {
    let Some(machine) = &measured.machine else { return String::new() };
    let word = |name: &str| machine[name].as_str().unwrap_or("unknown");
    let versions = machine["versions"].as_array().cloned().unwrap_or_default();
    let ran = measured.labels();
    let ran =
        |version: &&str| !version.starts_with("postgres") || ran.iter().any(|label| label.starts_with("pg-"));
    let versions: Vec<&str> = versions.iter().filter_map(Value::as_str).filter(ran).collect();
    format!(
        "{} cores ({}), {} of memory, Linux {}, data on {}; {}. Versions: {}. Command:\n\n    {}\n",
        machine["cores"],
        word("processor"),
        word("memory"),
        word("kernel"),
        word("filesystem"),
        word("date"),
        versions.join("; "),
        word("command"),
    )
}
