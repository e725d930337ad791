//! `palisade status`: one sentence about the cluster, and a line for each node.

use std::time::Duration;

use palisade_client::{CallError, Client};
use palisade_proto::convert::json;
use palisade_proto::v1;
use tokio::time::{Instant, sleep_until};

use super::again::again;
use super::{Failure, client};
use crate::args::{Globals, StatusArgs};
use crate::exit::Exit;
use crate::output::{Output, Tone, span, table};

const HEADER: [&str; 9] =
    ["NODE", "ROLE", "PEERS", "CLIENTS", "APPLIED", "LAG", "FLUSH p99", "UPTIME", "VERSION"];
/// How often `--wait-ready` asks.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Yes when a quorum answered lately.
pub(crate) async fn run(globals: &Globals, arguments: &StatusArgs) -> Result<Exit, Failure> {
    let client = client(globals)?;
    again(globals, &arguments.again, async |output| {
        let status = ask(&client, globals, arguments).await?;
        output.answer("palisade.status/1", |output| lines(output, &status), || json::status(&status))?;
        Ok(if status.healthy { Exit::OK } else { Exit::NO })
    })
    .await
}

async fn ask(
    client: &Client,
    globals: &Globals,
    arguments: &StatusArgs,
) -> Result<v1::StatusAnswer, Failure> {
    let deadline = Instant::now() + globals.timeout;
    loop {
        let asked = client.status(arguments.local).await;
        let again = Instant::now() + ASK_AGAIN;
        let done =
            asked.as_ref().is_ok_and(|status| status.healthy) || !arguments.wait_ready || again > deadline;
        match asked {
            asked if done => return Ok(asked?),
            Ok(_) | Err(CallError::Unavailable { .. }) => sleep_until(again).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// How the cluster is, in one line.
pub(super) fn sentence(output: Output, status: &v1::StatusAnswer) -> String {
    let state = if status.healthy {
        output.paint(Tone::Good, "Healthy")
    } else {
        output.paint(Tone::Bad, "No quorum")
    };
    let leader = status.leader.as_ref().map_or("", |leader| leader.name.as_str());
    let leader = if leader.is_empty() { "no leader known".to_owned() } else { format!("leader {leader}") };
    let voters = status.nodes.iter().filter(|node| node.role != "learner");
    let (up, all) = (voters.clone().filter(|node| node.role != "unreachable").count(), voters.count());
    format!(
        "{state}: {leader} (term {}), {up} of {all} voters, commit {}, {} locks held, {} waiters, {} sessions, token base {}",
        status.term,
        committed(status),
        status.locks_held,
        status.waiters,
        status.sessions,
        status.token_base
    )
}

fn lines(output: Output, status: &v1::StatusAnswer) -> String {
    let committed = committed(status);
    let rows = status.nodes.iter().map(|node| {
        let known = node.role != "unreachable";
        let or_dash = |text: String| if known { text } else { "–".to_owned() };
        [
            node.name.clone(),
            node.role.clone(),
            node.peer_address.clone(),
            node.client_address.clone(),
            or_dash(node.applied.to_string()),
            or_dash(committed.saturating_sub(node.applied).to_string()),
            or_dash(format!("{:.1} ms", node.flush_p99_us as f64 / 1_000.0)),
            or_dash(span(Duration::from_secs(node.uptime_s))),
            or_dash(node.version.clone()),
        ]
    });
    format!("{}\n{}", sentence(output, status), table(&HEADER, rows))
}

/// The furthest commit that any node told of.
fn committed(status: &v1::StatusAnswer) -> u64 {
    status.nodes.iter().map(|node| node.committed).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn output() -> Output {
        Output::new(
            &crate::args::Cli::try_parse_from(["palisade", "--color", "never", "status"]).unwrap().globals,
        )
    }

    #[test]
    fn an_unreachable_voter_counts_as_one_that_is_missing() {
        let node = |name: &str, role: &str, applied| v1::NodeStatus {
            name: name.into(),
            role: role.into(),
            applied,
            committed: applied,
            ..v1::NodeStatus::default()
        };
        let status = v1::StatusAnswer {
            healthy: true,
            term: 4,
            leader: Some(v1::Leader { name: "n2".into(), ..v1::Leader::default() }),
            nodes: vec![node("n1", "follower", 17), node("n2", "leader", 18), node("n3", "unreachable", 0)],
            ..v1::StatusAnswer::default()
        };
        let text = lines(output(), &status);
        assert!(text.starts_with("Healthy: leader n2 (term 4), 2 of 3 voters, commit 18, "), "{text}");
        assert!(text.contains("n3    unreachable"), "{text}");
        assert_eq!(json::status(&status)["nodes"][0]["applied"], "17");
    }
}
