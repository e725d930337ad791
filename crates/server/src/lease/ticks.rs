//! The leader's minutes, by which the next leader knows how long ago a session with a long lease was heard from.

use palisade_core::command::{ClusterVersion, Command, Tick};
use palisade_core::ids::{LogIndex, Millis, SessionId};
use palisade_core::limits::LONG_LEASE;
use palisade_core::table::LockTable;
use palisade_host::Moment;

use super::LeaseClock;

/// Between two ticks, stretched as a lease is: what the ticks say has passed, has passed by the slowest clock.
pub(super) const MINUTE: Millis = Millis(60_000);
/// Since when clusters count minutes.
const SINCE: ClusterVersion = ClusterVersion(2);

/// Where the count stands.
#[derive(Debug)]
pub(super) struct Minutes {
    /// The present leader's last tick.
    last: Option<LogIndex>,
    /// When the next one is due.
    place: Moment,
}

impl LeaseClock {
    /// The first is due in a minute. Nothing changes where minutes are counted already, or not known yet.
    pub(super) fn begin_minutes(&mut self, now: Moment, table: &LockTable) {
        if self.minutes.is_none() && table.header().version >= SINCE {
            self.minutes = Some(Minutes { last: table.ticks().last, place: now + self.stretched(MINUTE) });
        }
    }

    /// The tick that is due.
    pub(super) fn minute(&mut self, now: Moment, epoch: LogIndex) -> Option<Command> {
        let again = now + self.stretched(MINUTE);
        let minutes = self.minutes.as_mut().filter(|minutes| minutes.place <= now)?;
        minutes.place = again;
        Some(Command::Tick(Tick { epoch, previous: minutes.last }))
    }

    /// It was not decided: the same is due again.
    pub(super) fn minute_again(&mut self, place: Moment) {
        if let Some(minutes) = &mut self.minutes {
            minutes.place = place;
        }
    }

    /// It counts.
    pub(super) fn ticked(&mut self, now: Moment, index: LogIndex) {
        self.minutes = Some(Minutes { last: Some(index), place: now + self.stretched(MINUTE) });
    }

    /// Whether the session's keepalives go through the log: its lease is longer than a minute, and minutes are counted.
    pub fn is_kept_in_log(&self, session: SessionId) -> bool {
        let longer = |lease: &super::timers::Lease| lease.span.length > self.stretched(LONG_LEASE);
        self.minutes.is_some() && self.timers.sessions.get(&session).is_some_and(longer)
    }
}
