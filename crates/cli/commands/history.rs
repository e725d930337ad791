//! `palisade history` and `palisade audit`: how holds ended, of one lock, and wherever it was without their holders'
//! doing.

use std::time::Duration;

use palisade_core::ids::{LockName, WallTime};
use palisade_host::{Clock, SystemClock};
use palisade_proto::convert::json;
use palisade_proto::convert::words::wall_time;
use palisade_proto::v1;

use super::{Failure, client, view};
use crate::args::{AuditArgs, Globals, HistoryArgs};
use crate::exit::Exit;
use crate::output::{Output, span, table};

const HOLDS: [&str; 6] = ["TOKEN", "MODE", "HOLDER", "BEGAN", "HELD", "ENDED"];
const BOUNDARIES: [&str; 7] = ["LOCK", "TOKEN", "HOLDER", "ENDED", "AT", "NEXT TOKEN", "NEXT HOLDER"];
const LATE_WRITERS: [&str; 7] = ["LOCK", "TOKEN", "LATE WRITER", "REFUSED BY", "TIMES", "BELOW", "LAST AT"];

/// An empty history is an answer, too.
pub(crate) async fn run(globals: &Globals, arguments: &HistoryArgs) -> Result<Exit, Failure> {
    let name = LockName::new(&arguments.name).map_err(|error| Failure::new(Exit::USAGE, error))?;
    let page = client(globals)?.history(&name, arguments.limit, arguments.before).await?;
    let people = |_: Output| {
        let mut text = table(&HOLDS, page.holds.iter().map(row));
        let last = page.holds.last().map_or(0, |hold| hold.number);
        text.push_str(&more(page.more, last));
        text.push_str(&forgotten("by expiry or the like", page.expired_known_after));
        text.push_str(&forgotten("otherwise", page.others_known_after));
        text
    };
    let scripts = || json::history(name.as_str(), &page);
    Output::new(globals).answer("palisade.history/1", people, scripts)?;
    Ok(Exit::OK)
}

/// Every boundary is a place to look at, not a fault: the answer is a list.
pub(crate) async fn audit(globals: &Globals, arguments: &AuditArgs) -> Result<Exit, Failure> {
    let since = arguments.since.map(|since| since.micros(SystemClock.wall_micros()));
    let asked = v1::GetAudit {
        prefix: arguments.prefix.clone(),
        since_us: since.unwrap_or(0),
        limit: arguments.limit,
        before: arguments.before,
    };
    let client = client(globals)?;
    let late =
        v1::ListRejections { prefix: asked.prefix.clone(), since_us: asked.since_us, limit: asked.limit };
    let page = client.audit(asked).await?;
    // Of the whole time that is asked for: with its first page.
    let late = if arguments.before == 0 { Some(client.rejections(late).await?) } else { None };
    let people = |_: Output| {
        let mut text = table(&BOUNDARIES, page.boundaries.iter().filter_map(boundary_row));
        let last = page.boundaries.last().and_then(|boundary| boundary.ended.as_ref());
        text.push_str(&more(page.more, last.map_or(0, |hold| hold.number)));
        text.push_str(&forgotten("by expiry or the like", page.known_after));
        text.push_str(&late.as_ref().map(late_writers).unwrap_or_default());
        text
    };
    let scripts = || {
        let mut value = json::audit(&page);
        value["late_writers"] = late.as_ref().map(json::rejections).into();
        value
    };
    Output::new(globals).answer("palisade.audit/1", people, scripts)?;
    Ok(Exit::OK)
}

/// Since when, as it is typed: 2h (ago, by this machine's clock), or 2026-11-29T22:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    Ago(Duration),
    At(WallTime),
}

impl Since {
    fn micros(self, now: u64) -> u64 {
        match self {
            Self::Ago(time) => now.saturating_sub(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
            Self::At(at) => at.0,
        }
    }
}

impl std::str::FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('T') {
            return wall_time_from(text)
                .map(Self::At)
                .ok_or_else(|| format!("{text:?} is not a time as 2026-11-29T22:00:00Z"));
        }
        crate::args::duration(text).map(Self::Ago)
    }
}

