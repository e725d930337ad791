//! The command's process group: what is told to it, who is in it, and its end.
//!
//! The command itself is not reaped before its group is gone: as long as it is a zombie nobody else can get its number.

use std::fmt;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use tokio::time::{Instant, timeout_at};

use super::Place;
use super::signals::{Signals, stop_self};

/// How often the group is looked at while it ends: the kernel announces only the end of our own children.
const LOOK: Duration = Duration::from_millis(10);
/// How long after SIGKILL a member may still be seen; a process that hangs in a disk may take for ever.
const KILLED_MAX: Duration = Duration::from_secs(5);

/// What the command itself does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leader {
    Runs,
    StoppedForTerminal,
    Ended,
}

/// A process group of our own making, or one process of our own group.
pub(super) struct Group {
    leader: Pid,
    place: Place,
    ended: bool,
}

impl Group {
    pub(super) fn new(leader: Pid, place: Place) -> Self {
        Self { leader, place, ended: false }
    }

    /// Looks at the command without reaping it.
    pub(super) fn leader(&mut self) -> io::Result<Leader> {
        if self.ended {
            return Ok(Leader::Ended);
        }
        let options = WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if waitid(WaitId::Pid(self.leader), options | WaitIdOptions::EXITED)?.is_some() {
            self.ended = true;
            return Ok(Leader::Ended);
        }
        // A stop is reported once, so this one may consume it.
        let stopped = waitid(WaitId::Pid(self.leader), WaitIdOptions::NOHANG | WaitIdOptions::STOPPED)?;
        let by = stopped.and_then(|status| status.stopping_signal());
        let terminal = [Signal::TTIN, Signal::TTOU].map(|signal| Some(signal.as_raw()));
        Ok(if terminal.contains(&by) { Leader::StoppedForTerminal } else { Leader::Runs })
    }

    /// Tells the group what this process was told. A stop stops this process as well.
    pub(super) fn pass_on(&self, signal: Signal) {
        // The terminal told the command already, when both are of one group.
        let told =
            self.place == Place::Foreground && matches!(signal, Signal::INT | Signal::QUIT | Signal::TSTP);
        if !told {
            self.tell(signal);
        }
        match signal {
            Signal::TSTP => stop_self(),
            // A stopped process meets what should end it only when it goes on.
            Signal::TERM | Signal::HUP => self.tell(Signal::CONT),
            _ => {}
        }
    }

    fn tell(&self, signal: Signal) {
        let told = match self.place {
            Place::OwnGroup => kill_process_group(self.leader, signal),
            Place::Foreground => kill_process(self.leader, signal),
        };
        if let Err(error) = told {
            tracing::debug!(%error, signal = signal.as_raw(), "a signal was not delivered");
        }
    }

    /// Ends every member: SIGTERM, and after `grace` SIGKILL. Signals that come in meanwhile are passed on.
    /// Returns how many are left all the same.
    pub(super) async fn end(&mut self, grace: Duration, signals: &mut Signals) -> io::Result<usize> {
        if self.members()? == 0 {
            return Ok(0);
        }
        self.tell(Signal::TERM);
        self.tell(Signal::CONT);
        if self.gone_by(Instant::now() + grace, signals).await? {
            return Ok(0);
        }
        self.tell(Signal::KILL);
        self.gone_by(Instant::now() + KILLED_MAX, signals).await?;
        self.members()
    }

    async fn gone_by(&mut self, deadline: Instant, signals: &mut Signals) -> io::Result<bool> {
        while self.members()? > 0 {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            let look = deadline.min(Instant::now() + LOOK);
            if let Ok(caught) = timeout_at(look, signals.next()).await {
                self.pass_on(caught);
            }
        }
        Ok(true)
    }

    /// Members that are still alive.
    fn members(&mut self) -> io::Result<usize> {
        let leader = usize::from(self.leader()? != Leader::Ended);
        match self.place {
            Place::Foreground => Ok(leader),
            Place::OwnGroup => Ok(alive_in(self.leader).unwrap_or(leader)),
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::OwnGroup => write!(f, "process group {}", self.leader.as_raw_nonzero()),
            Place::Foreground => write!(f, "process {}", self.leader.as_raw_nonzero()),
        }
    }
}

/// Processes of `group` that are no zombies; none where the system does not tell.
pub(super) fn alive_in(group: Pid) -> Option<usize> {
    Some(states_in(group)?.len())
}

/// Whether all of `group` stands still; none where the system does not tell. A shell that was stopped in the middle of
/// beginning a command waits in the kernel (D) for a child that is stopped (T).
pub(crate) fn stands(group: Pid) -> Option<bool> {
    let states = states_in(group)?;
    Some(states.contains(&'T') && states.iter().all(|state| matches!(state, 'T' | 'D')))
}

/// The states of processes of `group` that are alive.
fn states_in(group: Pid) -> Option<Vec<char>> {
    let processes = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let stats = processes.filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
    Some(stats.filter_map(|stat| state_in(&stat, group.as_raw_nonzero().get())).collect())
}

/// `stat` reads `pid (name) state parent group …`; the name may hold anything, parentheses too.
fn state_in(stat: &str, group: i32) -> Option<char> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next().filter(|state| !matches!(state, 'Z' | 'X'))?;
    (fields.nth(1)?.parse() == Ok(group)).then_some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zombie_is_not_alive_and_a_name_may_hold_anything() {
        assert_eq!(state_in("12 (a) b) (c) S 1 12 12 0", 12), Some('S'));
        assert_eq!(state_in("12 (a) Z 1 12 12 0", 12), None);
        assert_eq!(state_in("12 (a) S 12 1 12 0", 12), None);
    }
}
