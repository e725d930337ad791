//! The command that each step stands for where the story has got to.

use palisade_core::command::{
    Acquire, AcquireOnTerms, AcquirePart, BreakLock, Cancel, CloseSession, ClusterVersion, Command,
    ConfirmFloor, Downgrade, EndLockDelay, EndOverdue, EndSession, EndWait, ExpireSessions, HandOver,
    KeepSessions, LeaderReady, LockDelay, OpenSession, Overdue, Release, Replaces, ReportProgress, SetBaton,
    SetCapacity, SetDelayRule, SetLimits, SetMetadata, SetVersion, Terms, Tick,
};
use palisade_core::ids::{
    AcquisitionId, ClientName, LockName, LockPrefix, LogIndex, Millis, NodeId, OwnerLabel, Principal,
    RequestNumber, SecretHash, SessionId, Slot, Term,
};
use palisade_core::lock::DelayRule;
use palisade_core::mode::Mode;
use palisade_core::table::Presented;
use palisade_core::token::Token;

use super::reference::{Happened, Reference, State};
use super::steps::{Held, LOCKS, Number, Part, Pick, Step};

/// What was sent and granted so far, which later steps come back to.
#[derive(Default)]
pub(super) struct Past {
    acquires: Vec<(Acquire, Terms)>,
    sent: Vec<Command>,
    pub(super) grants: Vec<Presented>,
    epochs: Vec<LogIndex>,
}

pub(super) fn lock(pick: Pick) -> LockName {
    LockName::new(LOCKS[usize::from(pick) % LOCKS.len()]).expect("a lock name")
}

/// 0 is the last one, 1 the one before it, and so on; around again where there are fewer.
fn recent<T>(things: &[T], pick: Pick) -> Option<&T> {
    let back = usize::from(pick).checked_rem(things.len())?;
    things.get(things.len() - 1 - back)
}

fn id(session: SessionId, number: u64) -> AcquisitionId {
    AcquisitionId { session, number: RequestNumber(number) }
}

fn anonymous() -> Principal {
    Principal::anonymous()
}

impl Past {
    pub(super) fn remember(&mut self, command: &Command, happened: &[Happened], model: &Reference) {
        match command {
            Command::Acquire(acquire) => self.acquires.push((acquire.clone(), Terms::default())),
            Command::AcquireOnTerms(asked) => {
                self.acquires.push((asked.acquire.clone(), asked.terms.clone()));
            }
            _ => {}
        }
        self.sent.push(command.clone());
        for event in happened {
            let Happened::Granted(acquisition, parts) = event else { continue };
            for (lock, slot, mode, token) in parts.iter().cloned() {
                self.grants.push(Presented { lock, slot, mode, token, acquisition: *acquisition });
            }
        }
        let epoch = model.leader.as_ref().map(|(_, epoch)| *epoch);
        if epoch != self.epochs.last().copied() {
            self.epochs.extend(epoch);
        }
    }

    fn epoch(&self, old: bool) -> LogIndex {
        recent(&self.epochs, u8::from(old)).copied().unwrap_or_default()
    }

    /// Something that is held, or was; with a token that is not quite its own, sometimes.
    fn held(&self, model: &Reference, held: Held) -> Presented {
        let now = model.requests.iter().flat_map(|request| {
            request.held().map(|hold| Presented {
                lock: hold.lock.clone(),
                slot: hold.slot,
                mode: hold.mode,
                token: hold.token,
                acquisition: request.id,
            })
        });
        let now: Vec<_> = now.collect();
        let found = if held.ever { recent(&self.grants, held.pick) } else { recent(&now, held.pick) };
        let mut found = found.cloned().unwrap_or(Presented {
            lock: lock(held.pick),
            slot: Slot(0),
            mode: Mode::Exclusive,
            token: Token::new(1).expect("a token"),
            acquisition: id(SessionId(1), 1),
        });
        let off = found.token.get().saturating_add_signed(held.off.into());
        found.token = Token::new(off).unwrap_or(found.token);
        found
    }

