//! The newest entries of the log, in memory.
//!
//! Followers that keep up, and apply, read from here. What is not durable yet is here and nowhere else, so an entry
//! leaves only once it is durable and the window is full.

use std::collections::VecDeque;
use std::ops::Range;

use crate::engine::{LogPoint, Record, Recovered, TAIL_BYTES};

#[derive(Debug, Default)]
pub(crate) struct LogWindow {
    /// First index of the whole log; what lies below the window is in the engine.
    log_first: u64,
    /// Index of the first record here.
    first: u64,
    records: VecDeque<Record>,
    bytes: usize,
    /// The end of what is durable.
    durable_end: u64,
}

impl LogWindow {
    pub(crate) fn new(recovered: &mut Recovered) -> Self {
        let Some((log_first, last)) = recovered.log else {
            let next = recovered.purged.map_or(0, |point| point.index + 1);
            return Self { log_first: next, first: next, durable_end: next, ..Self::default() };
        };
        let records: VecDeque<_> = std::mem::take(&mut recovered.tail).into();
        Self {
            log_first,
            first: last + 1 - records.len() as u64,
            bytes: records.iter().map(Record::stored_bytes).sum(),
            records,
            durable_end: last + 1,
        }
    }

    /// First and next index of the log.
    pub(crate) fn span(&self) -> Range<u64> {
        self.log_first..self.end()
    }

    /// Index of the first record here.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn end(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    pub(crate) fn last(&self) -> Option<LogPoint> {
        self.records.back().map(|record| LogPoint { term: record.term, index: self.end() - 1 })
    }

    pub(crate) fn push(&mut self, first: u64, records: &[Record]) {
        if self.records.is_empty() && self.span().is_empty() {
            (self.log_first, self.first, self.durable_end) = (first, first, first);
        }
        self.bytes += records.iter().map(Record::stored_bytes).sum::<usize>();
        self.records.extend(records.iter().cloned());
        self.shrink();
    }

    /// Everything before `end` is durable.
    pub(crate) fn durable(&mut self, end: u64) {
        self.durable_end = self.durable_end.max(end);
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bytes > TAIL_BYTES && self.records.len() > 1 && self.first < self.durable_end {
            if let Some(oldest) = self.records.pop_front() {
                self.bytes -= oldest.stored_bytes();
                self.first += 1;
            }
        }
    }

    /// Drops everything from `end` on. The window may become empty while the log is not: see
    /// [`needs_refill`](Self::needs_refill).
    pub(crate) fn truncate(&mut self, end: u64) {
        let keep = usize::try_from(end.saturating_sub(self.first)).unwrap_or(usize::MAX);
        while self.records.len() > keep {
            if let Some(newest) = self.records.pop_back() {
                self.bytes -= newest.stored_bytes();
            }
        }
        self.first = self.first.min(end).max(self.log_first.min(end));
        self.durable_end = self.durable_end.min(end);
    }

    /// The indexes to read back, if nothing of the log is left in memory.
    pub(crate) fn needs_refill(&self) -> Option<Range<u64>> {
        const REFILL: u64 = 64;
        let span = self.span();
        let empty = self.records.is_empty() && !span.is_empty();
        empty.then(|| span.end.saturating_sub(REFILL).max(span.start)..span.end)
    }

    pub(crate) fn refill(&mut self, first: u64, records: Vec<Record>) {
        self.bytes = records.iter().map(Record::stored_bytes).sum();
        self.first = first;
        self.records = records.into();
    }

    /// Drops everything before `from`, which may lie beyond the end.
    pub(crate) fn purge(&mut self, from: u64) {
        while self.first < from {
            let Some(oldest) = self.records.pop_front() else { break };
            self.bytes -= oldest.stored_bytes();
            self.first += 1;
        }
        if self.records.is_empty() {
            self.first = self.first.max(from);
            self.durable_end = self.durable_end.max(from);
        }
        self.log_first = self.log_first.max(from);
    }

    /// Entries of `range`, as many as fit `bytes_max`, at least one. `range` lies within the window.
    pub(crate) fn read(&self, range: Range<u64>, bytes_max: usize) -> Vec<Record> {
        let skip = usize::try_from(range.start - self.first).unwrap_or(usize::MAX);
        let take = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let mut records = Vec::with_capacity(take.min(self.records.len()));
        for record in self.records.range(skip.min(self.records.len())..).take(take) {
            bytes += record.stored_bytes();
            if bytes > bytes_max && !records.is_empty() {
                break;
            }
            records.push(record.clone());
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::RecordKind;

    fn records(count: usize, bytes: usize) -> Vec<Record> {
        vec![Record { term: 1, kind: RecordKind::Command, body: vec![0; bytes].into() }; count]
    }

    #[test]
    fn what_is_not_durable_stays_however_full() {
        let mut window = LogWindow::default();
        window.push(1, &records(200, 64 << 10));
        assert_eq!(window.first(), 1);
        window.durable(100);
        assert!(window.first() > 1 && window.first() <= 100);
        window.durable(201);
        assert!(window.bytes <= TAIL_BYTES);
        assert_eq!(window.span(), 1..201);
    }

    #[test]
    fn truncating_below_the_window_asks_for_a_refill() {
        let mut window = LogWindow::default();
        window.push(1, &records(200, 64 << 10));
        window.durable(201);
        window.truncate(20);
        assert_eq!(window.span(), 1..20);
        assert_eq!(window.needs_refill(), Some(1..20));
        window.refill(1, records(19, 1));
        assert_eq!(window.last(), Some(LogPoint { term: 1, index: 19 }));
    }

    #[test]
    fn purging_may_reach_beyond_the_end() {
        let mut window = LogWindow::default();
        window.push(1, &records(10, 1));
        window.purge(5);
        assert_eq!((window.span(), window.read(5..7, 1 << 20).len()), (5..11, 2));
        window.purge(100);
        assert_eq!((window.span(), window.last()), (100..100, None));
        window.push(100, &records(1, 1));
        assert_eq!(window.span(), 100..101);
    }
}
