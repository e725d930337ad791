//! The lease clock: turns time into entries.
//!
//! It never reads a clock: whoever drives it hands it the time, so that every rule here can be told as a story. It
//! proposes nothing itself, and it decides nothing: what it returns becomes true only when the log says so. What is
//! left out on purpose: who leads (it is told so by `lead` and `follow`), and the proof that a keepalive needs.

use std::time::Duration;

use palisade_core::command::{Command, EndLockDelay, EndWait, ExpireSessions, Wait};
use palisade_core::event::Event;
use palisade_core::ids::{AcquisitionId, LockName, LogIndex, Millis, SessionId, Slot};
use palisade_core::limits::{EXPIRE_BATCH_MAX, FIRST_LEASE_MAX};
use palisade_core::lock::SlotState;
use palisade_core::reply::{Applied, EntryAt, Reply};
use palisade_core::session::AcquisitionState;
use palisade_core::table::LockTable;
use palisade_host::Moment;

use super::timers::{Key, Lease, Timers};

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

/// The leader's clock over sessions, lock-delays and bounded waits.
#[derive(Debug)]
pub struct LeaseClock {
    config: LeaseConfig,
    /// The lease epoch while this node leads.
    epoch: Option<LogIndex>,
    /// Rises with each `lead` and `follow`, so that a hold of an earlier time releases nothing now.
    generation: u64,
    timers: Timers,
}