    /// The command that a step stands for now.
    pub(super) fn command(&self, step: &Step, model: &Reference) -> Command {
        let session = |pick| {
            let known = recent(&model.sessions, pick).map(|session| session.id);
            known.filter(|_| pick < 5).unwrap_or(SessionId(1_000_000))
        };
        let held = |held: &Held| self.held(model, *held);
        match step.clone() {
            Step::Open { secret, other_owner, ttl } => {
                let owner = if other_owner { Principal::new("other").expect("a name") } else { anonymous() };
                Command::OpenSession(OpenSession { owner, ..open(secret, ttl) })
            }
            Step::TakeOver { secret, session: pick, wrong_secret, proven_dead } => {
                let old = model.sessions.iter().find(|known| known.id == session(pick));
                let known = old.map_or(SecretHash([9; 32]), |old| old.secret);
                let secret_of_old = if wrong_secret { SecretHash([8; 32]) } else { known };
                let replaces = Replaces { session: session(pick), secret: secret_of_old, proven_dead };
                // Sometimes with the old secret again, which finds the old session.
                let owner = old.map_or(anonymous(), |old| old.owner.clone());
                let opened = OpenSession { replaces: Some(replaces), owner, ..open(secret, 7_000) };
                Command::OpenSession(opened)
            }
            Step::Close(pick) => Command::CloseSession(CloseSession { session: session(pick) }),
            Step::Expire { sessions, old_epoch } => {
                let named = sessions.into_iter().map(|(pick, right)| {
                    let last =
                        model.session(session(pick)).map_or(LogIndex(0), |session| session.last_command);
                    (session(pick), if right { last } else { LogIndex(last.0.wrapping_sub(1)) })
                });
                Command::ExpireSessions(ExpireSessions {
                    epoch: self.epoch(old_epoch),
                    sessions: named.collect(),
                })
            }
            Step::Keep(picks) => {
                Command::KeepSessions(KeepSessions { sessions: picks.into_iter().map(session).collect() })
            }
            Step::Tick(stale) => {
                let previous = if stale.off { Some(LogIndex(1)) } else { model.ticks.last };
                Command::Tick(Tick { epoch: self.epoch(stale.old_epoch), previous })
            }
            Step::Acquire { session: pick, number, mark, parts, wait, owner, terms, odd } => {
                let highest = model.session(session(pick)).map_or(0, |session| session.highest.0);
                let number = match number {
                    Number::Fresh => Some(highest.saturating_add(1)),
                    Number::Known(number) => Some(number),
                    Number::Absent => None,
                    Number::Largest => Some(u64::MAX),
                };
                let acquire = Acquire {
                    session: session(pick),
                    number: number.map(RequestNumber),
                    // Seldom so high that nothing fits below it any more.
                    mark: RequestNumber(if mark == u64::MAX { highest } else { mark }),
                    parts: parts.iter().map(self::part).collect(),
                    wait,
                    owner: owner.checked_sub(1).map(label),
                };
                acquires(made_odd(acquire, odd), terms)
            }
            Step::Again { sent, mark } => match recent(&self.acquires, sent) {
                Some((sent, terms)) => {
                    let mark = sent.mark.max(RequestNumber(mark));
                    acquires(Acquire { mark, ..sent.clone() }, terms.clone())
                }
                None => Command::Cancel(Cancel { acquisition: id(session(0), mark) }),
            },
            Step::Copy(pick) => match recent(&self.sent, pick) {
                Some(sent) => sent.clone(),
                None => Command::Cancel(Cancel { acquisition: id(session(0), 1) }),
            },
            Step::Release { held: what, part } => release(&held(&what), part),
            Step::Leave { open, cancels } => leave(model, open, cancels),
            Step::Cancel { session: pick, number } => {
                Command::Cancel(Cancel { acquisition: id(session(pick), number) })
            }
            Step::Downgrade(what) => {
                let Presented { acquisition, lock, token, .. } = held(&what);
                Command::Downgrade(Downgrade { acquisition, lock, token })
            }
            Step::HandOver { held: what, to } => {
                let Presented { acquisition, lock, slot, token, .. } = held(&what);
                Command::HandOver(HandOver { acquisition, lock, slot, token, to: to.map(session) })
            }
            Step::Metadata { held: what, revision, bytes } => {
                let Presented { acquisition, token, .. } = held(&what);
                Command::SetMetadata(SetMetadata { acquisition, token, revision, metadata: bytes })
            }
            Step::Baton { held: what, revision, bytes } => {
                let Presented { acquisition, lock, slot, token, .. } = held(&what);
                Command::SetBaton(SetBaton { acquisition, lock, slot, token, revision, baton: bytes })
            }
            Step::Report { held: what, number } => {
                let Presented { acquisition, token, .. } = held(&what);
                Command::ReportProgress(ReportProgress { acquisition, token, number })
            }
            Step::EndOverdue { held: what, maximum, stale, old_report } => {
                let acquisition = held(&what).acquisition;
                let request = model.requests.iter().find(|request| request.id == acquisition);
                let grant = request.map_or(LogIndex(0), |request| request.grant);
                let report = request.and_then(|request| request.reports.1).filter(|_| !old_report);
                let overdue = if maximum { Overdue::Maximum } else { Overdue::Progress { report } };
                let grant = LogIndex(grant.0.wrapping_sub(u64::from(stale.off)));
                Command::EndOverdue(EndOverdue {
                    epoch: self.epoch(stale.old_epoch),
                    acquisition,
                    grant,
                    overdue,
                })
            }
            Step::EndLockDelay { delay, stale } => {
                let (name, slot, began) = self::delay(model, delay);
                let began = LogIndex(began.0.wrapping_sub(u64::from(stale.off)));
                let epoch = self.epoch(stale.old_epoch);
                Command::EndLockDelay(EndLockDelay { epoch, lock: name, slot, began })
            }
            Step::EndWait { open, old_epoch } => {
                let waiting: Vec<_> = model.requests.iter().filter(|r| r.state == State::Waits).collect();
                let acquisition = recent(&waiting, open).map(|request| request.id);
                let acquisition = acquisition.unwrap_or(id(session(0), 1));
                Command::EndWait(EndWait { epoch: self.epoch(old_epoch), acquisition })
            }
            Step::Leader { term, nonce } => {
                Command::LeaderReady(LeaderReady { term: Term(term), node: NodeId(1), nonce })
            }
            Step::Break { held: what, closed } => {
                let Presented { lock, slot, token, .. } = held(&what);
                Command::BreakLock(BreakLock { lock, slot, token, closed, by: anonymous() })
            }
            Step::Stop { session: pick, closed } => {
                Command::EndSession(EndSession { session: session(pick), closed, by: anonymous() })
            }
            Step::Capacity { lock: pick, capacity } => {
                Command::SetCapacity(SetCapacity { lock: lock(pick), capacity })
            }
            Step::Rule { prefix, bounds, guards } => {
                let prefix = LockPrefix::new(prefix).expect("a prefix");
                let rule = bounds.map(|(least, most)| DelayRule { least, most, fenced_by: guards });
                Command::SetDelayRule(SetDelayRule { prefix, rule })
            }
            Step::Limits(limits, more, history) => Command::SetLimits(SetLimits { limits, more, history }),
            Step::Confirm { delay, guard, off } => {
                let (lock, slot, began) = self::delay(model, delay);
                let asked = model.base.token(began);
                let floor = Token::new(asked.get().saturating_add_signed(off)).unwrap_or(asked);
                Command::ConfirmFloor(ConfirmFloor { guard, lock, slot, floor, by: anonymous() })
            }
            Step::Version(version) => Command::SetVersion(SetVersion { version: ClusterVersion(version) }),
            Step::History(sizes) => Command::SetHistory(sizes),
        }
    }
}

