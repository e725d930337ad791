//! The names of errors: stable, in every protocol the same.

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
    /// Its wait would close a cycle of waits.
    WouldDeadlock,
    /// Nobody to whom the slot could be given now.
    NobodyToHandTo,
    /// A named lock-delay is outside the bounds of its prefix.
    DelayOutOfBounds,
    /// Nobody holds or awaits the lock.
    NotInUse,
    /// A cluster version that is older, or not known.
    VersionDiffers,
    /// A newer process took the session over.
    TakenOver,
    /// The holder's own deadline passed.
    Overdue,
    /// An operator broke the lock.
    Broken,
    /// The acquisition was cancelled.
    Cancelled,
    /// HTTP knows no such path or method.
    NoSuchCall,
    /// The program does not do what it should.
    Defect,
}

impl ErrorName {
    /// Every name.
    pub const ALL: [Self; 39] = [
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
        Self::WouldDeadlock,
        Self::NobodyToHandTo,
        Self::DelayOutOfBounds,
        Self::NotInUse,
        Self::VersionDiffers,
        Self::TakenOver,
        Self::Overdue,
        Self::Broken,
        Self::Cancelled,
        Self::NoSuchCall,
        Self::Defect,
    ];

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
