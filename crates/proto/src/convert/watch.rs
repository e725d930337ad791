//! Watching, history and audit: requests to their meaning, and what is told back.

use palisade_core::history::{EndedHold, History};
use palisade_core::ids::{
    AcquisitionId, ClientName, GuardName, Incarnation, LockName, LogIndex, Millis, Principal, Slot, WallTime,
};
use palisade_core::mode::Mode;
use palisade_core::payload::Payload;
use palisade_core::reply::Ended;
use palisade_core::token::{Token, TokenBase};

use super::{BadArgument, words};
use crate::v1;

/// Holds or boundaries of one page.
pub const PAGE_MAX: u32 = 1_000;
/// When the request names no number.
const PAGE_DEFAULT: u32 = 100;

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// One lock.
    Lock(LockName),
    /// All whose names begin so, byte for byte.
    Prefix(String),
}

impl Filter {
    /// Whether a lock is of what is watched.
    pub fn concerns(&self, lock: &str) -> bool {
        match self {
            Self::Lock(name) => name.as_str() == lock,
            Self::Prefix(prefix) => lock.starts_with(prefix.as_str()),
        }
    }
}

/// Everything up to this entry was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// None: whatever the present one is.
    pub incarnation: Option<Incarnation>,
    /// With the token base.
    pub index: u64,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// With what comes now.
    Now,
    /// After a position.
    After(Position),
    /// With how things stand.
    Snapshot,
}

/// One thing that happened to a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockEvent {
    /// Which.
    pub lock: LockName,
    /// What.
    pub what: What,
}

/// Who, and the name for people.
pub type Who = (AcquisitionId, ClientName);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Somebody waits.
    Queued(Who),
    /// Somebody holds.
    Granted {
        /// Who.
        who: Who,
        /// Which slot.
        slot: Slot,
        /// Under which token.
        token: Token,
        /// How.
        mode: Mode,
        /// What it lets others read.
        metadata: Payload,
    },
    /// What a holder lets others read changed.
    Metadata {
        /// Who.
        who: Who,
        /// Now.
        metadata: Payload,
    },
    /// An operator takes the slot from its holders.
    Broken {
        /// Which slot.
        slot: Slot,
        /// Under which token.
        token: Token,
        /// Who asked.
        by: Principal,
    },
    /// An operator set the capacity.
    Capacity(u32),
    /// A guard confirmed the floor that the slot's delay asks for.
    Confirmed {
        /// Which slot.
        slot: Slot,
        /// Which guard.
        guard: GuardName,
    },
    /// A holder no longer holds.
    HoldEnded {
        /// Who.
        who: Who,
        /// Which slot.
        slot: Slot,
        /// Under which token.
        token: Token,
        /// How it ended.
        ended: Ended,
    },
    /// A waiter no longer waits.
    WaitEnded {
        /// Who.
        who: Who,
        /// How it ended.
        ended: Ended,
    },
    /// A slot is closed.
    DelayStarted {
        /// Which.
        slot: Slot,
        /// How long.
        delay: Millis,
    },
    /// A slot is open again.
    DelayEnded {
        /// Which.
        slot: Slot,
        /// Where the delay had begun, with the token base.
        began: u64,
    },
}

/// From the wire.
pub fn watch(request: &v1::WatchRequest) -> Result<(Filter, From), BadArgument> {
    use v1::watch_request::{From as Start, What as Wanted};
    let filter = match &request.what {
        Some(Wanted::Lock(name)) => filter(Some(name), None)?,
        Some(Wanted::Prefix(prefix)) => filter(None, Some(prefix))?,
        None => filter(None, None)?,
    };
    let from = match &request.from {
        Some(Start::Now(_)) | None => From::Now,
        Some(Start::Snapshot(_)) => From::Snapshot,
        Some(Start::After(position)) => From::After(position_from(position)?),
    };
    Ok((filter, from))
}

/// From the wire: one of the two is named.
pub(super) fn filter(lock: Option<&String>, prefix: Option<&String>) -> Result<Filter, BadArgument> {
    match (lock, prefix) {
        (Some(name), _) => Ok(Filter::Lock(LockName::new(name)?)),
        (None, Some(prefix)) => Ok(Filter::Prefix(checked_prefix(prefix)?)),
        (None, None) => Err(BadArgument::new("neither a lock nor a prefix is named")),
    }
}

