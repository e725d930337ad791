//! What an operator asks, and the guards of resources.

use palisade_proto::v1;
use serde::Deserialize;

use super::Wide;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct BreakLock {
    lock: String,
    #[serde(default)]
    slot: u32,
    token: Wide,
    closed_ms: Option<Wide>,
}

impl From<BreakLock> for v1::BreakLock {
    fn from(asked: BreakLock) -> Self {
        let BreakLock { lock, slot, token, closed_ms } = asked;
        Self { lock, slot, token: token.0, closed_ms: closed_ms.map(|closed| closed.0) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct EndSession {
    session: Wide,
    closed_ms: Option<Wide>,
}

impl From<EndSession> for v1::EndSession {
    fn from(asked: EndSession) -> Self {
        Self { session: asked.session.0, closed_ms: asked.closed_ms.map(|closed| closed.0) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SetCapacity {
    lock: String,
    capacity: u32,
}

impl From<SetCapacity> for v1::SetCapacity {
    fn from(asked: SetCapacity) -> Self {
        Self { lock: asked.lock, capacity: asked.capacity }
    }
}

/// Without a rule, the one of the prefix is taken away.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SetDelayRule {
    prefix: String,
    rule: Option<DelayRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DelayRule {
    least_ms: Wide,
    most_ms: Wide,
    #[serde(default)]
    fenced_by: Vec<String>,
}

impl From<SetDelayRule> for v1::SetDelayRule {
    fn from(asked: SetDelayRule) -> Self {
        let rule = asked.rule.map(|rule| v1::DelayRule {
            least_ms: rule.least_ms.0,
            most_ms: rule.most_ms.0,
            fenced_by: rule.fenced_by,
        });
        Self { prefix: asked.prefix, rule }
    }
}

/// What is named is set; the rest stays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SetSettings {
    sessions_max: Option<Wide>,
    locks_max: Option<Wide>,
    acquisitions_per_session_max: Option<u32>,
    waiters_per_lock_max: Option<u32>,
    outcomes_per_session_max: Option<u32>,
    ended_sessions_max: Option<u32>,
    slot_memories_max: Option<u32>,
    keys_max: Option<u32>,
    lock_delay_default_ms: Option<Wide>,
    baton_bytes_max: Option<Wide>,
    delay_rules_max: Option<u32>,
    cycle_search_max: Option<u32>,
    history_expired_max: Option<u32>,
    history_others_max: Option<u32>,
    cluster_version: Option<u32>,
}

impl From<SetSettings> for v1::SetSettings {
    fn from(asked: SetSettings) -> Self {
        let wide = |number: Option<Wide>| number.map(|number| number.0);
        Self {
            sessions_max: wide(asked.sessions_max),
            locks_max: wide(asked.locks_max),
            acquisitions_per_session_max: asked.acquisitions_per_session_max,
            waiters_per_lock_max: asked.waiters_per_lock_max,
            outcomes_per_session_max: asked.outcomes_per_session_max,
            ended_sessions_max: asked.ended_sessions_max,
            slot_memories_max: asked.slot_memories_max,
            keys_max: asked.keys_max,
            lock_delay_default_ms: wide(asked.lock_delay_default_ms),
            baton_bytes_max: wide(asked.baton_bytes_max),
            delay_rules_max: asked.delay_rules_max,
            cycle_search_max: asked.cycle_search_max,
            history_expired_max: asked.history_expired_max,
            history_others_max: asked.history_others_max,
            cluster_version: asked.cluster_version,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ConfirmFloor {
    guard: String,
    lock: String,
    #[serde(default)]
    slot: u32,
    floor: Wide,
}

impl From<ConfirmFloor> for v1::ConfirmFloor {
    fn from(asked: ConfirmFloor) -> Self {
        let ConfirmFloor { guard, lock, slot, floor } = asked;
        Self { guard, lock, slot, floor: floor.0 }
    }
}
