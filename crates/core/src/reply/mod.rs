//! What the caller is told. Refusals are data: applying a command cannot fail.
//!
//! Replies are remembered in the replicated state, so their bytes are stable: new variants go to the end.

mod ended;
mod refusal;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::ended::Ended;
pub use self::refusal::{BadArgument, Cycle, CycleStep, LimitName, NotYet, Refusal};

use crate::ids::{
    AcquisitionId, ClientName, LockName, LogIndex, Millis, RequestNumber, SessionId, Slot, WallTime,
};
use crate::mode::Mode;
use crate::payload::Payload;
use crate::token::Token;

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Nothing to say: a command of the cluster's own took effect, or was past.
    Done,
    /// The session, new or found again by its secret.
    SessionOpened {
        /// Its id.
        session: SessionId,
        /// Its lease.
        ttl: Millis,
    },
    /// The session is closed.
    SessionClosed,
    /// The acquisition holds.
    Granted(Grant),
    /// The acquisition waits.
    Queued {
        /// Which.
        acquisition: AcquisitionId,
        /// Waiters ahead, plus one.
        place: u32,
    },
    /// What was named is free. A repeat is told how it had ended.
    Released(Ended),
    /// The acquisition is over; `was` is what the cancel met.
    Cancelled(CancelMet),
    /// No, and why.
    Refused(Refusal),
    /// The hold is shared now, under a new token. A repeat is told the same.
    Downgraded(Grant),
    /// The slot is another's. A repeat finds it ended so.
    HandedOver {
        /// Whose.
        to: AcquisitionId,
        /// Under which token.
        token: Token,
    },
    /// Metadata or baton is as asked, or a later revision of the same holder's is.
    Written {
        /// The one in force.
        revision: u64,
    },
    /// The report counts, or a later one does.
    Reported,
    /// The slot is taken from its holders.
    Broken {
        /// Who held it.
        holders: Vec<HolderView>,
        /// How long it is closed.
        closed: Millis,
    },
    /// An operator ended the session.
    Stopped {
        /// Acquisitions that held.
        held: u32,
        /// Acquisitions that waited.
        waited: u32,
    },
    /// A new session goes on where an earlier one stopped.
    TookOver(TookOver),
    /// These of the named sessions are over; the others are kept.
    Kept {
        /// How each ended; none: it is not known.
        ended: Vec<(SessionId, Option<Ended>)>,
    },
}

/// What a session took over from the one that it replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TookOver {
    /// The new session.
    pub session: SessionId,
    /// Its lease.
    pub ttl: Millis,
    /// The one that it replaced.
    pub replaced: SessionId,
    /// What goes on, in the order of the earlier numbers.
    pub kept: Vec<TakenAcquisition>,
    /// How the earlier session's other requests that are remembered ended, in the order of their numbers.
    pub ended: Vec<(RequestNumber, Ended)>,
}

/// An acquisition that goes on under a new session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenAcquisition {
    /// Its number in the earlier session.
    pub was: RequestNumber,
    /// Its present number.
    pub number: RequestNumber,
    /// Where it stood when it was taken over.
    pub state: TakenState,
}

/// Where an acquisition stood when it was taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TakenState {
    /// It holds, under new tokens.
    Holds,
    /// It waits, in its old places.
    Waits,
    /// Its slots are closed, because the earlier process may still believe in its lease; they are granted to it when
    /// this ends.
    Closed {
        /// How long.
        closed: Millis,
    },
}

/// What an acquisition holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Which.
    pub acquisition: AcquisitionId,
    /// The entry that gave it its present tenure, with the token base.
    pub grant_index: u64,
    /// What it still holds.
    pub parts: Vec<GrantedPart>,
    /// The longest time that it may hold, from its first report of progress.
    pub hold_max: Option<Millis>,
    /// The longest time between two reports of progress.
    pub progress_every: Option<Millis>,
}

/// One held slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedPart {
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// How.
    pub mode: Mode,
    /// Under which token.
    pub token: Token,
    /// How long it stays closed if the session expires.
    pub delay: Millis,
    /// Who held the slot before, where that is remembered.
    pub inherited: Option<Arc<Inherited>>,
}

/// What a holder inherits with a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherited {
    /// The last holder's token.
    pub token: Token,
    /// Its client, for people.
    pub client: ClientName,
    /// How it ended.
    pub ended: Ended,
    /// The baton; empty when there is none.
    pub baton: Payload,
    /// Under which token it was left: the last holder's, or that of one before it.
    pub baton_token: Option<Token>,
}

/// What a cancel met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CancelMet {
    /// The request had not arrived; its number is now remembered as ended.
    NotArrived,
    /// It waited.
    Waiting,
    /// It held, and is released without a delay.
    Holding,
    /// It had ended, so.
    Ended(Ended),
}

/// A holder, as a refusal tells it: enough to act on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderView {
    /// Which acquisition.
    pub acquisition: AcquisitionId,
    /// Whose.
    pub client: ClientName,
    /// How it holds.
    pub mode: Mode,
    /// Under which token.
    pub token: Token,
    /// Since which entry, with the token base.
    pub grant_index: u64,
    /// Wall time of that entry.
    pub granted_at: WallTime,
}

/// The result of applying one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// For the caller.
    pub reply: Reply,
    /// For waiters, watchers, timers and metrics, in order.
    pub events: Vec<crate::event::Event>,
    /// The session that this command renews (SPEC 3): it was alive, and the refusal, if any, was not for it.
    pub renewed: Option<SessionId>,
}

/// Where an entry stands and what it says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryAt {
    /// Its log index.
    pub index: LogIndex,
    /// The proposer's wall clock.
    pub wall: WallTime,
    /// The proposing node.
    pub node: crate::ids::NodeId,
}
