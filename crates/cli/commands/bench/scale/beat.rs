//! When a crowd's sessions are renewed: slice by slice, all of them within a third of their lease.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use super::super::report::Latencies;

/// Slices of all sessions, renewed one after the other.
const SLICES: usize = 16;

pub(super) struct Beat {
    every: Duration,
    /// When the next slice is due.
    pub(super) at: Instant,
    slice: usize,
    pub(super) due: VecDeque<usize>,
    pub(super) number: u64,
    /// Keepalives that are not answered, by number.
    pub(super) sent: BTreeMap<u64, (Instant, usize)>,
    pub(super) latencies: Latencies,
    /// Sessions that were renewed.
    pub(super) answered: u64,
}

impl Beat {
    pub(super) fn new(ttl: Duration, now: Instant) -> Self {
        let every = ttl / 3 / SLICES as u32;
        Self {
            every,
            at: now + every,
            slice: 0,
            due: VecDeque::new(),
            number: 0,
            sent: BTreeMap::new(),
            latencies: Latencies::default(),
            answered: 0,
        }
    }

    /// What is due by now.
    pub(super) fn tick(&mut self, now: Instant) {
        while self.at <= now {
            self.due.push_back(self.slice);
            self.slice = (self.slice + 1) % SLICES;
            self.at += self.every;
        }
    }
}

/// Which of so many members are in a slice.
pub(super) fn slice_of(slice: usize, members: usize) -> Range<usize> {
    slice * members / SLICES..(slice + 1) * members / SLICES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_is_in_one_slice_and_due_within_a_third_of_its_lease() {
        let (ttl, now) = (Duration::from_secs(12), Instant::now());
        let mut beat = Beat::new(ttl, now);
        beat.tick(now);
        assert!(beat.due.is_empty());
        beat.tick(now + ttl / 3);
        assert!(beat.due.iter().copied().eq(0..SLICES));
        let members: Vec<usize> = beat.due.iter().flat_map(|slice| slice_of(*slice, 1_001)).collect();
        assert!(members.into_iter().eq(0..1_001));
    }
}
