//! What of a session waits or holds, by its number.
//!
//! A million held locks are a million acquisitions, nearly all of them plain: one lock, nothing special asked, held as
//! asked. Such a one is kept in a quarter of the room, and made whole when it is looked at. In bytes there is no
//! difference.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::command::{AcquirePart, LockDelay, Terms, Wait};
use crate::ids::{LockName, LogIndex, Millis, RequestNumber, Slot, WallTime};
use crate::mode::Mode;
use crate::session::{Acquisition, AcquisitionState, ContentHash, HeldPart, Reports};
use crate::token::Token;

/// Acquisitions, in the order of their numbers.
#[derive(Clone, Default)]
pub struct Acquisitions {
    /// Apart: a map of both kinds would have room for the larger.
    plain: BTreeMap<RequestNumber, Box<Plain>>,
    whole: BTreeMap<RequestNumber, Box<Acquisition>>,
}

/// The one slot of one lock, held as it was asked for, without owner, guards, terms, reports or batons.
#[derive(Clone)]
struct Plain {
    content: ContentHash,
    lock: LockName,
    grant: LogIndex,
    token: Token,
    arrived_at: WallTime,
    /// Entries from its arrival to its grant.
    waited: u32,
    /// Milliseconds.
    delay: u32,
    /// Milliseconds; 0 unless it is bounded.
    wait: u32,
    kind: Kind,
    delay_named: bool,
    mode: Mode,
}

/// Of a wait.
#[derive(Clone, Copy)]
enum Kind {
    Try,
    Bounded,
    Session,
}

impl Acquisitions {
    /// How many.
    pub fn len(&self) -> usize {
        self.plain.len() + self.whole.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many have a number at or above this one.
    pub(crate) fn count_from(&self, number: RequestNumber) -> usize {
        self.plain.range(number..).count() + self.whole.range(number..).count()
    }

    /// Whether this number waits or holds.
    pub fn contains(&self, number: RequestNumber) -> bool {
        self.whole.contains_key(&number) || self.plain.contains_key(&number)
    }

    /// The acquisition with this number.
    pub fn get(&self, number: RequestNumber) -> Option<Cow<'_, Acquisition>> {
        match self.get_whole(number) {
            Some(whole) => Some(Cow::Borrowed(whole)),
            None => self.plain.get(&number).map(|plain| Cow::Owned(plain.whole())),
        }
    }

    /// The same, unless it is a plain hold: whatever waits, has an owner, terms or guards, or holds several slots is here.
    pub fn get_whole(&self, number: RequestNumber) -> Option<&Acquisition> {
        self.whole.get(&number).map(|whole| &**whole)
    }

    /// In the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (RequestNumber, Cow<'_, Acquisition>)> {
        self.in_order().map(|(number, kept)| match kept {
            Ok(whole) => (number, Cow::Borrowed(whole)),
            Err(plain) => (number, Cow::Owned(plain.whole())),
        })
    }

    /// All, and none for each plain hold: see [`Acquisitions::get_whole`].
    pub fn iter_whole(&self) -> impl Iterator<Item = (RequestNumber, Option<&Acquisition>)> {
        self.in_order().map(|(number, kept)| (number, kept.ok()))
    }

    fn in_order(&self) -> impl Iterator<Item = (RequestNumber, Result<&Acquisition, &Plain>)> {
        let (mut plain, mut whole) = (self.plain.iter().peekable(), self.whole.iter().peekable());
        std::iter::from_fn(move || {
            let plain_first = match (plain.peek(), whole.peek()) {
                (Some((plain, _)), Some((whole, _))) => plain < whole,
                (Some(_), None) => true,
                (None, _) => false,
            };
            match plain_first {
                true => plain.next().map(|(number, plain)| (*number, Err(&**plain))),
                false => whole.next().map(|(number, whole)| (*number, Ok(&**whole))),
            }
        })
    }

    /// The acquisition with this number, to be changed.
    pub(crate) fn get_mut(&mut self, number: RequestNumber) -> Option<&mut Acquisition> {
        if let Some(plain) = self.plain.remove(&number) {
            self.whole.insert(number, Box::new(plain.whole()));
        }
        self.whole.get_mut(&number).map(|whole| &mut **whole)
    }

    /// Puts it in the place of what had this number: in less room, if it is a plain hold.
    pub(crate) fn insert(&mut self, number: RequestNumber, acquisition: Acquisition) {
        match Plain::of(&acquisition) {
            Some(plain) => {
                self.whole.remove(&number);
                self.plain.insert(number, Box::new(plain));
            }
            None => {
                self.plain.remove(&number);
                self.whole.insert(number, Box::new(acquisition));
            }
        }
    }

    pub(crate) fn remove(&mut self, number: RequestNumber) -> Option<Acquisition> {
        match self.whole.remove(&number) {
            Some(whole) => Some(*whole),
            None => self.plain.remove(&number).map(|plain| plain.whole()),
        }
    }

    /// What a plain hold holds; nothing of whatever is not one.
    pub(crate) fn plain_part(&self, number: RequestNumber) -> Option<HeldPart> {
        self.plain.get(&number).map(|plain| plain.held())
    }

    /// Takes a plain hold out: what its request is known by, and what it held.
    pub(crate) fn remove_plain(&mut self, number: RequestNumber) -> Option<(ContentHash, HeldPart)> {
        self.plain.remove(&number).map(|plain| (plain.content, plain.held()))
    }
}

