//! What became of what the lease clock had proposed.

use palisade_core::command::Command;
use palisade_core::ids::{LogIndex, SessionId};
use palisade_host::Moment;

use super::LeaseClock;
use super::timers::Key;

impl LeaseClock {
    /// A command of this clock was not appended, or its fate is unknown: it is due again, after a tick. A session
    /// stays marked.
    pub fn undecided(&mut self, now: Moment, command: &Command) {
        self.again(now, command, false);
    }

    /// A command of this clock was applied. A session that is still there spoke meanwhile, and is marked no longer.
    pub fn decided(&mut self, now: Moment, command: &Command) {
        self.again(now, command, true);
    }

    fn again(&mut self, now: Moment, command: &Command, decided: bool) {
        let Some(epoch) = self.epoch else { return };
        let soon = now + self.config.tick;
        match command {
            Command::ExpireSessions(expire) if expire.epoch == epoch => {
                for (session, last_command) in &expire.sessions {
                    self.session_again(*session, *last_command, if decided { None } else { Some(soon) });
                }
            }
            Command::EndLockDelay(end) if end.epoch == epoch => {
                let timer = self.timers.delays.get(&(end.lock.clone(), end.slot));
                if timer.is_some_and(|timer| timer.began == end.began) {
                    self.timers.move_to(Key::Delay(end.lock.clone(), end.slot), soon);
                }
            }
            Command::EndWait(end) if end.epoch == epoch => {
                self.timers.move_to(Key::Wait(end.acquisition), soon);
            }
            Command::EndOverdue(end) if end.epoch == epoch => {
                let holder = self.timers.holders.get(&end.acquisition);
                if holder.is_some_and(|holder| holder.grant == end.grant) {
                    self.timers.move_to(Key::Holder(end.acquisition), soon);
                }
            }
            Command::Tick(tick) if tick.epoch == epoch && !decided => self.minute_again(soon),
            // Decided under an earlier clock: this one armed everything anew.
            Command::ExpireSessions(_)
            | Command::EndLockDelay(_)
            | Command::EndWait(_)
            | Command::EndOverdue(_)
            | Command::Tick(_) => {}
            // Not of this clock.
            _ => {}
        }
    }

    /// A marked session is proposed again at `retry`, or, with none, marked no longer.
    fn session_again(&mut self, session: SessionId, last_command: LogIndex, retry: Option<Moment>) {
        let Some(lease) = self.timers.sessions.get_mut(&session) else { return };
        if lease.marked != Some(last_command) {
            return;
        }
        if retry.is_none() {
            lease.marked = None;
        }
        let place = retry.unwrap_or(lease.span.deadline);
        self.timers.move_to(Key::Session(session), place);
    }
}
