//! How held parts ended: the last of them, in two bounded rings (SPEC 10).
//!
//! A tenure is the sum of its own ended acquisitions; the one that still holds is the lock's, not the history's. What
//! ended otherwise than by its holder's will has a ring of its own, so that no number of releases drives it out: after
//! an incident, those boundaries are the whole space in which duplicate or interleaved effects can hide. What fell out
//! of a ring is told as such.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::{AcquisitionId, ClientName, LockName, LogIndex, Slot, WallTime};
use crate::limits::{HISTORY_EXPIRED_DEFAULT, HISTORY_OTHERS_DEFAULT};
use crate::mode::Mode;
use crate::reply::Ended;
use crate::token::Token;

/// Entries of one chunk of a ring: what the first change after a clone copies at most.
const CHUNK: usize = 256;

/// One part of an acquisition that held, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedHold {
    /// Counts all that ever ended here, over both rings; where a page of history goes on.
    pub number: u64,
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// How it held.
    pub mode: Mode,
    /// Which acquisition.
    pub acquisition: AcquisitionId,
    /// Whose, for people.
    pub client: ClientName,
    /// The token of its tenure.
    pub token: Token,
    /// The entry that gave it its place.
    pub grant: LogIndex,
    /// Wall time of that entry.
    pub granted_at: WallTime,
    /// How it ended.
    pub ended: Ended,
    /// The entry that ended it.
    pub end: LogIndex,
    /// Wall time of that entry.
    pub ended_at: WallTime,
}

/// How many ended holds are remembered. Replicated; changed by a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistorySizes {
    /// Of those that expired, were broken, overdue, or ended by an operator.
    pub expired_max: u32,
    /// Of all others.
    pub others_max: u32,
}

impl Default for HistorySizes {
    fn default() -> Self {
        Self { expired_max: HISTORY_EXPIRED_DEFAULT, others_max: HISTORY_OTHERS_DEFAULT }
    }
}

/// The last ended holds of all locks. A clone is cheap, and shares until one side changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    sizes: HistorySizes,
    /// The number of the next.
    next: u64,
    expired: Ring,
    others: Ring,
}

/// A page of a lock's history, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPage {
    /// What ended.
    pub holds: Vec<EndedHold>,
    /// More follow: ask again, before the number of the last one.
    pub more: bool,
}

impl History {
    /// A history that begins after `index`: what ended up to there is not known.
    pub(crate) fn beginning_after(index: LogIndex) -> Self {
        let mut history = Self::default();
        history.begin_after(index);
        history
    }

    /// What ended up to `index` is not known.
    pub(crate) fn begin_after(&mut self, index: LogIndex) {
        for ring in [&mut self.expired, &mut self.others] {
            *ring = Ring { forgotten: index, ..Ring::default() };
        }
    }

    /// Remembers how a held part ended. Its number is given here.
    pub(crate) fn remember(&mut self, mut hold: EndedHold) {
        hold.number = self.next;
        self.next += 1;
        if hold.ended.delays() {
            self.expired.push(hold, self.sizes.expired_max);
        } else {
            self.others.push(hold, self.sizes.others_max);
        }
    }

    /// Remembers so many from now on; the oldest that are too many are forgotten at once.
    pub(crate) fn resize(&mut self, sizes: HistorySizes) {
        self.sizes = sizes;
        self.expired.shrink(sizes.expired_max);
        self.others.shrink(sizes.others_max);
    }

    /// How many are remembered at most.
    pub fn sizes(&self) -> HistorySizes {
        self.sizes
    }

    /// Those that expired, were broken, overdue, or ended by an operator, the oldest first.
    pub fn expired(&self) -> impl DoubleEndedIterator<Item = &EndedHold> {
        self.expired.iter()
    }

    /// All others, the oldest first.
    pub fn others(&self) -> impl DoubleEndedIterator<Item = &EndedHold> {
        self.others.iter()
    }

    /// Every hold that ended by expiry or the like after this entry is remembered; 0 is the first.
    pub fn expired_known_after(&self) -> LogIndex {
        self.expired.forgotten
    }

