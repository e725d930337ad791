//! `palisade watch`: what happens to a lock, or to all below a prefix, line by line.

use std::io::{self, Write};
use std::str::FromStr;

use palisade_client::watch::{Filter, From as Start, Position, Watched};
use palisade_core::ids::{Incarnation, LockName, WallTime};
use palisade_proto::convert::json;
use palisade_proto::convert::words::wall_time;
use palisade_proto::v1::{self, lock_event::Kind, resynchronise::Reason};
use serde_json::{Value, json};

use super::{Failure, client, view};
use crate::args::{Format, Globals, WatchArgs};
use crate::exit::Exit;
use crate::output::wide;

const SCHEMA: &str = "palisade.watch/1";

/// Where to go on from, as it is typed: INDEX, or INCARNATION:INDEX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FromPosition(Position);

impl FromStr for FromPosition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (incarnation, index) = match text.rsplit_once(':') {
            Some((incarnation, index)) => (Some(incarnation.parse::<Incarnation>()?), index),
            None => (None, text),
        };
        let index = index.parse().map_err(|_| format!("{index:?} is not an index"))?;
        Ok(Self(Position { incarnation, index }))
    }
}

/// Watches until it is stopped, or saw as many events as were asked for.
pub(crate) async fn run(globals: &Globals, arguments: &WatchArgs) -> Result<Exit, Failure> {
    let filter = match (&arguments.name, &arguments.prefix) {
        (Some(name), _) => {
            Filter::Lock(LockName::new(name).map_err(|error| Failure::new(Exit::USAGE, error))?)
        }
        (None, prefix) => Filter::Prefix(prefix.clone().unwrap_or_default()),
    };
    let from = match arguments.from {
        Some(FromPosition(position)) => Start::After(position),
        None if arguments.snapshot => Start::Snapshot,
        None => Start::Now,
    };
    let mut watch = client(globals)?.watch(filter, from);
    let mut seen = 0;
    while arguments.count.is_none_or(|count| seen < count) {
        let watched = watch.next().await?;
        if let Watched::Entry(entry) = &watched {
            seen += u64::try_from(entry.events.len()).unwrap_or(u64::MAX);
        }
        let Some(position) = watch.position() else { continue };
        let text = match globals.output {
            Format::Table => people(&watched, globals.verbose > 0, position),
            Format::Json => vec![script(&watched, position).to_string()],
        };
        let mut out = io::stdout().lock();
        for line in text {
            match writeln!(out, "{line}") {
                Err(gone) if gone.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::OK),
                written => written?,
            }
        }
    }
    Ok(Exit::OK)
}

fn people(watched: &Watched, verbose: bool, position: Position) -> Vec<String> {
    match watched {
        Watched::Entry(entry) => {
            let at = wall_time(WallTime(entry.wall_us));
            entry.events.iter().map(|event| format!("{at}  {:>8}  {}", entry.index, line(event))).collect()
        }
        Watched::Snapshot { missing, locks } => {
            let why = missing.map_or_else(String::new, |why| format!("{}; ", why_missing(why)));
            let nothing = if locks.is_empty() { " nothing is held, awaited or closed" } else { "" };
            let head = format!("{why}so it stands at index {}:{nothing}", position.index);
            std::iter::once(head).chain(locks.iter().map(view::lines)).collect()
        }
        Watched::Progress if verbose => vec![format!("nothing else up to index {}", position.index)],
        Watched::Progress => Vec::new(),
    }
}

fn why_missing(why: Reason) -> &'static str {
    match why {
        Reason::Incarnation => "the position is of another incarnation of the cluster",
        Reason::TooOld => "events are missing: the position is older than what the node keeps",
        Reason::Gap | Reason::Unspecified => "events are missing",
    }
}

