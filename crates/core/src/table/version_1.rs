//! A table as format version 1 wrote it: read, never written.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use serde::Deserialize;

use super::memory::EndedSessions;
use super::sharded::Sharded;
use super::slot_memories::SlotMemories;
use super::{Counts, Header, SigningKey, Ticks};
use crate::command::{AcquirePart, Terms, Wait};
use crate::history::History;
use crate::ids::{
    ClientName, GuardName, KeyId, LockName, LogIndex, Millis, OwnerLabel, Principal, RequestNumber,
    SecretHash, SessionId, Slot, WallTime,
};
use crate::limits::MoreLimits;
use crate::lock::{self, Predecessor, Tenure};
use crate::mode::Mode;
use crate::queue::WaitQueue;
use crate::session::{self, ContentHash, Outcome, Reports};
use crate::token::Token;

/// Everything that the cluster knew.
#[derive(Deserialize)]
pub struct LockTable {
    header: Header,
    sessions: Sharded<SessionId, Session>,
    secrets: Sharded<SecretHash, SessionId>,
    locks: Sharded<LockName, Lock>,
    ended: EndedSessions,
    predecessors: Predecessors,
    keys: BTreeMap<KeyId, SigningKey>,
    counts: Counts,
}

#[derive(Clone, Deserialize)]
struct Session {
    secret: SecretHash,
    owner: Principal,
    client: ClientName,
    ttl: Millis,
    opened: LogIndex,
    opened_at: WallTime,
    last_command: LogIndex,
    mark: RequestNumber,
    highest: RequestNumber,
    acquisitions: BTreeMap<RequestNumber, Acquisition>,
    outcomes: BTreeMap<RequestNumber, Outcome>,
}

#[derive(Clone, Deserialize)]
struct Acquisition {
    content: ContentHash,
    parts: Vec<AcquirePart>,
    wait: Wait,
    owner: Option<OwnerLabel>,
    arrived: LogIndex,
    arrived_at: WallTime,
    state: AcquisitionState,
}

#[derive(Clone, Deserialize)]
enum AcquisitionState {
    Waiting,
    Holding { grant: LogIndex, held: Vec<HeldPart> },
}

#[derive(Clone, Deserialize)]
struct HeldPart {
    lock: LockName,
    slot: Slot,
    mode: Mode,
    token: Token,
    delay: Millis,
}

#[derive(Clone, Deserialize)]
struct Lock {
    capacity: u32,
    slots: BTreeMap<Slot, SlotState>,
    queue: WaitQueue,
}

#[derive(Clone, Deserialize)]
enum SlotState {
    Held(Tenure),
    Delayed(Delay),
}

#[derive(Clone, Deserialize)]
struct Delay {
    began: LogIndex,
    began_at: WallTime,
    ended: Token,
    delay: Millis,
    guards: Vec<GuardName>,
}

#[derive(Deserialize)]
struct Predecessors {
    by_lock: BTreeMap<LockName, (u64, Predecessor)>,
    in_order: BTreeMap<u64, LockName>,
    next: u64,
}

impl From<LockTable> for super::LockTable {
    /// The history begins here, and says so.
    fn from(old: LockTable) -> Self {
        let history = History::beginning_after(old.header.applied);
        Self {
            header: old.header,
            sessions: converted(&old.sessions),
            secrets: old.secrets,
            locks: converted(&old.locks),
            ended: Arc::new(old.ended),
            slot_memories: old.predecessors.into(),
            keys: old.keys,
            counts: old.counts,
            history,
            more_limits: MoreLimits::default(),
            delay_rules: BTreeMap::new(),
            ticks: Ticks::default(),
        }
    }
}

fn converted<K: Ord + Hash + Clone, Old: Clone + Into<New>, New: Clone>(
    old: &Sharded<K, Old>,
) -> Sharded<K, New> {
    let mut new = Sharded::new();
    for (key, value) in old.iter() {
        new.insert(key.clone(), value.clone().into());
    }
    new
}

impl From<Session> for session::Session {
    fn from(old: Session) -> Self {
        Self {
            secret: old.secret,
            owner: old.owner,
            client: old.client,
            ttl: old.ttl,
            opened: old.opened,
            opened_at: old.opened_at,
            last_command: old.last_command,
            mark: old.mark,
            highest: old.highest,
            acquisitions: old.acquisitions.into_iter().map(|(number, one)| (number, one.into())).collect(),
            outcomes: old.outcomes,
            ticks: 0,
            took_over: None,
        }
    }
}

impl From<Acquisition> for session::Acquisition {
    fn from(old: Acquisition) -> Self {
        let state = match old.state {
            AcquisitionState::Waiting => session::AcquisitionState::Waiting,
            AcquisitionState::Holding { grant, held } => session::AcquisitionState::Holding {
                grant,
                held: held.into_iter().map(session::HeldPart::from).collect(),
                reports: Reports::default(),
            },
        };
        Self {
            content: old.content,
            parts: old.parts,
            wait: old.wait,
            owner: old.owner,
            terms: Terms::default(),
            metadata_revision: 0,
            arrived: old.arrived,
            arrived_at: old.arrived_at,
            state,
        }
    }
}

impl From<HeldPart> for session::HeldPart {
    fn from(old: HeldPart) -> Self {
        Self {
            lock: old.lock,
            slot: old.slot,
            mode: old.mode,
            token: old.token,
            delay: old.delay,
            downgraded_from: None,
            baton_revision: 0,
        }
    }
}

impl From<Lock> for lock::Lock {
    fn from(old: Lock) -> Self {
        let slots = old.slots.into_iter().map(|(slot, state)| (slot, state.into())).collect();
        Self { capacity: old.capacity, capacity_set: false, slots, queue: old.queue }
    }
}

impl From<SlotState> for lock::SlotState {
    fn from(old: SlotState) -> Self {
        match old {
            SlotState::Held(tenure) => Self::Held(tenure),
            SlotState::Delayed(old) => Self::Delayed(Box::new(lock::Delay {
                began: old.began,
                began_at: old.began_at,
                ended: old.ended,
                delay: old.delay,
                guards: old.guards,
                confirmed: Default::default(),
                kept_for: None,
            })),
        }
    }
}

impl From<Predecessors> for SlotMemories {
    fn from(old: Predecessors) -> Self {
        let Predecessors { mut by_lock, in_order, next } = old;
        let in_order = in_order.into_iter().filter_map(|(number, lock)| {
            let (_, last) = by_lock.remove(&lock)?;
            Some((number, lock, last))
        });
        Self::of_version_1(in_order, next)
    }
}
