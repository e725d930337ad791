//! The lease clock: turns time into entries.
//!
//! It never reads a clock: whoever drives it hands it the time, so that every rule here can be told as a story. It
//! proposes nothing itself, and it decides nothing: what it returns becomes true only when the log says so. What is
//! left out on purpose: who leads (it is told so by `lead` and `follow`), and the proof that a keepalive needs.

use std::time::Duration;

use palisade_core::command::{Command, EndLockDelay, EndWait, ExpireSessions, Wait};
use palisade_core::event::Event;
use palisade_core::ids::{AcquisitionId, LockName, LogIndex, SessionId, Slot};
use palisade_core::limits::{EXPIRE_BATCH_MAX, FIRST_LEASE_MAX};
use palisade_core::reply::{Applied, EntryAt, Reply};
use palisade_core::table::LockTable;
use palisade_host::Moment;

use super::ticks::Minutes;
use super::timers::{Key, Timers};

/// How the lease clock is set.
#[derive(Clone, Copy, Debug)]
pub struct LeaseConfig {
    /// By how many thousandths a lease is stretched, for the error of clock rates (SPEC 3: 1 %).
    pub drift_per_mille: u32,
    /// Sessions of one `ExpireSessions`; at most `EXPIRE_BATCH_MAX`.
    pub expire_batch: usize,
    /// Commands that `due` returns at one time, at most.
    pub commands_max: usize,
    /// How soon a command that was not appended is due again.
    pub tick: Duration,
    /// How long an undecided command or keepalive of a session holds its expiry back at most: the deadline of a
    /// proposal. After it, the command's fate is unknown, and apply decides by the log's order.
    pub hold_max: Duration,
    /// How long a command of this clock may be out before it is due again: it names what it was decided on, so that
    /// repeating it ends nothing newer.
    pub retry: Duration,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        Self {
            drift_per_mille: 10,
            expire_batch: EXPIRE_BATCH_MAX,
            commands_max: 1_024,
            tick: Duration::from_millis(50),
            hold_max: Duration::from_secs(10),
            retry: Duration::from_secs(5),
        }
    }
}

/// The leader's clock over sessions, lock-delays, bounded waits and holders' own deadlines.
#[derive(Debug)]
pub struct LeaseClock {
    pub(super) config: LeaseConfig,
    /// The lease epoch while this node leads.
    pub(super) epoch: Option<LogIndex>,
    /// Rises with each `lead` and `follow`, so that a hold of an earlier time releases nothing now.
    generation: u64,
    pub(super) timers: Timers,
    /// The leader's minutes, while it logs them.
    pub(super) minutes: Option<Minutes>,
}

/// A command or keepalive of a session that is not decided yet. Give it back to `settle`, whatever comes of it.
#[derive(Debug)]
#[must_use = "a hold that is never settled keeps its session from expiring in time"]
pub struct Hold {
    session: SessionId,
    pub(super) received: Moment,
    generation: u64,
    /// The holder that reports with it.
    pub(super) reports: Option<AcquisitionId>,
}

/// How far a pause extended the leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extended {
    /// How many.
    pub sessions: usize,
    /// The longest extension.
    pub longest: Duration,
    /// The sum over all sessions.
    pub total: Duration,
}

impl LeaseClock {
    /// A clock of a node that does not lead.
    pub fn new(config: LeaseConfig) -> Self {
        Self { config, epoch: None, generation: 0, timers: Timers::default(), minutes: None }
    }

    /// This node has applied its own `LeaderReady`: arms everything in full, since it cannot know better (SPEC 3).
    /// `epoch` is the index of that entry.
    pub fn lead(&mut self, now: Moment, epoch: LogIndex, table: &LockTable) {
        self.follow();
        self.epoch = Some(epoch);
        self.begin_minutes(now, table);
        self.arm_all(now, table);
    }

    /// This node leads no longer: forgets everything.
    pub fn follow(&mut self) {
        self.epoch = None;
        self.generation += 1;
        self.timers = Timers::default();
        self.minutes = None;
    }

    /// Whether this clock is in force.
    pub fn leads(&self) -> bool {
        self.epoch.is_some()
    }