/// From the wire.
pub fn position_from(position: &v1::Position) -> Result<Position, BadArgument> {
    let incarnation = match position.incarnation.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|why| BadArgument::new(format!("the incarnation: {why}")))?),
    };
    Ok(Position { incarnation, index: position.index })
}

/// To the wire.
pub fn position(incarnation: Option<Incarnation>, index: u64) -> v1::Position {
    v1::Position { incarnation: incarnation.map(|id| id.to_string()).unwrap_or_default(), index }
}

fn checked_prefix(prefix: &str) -> Result<String, BadArgument> {
    if !prefix.is_empty() {
        LockName::new(prefix)?;
    }
    Ok(prefix.to_owned())
}

/// To the wire.
pub fn event(event: &LockEvent) -> v1::LockEvent {
    use v1::lock_event::Kind;
    let mut wire = v1::LockEvent { lock: event.lock.as_str().to_owned(), ..v1::LockEvent::default() };
    let mut who = None;
    let kind = match &event.what {
        What::Queued(waiter) => {
            who = Some(waiter);
            Kind::Queued
        }
        What::Granted { who: holder, slot, token, mode, metadata } => {
            who = Some(holder);
            wire.metadata = metadata.as_bytes().to_vec();
            (wire.slot, wire.token, wire.mode) = (slot.0, token.get(), words::mode(*mode).into());
            Kind::Granted
        }
        What::HoldEnded { who: holder, slot, token, ended } => {
            who = Some(holder);
            (wire.slot, wire.token, wire.ended) = (slot.0, token.get(), words::ended(*ended).into());
            Kind::HoldEnded
        }
        What::Metadata { who: holder, metadata } => {
            who = Some(holder);
            wire.metadata = metadata.as_bytes().to_vec();
            Kind::Metadata
        }
        What::Broken { slot, token, by } => {
            (wire.slot, wire.token, wire.by) = (slot.0, token.get(), by.as_str().to_owned());
            Kind::Broken
        }
        What::Capacity(capacity) => {
            wire.capacity = *capacity;
            Kind::Capacity
        }
        What::Confirmed { slot, guard } => {
            (wire.slot, wire.by) = (slot.0, guard.as_str().to_owned());
            Kind::Confirmed
        }
        What::WaitEnded { who: waiter, ended } => {
            who = Some(waiter);
            wire.ended = words::ended(*ended).into();
            Kind::WaitEnded
        }
        What::DelayStarted { slot, delay } => {
            (wire.slot, wire.delay_ms) = (slot.0, delay.0);
            Kind::DelayStarted
        }
        What::DelayEnded { slot, began } => {
            (wire.slot, wire.began) = (slot.0, *began);
            Kind::DelayEnded
        }
    };
    if let Some((acquisition, client)) = who {
        wire.acquisition = Some(words::acquisition(*acquisition));
        wire.client = client.as_str().to_owned();
    }
    wire.kind = kind.into();
    wire
}

/// Which part of a lock's history is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryQuestion {
    /// Of which lock.
    pub lock: LockName,
    /// How many holds at most.
    pub limit: usize,
    /// Only those before this number.
    pub before: Option<u64>,
}

/// From the wire. A limit of 0 is 100, and above the most the most.
pub fn get_history(message: &v1::GetHistory) -> Result<HistoryQuestion, BadArgument> {
    let (limit, before) = page(message.limit, message.before);
    Ok(HistoryQuestion { lock: LockName::new(&message.lock)?, limit, before })
}

/// Which boundaries are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditQuestion {
    /// Of locks whose names begin so.
    pub prefix: String,
    /// That ended at or after this.
    pub since: WallTime,
    /// How many at most.
    pub limit: usize,
    /// Only those before this number.
    pub before: Option<u64>,
}

/// From the wire.
pub fn get_audit(message: &v1::GetAudit) -> Result<AuditQuestion, BadArgument> {
    let (limit, before) = page(message.limit, message.before);
    let (prefix, since) = (checked_prefix(&message.prefix)?, WallTime(message.since_us));
    Ok(AuditQuestion { prefix, since, limit, before })
}

/// The number of the first hold is 1 on the wire, so that 0 can mean none.
fn page(limit: u32, before: u64) -> (usize, Option<u64>) {
    let limit = if limit == 0 { PAGE_DEFAULT } else { limit.min(PAGE_MAX) };
    (limit as usize, before.checked_sub(1))
}

