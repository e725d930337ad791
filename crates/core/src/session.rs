//! A session, and the memory that makes each of its requests take effect once (SPEC 3 and 6).

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::acquisitions::Acquisitions;
use crate::command::{Acquire, AcquirePart, LockDelay, Terms, Wait};
use crate::ids::{
    ClientName, LockName, LogIndex, Millis, OwnerLabel, Principal, RequestNumber, SecretHash, Slot, WallTime,
};
use crate::mode::Mode;
use crate::reply::{Ended, Refusal, TookOver};
use crate::token::Token;

/// One client process's relationship with the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The hash of its secret; kept as long as the session.
    pub secret: SecretHash,
    /// Whose it is.
    pub owner: Principal,
    /// For people.
    pub client: ClientName,
    /// Its lease. It cannot be changed.
    pub ttl: Millis,
    /// The entry that opened it.
    pub opened: LogIndex,
    /// Wall time of that entry.
    pub opened_at: WallTime,
    /// The entry of its last command; what an expiry must name.
    pub last_command: LogIndex,
    /// Below it nothing is remembered but what waits or holds.
    pub mark: RequestNumber,
    /// The highest number seen.
    pub highest: RequestNumber,
    /// What waits or holds, whatever its number.
    pub acquisitions: Acquisitions,
    /// How requests at or above the mark ended.
    pub outcomes: BTreeMap<RequestNumber, Outcome>,
    /// Ticks that had been counted at the entry of its last command or keepalive in the log.
    pub ticks: u64,
    /// What it took over, until the client's first command shows that it knows.
    pub took_over: Option<Box<TookOver>>,
}

/// An acquisition that waits or holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquisition {
    /// Of the request's content, so that a number that comes with another is noticed.
    pub content: ContentHash,
    /// What was asked.
    pub parts: Vec<AcquirePart>,
    /// How long it waits.
    pub wait: Wait,
    /// A task.
    pub owner: Option<OwnerLabel>,
    /// What it asked beside that.
    pub terms: Terms,
    /// How often its metadata was replaced, as its holder counts.
    pub metadata_revision: u64,
    /// The entry that brought it.
    pub arrived: LogIndex,
    /// Wall time of that entry.
    pub arrived_at: WallTime,
    /// Where it stands.
    pub state: AcquisitionState,
}

/// Waiting, or holding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcquisitionState {
    /// In the queues of its locks, at the entry that brought it.
    Waiting,
    /// Holding these parts.
    Holding {
        /// The entry that gave it its present tenure.
        grant: LogIndex,
        /// What it still holds.
        held: Vec<HeldPart>,
        /// Its holder's reports of progress.
        reports: Reports,
    },
    /// Taken over from a process that may still believe in its lease: these slots are closed, and become its own
    /// together when their delays end.
    Kept {
        /// Which.
        slots: Vec<(LockName, Slot)>,
    },
}

/// Reports of progress of a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reports {
    /// The entry of the first; the longest holding time counts from its arrival.
    pub first: Option<LogIndex>,
    /// The entry of the last.
    pub last: Option<LogIndex>,
    /// The holder's number of the last.
    pub number: u64,
}

/// A part that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPart {
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// How.
    pub mode: Mode,
    /// Under which token.
    pub token: Token,
    /// How long the slot stays closed if the session expires.
    pub delay: Millis,
    /// The exclusive token that it gave up for this shared one, so that a repeated downgrade is known.
    pub downgraded_from: Option<Token>,
    /// How often it replaced its baton, as it counts.
    pub baton_revision: u64,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Of the request's content; none when only a cancel came.
    pub content: Option<ContentHash>,
    /// How.
    pub how: OutcomeHow,
}

/// How a request ended, and what a repeat is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutcomeHow {
    /// It held or waited, and ended so. The tokens that it held, with their slots.
    Ended {
        /// How.
        ended: Ended,
        /// What it held last, for a late release that asks who superseded it.
        held: Vec<(LockName, Slot, Token)>,
    },
    /// It was refused; a repeat gets the same answer.
    Refused(Box<Refusal>),
}

impl Acquisition {
    /// What it holds, while it does.
    pub(crate) fn held(&self) -> &[HeldPart] {
        match &self.state {
            AcquisitionState::Holding { held, .. } => held,
            AcquisitionState::Waiting | AcquisitionState::Kept { .. } => &[],
        }
    }
}

/// 64 bits of the content of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentHash(pub u64);

impl ContentHash {
    /// Of everything in the request but its number and mark. The same on every replica and in every version:
    /// 64-bit FNV-1a over a fixed order of fields. Terms that ask for nothing add nothing.
    pub fn of(request: &Acquire, terms: &Terms) -> Self {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        for part in &request.parts {
            hasher.bytes(part.lock.as_str().as_bytes());
            hasher.number(match part.mode {
                Mode::Exclusive => 1,
                Mode::Shared => 2,
            });
            hasher.number(part.capacity.into());
            hasher.number(part.permits.into());
            match part.delay {
                LockDelay::Named(delay) => {
                    hasher.number(1);
                    hasher.number(delay.0);
                }
                // The default may change between two copies of one request.
                LockDelay::Default(_) => hasher.number(2),
            }
            for guard in &part.fenced_by {
                hasher.bytes(guard.as_str().as_bytes());
            }
        }
        match request.wait {
            Wait::Try => hasher.number(1),
            Wait::Bounded(bound) => {
                hasher.number(2);
                hasher.number(bound.0);
            }
            Wait::Session => hasher.number(3),
        }
        if let Some(owner) = &request.owner {
            hasher.bytes(owner.as_str().as_bytes());
        }
        if *terms != Terms::default() {
            for deadline in [terms.hold_max, terms.progress_every] {
                hasher.number(deadline.map_or(0, |deadline| deadline.0));
            }
            hasher.bytes(terms.metadata.as_bytes());
        }
        Self(hasher.0)
    }
}

struct Fnv(u64);

const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// What so many zero bytes multiply a hash by.
const ZEROS: [u64; 9] = {
    let mut powers = [1_u64; 9];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1].wrapping_mul(FNV_PRIME);
        at += 1;
    }
    powers
};

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.write(bytes);
    }

    /// Its eight bytes, the least first. Most numbers are small, and their zeros are taken at once.
    fn number(&mut self, number: u64) {
        let (mut rest, mut zeros) = (number, 8);
        while rest != 0 {
            self.0 = (self.0 ^ (rest & 0xff)).wrapping_mul(FNV_PRIME);
            rest >>= 8;
            zeros -= 1;
        }
        self.0 = self.0.wrapping_mul(ZEROS[zeros]);
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
    }

    // The defaults write numbers as this machine lays them out.
    fn write_u8(&mut self, number: u8) {
        self.write(&[number]);
    }

    fn write_u32(&mut self, number: u32) {
        self.write(&number.to_le_bytes());
    }

    fn write_u64(&mut self, number: u64) {
        self.number(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.number(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A fixed hash of a key: which shard of a table it lives in. The same on every replica and in every version.
pub(crate) fn shard_of(key: &impl Hash, shards: usize) -> usize {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    key.hash(&mut hasher);
    (hasher.finish() % shards as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_hashed_as_its_bytes_are() {
        for number in (0..64).map(|bit| 1_u64 << bit).chain([0, 0xff, 0x1234_0000_5600, u64::MAX]) {
            let (mut whole, mut bytes) = (Fnv(7), Fnv(7));
            whole.number(number);
            bytes.write(&number.to_le_bytes());
            assert_eq!(whole.finish(), bytes.finish(), "{number:#x}");
        }
    }
}