    /// An entry was applied, which made the table what it is: keeps the timers in step. To be called for every entry,
    /// in order, and before `decided`.
    pub fn applied(&mut self, now: Moment, at: EntryAt, applied: &Applied, table: &LockTable) {
        if self.epoch.is_none() {
            return;
        }
        let mut opened = false;
        for event in &applied.events {
            match event {
                Event::SessionOpened { session, ttl, .. } => {
                    opened = true;
                    self.arm_session(*session, now, *ttl, (*ttl).min(FIRST_LEASE_MAX), at.index);
                }
                Event::SessionEnded { session, .. } => self.timers.forget_session(*session),
                Event::Queued { acquisition, wait: Wait::Bounded(bound), .. } => {
                    self.arm_wait(*acquisition, now, *bound);
                }
                Event::Granted { grant, waited } => {
                    if *waited {
                        self.timers.forget_wait(grant.acquisition);
                    }
                    if self.timers.holders.contains_key(&grant.acquisition) {
                        self.recount_holder(now, grant.acquisition, table);
                    } else if grant.hold_max.is_some() || grant.progress_every.is_some() {
                        self.count_holder(now, grant.acquisition, table);
                    }
                }
                Event::HoldEnded { acquisition, .. } => self.recount_holder(now, *acquisition, table),
                Event::ProgressReported { acquisition } => self.recount_holder(now, *acquisition, table),
                Event::WaitEnded { acquisition, .. } => self.timers.forget_wait(*acquisition),
                Event::DelayStarted { lock, slot, began, delay } => {
                    self.arm_delay(lock, *slot, now, *began, *delay)
                }
                Event::DelayEnded { lock, slot, .. } => self.timers.forget_delay(lock, *slot),
                Event::SessionKept { session } => self.spoke(now, *session, at.index, false),
                Event::Ticked => self.ticked(now, at.index),
                Event::VersionSet { .. } => self.begin_minutes(now, table),
                Event::Queued { wait: Wait::Try | Wait::Session, .. }
                | Event::Founded
                | Event::LeaderReady { .. }
                | Event::Contended { .. }
                | Event::Refused { .. }
                | Event::KeyPublished { .. }
                | Event::MetadataSet { .. }
                | Event::Broken { .. }
                | Event::SessionTakenOver { .. }
                | Event::CapacitySet { .. }
                | Event::FloorConfirmed { .. }
                | Event::CycleSearchGivenUp { .. } => {}
            }
        }
        if let Some(session) = applied.renewed {
            let open = matches!(applied.reply, Reply::SessionOpened { .. } | Reply::TookOver(_));
            self.spoke(now, session, at.index, open && !opened);
        }
    }

    /// A session's command, or keepalive in the log, was applied. A repeated open has no session to hold when it comes
    /// in, and what outran an expiry makes apply ignore that. Their receipt is not known here; a lease that is longer
    /// is always safe.
    fn spoke(&mut self, now: Moment, session: SessionId, index: LogIndex, reopened: bool) {
        let Some(lease) = self.timers.sessions.get_mut(&session) else { return };
        lease.last_command = index;
        if reopened || lease.marked.is_some() {
            lease.span.renew(now);
        }
    }

    /// A command or keepalive of a session came in: the session is not marked before it is settled, for at most
    /// `hold_max`. None once the session is marked: then it must be neither proposed nor acknowledged.
    pub fn hold(&mut self, session: SessionId, received: Moment) -> Option<Hold> {
        if let Some(lease) = self.timers.sessions.get_mut(&session) {
            if lease.marked.is_some() {
                return None;
            }
            lease.held.take(received + self.config.hold_max);
        }
        Some(Hold { session, received, generation: self.generation, reports: None })
    }

    /// What was held is decided, or its fate is unknown. `renewed`: its answer says so; the lease counts from its
    /// receipt.
    pub fn settle(&mut self, hold: Hold, renewed: bool) {
        if let Some(acquisition) = hold.reports.filter(|_| hold.generation == self.generation) {
            self.settle_report(acquisition);
        }
        let Some(lease) = self.timers.sessions.get_mut(&hold.session) else { return };
        if renewed {
            lease.span.renew(hold.received);
        }
        if hold.generation != self.generation {
            return;
        }
        lease.held.release();
        if lease.held.is_free() && lease.marked.is_none() && lease.place > lease.span.deadline {
            let place = lease.span.deadline;
            self.timers.move_to(Key::Session(hold.session), place);
        }
    }

