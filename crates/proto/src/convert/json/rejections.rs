//! What resources refused.

use serde_json::{Value, json};

use super::{number_of, session_of, some, wide};
use crate::v1;

/// A page of rejections.
pub fn rejections(list: &v1::RejectionList) -> Value {
    let rejections: Vec<Value> = list.rejections.iter().map(rejection).collect();
    json!({
        "rejections": rejections,
        "more": list.more,
        "known_since_us": wide(list.known_since_us),
        "forgotten": wide(list.forgotten),
    })
}

/// What one guard reported of one stale holder.
pub fn rejection(of: &v1::Rejection) -> Value {
    let refusal = of.refusal.clone().unwrap_or_default();
    json!({
        "guard": of.guard,
        "lock": refusal.lock,
        "slot": refusal.slot,
        "client": refusal.client,
        "session": some(session_of(refusal.acquisition.as_ref())),
        "number": some(number_of(refusal.acquisition.as_ref())),
        "presented": wide(refusal.presented),
        "mark": wide(refusal.mark),
        "by": if refusal.by_floor { "floor" } else { "mark" },
        "gap_max": wide(of.gap_max),
        "count": wide(refusal.count),
        "first_at_us": wide(of.first_at_us),
        "last_at_us": wide(of.last_at_us),
        "last_ago_ms": wide(of.last_ago_ms),
        "storm": of.storm,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_tells_both_tokens_and_whose_they_are() {
        let acquisition = Some(v1::AcquisitionId { session: 7, number: 1 });
        let refusal = v1::StaleRefusal {
            lock: "orders/7".into(),
            presented: 34,
            mark: 41,
            client: "worker-a".into(),
            acquisition,
            count: 3,
            ..v1::StaleRefusal::default()
        };
        let bare = v1::StaleRefusal { acquisition: None, by_floor: true, ..refusal.clone() };
        let of = |refusal, storm| v1::Rejection {
            guard: "orders-db".into(),
            refusal: Some(refusal),
            storm,
            ..v1::Rejection::default()
        };
        let shown = rejection(&of(refusal, true));
        assert_eq!(
            (&shown["presented"], &shown["mark"], &shown["by"]),
            (&json!("34"), &json!("41"), &json!("mark"))
        );
        assert_eq!(
            (&shown["session"], &shown["count"], &shown["storm"]),
            (&json!("7"), &json!("3"), &json!(true))
        );
        let shown = rejection(&of(bare, false));
        assert_eq!((&shown["session"], &shown["by"]), (&Value::Null, &json!("floor")));
    }
}
