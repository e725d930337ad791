//! `palisade why`: what stands in the way of a lock, in sentences, and how its last holds ended.

use std::time::Duration;

use palisade_core::ids::{LockName, WallTime};
use palisade_proto::convert::json;
use palisade_proto::convert::words::wall_time;
use palisade_proto::v1::{self, slot_view::State};
use serde_json::{Value, json};

use super::{Failure, client, view};
use crate::args::{Globals, WhyArgs};
use crate::exit::Exit;
use crate::output::{Output, span};

/// Ended holds that are told.
const TOLD: u32 = 5;

/// Yes when the lock is held, as `palisade who`.
pub(crate) async fn run(globals: &Globals, arguments: &WhyArgs) -> Result<Exit, Failure> {
    let name = LockName::new(&arguments.name).map_err(|error| Failure::new(Exit::USAGE, error))?;
    let client = client(globals)?;
    let lock = client.lock_view(&name).await?;
    let past = client.history(&name, TOLD, 0).await?;
    let scripts = || {
        let mut value = json::lock(&lock);
        if let Value::Object(fields) = &mut value {
            fields.insert("why".to_owned(), json!(sentences(&lock)));
            fields.insert("history".to_owned(), past.holds.iter().map(json::hold).collect());
        }
        value
    };
    let people = |_: Output| {
        let past = past.holds.iter().map(past_line);
        sentences(&lock).into_iter().chain(past).collect::<Vec<_>>().join("\n")
    };
    Output::new(globals).answer("palisade.why/1", people, scripts)?;
    Ok(if lock.slots.iter().any(|slot| view::tenure(slot).is_some()) { Exit::OK } else { Exit::NO })
}

/// What is so now, one fact a sentence.
fn sentences(lock: &v1::LockView) -> Vec<String> {
    let mut said: Vec<String> = lock.slots.iter().map(|slot| slot_sentence(lock, slot)).collect();
    if said.is_empty() {
        said.push(format!("{} is free.", lock.lock));
    }
    if let Some(first) = lock.queue.first() {
        let waits = view::ago(first.enqueued_at_us);
        let others = match lock.queue.len() - 1 {
            0 => String::new(),
            1 => "; one more waits behind it".to_owned(),
            more => format!("; {more} more wait behind it"),
        };
        said.push(format!("{} is next: it has waited for {waits}{others}.", view::client(&first.client)));
    }
    if let Some(before) = &lock.predecessor {
        let (who, token) = (view::client(&before.client), before.token);
        let how = match v1::Ended::try_from(before.ended) {
            Ok(v1::Ended::Expired) => "was not heard from for its whole lease",
            Ok(v1::Ended::Released) => "released it",
            Ok(v1::Ended::Closed) => "closed its session",
            Ok(v1::Ended::Cancelled) => "gave it up",
            _ => view::ended(before.ended).unwrap_or("ended"),
        };
        said.push(format!(
            "Before, {who} held it under token {token}; it {how} {} ago.",
            view::ago(before.ended_at_us)
        ));
    }
    said
}

fn slot_sentence(lock: &v1::LockView, slot: &v1::SlotView) -> String {
    let name = if lock.capacity > 1 { format!("{}[{}]", lock.lock, slot.slot) } else { lock.lock.clone() };
    match &slot.state {
        Some(State::Held(tenure)) => {
            let who: Vec<&str> = tenure.holders.iter().map(|holder| view::client(&holder.client)).collect();
            let lease = match tenure.lease_left_ms {
                0 => String::new(),
                left => {
                    let left = span(Duration::from_millis(left));
                    format!(" Its lease ends in {left} unless it is heard from.")
                }
            };
            let since = wall_time(WallTime(tenure.begun_at_us));
            format!(
                "{name} is held by {} under token {} since {since}, for {}.{lease}",
                who.join(", "),
                tenure.token,
                view::ago(tenure.begun_at_us)
            )
        }
        Some(State::Delayed(delay)) => {
            let whole = span(Duration::from_millis(delay.delay_ms));
            let left = match delay.left_ms {
                0 => String::new(),
                left => format!(" for another {}", span(Duration::from_millis(left))),
            };
            format!(
                "{name} is closed{left}: the holder of token {} ended without releasing, and may still act; the \
                 lock-delay is {whole}.",
                delay.ended_token
            )
        }
        Some(State::Free(_)) | None => format!("{name} is free."),
    }
}

fn past_line(hold: &v1::EndedHold) -> String {
    let held = span(Duration::from_micros(hold.ended_at_us.saturating_sub(hold.granted_at_us)));
    let (who, how) = (view::client(&hold.client), view::ended(hold.ended).unwrap_or("ended"));
    format!("  token {}  {who} held it for {held}, {how} {} ago", hold.token, view::ago(hold.ended_at_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(state: State) -> v1::LockView {
        let waiter = v1::WaiterView { client: "worker-c".into(), ..v1::WaiterView::default() };
        v1::LockView {
            lock: "orders".into(),
            capacity: 1,
            slots: vec![v1::SlotView { slot: 0, state: Some(state) }],
            queue: vec![waiter.clone(), waiter],
            predecessor: Some(v1::Predecessor {
                client: "worker-a".into(),
                token: 33,
                ended: v1::Ended::Expired.into(),
                ..v1::Predecessor::default()
            }),
            ..v1::LockView::default()
        }
    }

    #[test]
    fn a_closed_lock_says_why_and_who_is_next() {
        let delay = v1::Delay { ended_token: 33, delay_ms: 15_000, left_ms: 8_000, ..v1::Delay::default() };
        let said = sentences(&lock(State::Delayed(delay)));
        assert!(
            said[0].starts_with("orders is closed for another 8.0s: the holder of token 33 "),
            "{said:?}"
        );
        assert!(said[1].starts_with("worker-c is next: it has waited for "), "{said:?}");
        assert!(said[1].ends_with("; one more waits behind it."), "{said:?}");
        let before = "Before, worker-a held it under token 33; it was not heard from for its whole lease ";
        assert!(said[2].starts_with(before), "{said:?}");
    }

    #[test]
    fn a_held_lock_says_by_whom_and_until_when() {
        let holder = v1::Holder { client: "worker-b".into(), ..v1::Holder::default() };
        let tenure =
            v1::Tenure { token: 34, holders: vec![holder], lease_left_ms: 6_100, ..v1::Tenure::default() };
        let said = sentences(&lock(State::Held(tenure)));
        assert!(said[0].starts_with("orders is held by worker-b under token 34 since 1970-01-01T00:00:00Z"));
        assert!(said[0].ends_with("Its lease ends in 6.1s unless it is heard from."), "{said:?}");
        assert_eq!(
            sentences(&v1::LockView { lock: "idle".into(), ..v1::LockView::default() }),
            ["idle is free."]
        );
    }
}