/// The inverse of `wall_time`, found by it: no second calendar.
fn wall_time_from(text: &str) -> Option<WallTime> {
    // RFC 3339 in UTC sorts as time does.
    let shape =
        text.len() == 20 && text.ends_with('Z') && text.bytes().filter(u8::is_ascii_digit).count() == 14;
    let (mut low, mut high) = (0_u64, 253_402_300_799_u64);
    while shape && low < high {
        let middle = low + (high - low) / 2;
        if wall_time(WallTime(middle * 1_000_000)).as_str() < text {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    (shape && wall_time(WallTime(low * 1_000_000)) == text).then_some(WallTime(low * 1_000_000))
}

fn more(more: bool, last: u64) -> String {
    if more { format!("\nmore follow: --before {last}") } else { String::new() }
}

fn forgotten(how: &str, known_after: u64) -> String {
    match known_after {
        0 => String::new(),
        index => format!("\nforgotten: what ended {how} up to index {index}"),
    }
}

fn held(hold: &v1::EndedHold) -> String {
    span(Duration::from_micros(hold.ended_at_us.saturating_sub(hold.granted_at_us)))
}

fn ended(hold: &v1::EndedHold) -> &'static str {
    view::ended(hold.ended).unwrap_or("ended")
}

fn row(hold: &v1::EndedHold) -> Vec<String> {
    vec![
        hold.token.to_string(),
        view::mode(hold.mode).to_owned(),
        view::client(&hold.client).to_owned(),
        wall_time(WallTime(hold.granted_at_us)),
        held(hold),
        format!("{} {} ago", ended(hold), view::ago(hold.ended_at_us)),
    ]
}

fn boundary_row(boundary: &v1::Boundary) -> Option<Vec<String>> {
    let hold = boundary.ended.as_ref()?;
    let dash = || "–".to_owned();
    let (next_token, next_holder) = match &boundary.next {
        Some(next) => {
            let after = Duration::from_micros(next.granted_at_us.saturating_sub(hold.ended_at_us));
            let holder = format!("{} after {}", view::client(&next.client), span(after));
            (next.token.to_string(), holder)
        }
        None => (dash(), dash()),
    };
    let slot = if hold.slot == 0 { String::new() } else { format!("[{}]", hold.slot) };
    Some(vec![
        format!("{}{slot}", hold.lock),
        hold.token.to_string(),
        view::client(&hold.client).to_owned(),
        ended(hold).to_owned(),
        wall_time(WallTime(hold.ended_at_us)),
        next_token,
        next_holder,
    ])
}

/// Stale holders that resources refused: a boundary each, and what came of it.
fn late_writers(list: &v1::RejectionList) -> String {
    if list.rejections.is_empty() && list.forgotten == 0 {
        return String::new();
    }
    let rows = list.rejections.iter().filter_map(late_row);
    let since = wall_time(WallTime(list.known_since_us));
    let more = if list.more { "; more are known: --limit" } else { "" };
    let forgotten = match list.forgotten {
        0 => String::new(),
        count => format!("; {count} are forgotten"),
    };
    format!(
        "\n\n{}\nas resources reported it to the present leader, which remembers since {since}{more}{forgotten}",
        table(&LATE_WRITERS, rows)
    )
}

fn late_row(of: &v1::Rejection) -> Option<Vec<String>> {
    let refusal = of.refusal.as_ref()?;
    let slot = if refusal.slot == 0 { String::new() } else { format!("[{}]", refusal.slot) };
    let above = if refusal.by_floor { "floor" } else { "mark" };
    let times = if of.storm { format!("{} STORM", refusal.count) } else { refusal.count.to_string() };
    Some(vec![
        format!("{}{slot}", refusal.lock),
        refusal.presented.to_string(),
        view::client(&refusal.client).to_owned(),
        of.guard.clone(),
        times,
        format!("{above} {}", refusal.mark),
        wall_time(WallTime(of.last_at_us)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold() -> v1::EndedHold {
        v1::EndedHold {
            number: 3,
            lock: "orders/7".into(),
            mode: v1::Mode::Exclusive.into(),
            client: "billing-3".into(),
            token: 34,
            granted_at_us: 1_735_689_600_000_000,
            ended: v1::Ended::Expired.into(),
            ended_at_us: 1_735_689_612_000_000,
            ..v1::EndedHold::default()
        }
    }

    #[test]
    fn since_is_a_span_or_a_time() {
        let of = |text: &str| text.parse::<Since>();
        assert_eq!(of("2h"), Ok(Since::Ago(Duration::from_secs(7_200))));
        let at = |seconds: u64| Ok(Since::At(WallTime(seconds * 1_000_000)));
        assert_eq!(of("1970-01-01T00:00:00Z"), at(0));
        assert_eq!(of("2000-02-29T00:00:00Z"), at(951_782_400));
        assert_eq!(of("2025-01-01T00:00:00Z"), at(1_735_689_600));
        for bad in ["", "2h3", "2025-02-30T00:00:00Z", "2025-01-01T00:00:00", "2025-01-01T00:00:00+1"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert_eq!(Since::Ago(Duration::from_secs(1)).micros(5_000_000), 4_000_000);
    }

    #[test]
    fn a_boundary_tells_both_sides() {
        let next = v1::NextGrant {
            client: "billing-4".into(),
            token: 52,
            granted_at_us: 1_735_689_627_000_000,
            ..v1::NextGrant::default()
        };
        let boundary = v1::Boundary { ended: Some(hold()), next: Some(next) };
        let expected =
            ["orders/7", "34", "billing-3", "expired", "2025-01-01T00:00:12Z", "52", "billing-4 after 15.0s"];
        assert_eq!(boundary_row(&boundary).expect("a row"), expected);
        let open = v1::Boundary { ended: Some(hold()), next: None };
        assert_eq!(boundary_row(&open).expect("a row")[5..], ["–", "–"]);
    }

    #[test]
    fn what_is_forgotten_is_said() {
        assert_eq!(forgotten("otherwise", 0), "");
        assert_eq!(forgotten("otherwise", 9), "\nforgotten: what ended otherwise up to index 9");
    }
}
