//! What a service answers when it is refused: one stable name, one HTTP status and one gRPC code for each error.
//!
//! Like the table of the coordinator's own errors (docs/errors.md), but of the resource's. `docs/adapters/services.md`
//! has this one.

use serde_json::{Map, Value, json};

use crate::error::FenceError;

/// How a [`FenceError`] leaves a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Stable.
    pub name: &'static str,
    /// The HTTP status.
    pub http: u16,
    /// The number of the gRPC code.
    pub grpc: i32,
}

const UNKNOWN: i32 = 2;
const INVALID_ARGUMENT: i32 = 3;
const PERMISSION_DENIED: i32 = 7;
const FAILED_PRECONDITION: i32 = 9;
const ABORTED: i32 = 10;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;
const UNAUTHENTICATED: i32 = 16;

impl FenceError {
    /// How it leaves a service.
    pub fn refusal(&self) -> Refusal {
        let (name, http, grpc) = match self {
            Self::Stale { .. } => ("STALE", 412, FAILED_PRECONDITION),
            Self::NotHolding(_) => ("NOT_HOLDING", 412, FAILED_PRECONDITION),
            Self::NoSequencer => ("SEQUENCER_REQUIRED", 428, FAILED_PRECONDITION),
            Self::Malformed(_) => ("MALFORMED", 400, INVALID_ARGUMENT),
            Self::Forged => ("FORGED", 401, UNAUTHENTICATED),
            Self::UnknownKey { .. } => ("UNKNOWN_KEY", 401, UNAUTHENTICATED),
            Self::WrongPurpose { .. } => ("WRONG_PURPOSE", 401, UNAUTHENTICATED),
            Self::WrongCluster { .. } => ("WRONG_CLUSTER", 403, PERMISSION_DENIED),
            Self::WrongLock { .. } => ("WRONG_LOCK", 403, PERMISSION_DENIED),
            Self::WrongSlot { .. } => ("WRONG_SLOT", 403, PERMISSION_DENIED),
            Self::WrongMode { .. } => ("WRONG_MODE", 403, PERMISSION_DENIED),
            Self::Contended { .. } => ("CONTENDED", 409, ABORTED),
            Self::NoFloor { .. } => ("NO_FLOOR", 503, UNAVAILABLE),
            Self::Busy { .. } => ("BUSY", 503, UNAVAILABLE),
            Self::NoMarks { .. }
            | Self::MarksExist { .. }
            | Self::Damaged { .. }
            | Self::Unfit { .. }
            | Self::Poisoned => ("CANNOT_DECIDE", 500, INTERNAL),
            Self::Storage { .. } => ("OUTCOME_UNKNOWN", 500, UNKNOWN),
            Self::Effect(_) => ("WRITE_FAILED", 500, INTERNAL),
        };
        Refusal { name, http, grpc }
    }

    /// As a problem document (RFC 9457). 64-bit numbers are strings. What is wrong inside is not told to callers.
    pub fn problem(&self) -> Value {
        let Refusal { name, http, .. } = self.refusal();
        let mut problem = Map::new();
        let kind = name.to_lowercase().replace('_', "-");
        problem.insert("type".to_owned(), format!("urn:palisade:{kind}").into());
        problem.insert("title".to_owned(), name.into());
        problem.insert("status".to_owned(), http.into());
        problem.insert("detail".to_owned(), self.told().into());
        if let Self::Stale { lock, slot, presented, mark } = self {
            problem.insert("lock".to_owned(), lock.as_str().into());
            problem.insert("slot".to_owned(), slot.0.into());
            problem.insert("presented".to_owned(), json!(presented.to_string()));
            problem.insert("mark".to_owned(), json!(mark.to_string()));
        }
        Value::Object(problem)
    }

    /// The message for a caller.
    pub(crate) fn told(&self) -> String {
        match self.refusal().name {
            "CANNOT_DECIDE" => {
                "the resource cannot decide about tokens now: its operator must act".to_owned()
            }
            "OUTCOME_UNKNOWN" => {
                "the write may have taken effect: read, then repeat it under the same token".to_owned()
            }
            "WRITE_FAILED" => "the write itself failed".to_owned(),
            _ => self.to_string(),
        }
    }
}
