//! A stale holder that is refused again and again: it does not stop, or whatever starts it does not.

use std::time::Duration;

use palisade_host::Moment;

/// Refusals are counted over so long, second by second. A storm is over after so long without one.
pub(super) const STORM_WINDOW: Duration = Duration::from_secs(10);

const SECONDS: usize = 10;

/// The refusals of one stale holder by one guard.
#[derive(Debug, Default)]
pub(super) struct Storm {
    /// Of the last seconds; the second `at` is at `at % SECONDS`.
    recent: [u64; SECONDS],
    at: u64,
    on: Option<On>,
}

#[derive(Clone, Copy, Debug)]
struct On {
    since: Moment,
    refused: u64,
}

/// A storm that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) refused: u64,
    pub(super) lasted: Duration,
}

impl Storm {
    /// So many more. Whether a storm begins with them.
    pub(super) fn add(&mut self, now: Moment, count: u64, limit: u64) -> bool {
        self.pass(now);
        let second = self.place(self.at);
        self.recent[second] = self.recent[second].saturating_add(count);
        let recent = self.recent();
        match &mut self.on {
            Some(on) => on.refused = on.refused.saturating_add(count),
            None if recent >= limit => {
                self.on = Some(On { since: now, refused: recent });
                return true;
            }
            None => {}
        }
        false
    }

    /// The storm that is over by now.
    pub(super) fn over(&mut self, now: Moment) -> Option<Over> {
        self.pass(now);
        let on = self.on.filter(|_| self.recent() == 0)?;
        self.on = None;
        Some(Over { refused: on.refused, lasted: now.since(on.since) })
    }

    pub(super) fn is_on(&self) -> bool {
        self.on.is_some()
    }

    fn recent(&self) -> u64 {
        self.recent.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Forgets the seconds that are past.
    fn pass(&mut self, now: Moment) {
        let second = Duration::from_nanos(now.as_nanos()).as_secs();
        let passed = second.saturating_sub(self.at).min(SECONDS as u64);
        for ago in 0..passed {
            let past = self.place(second - ago);
            self.recent[past] = 0;
        }
        self.at = self.at.max(second);
    }

    fn place(&self, second: u64) -> usize {
        usize::try_from(second % SECONDS as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(0) + Duration::from_millis(100_000 + millis)
    }

    #[test]
    fn a_storm_begins_with_enough_in_the_window_and_once() {
        let mut storm = Storm::default();
        assert!((0..9).all(|second| !storm.add(at(second * 1_000), 1, 10)));
        assert!(!storm.is_on());
        assert!(storm.add(at(9_500), 1, 10));
        assert!(!storm.add(at(9_600), 50, 10) && storm.is_on());
    }

    #[test]
    fn slow_refusals_are_no_storm_however_many() {
        let mut storm = Storm::default();
        assert!((0..100).all(|number| !storm.add(at(number * 1_200), 1, 10)));
        assert!(Storm::default().add(at(0), 10, 10), "one report of many");
    }

    #[test]
    fn it_ends_when_there_was_none_for_the_window_and_can_begin_again() {
        let mut storm = Storm::default();
        assert!(storm.add(at(0), 10, 10));
        storm.add(at(5_000), 2, 10);
        assert_eq!(storm.over(at(14_000)), None, "the last was 9 s ago");
        assert_eq!(storm.over(at(15_000)), Some(Over { refused: 12, lasted: Duration::from_secs(15) }));
        assert_eq!(storm.over(at(16_000)), None);
        assert!(!storm.add(at(16_000), 9, 10));
        assert!(storm.add(at(16_500), 1, 10));
    }
}
