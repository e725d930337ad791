//! The table: every error's stable name, gRPC code, HTTP status, exit code, meaning and advice (SPEC 12).

use tonic::Code;

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The stable name.
    pub name: &'static str,
    /// Of a unary call's status.
    pub code: Code,
    /// Of an answer over HTTP.
    pub http: u16,
    /// What the program returns, wrapper commands excepted.
    pub exit: u8,
    /// What happened, for people.
    pub meaning: &'static str,
    /// What to do about it.
    pub advice: &'static str,
}

/// Every refusal and failure that a caller can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorName {
    /// No session of this number is known here.
    SessionUnknown,
    /// The session was not heard from.
    SessionExpired,
    /// The session was closed.
    SessionClosed,
    /// The session ended in another way.
    SessionEnded,
    /// The same secret opened a session for another identity.
    SecretTaken,
    /// The request's number is below the session's mark.
    BelowMark,
    /// The acquisition ended.
    AlreadyEnded,
    /// A field is out of bounds, or a known number came with other content.
    BadArgument,
    /// A try met a holder.
    LockHeld,
    /// A try met waiters.
    QueuedAhead,
    /// A try met a lock-delay.
    LockClosed,
    /// The lock is in use with another capacity.
    CapacityDiffers,
    /// Not held by this acquisition under this token.
    NotHeld,
    /// A bound was met.
    LimitReached,
    /// The cluster's version does not know this yet.
    NotYet,
    /// The cluster is not founded.
    NotFounded,
    /// A bounded wait passed.
    WaitTimedOut,
    /// This node does not lead and did not append the request.
    NotLeader,
    /// No leader with a quorum now.
    NoQuorum,
    /// The request may or may not have taken effect.
    OutcomeUnknown,
    /// The node has more requests than it can take.
    Overloaded,
    /// The session's secret is missing or wrong.
    Unauthenticated,
    /// The node has not got as far as the position that a watch goes on from.
    NodeBehind,
    /// The watcher does not take what it is sent.
    WatchTooSlow,
    /// The sequencer names a key that is not known here.
    UnknownKey,
    /// The sequencer was not signed by this cluster.
    Forged,
    /// A message above the bound.
    TooLarge,
    /// One client asks too often.
    RateLimited,
    /// HTTP knows no such path or method.
    NoSuchCall,
    /// The program does not do what it should.
    Defect,
}

impl ErrorName {
    /// Every name.
    pub const ALL: [Self; 30] = [
        Self::SessionUnknown,
        Self::SessionExpired,
        Self::SessionClosed,
        Self::SessionEnded,
        Self::SecretTaken,
        Self::BelowMark,
        Self::AlreadyEnded,
        Self::BadArgument,
        Self::LockHeld,
        Self::QueuedAhead,
        Self::LockClosed,
        Self::CapacityDiffers,
        Self::NotHeld,
        Self::LimitReached,
        Self::NotYet,
        Self::NotFounded,
        Self::WaitTimedOut,
        Self::NotLeader,
        Self::NoQuorum,
        Self::OutcomeUnknown,
        Self::Overloaded,
        Self::Unauthenticated,
        Self::NodeBehind,
        Self::WatchTooSlow,
        Self::UnknownKey,
        Self::Forged,
        Self::TooLarge,
        Self::RateLimited,
        Self::NoSuchCall,
        Self::Defect,
    ];

