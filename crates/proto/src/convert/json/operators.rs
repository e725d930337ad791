//! What an operator set.

use serde_json::{Map, Value, json};

use super::wide;
use crate::v1;

/// All that an operator can set, as it stands.
pub fn settings(settings: &v1::Settings) -> Value {
    let rules = settings.delay_rules.iter().map(|of| {
        let rule = of.rule.clone().unwrap_or_default();
        json!({
            "prefix": of.prefix,
            "least_ms": wide(rule.least_ms),
            "most_ms": wide(rule.most_ms),
            "fenced_by": rule.fenced_by,
        })
    });
    json!({
        "present": present(&settings.present.unwrap_or_default()),
        "delay_rules": rules.collect::<Vec<_>>(),
        "newest_version": settings.newest_version,
    })
}

/// Under the names that a call sets them by.
fn present(set: &v1::SetSettings) -> Value {
    let wides = [
        ("sessions_max", set.sessions_max),
        ("locks_max", set.locks_max),
        ("lock_delay_default_ms", set.lock_delay_default_ms),
        ("baton_bytes_max", set.baton_bytes_max),
    ];
    let narrow = [
        ("acquisitions_per_session_max", set.acquisitions_per_session_max),
        ("waiters_per_lock_max", set.waiters_per_lock_max),
        ("outcomes_per_session_max", set.outcomes_per_session_max),
        ("ended_sessions_max", set.ended_sessions_max),
        ("slot_memories_max", set.slot_memories_max),
        ("keys_max", set.keys_max),
        ("delay_rules_max", set.delay_rules_max),
        ("cycle_search_max", set.cycle_search_max),
        ("history_expired_max", set.history_expired_max),
        ("history_others_max", set.history_others_max),
        ("cluster_version", set.cluster_version),
    ];
    let wides = wides.into_iter().filter_map(|(name, set)| Some((name.to_owned(), wide(set?))));
    let narrow = narrow.into_iter().filter_map(|(name, set)| Some((name.to_owned(), set?.into())));
    Value::Object(wides.chain(narrow).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_stand_under_the_names_that_set_them() {
        let present = v1::SetSettings {
            locks_max: Some(u64::MAX),
            cluster_version: Some(2),
            ..v1::SetSettings::default()
        };
        let rule = v1::DelayRule { least_ms: 0, most_ms: 5_000, fenced_by: vec!["db".to_owned()] };
        let of = v1::DelayRuleOf { prefix: "orders/".to_owned(), rule: Some(rule) };
        let shown =
            settings(&v1::Settings { present: Some(present), delay_rules: vec![of], newest_version: 2 });
        assert_eq!(shown["present"], json!({ "locks_max": "18446744073709551615", "cluster_version": 2 }));
        assert_eq!(
            (&shown["delay_rules"][0]["most_ms"], &shown["newest_version"]),
            (&json!("5000"), &json!(2))
        );
    }
}
