//! What a caller is told.

use serde_json::{Value, json};

use super::super::{ErrorName, words};
use super::{acquisition, number_of, payload, session_of, some, wide};
use crate::v1;

/// What an acquisition was given.
pub fn grant(grant: &v1::Grant) -> Value {
    let sequencers = grant.sequencers.iter().map(Some).chain(std::iter::repeat(None));
    let parts = grant.parts.iter().zip(sequencers).map(|(part, sequencer)| {
        json!({
            "lock": part.lock,
            "slot": part.slot,
            "mode": words::mode_word(part.mode),
            "token": wide(part.token),
            "lock_delay_ms": wide(part.lock_delay_ms),
            "inherited": part.inherited.as_ref().map(inherited),
            "sequencer": sequencer,
        })
    });
    json!({
        "state": "granted",
        "session": wide(session_of(grant.acquisition.as_ref())),
        "number": wide(number_of(grant.acquisition.as_ref())),
        "grant_index": wide(grant.grant_index),
        "token": grant.parts.first().map(|part| wide(part.token)),
        "sequencer": grant.sequencers.first(),
        "hold_max_ms": some(grant.hold_max_ms),
        "progress_every_ms": some(grant.progress_every_ms),
        "parts": parts.collect::<Vec<_>>(),
    })
}

fn inherited(inherited: &v1::Inherited) -> Value {
    json!({
        "token": wide(inherited.token),
        "client": inherited.client,
        "ended": words::ended_word(inherited.ended),
        "baton": payload(&inherited.baton),
        "baton_token": some(inherited.baton_token),
    })
}

/// What a session took over from the one that it replaced.
pub fn took_over(took: &v1::TookOver) -> Value {
    use crate::v1::taken_acquisition::State;
    let kept = took.kept.iter().map(|kept| {
        let (state, closed) = match kept.state {
            Some(State::Holds(_)) => ("holds", None),
            Some(State::Waits(_)) => ("waits", None),
            Some(State::ClosedMs(closed)) => ("closed", Some(wide(closed))),
            None => ("unknown", None),
        };
        json!({ "was": wide(kept.was), "number": wide(kept.number), "state": state, "closed_ms": closed })
    });
    let ended = took
        .ended
        .iter()
        .map(|ended| json!({ "number": wide(ended.number), "ended": words::ended_word(ended.ended) }));
    json!({
        "replaced": wide(took.replaced),
        "kept": kept.collect::<Vec<_>>(),
        "ended": ended.collect::<Vec<_>>(),
    })
}

/// A place in the queue.
pub fn queued(queued: &v1::Queued) -> Value {
    json!({
        "state": "queued",
        "session": wide(session_of(queued.acquisition.as_ref())),
        "number": wide(number_of(queued.acquisition.as_ref())),
        "place": queued.place,
    })
}

/// A problem document (RFC 9457). `status` is the HTTP status that it goes with.
pub fn problem(error: &v1::Error, status: u16) -> Value {
    let row = ErrorName::parse(&error.name).map(ErrorName::row);
    let unknown = ErrorName::parse(&error.name).is_none_or(ErrorName::may_have_taken_effect);
    json!({
        "type": format!("urn:palisade:error:{}", error.name),
        "title": error.name,
        "status": status,
        "detail": error.message,
        "advice": row.map(|row| row.advice.replace(['*', '`'], "")),
        "took_effect": if unknown { "unknown" } else { "no" },
        "holder": error.holder.as_ref().map(|holder| json!({
            "session": wide(session_of(holder.acquisition.as_ref())),
            "number": wide(number_of(holder.acquisition.as_ref())),
            "client": holder.client,
            "token": some(holder.token),
        })),
        "superseded_by": some(error.superseded_by),
        "ended": words::ended_word(error.ended),
        "waiting": (error.waiting > 0).then_some(error.waiting),
        "retry_after_ms": some(error.retry_after_ms),
        "limit": some(error.limit),
        "lock_delay_ms": some(error.lock_delay_ms),
        "cycle": (!error.cycle.is_empty()).then(|| error.cycle.iter().map(|step| json!({
            "owner": step.owner,
            "client": step.client,
            "acquisition": step.acquisition.as_ref().map(acquisition),
            "lock": step.lock,
        })).collect::<Vec<_>>()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_what_to_do_and_what_there_is_to_act_on() {
        let error = v1::Error { superseded_by: 52, ..ErrorName::NotHeld.error("superseded by token 52") };
        let problem = problem(&error, 409);
        assert_eq!(problem["type"], "urn:palisade:error:NOT_HELD");
        assert_eq!((problem["status"].as_u64(), problem["superseded_by"].as_str()), (Some(409), Some("52")));
        assert_eq!(problem["took_effect"], "no");
        assert!(
            problem["advice"]
                .as_str()
                .is_some_and(|advice| advice.starts_with("Stop work that relied on it."))
        );
        let unknown = super::problem(&ErrorName::OutcomeUnknown.error(""), 504);
        assert_eq!(unknown["took_effect"], "unknown");
    }

    #[test]
    fn a_cycle_is_told_step_by_step() {
        let step = |owner: &str, lock: &str| v1::CycleStep {
            owner: owner.to_owned(),
            client: "billing-3".to_owned(),
            acquisition: Some(v1::AcquisitionId { session: 7, number: 2 }),
            lock: lock.to_owned(),
        };
        let cycle = vec![step("left", "a"), step("right", "b")];
        let shown = problem(&v1::Error { cycle, ..ErrorName::WouldDeadlock.error("a cycle") }, 409);
        assert_eq!((&shown["cycle"][1]["owner"], &shown["cycle"][1]["lock"]), (&json!("right"), &json!("b")));
        assert_eq!(shown["cycle"][0]["acquisition"], json!({ "session": "7", "number": "2" }));
        assert_eq!(problem(&ErrorName::NotHeld.error(""), 409)["cycle"], Value::Null);
    }

    #[test]
    fn what_was_taken_over_says_where_each_stands() {
        use crate::v1::taken_acquisition::State;
        let kept = |was, state| v1::TakenAcquisition { was, number: was + 10, state: Some(state) };
        let took = v1::TookOver {
            replaced: 7,
            kept: vec![kept(1, State::Holds(true)), kept(2, State::ClosedMs(25_000))],
            ended: vec![v1::EndedRequest { number: 3, ended: v1::Ended::Released.into() }],
        };
        let shown = took_over(&took);
        assert_eq!(
            shown["kept"][0],
            json!({ "was": "1", "number": "11", "state": "holds", "closed_ms": null })
        );
        assert_eq!(
            (&shown["kept"][1]["state"], &shown["kept"][1]["closed_ms"]),
            (&json!("closed"), &json!("25000"))
        );
        assert_eq!(shown["ended"][0], json!({ "number": "3", "ended": "released" }));
    }

    #[test]
    fn an_inherited_baton_is_text_or_hexadecimal() {
        let left = |baton: &[u8]| {
            inherited(&v1::Inherited { token: 34, baton: baton.to_vec(), ..v1::Inherited::default() })
        };
        assert_eq!(left("page é".as_bytes())["baton"], "page é");
        assert_eq!(left(&[0xff, 0])["baton"], json!({ "hex": "ff00" }));
        assert_eq!(left(b"")["baton"], Value::Null);
    }
}
