//! The story for scripts: one document, 64-bit numbers as strings.

use std::time::Duration;

use serde_json::{Value, json};

use super::story::{Event, Round, Story, What};
use crate::output::wide;

impl Story {
    /// For scripts.
    pub(super) fn json(&self) -> Value {
        let millis = |time: Duration| wide(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        json!({
            "lock": self.lock,
            "leader": self.leader,
            "term": wide(self.term),
            "ttl_ms": millis(self.ttl),
            "pause_ms": millis(self.pause),
            "lock_delay_ms": "0",
            "rounds": self.rounds.iter().map(Round::json).collect::<Vec<_>>(),
            "ok": self.check().is_ok(),
            "reason": self.check().err(),
        })
    }
}

impl Round {
    fn json(&self) -> Value {
        json!({
            "round": self.fencing.word(),
            "events": self.events.iter().map(Event::json).collect::<Vec<_>>(),
            "file": self.lines.iter().map(|line| json!({ "text": line.text, "token": wide(line.token) })).collect::<Vec<_>>(),
            "verdict": if self.is_corrupt() { "corrupt" } else { "correct" },
            "stale_write": if self.stale_refused() { "refused" } else { "accepted" },
            "grants": self.grants(),
            "expiries": self.expiries(),
            "node_errors": self.node_errors,
            "as_expected": self.check().is_ok(),
            "reason": self.check().err(),
        })
    }
}

impl Event {
    fn json(&self) -> Value {
        let mut fields = self.what.json();
        fields["at_ms"] = wide(u64::try_from(self.at.as_millis()).unwrap_or(u64::MAX));
        fields["who"] = self.who.word().into();
        fields
    }
}

impl What {
    fn json(&self) -> Value {
        match self {
            Self::Acquired { token } => json!({ "what": "acquired", "token": wide(*token) }),
            Self::Queued => json!({ "what": "queued" }),
            Self::Stopped => json!({ "what": "stopped" }),
            Self::Continued => json!({ "what": "continued" }),
            Self::Expired { token } => json!({ "what": "expired", "token": wide(*token) }),
            Self::Claimed { mark } => json!({ "what": "claimed", "mark": wide(*mark) }),
            Self::NothingToClaim => json!({ "what": "nothing_to_claim" }),
            Self::Wrote { text, token, mark, stale } => json!({
                "what": "wrote", "text": text, "token": wide(*token), "mark": mark.map(wide), "stale": stale,
            }),
            Self::Refused { text, token, mark } => json!({
                "what": "refused", "text": text, "token": wide(*token), "mark": wide(*mark),
            }),
            Self::ReleaseRefused { reason, superseded_by } => json!({
                "what": "release_refused", "reason": reason, "superseded_by": superseded_by.map(wide),
            }),
            Self::StillHeld { by, token } => {
                json!({ "what": "still_held", "by": by.word(), "token": wide(*token) })
            }
        }
    }
}