fn open(secret: u8, ttl: u64) -> OpenSession {
    OpenSession {
        secret: SecretHash([secret; 32]),
        owner: anonymous(),
        client: ClientName::new(&format!("client {secret}")).expect("a name"),
        ttl: Millis(ttl),
        replaces: None,
    }
}

fn label(pick: u8) -> OwnerLabel {
    OwnerLabel::new(["t", "u", "v"][usize::from(pick) % 3]).expect("a label")
}

/// In the form that has a place for its terms.
fn acquires(acquire: Acquire, terms: Terms) -> Command {
    if terms == Terms::default() {
        Command::Acquire(acquire)
    } else {
        Command::AcquireOnTerms(AcquireOnTerms { acquire, terms })
    }
}

fn part(part: &Part) -> AcquirePart {
    AcquirePart {
        lock: lock(part.lock),
        mode: part.mode,
        capacity: part.capacity,
        permits: part.permits,
        delay: part.delay,
        fenced_by: part.guards.clone(),
    }
}

/// What must be refused whatever the state, each in its own way.
fn made_odd(mut acquire: Acquire, odd: u8) -> Acquire {
    match odd {
        1 => acquire.parts[0].capacity = 0,
        2 => acquire.parts[0].capacity = 10_001,
        3 => acquire.parts[0].permits = 4,
        4 => (acquire.parts[0].capacity, acquire.parts[0].mode) = (2, Mode::Shared),
        5 => acquire.parts[0].delay = LockDelay::Named(Millis(u64::MAX)),
        6 => acquire.parts.clear(),
        7 => acquire.parts.push(acquire.parts[0].clone()),
        _ => {}
    }
    acquire
}

/// A delay that runs, or a lock that is in none.
fn delay(model: &Reference, pick: Pick) -> (LockName, Slot, LogIndex) {
    match recent(&model.delays, pick).filter(|_| pick < 5) {
        Some(delay) => (delay.lock.clone(), delay.slot, delay.began),
        None => (lock(pick), Slot(0), LogIndex(0)),
    }
}

fn release(held: &Presented, part: u8) -> Command {
    let part = match part {
        0 | 1 => None,
        2 => Some((lock(held.lock.as_str().len() as u8), Slot(0))),
        3 => Some((held.lock.clone(), Slot(1))),
        _ => Some((held.lock.clone(), held.slot)),
    };
    Command::Release(Release { acquisition: held.acquisition, part, token: held.token })
}

/// Ends what holds or waits, rightly.
fn leave(model: &Reference, open: Pick, cancels: bool) -> Command {
    let opened: Vec<_> = model.requests.iter().filter(|request| request.is_open()).collect();
    let Some(request) = recent(&opened, open) else {
        return Command::Cancel(Cancel { acquisition: id(SessionId(1), 1) });
    };
    let token = request.held().next().map(|hold| hold.token);
    match token.filter(|_| !cancels) {
        Some(token) => Command::Release(Release { acquisition: request.id, part: None, token }),
        None => Command::Cancel(Cancel { acquisition: request.id }),
    }
}
