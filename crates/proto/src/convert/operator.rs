//! What an operator asks, and the guards of resources.

use palisade_core::command::{
    BreakLock, ClusterVersion, ConfirmFloor, EndSession, SetCapacity, SetDelayRule,
};
use palisade_core::history::HistorySizes;
use palisade_core::ids::{GuardName, LockName, LockPrefix, Millis, Principal, Slot};
use palisade_core::limits::{CAPACITY_MAX, CLOSED_MAX, GUARDS_MAX, Limits, MoreLimits};
use palisade_core::lock::DelayRule;
use palisade_core::table::LockTable;

use super::{BadArgument, session, words};
use crate::v1;

/// From the wire.
pub fn break_lock(by: Principal, message: &v1::BreakLock) -> Result<BreakLock, BadArgument> {
    Ok(BreakLock {
        lock: LockName::new(&message.lock)?,
        slot: Slot(message.slot),
        token: words::token_from(message.token)?,
        closed: closed(message.closed_ms)?,
        by,
    })
}

/// From the wire.
pub fn end_session(by: Principal, message: &v1::EndSession) -> Result<EndSession, BadArgument> {
    Ok(EndSession {
        session: session::session_from(message.session)?,
        closed: closed(message.closed_ms)?,
        by,
    })
}

fn closed(closed: Option<u64>) -> Result<Option<Millis>, BadArgument> {
    match closed {
        Some(closed) if closed > CLOSED_MAX.0 => Err(BadArgument::over(
            format!("a slot is closed for at most {CLOSED_MAX} ms; {closed} was asked"),
            CLOSED_MAX.0,
        )),
        closed => Ok(closed.map(Millis)),
    }
}

/// From the wire.
pub fn set_capacity(message: &v1::SetCapacity) -> Result<SetCapacity, BadArgument> {
    if message.capacity == 0 || message.capacity > CAPACITY_MAX {
        let text = format!("a capacity is 1 to {CAPACITY_MAX}; {} was asked", message.capacity);
        return Err(BadArgument::over(text, CAPACITY_MAX.into()));
    }
    Ok(SetCapacity { lock: LockName::new(&message.lock)?, capacity: message.capacity })
}

/// From the wire.
pub fn set_delay_rule(message: &v1::SetDelayRule) -> Result<SetDelayRule, BadArgument> {
    let rule = message.rule.as_ref().map(|rule| {
        if rule.fenced_by.len() > GUARDS_MAX {
            let text = format!("a rule names at most {GUARDS_MAX} guards; {} came", rule.fenced_by.len());
            return Err(BadArgument::over(text, GUARDS_MAX as u64));
        }
        let fenced_by = rule.fenced_by.iter().map(|guard| GuardName::new(guard)).collect::<Result<_, _>>()?;
        Ok(DelayRule { least: Millis(rule.least_ms), most: Millis(rule.most_ms), fenced_by })
    });
    Ok(SetDelayRule { prefix: LockPrefix::new(&message.prefix)?, rule: rule.transpose()? })
}

/// From the wire.
pub fn confirm_floor(by: Principal, message: &v1::ConfirmFloor) -> Result<ConfirmFloor, BadArgument> {
    Ok(ConfirmFloor {
        guard: GuardName::new(&message.guard)?,
        lock: LockName::new(&message.lock)?,
        slot: Slot(message.slot),
        floor: words::token_from(message.floor)?,
        by,
    })
}

/// All that an operator can set, as the cluster has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bounds that apply enforces.
    pub limits: Limits,
    /// Those that came later.
    pub more: MoreLimits,
    /// Of the history.
    pub history: HistorySizes,
    /// Which behaviour of apply is in force.
    pub version: ClusterVersion,
}

impl Settings {
    /// Of a table.
    pub fn of(table: &LockTable) -> Self {
        let header = table.header();
        Self {
            limits: header.limits.clone(),
            more: table.more_limits().clone(),
            history: table.history().sizes(),
            version: header.version,
        }
    }

    /// With what a message names put in place of it.
    pub fn with(mut self, set: &v1::SetSettings) -> Self {
        let limits = &mut self.limits;
        put(&mut limits.sessions_max, set.sessions_max);
        put(&mut limits.locks_max, set.locks_max);
        put(&mut limits.acquisitions_per_session_max, set.acquisitions_per_session_max);
        put(&mut limits.waiters_per_lock_max, set.waiters_per_lock_max);
        put(&mut limits.outcomes_per_session_max, set.outcomes_per_session_max);
        put(&mut limits.ended_sessions_max, set.ended_sessions_max);
        put(&mut limits.predecessors_max, set.slot_memories_max);
        put(&mut limits.keys_max, set.keys_max);
        put(&mut limits.lock_delay_default.0, set.lock_delay_default_ms);
        put(&mut self.more.baton_bytes_max, set.baton_bytes_max);
        put(&mut self.more.delay_rules_max, set.delay_rules_max);
        put(&mut self.more.cycle_search_max, set.cycle_search_max);
        put(&mut self.history.expired_max, set.history_expired_max);
        put(&mut self.history.others_max, set.history_others_max);
        put(&mut self.version.0, set.cluster_version);
        self
    }

    /// To the wire.
    pub fn message(&self) -> v1::SetSettings {
        let Self { limits, more, history, version } = self;
        v1::SetSettings {
            sessions_max: Some(limits.sessions_max),
            locks_max: Some(limits.locks_max),
            acquisitions_per_session_max: Some(limits.acquisitions_per_session_max),
            waiters_per_lock_max: Some(limits.waiters_per_lock_max),
            outcomes_per_session_max: Some(limits.outcomes_per_session_max),
            ended_sessions_max: Some(limits.ended_sessions_max),
            slot_memories_max: Some(limits.predecessors_max),
            keys_max: Some(limits.keys_max),
            lock_delay_default_ms: Some(limits.lock_delay_default.0),
            baton_bytes_max: Some(more.baton_bytes_max),
            delay_rules_max: Some(more.delay_rules_max),
            cycle_search_max: Some(more.cycle_search_max),
            history_expired_max: Some(history.expired_max),
            history_others_max: Some(history.others_max),
            cluster_version: Some(version.0),
        }
    }
}

fn put<T>(at: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *at = value;
    }
}

/// To the wire.
pub fn settings(table: &LockTable) -> v1::Settings {
    let rules = table.delay_rules().iter().map(|(prefix, rule)| v1::DelayRuleOf {
        prefix: prefix.as_str().to_owned(),
        rule: Some(v1::DelayRule {
            least_ms: rule.least.0,
            most_ms: rule.most.0,
            fenced_by: rule.fenced_by.iter().map(|guard| guard.as_str().to_owned()).collect(),
        }),
    });
    v1::Settings {
        present: Some(Settings::of(table).message()),
        delay_rules: rules.collect(),
        newest_version: ClusterVersion::CURRENT.0,
    }
}
