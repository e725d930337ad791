//! The documents that scripts read: the same from the program (`-o json`) and over HTTP.
//!
//! Every 64-bit number is a string, since many readers of JSON keep only 53 bits (SPEC 13). Numbers that cannot grow
//! (slots, places, capacities) are numbers.

mod answers;
mod happened;
mod operators;
mod rejections;

use serde_json::{Value, json};

use super::words;
use crate::v1;
use crate::v1::slot_view::State as Slot;
use crate::v1::verdict::State;

pub use self::answers::{grant, problem, queued, took_over};
pub use self::happened::{audit, entry, event_word, history, hold};
pub use self::operators::settings;
pub use self::rejections::{rejection, rejections};

/// A 64-bit number.
pub fn wide(number: u64) -> Value {
    number.to_string().into()
}

/// Bytes of somebody else's: text where they are UTF-8, else `{"hex": …}`; nothing for none.
pub fn payload(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok("") => Value::Null,
        Ok(text) => text.into(),
        Err(_) => json!({ "hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() }),
    }
}

fn some(number: u64) -> Option<Value> {
    (number > 0).then(|| wide(number))
}

fn session_of(acquisition: Option<&v1::AcquisitionId>) -> u64 {
    acquisition.map_or(0, |acquisition| acquisition.session)
}

fn number_of(acquisition: Option<&v1::AcquisitionId>) -> u64 {
    acquisition.map_or(0, |acquisition| acquisition.number)
}

fn acquisition(id: &v1::AcquisitionId) -> Value {
    json!({ "session": wide(id.session), "number": wide(id.number) })
}

fn tenure(slot: &v1::SlotView) -> Option<&v1::Tenure> {
    match &slot.state {
        Some(Slot::Held(tenure)) => Some(tenure),
        Some(Slot::Free(_) | Slot::Delayed(_)) | None => None,
    }
}

/// A lock for scripts. `token` and `index` are those of slot 0, the only one unless the lock is a semaphore; `index` is
/// that of the entry that began the tenure, so that token = token_base + index.
pub fn lock(view: &v1::LockView) -> Value {
    let first = view.slots.iter().find(|slot| slot.slot == 0).and_then(tenure);
    json!({
        "lock": view.lock,
        "capacity": view.capacity.max(1),
        "capacity_set": view.capacity_set,
        "held": view.slots.iter().any(|slot| tenure(slot).is_some()),
        "token": first.map(|tenure| wide(tenure.token)),
        "index": first.map(|tenure| wide(tenure.begin_index)),
        "token_base": wide(view.token_base),
        "applied": wide(view.index),
        "slots": view.slots.iter().map(slot_json).collect::<Vec<_>>(),
        "queue": view.queue.iter().map(waiter_json).collect::<Vec<_>>(),
        "batons": view.batons.iter().map(|left| json!({
            "slot": left.slot,
            "baton": payload(&left.baton),
            "token": wide(left.token),
        })).collect::<Vec<_>>(),
        "rejections": view.rejections.iter().map(rejection).collect::<Vec<_>>(),
        "previous": view.predecessor.as_ref().map(|previous| json!({
            "session": wide(session_of(previous.acquisition.as_ref())),
            "number": wide(number_of(previous.acquisition.as_ref())),
            "client": previous.client,
            "token": wide(previous.token),
            "ended": words::ended_word(previous.ended),
            "ended_at_us": wide(previous.ended_at_us),
            "end_index": wide(previous.end_index),
        })),
    })
}

fn slot_json(slot: &v1::SlotView) -> Value {
    match &slot.state {
        Some(Slot::Held(tenure)) => json!({
            "slot": slot.slot,
            "state": "held",
            "mode": words::mode_word(tenure.mode),
            "token": wide(tenure.token),
            "index": wide(tenure.begin_index),
            "begun_at_us": wide(tenure.begun_at_us),
            "lease_left_ms": some(tenure.lease_left_ms),
            "holders": tenure.holders.iter().map(holder).collect::<Vec<_>>(),
        }),
        Some(Slot::Delayed(delay)) => json!({
            "slot": slot.slot,
            "state": "delayed",
            "began": wide(delay.began),
            "ended_token": wide(delay.ended_token),
            "delay_ms": wide(delay.delay_ms),
            "left_ms": some(delay.left_ms),
            "guards": delay.guards,
            "confirmed": delay.confirmed,
            "kept_for": delay.kept_for.as_ref().map(acquisition),
        }),
        Some(Slot::Free(_)) | None => json!({ "slot": slot.slot, "state": "free" }),
    }
}

/// Who holds a slot, with what is known of it.
pub fn holder(holder: &v1::Holder) -> Value {
    json!({
        "session": wide(session_of(holder.acquisition.as_ref())),
        "number": wide(number_of(holder.acquisition.as_ref())),
        "client": holder.client,
        "grant_index": wide(holder.grant_index),
        "granted_at_us": wide(holder.granted_at_us),
        "metadata": payload(&holder.metadata),
        "hold_max_ms": some(holder.hold_max_ms),
        "progress_every_ms": some(holder.progress_every_ms),
        "reported_index": some(holder.reported_index),
        "signals": holder.signals.as_ref().map(signals),
    })
}

fn waiter_json(waiter: &v1::WaiterView) -> Value {
    json!({
        "session": wide(session_of(waiter.acquisition.as_ref())),
        "number": wide(number_of(waiter.acquisition.as_ref())),
        "client": waiter.client,
        "owner": waiter.owner,
        "mode": words::mode_word(waiter.mode),
        "permits": waiter.permits.max(1),
        "locks": waiter.locks,
        "enqueued_at_us": wide(waiter.enqueued_at_us),
        "enqueue_index": wide(waiter.enqueue_index),
    })
}

/// A page of locks.
pub fn locks(list: &v1::LockList) -> Value {
    let locks: Vec<Value> = list.locks.iter().map(lock).collect();
    json!({ "locks": locks, "more": list.more, "applied": wide(list.index) })
}

/// A page of sessions.
pub fn sessions(list: &v1::SessionList) -> Value {
    let sessions = list.sessions.iter().map(|session| {
        json!({
            "session": wide(session.session),
            "client": session.client,
            "owner": session.owner,
            "ttl_ms": wide(session.ttl_ms),
            "opened_at_us": wide(session.opened_at_us),
            "lease_left_ms": some(session.lease_left_ms),
            "holds": session.holds,
            "waits": session.waits,
            "signals": session.signals.as_ref().map(signals),
        })
    });
    json!({ "sessions": sessions.collect::<Vec<_>>(), "more": list.more, "applied": wide(list.index) })
}

/// What a holder told of itself.
pub fn signals(signals: &v1::HolderSignals) -> Value {
    json!({
        "reported_ago_ms": wide(signals.reported_ago_ms),
        "working": signals.working,
        "pause_longest_ms": wide(signals.pause_longest_ms),
        "pause_last_ms": wide(signals.pause_last_ms),
        "throttled_ms": wide(signals.throttled_ms),
        "stolen_ms": wide(signals.stolen_ms),
        "left_least_ms": signals.left_least_ms.map(wide),
    })
}

/// The cluster, and each node.
pub fn status(status: &v1::StatusAnswer) -> Value {
    let nodes = status.nodes.iter().map(|node| {
        json!({
            "id": wide(node.id),
            "name": node.name,
            "role": node.role,
            "peer_address": node.peer_address,
            "client_address": node.client_address,
            "committed": wide(node.committed),
            "applied": wide(node.applied),
            "uptime_s": wide(node.uptime_s),
            "version": node.version,
            "flush_p50_us": wide(node.flush_p50_us),
            "flush_p99_us": wide(node.flush_p99_us),
            "snapshot": wide(node.snapshot),
            "snapshots_installed": wide(node.snapshots_installed),
            "log_restarts": wide(node.log_restarts),
        })
    });
    json!({
        "healthy": status.healthy,
        "cluster_name": status.cluster_name,
        "cluster_id": status.cluster_id,
        "incarnation": status.incarnation,
        "leader": status.leader.as_ref().map(|leader| json!({
            "node": wide(leader.node),
            "name": leader.name,
            "client_address": leader.client_address,
        })),
        "term": wide(status.term),
        "token_base": wide(status.token_base),
        "locks_held": wide(status.locks_held),
        "sessions": wide(status.sessions),
        "waiters": wide(status.waiters),
        "nodes": nodes.collect::<Vec<_>>(),
    })
}

/// What a check found.
pub fn verdict(verdict: &v1::Verdict) -> Value {
    let state = match verdict.state() {
        State::Current => "current",
        State::Superseded => "superseded",
        State::Ended => "ended",
        State::UnknownKey => "unknown_key",
        State::Forged => "forged",
        State::WrongLock => "wrong_lock",
        State::NeverGranted => "never_granted",
        State::Unspecified => "unknown",
    };
    json!({
        "current": verdict.state() == State::Current,
        "state": state,
        "ended": words::ended_word(verdict.ended),
        "superseded_by": some(verdict.superseded_by),
        "in_lock_delay": verdict.in_lock_delay,
        "lock": verdict.lock,
        "slot": verdict.slot,
        "mode": words::mode_word(verdict.mode),
        "token": some(verdict.token),
        "client": verdict.client,
        "key_id": verdict.key_id,
        "applied": wide(verdict.index),
        "message": verdict.message,
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
            ..v1::Tenure::default()
        };
        v1::LockView {
            lock: "orders/shard-7".into(),
            capacity: 1,
            slots: vec![v1::SlotView { slot: 0, state: Some(Slot::Held(tenure)) }],
            predecessor: Some(v1::Predecessor {
                ended: v1::Ended::Expired.into(),
                ..v1::Predecessor::default()
            }),
            token_base: 1_800_000_000_000_000,
            ..v1::LockView::default()
        }
    }

    #[test]
    fn scripts_read_token_index_and_base_as_strings() {
        assert_eq!(wide(u64::MAX), "18446744073709551615");
        let value = lock(&held());
        assert_eq!(value["token"], "1800000000000034");
        assert_eq!(value["index"], "34");
        assert_eq!(value["token_base"], "1800000000000000");
        assert_eq!(value["slots"][0]["holders"][0]["session"], "1800000000000007");
        assert_eq!(value["previous"]["ended"], "expired");
    }

    #[test]
    fn a_free_lock_has_no_token() {
        let free = v1::LockView { lock: "idle".into(), ..v1::LockView::default() };
        assert_eq!((&lock(&free)["token"], &lock(&free)["held"]), (&Value::Null, &Value::Bool(false)));
    }
}
