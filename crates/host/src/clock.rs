//! Time that counts suspension.
//!
//! The standard library's `Instant` stands still while a machine is suspended; a holder that wakes up would believe
//! that no time has passed. `CLOCK_BOOTTIME` goes on (SPEC 3).

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::withheld::Withheld;

/// A point in time of this machine, counted through suspension. Says nothing to another machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    nanos: u64,
}

impl Moment {
    /// From nanoseconds of the clock.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// As nanoseconds of the clock.
    pub const fn as_nanos(self) -> u64 {
        self.nanos
    }

    /// How long after `earlier`; nothing when it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos.saturating_sub(earlier.nanos))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self { nanos: self.nanos.saturating_add(nanos) }
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self { nanos: self.nanos.saturating_sub(nanos) }
    }
}

/// Where time is read.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Now, on the clock that counts suspension.
    fn now(&self) -> Moment;

    /// Microseconds since 1970. For display and audit only.
    fn wall_micros(&self) -> u64;

    /// CPU time that this process wanted and did not get. Nothing where nobody tells.
    fn withheld(&self) -> Withheld {
        Withheld::default()
    }
}

/// A clock that is handed around.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[cfg(target_os = "linux")]
    fn now(&self) -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Moment::from_nanos(seconds * 1_000_000_000 + nanos)
    }

    /// Darwin's monotonic clock goes on while the machine sleeps.
    #[cfg(not(target_os = "linux"))]
    fn now(&self) -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Moment::from_nanos(seconds * 1_000_000_000 + nanos)
    }

    fn wall_micros(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    #[cfg(target_os = "linux")]
    fn withheld(&self) -> Withheld {
        Withheld::read()
    }
}

/// A clock that stands until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock {
    nanos: AtomicU64,
}

impl ManualClock {
    /// Moves it on.
    pub fn advance(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn wall_micros(&self) -> u64 {
        self.nanos.load(Ordering::SeqCst) / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_goes_forward() {
        let first = SystemClock.now();
        assert!(SystemClock.now() >= first);
        assert!(SystemClock.wall_micros() > 1_700_000_000_000_000);
    }

    #[test]
    fn a_manual_clock_moves_when_told() {
        let clock = ManualClock::default();
        let first = clock.now();
        assert_eq!(clock.now(), first);
        clock.advance(Duration::from_secs(3));
        assert_eq!(clock.now().since(first), Duration::from_secs(3));
        assert_eq!(first.since(clock.now()), Duration::ZERO);
    }
}
