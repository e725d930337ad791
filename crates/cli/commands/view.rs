//! How a lock is shown, one alone and many in a table.

use std::time::Duration;

use palisade_host::{Clock, SystemClock};
use palisade_proto::v1;
use palisade_proto::v1::slot_view::State;
use serde_json::{Value, json};

use crate::output::{span, wide};

/// How long ago something was, by this machine's wall clock; another's wrote it down.
pub(super) fn ago(at_us: u64) -> String {
    span(Duration::from_micros(SystemClock.wall_micros().saturating_sub(at_us)))
}

/// A stable word for scripts.
pub(super) fn mode(mode: i32) -> &'static str {
    match v1::Mode::try_from(mode) {
        Ok(v1::Mode::Exclusive) => "exclusive",
        Ok(v1::Mode::Shared) => "shared",
        Ok(v1::Mode::Unspecified) | Err(_) => "unknown",
    }
}

/// How something ended, in a word; none while it did not.
pub(super) fn ended(ended: i32) -> Option<&'static str> {
    let word = match v1::Ended::try_from(ended).ok()? {
        v1::Ended::Unspecified => return None,
        v1::Ended::Released => "released",
        v1::Ended::HandedOver => "handed over",
        v1::Ended::Cancelled => "cancelled",
        v1::Ended::Closed => "closed",
        v1::Ended::Expired => "expired",
        v1::Ended::TakenOver => "taken over",
        v1::Ended::ByOperator => "ended by an operator",
        v1::Ended::Broken => "broken",
        v1::Ended::Overdue => "overdue",
        v1::Ended::TimedOut => "timed out",
        v1::Ended::Refused => "refused",
        v1::Ended::Forgotten => "ended",
        v1::Ended::Restored => "ended by a restore",
    };
    Some(word)
}

/// The tenure of a slot, where it is held.
pub(super) fn tenure(slot: &v1::SlotView) -> Option<&v1::Tenure> {
    match &slot.state {
        Some(State::Held(tenure)) => Some(tenure),
        Some(State::Free(_) | State::Delayed(_)) | None => None,
    }
}

fn session(acquisition: Option<&v1::AcquisitionId>) -> u64 {
    acquisition.map_or(0, |acquisition| acquisition.session)
}

/// A name that people gave, or that they gave none.
pub(super) fn client(name: &str) -> &str {
    if name.is_empty() { "an unnamed client" } else { name }
}

/// The lines of `palisade who`.
pub(super) fn lines(view: &v1::LockView) -> String {
    let mut lines: Vec<String> = view.slots.iter().map(|slot| slot_line(view, slot)).collect();
    if lines.is_empty() {
        lines.push(format!("{}   free", view.lock));
    }
    let mut after = Vec::new();
    if let Some(previous) = &view.predecessor {
        let how = ended(previous.ended).unwrap_or("ended");
        let (name, token) = (client(&previous.client), previous.token);
        after.push(format!("previous: {name}, token {token}, {how} {} ago", ago(previous.ended_at_us)));
    }
    if !view.queue.is_empty() {
        let waiter =
            |waiter: &v1::WaiterView| format!("{} {}", client(&waiter.client), ago(waiter.enqueued_at_us));
        after.push(format!("queue: {}", view.queue.iter().map(waiter).collect::<Vec<_>>().join(", ")));
    }
    if !after.is_empty() {
        lines.push(after.join("      "));
    }
    lines.join("\n")
}

fn slot_line(view: &v1::LockView, slot: &v1::SlotView) -> String {
    let name = match view.capacity {
        0 | 1 => view.lock.clone(),
        capacity => format!("{} slot {} of {capacity}", view.lock, slot.slot),
    };
    match &slot.state {
        Some(State::Held(tenure)) => {
            let holders = tenure.holders.iter().map(|holder| {
                let session = session(holder.acquisition.as_ref());
                format!("{} (session {session}) for {}", client(&holder.client), ago(holder.granted_at_us))
            });
            let lease = match tenure.lease_left_ms {
                0 => String::new(),
                left => format!(", lease ends in {}", span(Duration::from_millis(left))),
            };
            let (mode, token) = (mode(tenure.mode), tenure.token);
            format!(
                "{name}   {mode}   token {token}   held by {}{lease}",
                holders.collect::<Vec<_>>().join(", ")
            )
        }
        Some(State::Delayed(delay)) => {
            let left = match delay.left_ms {
                0 => format!("a delay of {}", span(Duration::from_millis(delay.delay_ms))),
                left => span(Duration::from_millis(left)),
            };
            format!("{name}   closed by lock-delay for {left} after token {}", delay.ended_token)
        }
        Some(State::Free(_)) | None => format!("{name}   free"),
    }
}

/// The rows of `palisade locks`: one a slot.
pub(super) fn rows(view: &v1::LockView) -> Vec<Vec<String>> {
    let queue = view.queue.len().to_string();
    let row = |slot: &v1::SlotView| {
        let name =
            if view.capacity > 1 { format!("{}[{}]", view.lock, slot.slot) } else { view.lock.clone() };
        let dash = || "–".to_owned();
        let (mode, token, holder, since, lease) = match &slot.state {
            Some(State::Held(tenure)) => {
                let holders: Vec<&str> = tenure.holders.iter().map(|holder| client(&holder.client)).collect();
                let lease = match tenure.lease_left_ms {
                    0 => dash(),
                    left => span(Duration::from_millis(left)),
                };
                (
                    mode(tenure.mode),
                    tenure.token.to_string(),
                    holders.join(","),
                    ago(tenure.begun_at_us),
                    lease,
                )
            }
            Some(State::Delayed(delay)) => {
                let left = span(Duration::from_millis(delay.left_ms.max(1)));
                ("delay", format!("> {}", delay.ended_token), dash(), dash(), left)
            }
            Some(State::Free(_)) | None => ("free", dash(), dash(), dash(), dash()),
        };
        vec![name, mode.to_owned(), token, holder, since, lease, queue.clone()]
    };
    if view.slots.is_empty() {
        return vec![row(&v1::SlotView::default())];
    }
    view.slots.iter().map(row).collect()
}