/// To the wire.
pub fn ended_hold(hold: &EndedHold, base: TokenBase) -> v1::EndedHold {
    v1::EndedHold {
        number: hold.number + 1,
        lock: hold.lock.as_str().to_owned(),
        slot: hold.slot.0,
        mode: words::mode(hold.mode).into(),
        acquisition: Some(words::acquisition(hold.acquisition)),
        client: hold.client.as_str().to_owned(),
        token: hold.token.get(),
        grant_index: base.at(hold.grant),
        granted_at_us: hold.granted_at.0,
        ended: words::ended(hold.ended).into(),
        end_index: base.at(hold.end),
        ended_at_us: hold.ended_at.0,
    }
}

/// To the wire: a page of the history, as a state at `applied` has it.
pub fn history_page(
    history: &History,
    question: &HistoryQuestion,
    base: TokenBase,
    applied: LogIndex,
) -> v1::HistoryPage {
    let page = history.of_lock(&question.lock, question.before, question.limit);
    v1::HistoryPage {
        holds: page.holds.iter().map(|hold| ended_hold(hold, base)).collect(),
        more: page.more,
        expired_known_after: known_after(history.expired_known_after(), base),
        others_known_after: known_after(history.others_known_after(), base),
        index: base.at(applied),
    }
}

/// To the wire; 0 where nothing was forgotten.
pub fn known_after(index: LogIndex, base: TokenBase) -> u64 {
    if index.0 == 0 { 0 } else { base.at(index) }
}

#[cfg(test)]
mod tests {
    use palisade_core::ids::{RequestNumber, SessionId};

    use super::*;

    #[test]
    fn a_watch_names_a_lock_or_a_prefix_and_where_it_begins() {
        use v1::watch_request::{From as Start, What as Wanted};
        let of = |what, from| watch(&v1::WatchRequest { what, from });
        let lock = |name: &str| Some(Wanted::Lock(name.to_owned()));
        let prefix = |name: &str| Some(Wanted::Prefix(name.to_owned()));
        assert_eq!(of(prefix(""), None), Ok((Filter::Prefix(String::new()), From::Now)));
        let orders = Filter::Lock(LockName::new("orders").expect("a name"));
        assert_eq!(of(lock("orders"), Some(Start::Snapshot(true))), Ok((orders.clone(), From::Snapshot)));
        let after = |incarnation: &str| {
            Some(Start::After(v1::Position { incarnation: incarnation.to_owned(), index: 7 }))
        };
        let position = |incarnation| From::After(Position { incarnation, index: 7 });
        assert_eq!(of(lock("orders"), after("")), Ok((orders.clone(), position(None))));
        let known = Incarnation([0xa5; 16]);
        assert_eq!(of(lock("orders"), after(&known.to_string())), Ok((orders, position(Some(known)))));
        for bad in [(None, None), (lock(""), None), (prefix("a\n"), None), (lock("a"), after("zz"))] {
            assert!(of(bad.0.clone(), bad.1.clone()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_event_tells_who_and_under_which_token() {
        let acquisition = AcquisitionId { session: SessionId(7), number: RequestNumber(2) };
        let who = (acquisition, ClientName::new("billing-3").expect("a name"));
        let token = Token::new(34).expect("a token");
        let lock = LockName::new("orders").expect("a name");
        let what = What::HoldEnded { who, slot: Slot(0), token, ended: Ended::Expired };
        let wire = event(&LockEvent { lock, what });
        assert_eq!((wire.kind(), wire.ended()), (v1::lock_event::Kind::HoldEnded, v1::Ended::Expired));
        assert_eq!((wire.token, wire.client.as_str()), (34, "billing-3"));
        assert_eq!(wire.acquisition.map(|id| (id.session, id.number)), Some((7, 2)));
    }

    #[test]
    fn a_page_is_bounded_and_its_numbers_begin_with_1() {
        let of = |limit, before| {
            let asked = v1::GetHistory { lock: "orders".to_owned(), limit, before };
            get_history(&asked).map(|question| (question.limit, question.before))
        };
        assert_eq!(of(0, 0), Ok((100, None)));
        assert_eq!(of(5_000, 1), Ok((1_000, Some(0))));
        assert!(get_history(&v1::GetHistory::default()).is_err());
        assert!(get_audit(&v1::GetAudit { prefix: "a\n".to_owned(), ..v1::GetAudit::default() }).is_err());
    }
}
