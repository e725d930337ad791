//! Watching: as a stream of events (server-sent, as browsers and `curl -N` read them), and as a call that waits for the
//! next ones. Both begin as gRPC's watch does, and are bounded by the same limits.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use palisade_proto::convert::watch::{Filter, From, watch};
use palisade_proto::convert::{error, json};
use palisade_proto::v1::watch_request::{From as Start, What};
use palisade_proto::v1::{self, resynchronise::Reason, watch_message::Message};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tonic::Status;

use super::super::asked::{self, Wide};
use super::super::body::{Problem, document, queried};
use super::{Answer, POLL_DEFAULT, POLL_MAX, unexpected};
use crate::door::Door;
use crate::watches::{self, Frames, Watching};

/// When a reader that lost its stream asks again, milliseconds.
const RETRY_MS: u32 = 1_000;

/// Events until the caller goes. One that comes back with the position that it got last (browsers do so by themselves)
/// misses nothing, or is told so.
pub(super) async fn stream(State(door): State<Door>, headers: HeaderMap, uri: Uri) -> Answer {
    let of: asked::Watch = queried(&uri)?;
    if of.poll_ms.is_some() {
        return Err(crate::error::bad_argument("poll_ms goes with /v1/events").into());
    }
    let last = headers.get("last-event-id").map(|id| id.to_str().map(str::to_owned));
    let last =
        last.transpose().map_err(|_| crate::error::bad_argument("the Last-Event-ID is no position"))?;
    let (filter, from) = begin(&door, of, last.filter(|id| !id.is_empty()))?;
    let mut frames = watches::open::<Watching>(&door, filter, from)?;
    // What keeps it from beginning is an answer; what ends it later can only be an event.
    let first = frames.next().await.ok_or_else(|| Problem(crate::error::no_quorum()))?.map_err(problem)?;
    let hello = format!("retry: {RETRY_MS}\n\n");
    let told = Told::default();
    let messages = futures_util::stream::once(async { Ok(first) }).chain(frames);
    let texts = messages.scan(told, |told, message| {
        let text = match message {
            Ok(message) => told.message(&message),
            Err(status) => told.end(&status),
        };
        std::future::ready(Some(Ok::<_, std::convert::Infallible>(text)))
    });
    let body = Body::from_stream(futures_util::stream::once(async { Ok(hello) }).chain(texts));
    let kind = HeaderValue::from_static("text/event-stream");
    let fresh = HeaderValue::from_static("no-store");
    // Proxies that gather a body before they pass it on leave this one alone.
    let unbuffered = ("x-accel-buffering", HeaderValue::from_static("no"));
    let mut answer = ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, fresh)], body).into_response();
    answer.headers_mut().insert(unbuffered.0, unbuffered.1);
    Ok(answer)
}

/// The next entries after a position, or, after `poll_ms`, none, with the position to go on from. Events that are missing
/// are told as such: then the caller looks how things stand, and goes on from the new position.
pub(super) async fn poll(State(door): State<Door>, uri: Uri) -> Answer {
    let of: asked::Watch = queried(&uri)?;
    let patience = of.poll_ms.map_or(POLL_DEFAULT, |Wide(ms)| Duration::from_millis(ms)).min(POLL_MAX);
    let until = Instant::now() + patience;
    let (filter, from) = begin(&door, of, None)?;
    if from == From::Snapshot {
        return Err(
            crate::error::bad_argument("a snapshot goes with /v1/watch; /v1/locks lists locks").into()
        );
    }
    let mut frames = watches::open::<Watching>(&door, filter.clone(), from)?;
    let mut position = v1::Position::default();
    loop {
        // The first message comes at once, whatever the patience.
        let next = match position.index {
            0 => frames.next().await,
            _ => match timeout_at(until, frames.next()).await {
                Ok(next) => next,
                Err(_) => return Ok(polled(&position, None, &[])),
            },
        };
        let next = next.ok_or_else(|| Problem(crate::error::no_quorum()))?.map_err(problem)?;
        match next.message {
            Some(Message::Progress(at)) => position = at,
            Some(Message::Entries(of)) => {
                let index = of.entries.last().map_or(0, |entry| entry.index);
                let at = v1::Position { incarnation: of.incarnation, index };
                return Ok(polled(&at, None, &of.entries));
            }
            Some(Message::Resynchronise(told)) => {
                let now = position_now(watches::open::<Watching>(&door, filter, From::Now)?).await?;
                return Ok(polled(&now, Some(told.reason()), &[]));
            }
            Some(Message::Snapshot(_)) | None => return Err(unexpected()),
        }
    }
}

async fn position_now(mut frames: Frames<v1::WatchMessage>) -> Result<v1::Position, Problem> {
    let first = frames.next().await.ok_or_else(unexpected)?.map_err(problem)?;
    match first.message {
        Some(Message::Progress(at)) => Ok(at),
        _ => Err(unexpected()),
    }
}

fn polled(position: &v1::Position, missing: Option<Reason>, entries: &[v1::WatchEntry]) -> Response {
    let entries: Vec<Value> = entries.iter().map(json::entry).collect();
    let shown = json!({
        "position": written(position),
        "index": json::wide(position.index),
        "missing": missing.map(why),
        "entries": entries,
    });
    document(StatusCode::OK, &shown)
}