/// A lock for scripts. `token` and `index` are those of slot 0, the only one unless the lock is a semaphore; `index` is
/// that of the entry that began the tenure, so that token = token_base + index.
pub(super) fn json(view: &v1::LockView) -> Value {
    let first = view.slots.iter().find(|slot| slot.slot == 0).and_then(tenure);
    json!({
        "lock": view.lock,
        "capacity": view.capacity.max(1),
        "held": view.slots.iter().any(|slot| tenure(slot).is_some()),
        "token": first.map(|tenure| wide(tenure.token)),
        "index": first.map(|tenure| wide(tenure.begin_index)),
        "token_base": wide(view.token_base),
        "applied": wide(view.index),
        "slots": view.slots.iter().map(slot_json).collect::<Vec<_>>(),
        "queue": view.queue.iter().map(waiter_json).collect::<Vec<_>>(),
        "previous": view.predecessor.as_ref().map(|previous| json!({
            "session": wide(session(previous.acquisition.as_ref())),
            "number": wide(previous.acquisition.as_ref().map_or(0, |acquisition| acquisition.number)),
            "client": previous.client,
            "token": wide(previous.token),
            "ended": ended(previous.ended),
            "ended_at_us": wide(previous.ended_at_us),
            "end_index": wide(previous.end_index),
        })),
    })
}

fn slot_json(slot: &v1::SlotView) -> Value {
    match &slot.state {
        Some(State::Held(tenure)) => json!({
            "slot": slot.slot,
            "state": "held",
            "mode": mode(tenure.mode),
            "token": wide(tenure.token),
            "index": wide(tenure.begin_index),
            "begun_at_us": wide(tenure.begun_at_us),
            "lease_left_ms": (tenure.lease_left_ms > 0).then(|| wide(tenure.lease_left_ms)),
            "holders": tenure.holders.iter().map(|holder| json!({
                "session": wide(session(holder.acquisition.as_ref())),
                "number": wide(holder.acquisition.as_ref().map_or(0, |acquisition| acquisition.number)),
                "client": holder.client,
                "grant_index": wide(holder.grant_index),
                "granted_at_us": wide(holder.granted_at_us),
            })).collect::<Vec<_>>(),
        }),
        Some(State::Delayed(delay)) => json!({
            "slot": slot.slot,
            "state": "delayed",
            "began": wide(delay.began),
            "ended_token": wide(delay.ended_token),
            "delay_ms": wide(delay.delay_ms),
            "left_ms": (delay.left_ms > 0).then(|| wide(delay.left_ms)),
        }),
        Some(State::Free(_)) | None => json!({ "slot": slot.slot, "state": "free" }),
    }
}

fn waiter_json(waiter: &v1::WaiterView) -> Value {
    json!({
        "session": wide(session(waiter.acquisition.as_ref())),
        "number": wide(waiter.acquisition.as_ref().map_or(0, |acquisition| acquisition.number)),
        "client": waiter.client,
        "owner": waiter.owner,
        "enqueued_at_us": wide(waiter.enqueued_at_us),
        "enqueue_index": wide(waiter.enqueue_index),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> v1::LockView {
        let acquisition = Some(v1::AcquisitionId { session: 1_800_000_000_000_007, number: 1 });
        let holder = v1::Holder { acquisition, client: "worker-b".into(), ..v1::Holder::default() };
        let tenure = v1::Tenure {
            token: 1_800_000_000_000_034,
            mode: v1::Mode::Exclusive.into(),
            begin_index: 34,
            holders: vec![holder],
            lease_left_ms: 6_100,
            ..v1::Tenure::default()
        };
        v1::LockView {
            lock: "orders/shard-7".into(),
            capacity: 1,
            slots: vec![v1::SlotView { slot: 0, state: Some(State::Held(tenure)) }],
            predecessor: Some(v1::Predecessor {
                client: "worker-a".into(),
                token: 33,
                ended: v1::Ended::Expired.into(),
                ..v1::Predecessor::default()
            }),
            token_base: 1_800_000_000_000_000,
            ..v1::LockView::default()
        }
    }

    #[test]
    fn people_read_who_holds_and_why_the_last_one_lost() {
        let text = lines(&held());
        assert!(
            text.starts_with("orders/shard-7   exclusive   token 1800000000000034   held by worker-b"),
            "{text}"
        );
        assert!(text.contains("lease ends in 6.1s\nprevious: worker-a, token 33, expired "), "{text}");
    }

    #[test]
    fn scripts_read_token_index_and_base_as_strings() {
        let value = json(&held());
        assert_eq!(value["token"], "1800000000000034");
        assert_eq!(value["index"], "34");
        assert_eq!(value["token_base"], "1800000000000000");
        assert_eq!(value["slots"][0]["holders"][0]["session"], "1800000000000007");
        assert_eq!(value["previous"]["ended"], "expired");
    }

    #[test]
    fn a_free_lock_has_no_token() {
        let free = v1::LockView { lock: "idle".into(), ..v1::LockView::default() };
        assert_eq!(lines(&free), "idle   free");
        assert_eq!(json(&free)["token"], Value::Null);
        assert_eq!(json(&free)["held"], false);
        assert_eq!(rows(&free), [["idle", "free", "–", "–", "–", "–", "0"]]);
    }
}
