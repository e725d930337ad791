//! How a lock is shown, one alone and many in a table.

use std::time::Duration;

use palisade_host::{Clock, SystemClock};
pub(super) use palisade_proto::convert::words::{ended_word as ended, mode_word as mode};
use palisade_proto::v1;
use palisade_proto::v1::slot_view::State;

use crate::output::span;

/// Less is not worth a word, milliseconds.
const SIGNAL_MIN_MS: u64 = 100;

/// How long ago something was, by this machine's wall clock; another's wrote it down.
pub(super) fn ago(at_us: u64) -> String {
    span(Duration::from_micros(SystemClock.wall_micros().saturating_sub(at_us)))
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
    lines.extend(view.rejections.iter().map(rejection_line));
    lines.join("\n")
}

/// A stale holder that a resource refused.
pub(super) fn rejection_line(of: &v1::Rejection) -> String {
    let refusal = of.refusal.clone().unwrap_or_default();
    let (name, presented, count) = (client(&refusal.client), refusal.presented, refusal.count);
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let last = span(Duration::from_millis(of.last_ago_ms));
    let storm = if of.storm { "   STORM: it does not stop" } else { "" };
    format!(
        "refused: {name}, token {presented} below {} {}, {times} by {}, last {last} ago{storm}",
        if refusal.by_floor { "floor" } else { "mark" },
        refusal.mark,
        of.guard
    )
}

/// What a holder told of itself that is worth a word.
fn fares(signals: &v1::HolderSignals) -> String {
    let time = |ms: u64| span(Duration::from_millis(ms));
    let told = [
        (signals.pause_longest_ms, "stood still for"),
        (signals.throttled_ms, "throttled for"),
        (signals.stolen_ms, "CPU stolen for"),
    ];
    let words = told.into_iter().filter(|(ms, _)| *ms >= SIGNAL_MIN_MS);
    let words: Vec<String> = words.map(|(ms, what)| format!("{what} {}", time(ms))).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
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
                let fares = holder.signals.as_ref().map(fares).unwrap_or_default();
                format!(
                    "{} (session {session}) for {}{fares}",
                    client(&holder.client),
                    ago(holder.granted_at_us)
                )
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
    fn a_holder_that_stood_still_is_told() {
        let mut view = held();
        let Some(State::Held(tenure)) = &mut view.slots[0].state else { panic!("it is held") };
        tenure.holders[0].signals = Some(v1::HolderSignals {
            pause_longest_ms: 1_500,
            throttled_ms: 99,
            ..v1::HolderSignals::default()
        });
        let text = lines(&view);
        assert!(text.contains("(stood still for 1.5s), lease ends in"), "{text}");
    }

    #[test]
    fn a_stale_holder_that_was_refused_is_told_with_both_tokens() {
        let refusal = v1::StaleRefusal {
            presented: 33,
            mark: 34,
            client: "worker-a".into(),
            count: 12,
            ..v1::StaleRefusal::default()
        };
        let told = v1::Rejection {
            guard: "orders-db".into(),
            refusal: Some(refusal),
            last_ago_ms: 400,
            storm: true,
            ..v1::Rejection::default()
        };
        let text = lines(&v1::LockView { rejections: vec![told], ..held() });
        let last = "refused: worker-a, token 33 below mark 34, 12 times by orders-db, last 0.4s ago   STORM: it does not stop";
        assert_eq!(text.lines().last(), Some(last));
    }

    #[test]
    fn a_free_lock_says_so() {
        let free = v1::LockView { lock: "idle".into(), ..v1::LockView::default() };
        assert_eq!(lines(&free), "idle   free");
        assert_eq!(rows(&free), [["idle", "free", "–", "–", "–", "–", "0"]]);
    }
}
