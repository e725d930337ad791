//! What the items say together. The writer and the recovery keep it by the same rules.

use std::ops::Range;

use super::item::Item;
use crate::engine::{Identity, LogPoint, SavedVote};

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) identity: Option<Identity>,
    pub(super) vote: Option<SavedVote>,
    pub(super) purged: Option<LogPoint>,
    pub(super) committed: Option<LogPoint>,
    /// First and next index of the log.
    pub(super) log: Range<u64>,
}

impl State {
    /// What a segment begins with, so that those before it may go.
    pub(super) fn items(&self) -> Vec<Item> {
        let mut items = vec![Item::Span(self.log.start, self.log.end)];
        items.extend(self.identity.clone().map(|identity| Item::Identity(Box::new(identity))));
        items.extend(self.vote.map(Item::Vote));
        items.extend(self.purged.map(Item::Purged));
        items.extend(self.committed.map(|point| Item::Committed(Some(point))));
        items
    }

    /// Entries follow. Refused when they do not.
    pub(super) fn append(&mut self, first: u64, count: u64) -> Result<(), String> {
        if !self.log.is_empty() && first != self.log.end {
            return Err(format!("entry {first} does not follow entry {}", self.log.end - 1));
        }
        let end = first.checked_add(count).ok_or("there is no such index")?;
        let start = if self.log.is_empty() { first } else { self.log.start };
        self.log = start..end;
        Ok(())
    }

    /// Entries from `end` on are dropped.
    pub(super) fn truncate(&mut self, end: u64) {
        self.log.end = self.log.end.min(end).max(self.log.start);
    }

    /// Entries up to `point` are dropped.
    pub(super) fn purge(&mut self, point: LogPoint) {
        self.purged = self.purged.max(Some(point));
        let next = point.index.saturating_add(1);
        self.log = self.log.start.max(next)..self.log.end.max(next);
    }
}