    /// Whether keepalives of the session may be acknowledged and its commands proposed: false from the moment when it
    /// is marked until its expiry is decided. Says nothing about who leads, nor whether the session exists.
    pub fn may_serve(&self, session: SessionId) -> bool {
        self.timers.sessions.get(&session).is_none_or(|lease| lease.marked.is_none())
    }

    /// A proved keepalive: the lease counts from its receipt. False when the session is marked or unknown; then
    /// nothing is acknowledged.
    pub fn renew(&mut self, session: SessionId, received: Moment) -> bool {
        match self.timers.sessions.get_mut(&session) {
            Some(lease) if lease.marked.is_none() => {
                lease.span.renew(received);
                true
            }
            Some(_) | None => false,
        }
    }

    /// What is due. Marks the sessions that it names. What is out is not returned again until it is `undecided`, or
    /// `retry` has passed. When there is more than `commands_max`, `next_due` stays in the past.
    pub fn due(&mut self, now: Moment) -> Vec<Command> {
        let Some(epoch) = self.epoch else { return Vec::new() };
        let mut commands: Vec<Command> = self.minute(now, epoch).into_iter().collect();
        let mut expired = Vec::new();
        let again = now + self.config.retry;
        while commands.len() < self.config.commands_max {
            let Some(key) = self.timers.take_due(now) else { break };
            let mut place = again;
            match &key {
                Key::Session(id) => {
                    let Some(lease) = self.timers.sessions.get_mut(id) else { continue };
                    match lease.due(now) {
                        Some(last_command) => expired.push((*id, last_command)),
                        None => place = lease.wakes(now),
                    }
                    if expired.len() >= self.config.expire_batch.clamp(1, EXPIRE_BATCH_MAX) {
                        let sessions = std::mem::take(&mut expired);
                        commands.push(Command::ExpireSessions(ExpireSessions { epoch, sessions }));
                    }
                }
                Key::Delay(lock, slot) => {
                    let (lock, slot) = (lock.clone(), *slot);
                    let Some(timer) = self.timers.delays.get(&(lock.clone(), slot)) else { continue };
                    let began = timer.began;
                    commands.push(Command::EndLockDelay(EndLockDelay { epoch, lock, slot, began }));
                }
                Key::Wait(acquisition) => {
                    commands.push(Command::EndWait(EndWait { epoch, acquisition: *acquisition }));
                }
                Key::Holder(acquisition) => match self.overdue(now, epoch, *acquisition) {
                    Ok(end) => commands.push(Command::EndOverdue(end)),
                    Err(Some(wakes)) => place = wakes,
                    Err(None) => continue,
                },
            }
            self.timers.put_back(key, place);
        }
        if !expired.is_empty() {
            commands.push(Command::ExpireSessions(ExpireSessions { epoch, sessions: expired }));
        }
        commands
    }

    /// When `due` may have something of all that is counted; it may find that all was renewed meanwhile.
    pub fn next_due(&self) -> Option<Moment> {
        self.timers.next()
    }

    /// This node stood still for `gap`, which is not billed to clients: every lease is extended by it, never beyond a
    /// full one from now, and by no more than one in sum between two renewals (SPEC 3). To be called before `due`.
    pub fn paused(&mut self, now: Moment, gap: Duration) -> Extended {
        let mut extended = Extended::default();
        self.extend_reports(now, gap);
        for lease in self.timers.sessions.values_mut().filter(|lease| lease.marked.is_none()) {
            let extension = lease.span.extend(now, gap);
            if extension.is_zero() {
                continue;
            }
            extended.sessions += 1;
            extended.longest = extended.longest.max(extension);
            extended.total = extended.total.saturating_add(extension);
        }
        extended
    }

    /// When the session is due, as this leader counts.
    pub fn deadline(&self, session: SessionId) -> Option<Moment> {
        self.timers.sessions.get(&session).map(|lease| lease.span.deadline)
    }

    /// What is left of a lock-delay, as this leader counts.
    pub fn delay_left(&self, lock: &LockName, slot: Slot, now: Moment) -> Option<Duration> {
        self.timers.delays.get(&(lock.clone(), slot)).map(|timer| timer.deadline.since(now))
    }
}