/// What is watched, and from where. `last` is where a reader that lost its stream had got to.
fn begin(door: &Door, of: asked::Watch, last: Option<String>) -> Result<(Filter, From), Problem> {
    door.coordinator.metrics.request("watch");
    let what = match (of.name, of.prefix) {
        (Some(name), None) => What::Lock(name),
        (None, Some(prefix)) => What::Prefix(prefix),
        (Some(_), Some(_)) => {
            return Err(crate::error::bad_argument("name and prefix exclude each other").into());
        }
        (None, None) => {
            return Err(crate::error::bad_argument("name a lock, or a prefix; an empty one is of all").into());
        }
    };
    let from = match last.or(of.from).as_deref() {
        None => Start::Now(true),
        Some("snapshot") => Start::Snapshot(true),
        Some(text) => Start::After(read(text)?),
    };
    watch(&v1::WatchRequest { what: Some(what), from: Some(from) }).map_err(|bad| Problem(bad.into()))
}

/// A position as a text: incarnation and index, or the index alone.
fn read(text: &str) -> Result<v1::Position, Problem> {
    let (incarnation, index) = text.rsplit_once(':').unwrap_or(("", text));
    let bad =
        || crate::error::bad_argument(format!("{text:?} is no position: snapshot, or one that was told"));
    let index = index.parse().map_err(|_| bad())?;
    Ok(v1::Position { incarnation: incarnation.to_owned(), index })
}

fn written(position: &v1::Position) -> String {
    match position.incarnation.as_str() {
        "" => position.index.to_string(),
        incarnation => format!("{incarnation}:{}", position.index),
    }
}

fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::Incarnation => "incarnation",
        Reason::TooOld => "too_old",
        Reason::Gap | Reason::Unspecified => "gap",
    }
}

fn problem(status: Status) -> Problem {
    Problem(error::error_of(&status).unwrap_or_else(|| crate::error::defect(status.message())))
}

/// What a stream has been told.
#[derive(Default)]
struct Told {
    /// Why a snapshot is on its way that nobody asked for.
    missing: Option<Reason>,
}

impl Told {
    /// A message as events.
    fn message(&mut self, message: &v1::WatchMessage) -> String {
        match &message.message {
            Some(Message::Entries(of)) => {
                let texts = of.entries.iter().map(|entry| {
                    let at = v1::Position { incarnation: of.incarnation.clone(), index: entry.index };
                    event("entry", Some(&at), json::entry(entry))
                });
                texts.collect()
            }
            Some(Message::Progress(at)) => {
                event("progress", Some(at), json!({ "index": json::wide(at.index) }))
            }
            Some(Message::Resynchronise(told)) => {
                self.missing = Some(told.reason());
                String::new()
            }
            Some(Message::Snapshot(part)) => {
                let locks: Vec<Value> = part.locks.iter().map(json::lock).collect();
                let shown = json!({ "missing": self.missing.map(why), "last": part.last, "locks": locks });
                // A stream that breaks within a snapshot is asked for again as before.
                let position = part.position.as_ref().filter(|_| part.last);
                if part.last {
                    self.missing = None;
                }
                event("snapshot", position, shown)
            }
            None => String::new(),
        }
    }

    /// The last event of a stream that the node ends.
    fn end(&mut self, status: &Status) -> String {
        let Problem(error) = problem(status.clone());
        let (_, code) = palisade_proto::convert::error_code(&error.name);
        event("error", None, json::problem(&error, code))
    }
}

fn event(name: &str, position: Option<&v1::Position>, mut data: Value) -> String {
    let mut id = String::new();
    if let Some(position) = position {
        let position = written(position);
        id = format!("id: {position}\n");
        data["position"] = position.into();
    }
    // JSON has no line break of its own.
    format!("event: {name}\n{id}data: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(index: u64) -> v1::Position {
        v1::Position { incarnation: "a5".repeat(16), index }
    }

    fn message(message: Message) -> v1::WatchMessage {
        v1::WatchMessage { message: Some(message) }
    }

    #[test]
    fn a_position_is_written_as_it_is_read() {
        for position in [at(52), v1::Position { incarnation: String::new(), index: 52 }] {
            assert_eq!(read(&written(&position)).ok(), Some(position));
        }
        for bad in ["", "now", "1:", ":x"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_entry_is_an_event_with_the_position_behind_it() {
        let entries = [34, 36].map(|index| v1::WatchEntry { index, ..v1::WatchEntry::default() });
        let of = v1::WatchEntries { incarnation: at(0).incarnation, entries: entries.to_vec() };
        let text = Told::default().message(&message(Message::Entries(of)));
        let ids: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
        assert_eq!(ids, [written(&at(34)), written(&at(36))]);
        assert_eq!(text.matches("\n\n").count(), 2);
        let mark = Told::default().message(&message(Message::Progress(at(40))));
        assert!(mark.starts_with("event: progress\nid: ") && mark.contains(r#""index":"40""#), "{mark}");
    }

    #[test]
    fn a_snapshot_says_why_it_comes_and_moves_the_position_with_its_last_part() {
        let mut told = Told::default();
        let reason = Reason::TooOld.into();
        assert_eq!(told.message(&message(Message::Resynchronise(v1::Resynchronise { reason }))), "");
        let part =
            |last| Message::Snapshot(v1::LockSnapshot { locks: Vec::new(), position: Some(at(52)), last });
        let first = told.message(&message(part(false)));
        assert!(first.contains(r#""missing":"too_old""#) && !first.contains("id: "), "{first}");
        let last = told.message(&message(part(true)));
        assert!(
            last.contains(r#""last":true"#) && last.contains(&format!("id: {}\n", written(&at(52)))),
            "{last}"
        );
        assert!(told.message(&message(part(true))).contains(r#""missing":null"#));
    }

    #[test]
    fn a_stream_that_ends_says_why() {
        let text = Told::default().end(&crate::error::status(&crate::error::too_slow()));
        assert!(text.starts_with("event: error\ndata: ") && text.contains("WATCH_TOO_SLOW"), "{text}");
    }
}
