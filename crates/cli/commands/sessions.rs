//! `palisade sessions`: live sessions, what each holds and awaits, and how its holder fares.

use std::time::Duration;

use clap::Args;
use palisade_proto::convert::json;
use palisade_proto::v1;

use super::again::{AgainArgs, again};
use super::{Failure, client, view};
use crate::args::Globals;
use crate::exit::Exit;
use crate::output::{span, table};

const HEADER: [&str; 9] = ["SESSION", "CLIENT", "TTL", "LEASE", "HOLDS", "WAITS", "OPENED", "PAUSE", "LEFT"];

/// `palisade sessions`
#[derive(Debug, Args)]
#[command(
    after_help = "PAUSE is the longest time that the holder's process stood still, LEFT the least that was left of its belief in the
lease when it sent a keepalive, both as it reported them to the present leader.

Exit codes: 0 an answer, 3 no answer in time."
)]
pub(crate) struct SessionsArgs {
    /// Only clients whose names begin so
    #[arg(default_value = "")]
    pub(crate) client: String,
    /// At most so many
    #[arg(long, default_value_t = 1_000)]
    pub(crate) limit: u32,
    /// Sessions after this one: the last of the page before
    #[arg(long, default_value_t = 0)]
    pub(crate) after: u64,
    #[command(flatten)]
    pub(crate) again: AgainArgs,
}

/// An empty list is an answer, too.
pub(crate) async fn run(globals: &Globals, arguments: &SessionsArgs) -> Result<Exit, Failure> {
    let client = client(globals)?;
    again(globals, &arguments.again, async |output| {
        let list = client.list_sessions(&arguments.client, arguments.limit, arguments.after).await?;
        output.answer("palisade.sessions/1", |_| lines(&list), || json::sessions(&list))?;
        Ok(Exit::OK)
    })
    .await
}

fn lines(list: &v1::SessionList) -> String {
    let mut text = table(&HEADER, list.sessions.iter().map(row));
    if list.more
        && let Some(last) = list.sessions.last()
    {
        text.push_str(&format!("\nmore follow: --after {}", last.session));
    }
    text
}

fn row(session: &v1::SessionView) -> [String; 9] {
    let time = |ms: u64| span(Duration::from_millis(ms));
    let dash = || "–".to_owned();
    let signals = session.signals.as_ref();
    [
        session.session.to_string(),
        session.client.clone(),
        time(session.ttl_ms),
        if session.lease_left_ms > 0 { time(session.lease_left_ms) } else { dash() },
        session.holds.to_string(),
        session.waits.to_string(),
        format!("{} ago", view::ago(session.opened_at_us)),
        signals.map_or_else(dash, |signals| time(signals.pause_longest_ms)),
        signals.and_then(|signals| signals.left_least_ms).map_or_else(dash, time),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_stood_still_is_seen() {
        let signals = v1::HolderSignals {
            pause_longest_ms: 900,
            left_least_ms: Some(4_000),
            ..v1::HolderSignals::default()
        };
        let paused = v1::SessionView {
            session: 7,
            client: "worker-b".into(),
            ttl_ms: 10_000,
            holds: 2,
            signals: Some(signals),
            ..v1::SessionView::default()
        };
        let row = row(&paused);
        assert_eq!([&row[0], &row[1], &row[3], &row[4]], ["7", "worker-b", "–", "2"]);
        assert_eq!([&row[7], &row[8]], ["0.9s", "4.0s"]);
        let list = v1::SessionList { sessions: vec![paused], more: true, index: 9 };
        assert!(lines(&list).ends_with("more follow: --after 7"));
    }
}
