//! The queue of a lock: first in, first out; one place per acquisition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{AcquisitionId, LogIndex};

/// Who waits, by the entry that brought them. An entry brings at most one acquisition, so that an index is a place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WaitQueue {
    places: BTreeMap<LogIndex, AcquisitionId>,
}

impl WaitQueue {
    /// Takes the last place.
    pub fn push(&mut self, arrived: LogIndex, acquisition: AcquisitionId) {
        self.places.insert(arrived, acquisition);
    }

    /// Gives a place up; whether it was held.
    pub fn remove(&mut self, arrived: LogIndex) -> bool {
        self.places.remove(&arrived).is_some()
    }

    /// Makes a place another's.
    pub fn pass_on(&mut self, arrived: LogIndex, to: AcquisitionId) {
        if let Some(acquisition) = self.places.get_mut(&arrived) {
            *acquisition = to;
        }
    }

    /// Who is next.
    pub fn head(&self) -> Option<(LogIndex, AcquisitionId)> {
        self.places.first_key_value().map(|(at, id)| (*at, *id))
    }

    /// Waiters ahead of this place, plus one.
    pub fn place(&self, arrived: LogIndex) -> u32 {
        u32::try_from(self.places.range(..arrived).count() + 1).unwrap_or(u32::MAX)
    }

    /// Those ahead of this place, the nearest first.
    pub(crate) fn ahead_of(&self, arrived: LogIndex) -> impl Iterator<Item = (LogIndex, AcquisitionId)> {
        self.places.range(..arrived).rev().map(|(at, id)| (*at, *id))
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = (LogIndex, AcquisitionId)> {
        self.places.iter().map(|(at, id)| (*at, *id))
    }

    /// How many wait.
    pub fn len(&self) -> u32 {
        u32::try_from(self.places.len()).unwrap_or(u32::MAX)
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}