/// A command or keepalive of a session that is not decided yet. Give it back to `settle`, whatever comes of it.
#[derive(Debug)]
#[must_use = "a hold that is never settled keeps its session from expiring in time"]
pub struct Hold {
    session: SessionId,
    received: Moment,
    generation: u64,
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
        Self { config, epoch: None, generation: 0, timers: Timers::default() }
    }

    /// This node has applied its own `LeaderReady`: arms everything in full, since it cannot know better (SPEC 3).
    /// `epoch` is the index of that entry.
    pub fn lead(&mut self, now: Moment, epoch: LogIndex, table: &LockTable) {
        self.follow();
        self.epoch = Some(epoch);
        for (id, session) in table.sessions() {
            self.arm_session(id, now, session.ttl, session.ttl, session.last_command);
            for (number, acquisition) in &session.acquisitions {
                if let (AcquisitionState::Waiting, Wait::Bounded(bound)) =
                    (&acquisition.state, acquisition.wait)
                {
                    self.arm_wait(AcquisitionId { session: id, number: *number }, now, bound);
                }
            }
        }
        for (name, lock) in table.locks() {
            for (slot, state) in &lock.slots {
                match state {
                    SlotState::Delayed(delay) => self.arm_delay(name, *slot, now, delay.began, delay.delay),
                    SlotState::Held(_) => {}
                }
            }
        }
    }

    /// This node leads no longer: forgets everything.
    pub fn follow(&mut self) {
        self.epoch = None;
        self.generation += 1;
        self.timers = Timers::default();
    }

    /// Whether this clock is in force.
    pub fn leads(&self) -> bool {
        self.epoch.is_some()
    }

    /// An entry was applied: keeps the timers in step. To be called for every entry, in order, and before `decided`.
    pub fn applied(&mut self, now: Moment, at: EntryAt, applied: &Applied) {
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
                Event::Granted { grant, waited: true } => self.timers.forget_wait(grant.acquisition),
                Event::WaitEnded { acquisition, .. } => self.timers.forget_wait(*acquisition),
                Event::DelayStarted { lock, slot, began, delay } => {
                    self.arm_delay(lock, *slot, now, *began, *delay)
                }
                Event::DelayEnded { lock, slot, .. } => self.timers.forget_delay(lock, *slot),
                Event::Queued { wait: Wait::Try | Wait::Session, .. }
                | Event::Granted { waited: false, .. }
                | Event::Founded
                | Event::LeaderReady { .. }
                | Event::Contended { .. }
                | Event::HoldEnded { .. }
                | Event::Refused { .. }
                | Event::KeyPublished { .. }
                | Event::MetadataSet { .. }
                | Event::ProgressReported { .. }
                | Event::SessionKept { .. }
                | Event::Ticked
                | Event::Broken { .. }
                | Event::SessionTakenOver { .. }
                | Event::CapacitySet { .. }
                | Event::FloorConfirmed { .. }
                | Event::CycleSearchGivenUp { .. }
                | Event::VersionSet { .. } => {}
            }
        }
        let Some(lease) = applied.renewed.and_then(|session| self.timers.sessions.get_mut(&session)) else {
            return;
        };
        lease.last_command = at.index;
        let reopened = !opened && matches!(applied.reply, Reply::SessionOpened { .. });
        // A repeated open has no session to hold when it comes in; and a command that outran an expiry makes apply
        // ignore it. Their receipt is not known here; a lease that is longer is always safe.
        if reopened || lease.marked.is_some() {
            lease.renew(now);
        }
    }

    /// A command or keepalive of a session came in: the session is not marked before it is settled, for at most
    /// `hold_max`. None once the session is marked: then it must be neither proposed nor acknowledged.
    pub fn hold(&mut self, session: SessionId, received: Moment) -> Option<Hold> {
        if let Some(lease) = self.timers.sessions.get_mut(&session) {
            if lease.marked.is_some() {
                return None;
            }
            lease.held += 1;
            lease.held_until = lease.held_until.max(received + self.config.hold_max);
        }
        Some(Hold { session, received, generation: self.generation })
    }

    /// What was held is decided, or its fate is unknown. `renewed`: its answer says so; the lease counts from its
    /// receipt.
    pub fn settle(&mut self, hold: Hold, renewed: bool) {
        let Some(lease) = self.timers.sessions.get_mut(&hold.session) else { return };
        if renewed {
            lease.renew(hold.received);
        }
        if hold.generation != self.generation {
            return;
        }
        lease.held = lease.held.saturating_sub(1);
        if lease.held == 0 && lease.marked.is_none() && lease.place > lease.deadline {
            let place = lease.deadline;
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
                lease.renew(received);
                true
            }
            Some(_) | None => false,
        }
    }

    /// What is due. Marks the sessions that it names. What is out is not returned again until it is `undecided`, or
    /// `retry` has passed. When there is more than `commands_max`, `next_due` stays in the past.
    pub fn due(&mut self, now: Moment) -> Vec<Command> {
        let Some(epoch) = self.epoch else { return Vec::new() };
        let mut commands = Vec::new();
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
            }
            self.timers.put_back(key, place);
        }
        if !expired.is_empty() {
            commands.push(Command::ExpireSessions(ExpireSessions { epoch, sessions: expired }));
        }
        commands
    }

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
            // Decided under an earlier clock: this one armed everything anew.
            Command::ExpireSessions(_) | Command::EndLockDelay(_) | Command::EndWait(_) => {}
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
        let place = retry.unwrap_or(lease.deadline);
        self.timers.move_to(Key::Session(session), place);
    }

    /// When `due` may have something; it may find that all was renewed meanwhile.
    pub fn next_due(&self) -> Option<Moment> {
        self.timers.next()
    }

    /// This node stood still for `gap`, which is not billed to clients: every lease is extended by it, never beyond a
    /// full one from now, and by no more than one in sum between two renewals (SPEC 3). To be called before `due`.
    pub fn paused(&mut self, now: Moment, gap: Duration) -> Extended {
        let mut extended = Extended::default();
        for lease in self.timers.sessions.values_mut().filter(|lease| lease.marked.is_none()) {
            let extension = lease.extend(now, gap);
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
        self.timers.sessions.get(&session).map(|lease| lease.deadline)
    }

    /// What is left of a lock-delay, as this leader counts.
    pub fn delay_left(&self, lock: &LockName, slot: Slot, now: Moment) -> Option<Duration> {
        self.timers.delays.get(&(lock.clone(), slot)).map(|timer| timer.deadline.since(now))
    }

    fn arm_session(
        &mut self,
        id: SessionId,
        now: Moment,
        ttl: Millis,
        first: Millis,
        last_command: LogIndex,
    ) {
        let deadline = now + self.stretched(first);
        let lease = Lease {
            length: self.stretched(ttl),
            deadline,
            extended: Duration::ZERO,
            last_command,
            held: 0,
            held_until: now,
            marked: None,
            place: deadline,
        };
        self.timers.insert_session(id, lease);
    }

    fn arm_delay(&mut self, lock: &LockName, slot: Slot, now: Moment, began: LogIndex, delay: Millis) {
        self.timers.insert_delay(lock, slot, began, now + self.stretched(delay));
    }

    fn arm_wait(&mut self, acquisition: AcquisitionId, now: Moment, bound: Millis) {
        self.timers.insert_wait(acquisition, now + Duration::from_millis(bound.0));
    }

    fn stretched(&self, time: Millis) -> Duration {
        let time = Duration::from_millis(time.0);
        time + time / 1_000 * self.config.drift_per_mille
    }
}