impl IntoIterator for Acquisitions {
    type Item = (RequestNumber, Acquisition);
    type IntoIter = std::vec::IntoIter<(RequestNumber, Acquisition)>;

    fn into_iter(self) -> Self::IntoIter {
        let all = self.iter().map(|(number, acquisition)| (number, acquisition.into_owned()));
        all.collect::<Vec<_>>().into_iter()
    }
}

/// Of several with one number the last counts.
impl FromIterator<(RequestNumber, Acquisition)> for Acquisitions {
    fn from_iter<I: IntoIterator<Item = (RequestNumber, Acquisition)>>(all: I) -> Self {
        let (mut plain, mut whole) = (Vec::new(), BTreeMap::new());
        let mut last = None;
        let mut in_order = true;
        for (number, acquisition) in all {
            in_order &= last < Some(number);
            last = Some(number);
            match Plain::of(&acquisition) {
                Some(one) if in_order => plain.push((number, Box::new(one))),
                Some(_) | None => {
                    whole.insert(number, Box::new(acquisition));
                }
            }
        }
        // All at once, so that its nodes are full.
        Self { plain: plain.into_iter().collect(), whole }
    }
}

impl Plain {
    fn of(acquisition: &Acquisition) -> Option<Self> {
        let Acquisition { content, parts, wait, owner, terms, metadata_revision, arrived, arrived_at, state } =
            acquisition;
        let AcquisitionState::Holding { grant, held, reports } = state else { return None };
        let ([part], [held]) = (&parts[..], &held[..]) else { return None };
        let AcquirePart { lock, mode, capacity, permits, delay, fenced_by } = part;
        let bare = owner.is_none() && fenced_by.is_empty() && *terms == Terms::default();
        let untouched = *metadata_revision == 0 && *reports == Reports::default();
        let one = *capacity == 1 && *permits == 1;
        let HeldPart {
            lock: name,
            slot,
            mode: mode_now,
            token,
            delay: delay_now,
            downgraded_from,
            baton_revision,
        } = held;
        let as_asked = name == lock
            && (*slot, *mode_now, *delay_now) == (Slot(0), *mode, delay.millis())
            && downgraded_from.is_none()
            && *baton_revision == 0;
        if !(bare && untouched && one && as_asked) {
            return None;
        }
        let (kind, wait) = match wait {
            Wait::Try => (Kind::Try, 0),
            Wait::Bounded(bound) => (Kind::Bounded, u32::try_from(bound.0).ok()?),
            Wait::Session => (Kind::Session, 0),
        };
        Some(Self {
            content: *content,
            lock: lock.clone(),
            grant: *grant,
            token: *token,
            arrived_at: *arrived_at,
            waited: u32::try_from(grant.0.checked_sub(arrived.0)?).ok()?,
            delay: u32::try_from(delay.millis().0).ok()?,
            wait,
            kind,
            delay_named: matches!(delay, LockDelay::Named(_)),
            mode: *mode,
        })
    }

    fn whole(&self) -> Acquisition {
        let millis = Millis(self.delay.into());
        let delay = if self.delay_named { LockDelay::Named(millis) } else { LockDelay::Default(millis) };
        let part = AcquirePart {
            lock: self.lock.clone(),
            mode: self.mode,
            capacity: 1,
            permits: 1,
            delay,
            fenced_by: Vec::new(),
        };
        Acquisition {
            content: self.content,
            parts: vec![part],
            wait: match self.kind {
                Kind::Try => Wait::Try,
                Kind::Bounded => Wait::Bounded(Millis(self.wait.into())),
                Kind::Session => Wait::Session,
            },
            owner: None,
            terms: Terms::default(),
            metadata_revision: 0,
            arrived: LogIndex(self.grant.0 - u64::from(self.waited)),
            arrived_at: self.arrived_at,
            state: AcquisitionState::Holding {
                grant: self.grant,
                held: vec![self.held()],
                reports: Reports::default(),
            },
        }
    }

    /// What it has of its lock.
    fn held(&self) -> HeldPart {
        HeldPart {
            lock: self.lock.clone(),
            slot: Slot(0),
            mode: self.mode,
            token: self.token,
            delay: Millis(self.delay.into()),
            downgraded_from: None,
            baton_revision: 0,
        }
    }
}

/// However they are kept.
impl PartialEq for Acquisitions {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Acquisitions {}

impl fmt::Debug for Acquisitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Acquisitions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        self.iter().try_for_each(|(number, acquisition)| map.serialize_entry(&number, &acquisition))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Acquisitions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;

        impl<'de> Visitor<'de> for All {
            type Value = Acquisitions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("acquisitions by their numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Acquisitions, A::Error> {
                let mut failed = None;
                let all = std::iter::from_fn(|| {
                    map.next_entry().unwrap_or_else(|why| {
                        failed = Some(why);
                        None
                    })
                });
                let all = all.collect();
                failed.map_or(Ok(all), Err)
            }
        }

        deserializer.deserialize_map(All)
    }
}

#[cfg(test)]
mod tests;