    /// Every other hold that ended after this entry is remembered.
    pub fn others_known_after(&self) -> LogIndex {
        self.others.forgotten
    }

    /// The last holds of a lock, the newest first, at most `limit`, with numbers below `before` where that is given.
    /// Takes time in proportion to both rings: not for the apply loop.
    pub fn of_lock(&self, lock: &LockName, before: Option<u64>, limit: usize) -> HistoryPage {
        let wanted =
            |hold: &&EndedHold| hold.lock == *lock && before.is_none_or(|before| hold.number < before);
        let mut expired = self.expired().rev().filter(wanted).peekable();
        let mut others = self.others().rev().filter(wanted).peekable();
        let mut page = HistoryPage::default();
        loop {
            let newest = match (expired.peek(), others.peek()) {
                (Some(a), Some(b)) if a.number > b.number => expired.next(),
                (Some(_), None) => expired.next(),
                (_, Some(_)) => others.next(),
                (None, None) => None,
            };
            let Some(hold) = newest else { return page };
            if page.holds.len() == limit {
                page.more = true;
                return page;
            }
            page.holds.push(hold.clone());
        }
    }

    /// What must hold between any two commands; says what does not.
    pub(crate) fn check(&self, applied: LogIndex) -> Result<(), String> {
        let HistorySizes { expired_max, others_max } = self.sizes;
        for (ring, max, delays) in [(&self.expired, expired_max, true), (&self.others, others_max, false)] {
            if ring.len > max as usize || ring.iter().count() != ring.len {
                return Err(format!("a ring of {max} ended holds has {}", ring.len));
            }
            let mut before = None;
            for hold in ring.iter() {
                if hold.ended.delays() != delays || before >= Some(hold.number) || hold.number >= self.next {
                    return Err(format!("the ended hold {hold:?} is out of place"));
                }
                if hold.end < ring.forgotten || hold.end > applied || hold.grant >= hold.end {
                    return Err(format!("the ended hold {hold:?} is out of its time"));
                }
                before = Some(hold.number);
            }
        }
        Ok(())
    }
}

/// The last of what was pushed. In chunks, so that a clone copies pointers, and a change one chunk.
#[derive(Clone, Default)]
struct Ring {
    chunks: VecDeque<Arc<VecDeque<EndedHold>>>,
    len: usize,
    /// The entry that ended the last one that fell out.
    forgotten: LogIndex,
}

impl Ring {
    fn push(&mut self, hold: EndedHold, max: u32) {
        match self.chunks.back_mut() {
            Some(last) if last.len() < CHUNK => Arc::make_mut(last).push_back(hold),
            _ => {
                let mut chunk = VecDeque::with_capacity(CHUNK);
                chunk.push_back(hold);
                self.chunks.push_back(Arc::new(chunk));
            }
        }
        self.len += 1;
        self.shrink(max);
    }

    fn shrink(&mut self, max: u32) {
        while self.len > max as usize {
            let Some(first) = self.chunks.front_mut() else { return };
            if let Some(oldest) = Arc::make_mut(first).pop_front() {
                self.forgotten = oldest.end;
                self.len -= 1;
            }
            if first.is_empty() {
                self.chunks.pop_front();
            }
        }
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &EndedHold> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
}

/// Where the chunks begin is no part of what is known.
impl PartialEq for Ring {
    fn eq(&self, other: &Self) -> bool {
        self.forgotten == other.forgotten && self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for Ring {}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("forgotten", &self.forgotten).field("len", &self.len).finish()
    }
}

/// The holds in order, whatever the chunks: equal rings have equal bytes.
struct Holds<'a>(&'a Ring);

impl Serialize for Holds<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.0.len))?;
        self.0.iter().try_for_each(|hold| seq.serialize_element(hold))?;
        seq.end()
    }
}

impl Serialize for Ring {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.forgotten, Holds(self)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ring {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (forgotten, holds) = <(LogIndex, Vec<EndedHold>)>::deserialize(deserializer)?;
        let mut ring = Self::default();
        for hold in holds {
            ring.push(hold, u32::MAX);
        }
        ring.forgotten = forgotten;
        Ok(ring)
    }
}

#[cfg(test)]
mod tests;
