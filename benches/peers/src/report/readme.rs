//! The README's section: short, with the rows where Palisade is not first.

use std::collections::BTreeMap;
use std::path::Path;

use super::about;
use super::headlines::{Headline, PEERS, tried};
use super::measured::Measured;
use super::numbers::{Rounds, number, thousands};

/// `plot`: where the picture is, as the README links it.
pub(super) fn section(measured: &Measured, plot: Option<&str>) -> String {
    let headlines = tried(measured);
    let mut parts = vec![clients(measured)];
    parts.extend(plot.map(|plot| format!("![How many times better than its peers Palisade is]({plot})\n")));
    parts.push(table(measured, &headlines));
    parts.push(behind(measured, &headlines));
    parts.push(about::machine(measured));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// What the clients did.
fn clients(measured: &Measured) -> String {
    let leases = measured.any("w3").and_then(|line| line["leases"].as_u64()).unwrap_or_default();
    let keepalives = match leases {
        0 => String::new(),
        leases => {
            format!("\nKeepalives are those of {} sessions with a TTL of 10 s.", thousands(leases as f64))
        }
    };
    format!(
        "Three nodes each on one machine, as processes beside the load generator, in {} interleaved rounds; every
service with its defaults, flushed to the disk before it answers. In a *cycle* each task acquires and releases a lock of
its own (Palisade by its Rust client, etcd by its lock calls, ZooKeeper by its recipe), and tasks share a few connections.
For hand-offs 32 sessions queue for one lock; checks ask whether a token is still current, never from stale state.{keepalives}
A lost leader counts until the first grant whose request began afterwards. *One Redis* (`appendfsync always`) is not
replicated and gives no tokens; the *floor* is no lock service, but the least that a replicated log of three nodes does
on this machine.
",
        measured.rounds()
    )
}

fn table(measured: &Measured, headlines: &[&Headline]) -> String {
    let cell = |rounds: &Rounds| match rounds.values.is_empty() {
        true => rounds.middle(),
        false => {
            let [middle, least, most] = [rounds.median(), rounds.least(), rounds.most()].map(number);
            let void = if rounds.void > 0 { format!(", {} void", rounds.void) } else { String::new() };
            format!("{middle} ({least}–{most}{void})")
        }
    };
    let row = |headline: &&Headline| {
        let cells: Vec<String> = PEERS.iter().map(|peer| cell(&headline.better(measured, peer))).collect();
        let own = headline.own(measured);
        let own = format!("{} {}", own.middle(), headline.measure.unit);
        format!("| {} | {own} | {} |", headline.says, cells.join(" | "))
    };
    let rows: Vec<String> = headlines.iter().map(row).collect();
    let peers = PEERS.map(|peer| format!("than {}", peer.name)).join(" | ");
    format!(
        "How many times better than each: the median of the ratios within a round, with the least and the most. \
         Below 1 it is worse.\n\n| | Palisade | {peers} |\n|---|---|---|---|---|---|\n{}\n",
        rows.join("\n")
    )
}

/// Who is ahead, and where.
fn behind(measured: &Measured, headlines: &[&Headline]) -> String {
    let mut by_peers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for headline in headlines {
        let ahead = headline.behind(measured);
        if !ahead.is_empty() {
            by_peers.entry(ahead.join(" and ")).or_default().push(headline.says);
        }
    }
    let lines: Vec<String> =
        by_peers.iter().map(|(peers, rows)| format!("- {peers}: {}", rows.join("; "))).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("Where Palisade is not first, and who is ahead of it:\n\n{}\n", lines.join("\n")),
    }
}

/// How the page links `plot`: both as they were named on the command line.
pub(super) fn link(page: &Path, plot: &Path) -> String {
    let folder = page.parent().unwrap_or(page);
    plot.strip_prefix(folder).unwrap_or(plot).display().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_rows_where_palisade_is_not_first_are_told() {
        let mut measured = Measured::default();
        for (label, rate) in
            [("palisade", 100.0), ("etcd-lock", 10.0), ("redis-always", 101.0), ("floor", 200.0)]
        {
            let m = json!({ "rate": rate, "units": 1_000 });
            measured.add(json!({ "workload": "w1", "tasks": 64, "backend": label, "round": 1, "m": m }));
        }
        let text = section(&measured, Some("docs/peers.svg"));
        assert!(text.contains("- one Redis and the floor: acquire and release, 64 tasks\n"), "{text}");
        assert!(
            text.contains("| 100 /s | 10.0 (10.0–10.0) | – | 0.99 (0.99–0.99) | 0.50 (0.50–0.50) |"),
            "{text}"
        );
        assert!(text.contains("(docs/peers.svg)"), "{text}");
    }

    #[test]
    fn the_picture_is_linked_from_the_page_s_folder() {
        let link = |page: &str, plot: &str| link(Path::new(page), Path::new(plot));
        assert_eq!(link("../../README.md", "../../docs/peers.svg"), "docs/peers.svg");
        assert_eq!(link("README.md", "docs/peers.svg"), "docs/peers.svg");
    }
}
