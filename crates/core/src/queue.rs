//! The queue of a lock: first in, first out; one place per acquisition.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::{AcquisitionId, LogIndex};

/// Who waits, by the entry that brought them. An entry brings at most one acquisition, so that an index is a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::box_collection, reason = "most locks have no queue: a map in place would be half of a lock")]
pub struct WaitQueue {
    /// None for none: most locks are not waited for.
    places: Option<Box<BTreeMap<LogIndex, AcquisitionId>>>,
}

impl WaitQueue {
    /// Takes the last place.
    pub fn push(&mut self, arrived: LogIndex, acquisition: AcquisitionId) {
        self.places.get_or_insert_default().insert(arrived, acquisition);
    }

    /// Gives a place up; whether it was held.
    pub fn remove(&mut self, arrived: LogIndex) -> bool {
        let Some(places) = &mut self.places else { return false };
        let had = places.remove(&arrived).is_some();
        if places.is_empty() {
            self.places = None;
        }
        had
    }

    /// Makes a place another's.
    pub fn pass_on(&mut self, arrived: LogIndex, to: AcquisitionId) {
        if let Some(acquisition) = self.places.as_mut().and_then(|places| places.get_mut(&arrived)) {
            *acquisition = to;
        }
    }

    /// Who is next.
    pub fn head(&self) -> Option<(LogIndex, AcquisitionId)> {
        self.places.as_ref()?.first_key_value().map(|(at, id)| (*at, *id))
    }

    /// Waiters ahead of this place, plus one.
    pub fn place(&self, arrived: LogIndex) -> u32 {
        u32::try_from(self.ahead_of(arrived).count() + 1).unwrap_or(u32::MAX)
    }

    /// Those ahead of this place, the nearest first.
    pub(crate) fn ahead_of(&self, arrived: LogIndex) -> impl Iterator<Item = (LogIndex, AcquisitionId)> {
        self.places.iter().flat_map(move |places| places.range(..arrived).rev()).map(|(at, id)| (*at, *id))
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = (LogIndex, AcquisitionId)> {
        self.places.iter().flat_map(|places| places.iter()).map(|(at, id)| (*at, *id))
    }

    /// How many wait.
    pub fn len(&self) -> u32 {
        u32::try_from(self.places.as_ref().map_or(0, |places| places.len())).unwrap_or(u32::MAX)
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.places.is_none()
    }
}

/// As the map, which it was in the first version.
impl Serialize for WaitQueue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.places {
            Some(places) => places.serialize(serializer),
            None => BTreeMap::<LogIndex, AcquisitionId>::new().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for WaitQueue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let places = BTreeMap::deserialize(deserializer)?;
        Ok(Self { places: (!places.is_empty()).then(|| Box::new(places)) })
    }
}
