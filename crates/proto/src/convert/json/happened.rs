//! What happened to locks: as it happens, and what is remembered.

use serde_json::{Value, json};

use super::super::words;
use super::{number_of, payload, session_of, wide};
use crate::v1;
use crate::v1::lock_event::Kind;

/// An event in a word, for scripts and people.
pub fn event_word(event: &v1::LockEvent) -> &'static str {
    match event.kind() {
        Kind::Queued => "queued",
        Kind::Granted => "granted",
        Kind::HoldEnded => words::ended_word(event.ended).unwrap_or("ended"),
        Kind::WaitEnded => "wait ended",
        Kind::DelayStarted => "delay started",
        Kind::DelayEnded => "delay ended",
        Kind::Metadata => "metadata",
        Kind::Broken => "broken",
        Kind::Capacity => "capacity",
        Kind::Confirmed => "confirmed",
        Kind::Unspecified => "unknown",
    }
}

/// An entry of the log, with all its events of what is watched.
pub fn entry(entry: &v1::WatchEntry) -> Value {
    let events: Vec<Value> = entry.events.iter().map(event).collect();
    json!({ "index": wide(entry.index), "wall_us": wide(entry.wall_us), "events": events })
}

fn event(event: &v1::LockEvent) -> Value {
    let kind = event.kind();
    let holds = matches!(kind, Kind::Granted | Kind::HoldEnded | Kind::Broken);
    json!({
        "event": event_word(event),
        "lock": event.lock,
        "slot": (!matches!(kind, Kind::Queued | Kind::WaitEnded | Kind::Metadata | Kind::Capacity)).then_some(event.slot),
        "session": event.acquisition.as_ref().map(|id| wide(id.session)),
        "number": event.acquisition.as_ref().map(|id| wide(id.number)),
        "client": event.acquisition.as_ref().map(|_| event.client.as_str()),
        "token": holds.then(|| wide(event.token)),
        "mode": (kind == Kind::Granted).then(|| words::mode_word(event.mode)),
        "ended": words::ended_word(event.ended),
        "delay_ms": (kind == Kind::DelayStarted).then(|| wide(event.delay_ms)),
        "began": (kind == Kind::DelayEnded).then(|| wide(event.began)),
        "metadata": payload(&event.metadata),
        "by": (!event.by.is_empty()).then_some(event.by.as_str()),
        "capacity": (kind == Kind::Capacity).then_some(event.capacity),
    })
}

/// How the last holds of a lock ended.
pub fn history(lock: &str, page: &v1::HistoryPage) -> Value {
    json!({
        "lock": lock,
        "holds": page.holds.iter().map(hold).collect::<Vec<_>>(),
        "more": page.more,
        "expired_known_after": wide(page.expired_known_after),
        "others_known_after": wide(page.others_known_after),
        "applied": wide(page.index),
    })
}

/// Where tenures ended without their holders' doing.
pub fn audit(page: &v1::AuditPage) -> Value {
    json!({
        "boundaries": page.boundaries.iter().filter_map(boundary).collect::<Vec<_>>(),
        "more": page.more,
        "known_after": wide(page.known_after),
        "applied": wide(page.index),
    })
}

/// One hold, and how it ended.
pub fn hold(hold: &v1::EndedHold) -> Value {
    json!({
        "number": wide(hold.number),
        "lock": hold.lock,
        "slot": hold.slot,
        "mode": words::mode_word(hold.mode),
        "session": wide(session_of(hold.acquisition.as_ref())),
        "acquisition": wide(number_of(hold.acquisition.as_ref())),
        "client": hold.client,
        "token": wide(hold.token),
        "grant_index": wide(hold.grant_index),
        "granted_at_us": wide(hold.granted_at_us),
        "ended": words::ended_word(hold.ended).unwrap_or("ended"),
        "end_index": wide(hold.end_index),
        "ended_at_us": wide(hold.ended_at_us),
    })
}

fn boundary(boundary: &v1::Boundary) -> Option<Value> {
    let ended = boundary.ended.as_ref()?;
    let next = boundary.next.as_ref().map(|next| {
        json!({
            "session": wide(session_of(next.acquisition.as_ref())),
            "client": next.client,
            "token": wide(next.token),
            "granted_at_us": wide(next.granted_at_us),
            "holds": next.holds,
        })
    });
    Some(json!({ "ended": hold(ended), "next": next }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_tells_each_event_with_what_it_has() {
        let granted = v1::LockEvent {
            kind: Kind::Granted.into(),
            lock: "orders/7".into(),
            acquisition: Some(v1::AcquisitionId { session: 7, number: 1 }),
            client: "billing-3".into(),
            token: 34,
            mode: v1::Mode::Shared.into(),
            metadata: b"10.0.0.7:80".to_vec(),
            ..v1::LockEvent::default()
        };
        let capacity = v1::LockEvent { kind: Kind::Capacity.into(), capacity: 3, ..v1::LockEvent::default() };
        let shown = entry(&v1::WatchEntry { index: 34, wall_us: 5, events: vec![granted, capacity] });
        assert_eq!(shown["index"], "34");
        let [granted, capacity] = shown["events"].as_array().map(Vec::as_slice).unwrap_or_default() else {
            panic!("{shown}")
        };
        assert_eq!((&granted["token"], &granted["mode"]), (&json!("34"), &json!("shared")));
        assert_eq!((&granted["metadata"], &granted["capacity"]), (&json!("10.0.0.7:80"), &Value::Null));
        assert_eq!((&capacity["event"], &capacity["capacity"]), (&json!("capacity"), &json!(3)));
        assert_eq!((&capacity["slot"], &capacity["token"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn a_boundary_tells_both_sides() {
        let ended = v1::EndedHold { token: 34, ended: v1::Ended::Expired.into(), ..v1::EndedHold::default() };
        let next = v1::NextGrant { token: 52, ..v1::NextGrant::default() };
        let both = v1::Boundary { ended: Some(ended), next: Some(next) };
        let shown = audit(&v1::AuditPage { boundaries: vec![both], ..v1::AuditPage::default() });
        let shown = &shown["boundaries"][0];
        assert_eq!((&shown["ended"]["token"], &shown["next"]["token"]), (&json!("34"), &json!("52")));
        assert_eq!(shown["ended"]["ended"], "expired");
    }
}