    /// The table. `docs/errors.md` has the same rows.
    pub const fn row(self) -> Row {
        match self {
            Self::SessionUnknown => Row {
                name: "SESSION_UNKNOWN",
                code: Code::NotFound,
                http: 404,
                exit: 5,
                meaning: "No such session is known here, or it ended so long ago that it is forgotten.",
                advice: "Stop work. Open a new session and acquire again.",
            },
            Self::SessionExpired => Row {
                name: "SESSION_EXPIRED",
                code: Code::FailedPrecondition,
                http: 410,
                exit: 1,
                meaning: "The cluster did not hear from the session for its whole TTL. Its locks are in lock-delay or held by others.",
                advice: "Stop work. Open a new session; a new acquire brings a higher token.",
            },
            Self::SessionClosed => Row {
                name: "SESSION_CLOSED",
                code: Code::FailedPrecondition,
                http: 410,
                exit: 1,
                meaning: "The session was closed.",
                advice: "Open a new one.",
            },
            Self::SessionEnded => Row {
                name: "SESSION_ENDED",
                code: Code::FailedPrecondition,
                http: 410,
                exit: 1,
                meaning: "The session ended in another way, which `ended` names.",
                advice: "Stop work. After *taken over*: stop, and take nothing over.",
            },
            Self::SecretTaken => Row {
                name: "SECRET_TAKEN",
                code: Code::PermissionDenied,
                http: 403,
                exit: 4,
                meaning: "The secret already opened a session, for another identity.",
                advice: "Draw a new secret of 32 random bytes and open again.",
            },
            Self::BelowMark => Row {
                name: "BELOW_MARK",
                code: Code::FailedPrecondition,
                http: 409,
                exit: 1,
                meaning: "The number is below the mark under which the session said that it repeats nothing.",
                advice: "Use a new number.",
            },
            Self::AlreadyEnded => Row {
                name: "ALREADY_ENDED",
                code: Code::FailedPrecondition,
                http: 409,
                exit: 1,
                meaning: "The acquisition of this number is over; `ended` says how. It is never acquired again.",
                advice: "Acquire under a new number.",
            },
            Self::BadArgument => Row {
                name: "BAD_ARGUMENT",
                code: Code::InvalidArgument,
                http: 400,
                exit: 2,
                meaning: "A field is out of bounds, or a known number came with other content. `limit` has the bound.",
                advice: "Correct the call; the message says which field.",
            },
            Self::LockHeld => Row {
                name: "LOCK_HELD",
                code: Code::FailedPrecondition,
                http: 409,
                exit: 6,
                meaning: "A try met a holder, who is in `holder`.",
                advice: "Try later, or wait in the queue.",
            },
            Self::QueuedAhead => Row {
                name: "QUEUED_AHEAD",
                code: Code::FailedPrecondition,
                http: 409,
                exit: 6,
                meaning: "A try met waiters, and a try never overtakes one.",
                advice: "Try later, or wait in the queue.",
            },
            Self::LockClosed => Row {
                name: "LOCK_CLOSED",
                code: Code::FailedPrecondition,
                http: 409,
                exit: 6,
                meaning: "A try met a lock-delay: the last holder ended without releasing. `lock_delay_ms` has the whole delay.",
                advice: "Try later, or wait in the queue.",
            },
            Self::CapacityDiffers => Row {
                name: "CAPACITY_DIFFERS",
                code: Code::FailedPrecondition,
                http: 409,
                exit: 2,
                meaning: "The lock is in use with the capacity in `limit`, and another was named.",
                advice: "Name the same capacity.",
            },
            Self::NotHeld => Row {
                name: "NOT_HELD",
                code: Code::FailedPrecondition,
                http: 409,
                exit: 1,
                meaning: "This acquisition does not hold the lock under this token. Nothing was released; `holder` and `superseded_by` name the successor, if there is one.",
                advice: "**Stop work that relied on it.** Look at what it wrote.",
            },
            Self::LimitReached => Row {
                name: "LIMIT_REACHED",
                code: Code::ResourceExhausted,
                http: 429,
                exit: 3,
                meaning: "A replicated bound, in `limit`, is met.",
                advice: "The message says what to give back.",
            },
            Self::NotYet => Row {
                name: "NOT_YET",
                code: Code::Unimplemented,
                http: 501,
                exit: 3,
                meaning: "The protocol has this, and this version refuses it: shared mode, a capacity above 1, several locks at once, taking over a session.",
                advice: "Do without it, or wait for a version that has it.",
            },
            Self::NotFounded => Row {
                name: "NOT_FOUNDED",
                code: Code::Unavailable,
                http: 503,
                exit: 3,
                meaning: "The cluster is not founded yet.",
                advice: "Start all initial members.",
            },
            Self::WaitTimedOut => Row {
                name: "WAIT_TIMED_OUT",
                code: Code::DeadlineExceeded,
                http: 408,
                exit: 1,
                meaning: "A bounded wait passed. The place in the queue is given up.",
                advice: "The caller's choice.",
            },
            Self::NotLeader => Row {
                name: "NOT_LEADER",
                code: Code::Unavailable,
                http: 421,
                exit: 3,
                meaning: "The node does not lead, and did not append the request.",
                advice: "Repeat under the same number, at the leader that the stream's `Leader` names, or here.",
            },
            Self::NoQuorum => Row {
                name: "NO_QUORUM",
                code: Code::Unavailable,
                http: 503,
                exit: 3,
                meaning: "No leader with a majority now.",
                advice: "Repeat after `retry_after_ms`.",
            },
            Self::OutcomeUnknown => Row {
                name: "OUTCOME_UNKNOWN",
                code: Code::Unknown,
                http: 504,
                exit: 3,
                meaning: "The request may or may not have taken effect, or may yet.",
                advice: "Repeat it under the same number: that tells, and does nothing twice.",
            },
            Self::Overloaded => Row {
                name: "OVERLOADED",
                code: Code::ResourceExhausted,
                http: 429,
                exit: 3,
                meaning: "The node has more requests than it can take now.",
                advice: "Repeat after `retry_after_ms`.",
            },
            Self::Unauthenticated => Row {
                name: "UNAUTHENTICATED",
                code: Code::Unauthenticated,
                http: 401,
                exit: 4,
                meaning: "The session's secret is missing or wrong, or the stream is not bound to the session.",
                advice: "Bind the session with its secret first.",
            },
            Self::NodeBehind => Row {
                name: "NODE_BEHIND",
                code: Code::Unavailable,
                http: 503,
                exit: 3,
                meaning: "The node has not got as far as the position that a watch goes on from, and did not within two seconds.",
                advice: "Go on from the position at another node, or here later.",
            },
            Self::WatchTooSlow => Row {
                name: "WATCH_TOO_SLOW",
                code: Code::ResourceExhausted,
                http: 429,
                exit: 3,
                meaning: "The watcher did not take what it was sent; its buffer is full and its stream is cut.",
                advice: "Go on from the last position; read faster, or watch less.",
            },
            Self::UnknownKey => Row {
                name: "UNKNOWN_KEY",
                code: Code::Unauthenticated,
                http: 401,
                exit: 1,
                meaning: "The sequencer names a key that is not known here. No proof of anything.",
                advice: "Fetch the key set again, rate-limited; the holder may fetch its sequencer again, once.",
            },
            Self::Forged => Row {
                name: "FORGED",
                code: Code::Unauthenticated,
                http: 401,
                exit: 1,
                meaning: "The sequencer was not signed by this cluster.",
                advice: "Refuse whoever presented it.",
            },
            Self::TooLarge => Row {
                name: "TOO_LARGE",
                code: Code::OutOfRange,
                http: 413,
                exit: 2,
                meaning: "A message is larger than this node takes; `limit` has the bound, in bytes.",
                advice: "Send less in one call, or raise the bound at the node.",
            },
            Self::RateLimited => Row {
                name: "RATE_LIMITED",
                code: Code::ResourceExhausted,
                http: 429,
                exit: 3,
                meaning: "This client asks more often than this node allows; `limit` has the requests that it may send in a second.",
                advice: "Repeat after `retry_after_ms`. Nothing took effect.",
            },
            Self::NoSuchCall => Row {
                name: "NO_SUCH_CALL",
                code: Code::Unimplemented,
                http: 404,
                exit: 2,
                meaning: "There is no such path below `/v1/`, or it takes another method.",
                advice: "Correct the path or the method.",
            },
            Self::Defect => Row {
                name: "DEFECT",
                code: Code::Internal,
                http: 500,
                exit: 70,
                meaning: "The node did something that it should never do.",
                advice: "Report it, with the node's log.",
            },
        }
    }

    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        self.row().name
    }

    /// By its stable name. None for a name of a later version.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }

    /// Whether a call that was answered so may have taken effect all the same.
    pub const fn may_have_taken_effect(self) -> bool {
        matches!(self, Self::OutcomeUnknown | Self::Defect)
    }
}