fn line(event: &v1::LockEvent) -> String {
    let session = event.acquisition.as_ref().map_or(0, |id| id.session);
    let who = format!("{} (session {session})", view::client(&event.client));
    let rest = match event.kind() {
        Kind::Queued => who,
        Kind::Granted => format!("token {}  {who}", event.token),
        Kind::HoldEnded => format!("token {}  {who}", event.token),
        Kind::WaitEnded => format!("{}  {who}", view::ended(event.ended).unwrap_or("ended")),
        Kind::DelayStarted => {
            format!("for {}", crate::output::span(std::time::Duration::from_millis(event.delay_ms)))
        }
        Kind::DelayEnded => format!("began at index {}", event.began),
        Kind::Metadata => format!("{}  {who}", event.metadata.escape_ascii()),
        Kind::Broken => format!("token {}  by {}", event.token, event.by),
        Kind::Capacity => format!("{} slots", event.capacity),
        Kind::Confirmed => format!("by guard {}", event.by),
        Kind::Unspecified => String::new(),
    };
    let slot = if event.slot == 0 { String::new() } else { format!("[{}]", event.slot) };
    format!("{:<13}  {}{slot}  {rest}", json::event_word(event), event.lock)
}

/// One line of JSON: an entry with all its events, a snapshot, or a progress mark. `position` is what `--from` takes.
fn script(watched: &Watched, position: Position) -> Value {
    let (kind, mut value) = match watched {
        Watched::Entry(entry) => ("entry", json::entry(entry)),
        Watched::Snapshot { missing, locks } => {
            let missing = missing.map(|why| match why {
                Reason::Incarnation => "incarnation",
                Reason::TooOld => "too_old",
                Reason::Gap | Reason::Unspecified => "gap",
            });
            let locks: Vec<Value> = locks.iter().map(json::lock).collect();
            ("snapshot", json!({ "missing": missing, "locks": locks }))
        }
        Watched::Progress => ("progress", json!({})),
    };
    if let Value::Object(fields) = &mut value {
        let incarnation = position.incarnation.map(|id| format!("{id}:")).unwrap_or_default();
        fields.insert("schema".to_owned(), SCHEMA.into());
        fields.insert("kind".to_owned(), kind.into());
        fields.insert("index".to_owned(), wide(position.index));
        fields.insert("position".to_owned(), format!("{incarnation}{}", position.index).into());
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted() -> v1::LockEvent {
        v1::LockEvent {
            kind: Kind::Granted.into(),
            lock: "orders/7".into(),
            acquisition: Some(v1::AcquisitionId { session: 7, number: 1 }),
            client: "billing-3".into(),
            token: 34,
            mode: v1::Mode::Exclusive.into(),
            ..v1::LockEvent::default()
        }
    }

    #[test]
    fn a_position_is_an_index_or_stands_behind_an_incarnation() {
        let of = |text: &str| text.parse::<FromPosition>().map(|from| (from.0.incarnation, from.0.index));
        assert_eq!(of("52"), Ok((None, 52)));
        let incarnation = Incarnation([0xa5; 16]);
        assert_eq!(of(&format!("{incarnation}:52")), Ok((Some(incarnation), 52)));
        for bad in ["", "x", "abc:52", "1:2:3"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn people_read_what_happened_to_whom_under_which_token() {
        assert_eq!(line(&granted()), "granted        orders/7  token 34  billing-3 (session 7)");
        let ended =
            v1::LockEvent { kind: Kind::HoldEnded.into(), ended: v1::Ended::Expired.into(), ..granted() };
        assert_eq!(line(&ended), "expired        orders/7  token 34  billing-3 (session 7)");
        let closed = v1::LockEvent {
            kind: Kind::DelayStarted.into(),
            lock: "orders/7".into(),
            delay_ms: 15_000,
            ..v1::LockEvent::default()
        };
        assert_eq!(line(&closed), "delay started  orders/7  for 15.0s");
    }

    #[test]
    fn scripts_read_an_entry_and_the_position_to_go_on_from() {
        let entry = v1::WatchEntry { index: 34, wall_us: 5, events: vec![granted()] };
        let position = Position { incarnation: Some(Incarnation([0xa5; 16])), index: 34 };
        let value = script(&Watched::Entry(entry), position);
        assert_eq!((&value["kind"], &value["index"]), (&json!("entry"), &json!("34")));
        assert_eq!(value["events"][0]["token"], "34");
        let again: FromPosition = value["position"].as_str().expect("a text").parse().expect("a position");
        assert_eq!(again.0, position);
    }
}
