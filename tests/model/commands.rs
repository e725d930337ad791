//! Random steps, and the command that each stands for where the story has got to.
//!
//! A step names things by small numbers, so that repeats, races and mix-ups are frequent; what they mean depends on
//! what went before.

use palisade_core::command::{
    Acquire, AcquirePart, Cancel, CloseSession, Command, EndLockDelay, EndWait, ExpireSessions, LeaderReady,
    LockDelay, OpenSession, Release, Wait,
};
use palisade_core::history::HistorySizes;
use palisade_core::ids::{
    AcquisitionId, ClientName, LockName, LogIndex, Millis, NodeId, Principal, RequestNumber, SecretHash,
    SessionId, Slot, Term,
};
use palisade_core::limits::{HISTORY_MAX, Limits};
use palisade_core::mode::Mode;
use palisade_core::table::Presented;
use palisade_core::token::Token;

use super::reference::{Happened, Reference, State};

pub(super) const LOCKS: [&str; 3] = ["a", "a/b", "b"];

/// Which of the things of a kind: the last one, or one by its place.
pub(super) type Pick = u8;

#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    /// One more than the session's highest.
    Fresh,
    /// This one, used or not.
    Known(u64),
    Absent,
    Largest,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Open {
        secret: u8,
        other_owner: bool,
        ttl: u64,
    },
    Close(Pick),
    /// Each session with whether its last command is named rightly.
    Expire {
        sessions: Vec<(Pick, bool)>,
        old_epoch: bool,
    },
    Acquire {
        session: Pick,
        number: Number,
        mark: u64,
        lock: Pick,
        wait: Wait,
        delay: LockDelay,
        odd: u8,
    },
    /// An acquire that was sent before, with a mark that the client may have raised since.
    Again {
        sent: Pick,
        mark: u64,
    },
    /// What somebody was granted, or something near it.
    Release {
        grant: Pick,
        part: u8,
        off: i8,
    },
    /// What holds or waits now.
    Leave {
        open: Pick,
        cancels: bool,
    },
    Cancel {
        session: Pick,
        number: u64,
    },
    EndLockDelay {
        lock: Pick,
        old_epoch: bool,
        off: bool,
    },
    EndWait {
        open: Pick,
        old_epoch: bool,
    },
    Leader {
        term: u64,
        nonce: u64,
    },
    History {
        expired_max: u32,
        others_max: u32,
    },
}

/// Takes small choices out of one number, so that a story is a list of numbers: cheap to draw and to shrink.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        let (rest, rolled) = (self.0 / sides, self.0 % sides);
        self.0 = rest;
        rolled
    }

    fn pick(&mut self) -> Pick {
        self.below(6) as Pick
    }

    /// The place of one of these weights.
    fn weighted<const N: usize>(&mut self, weights: [u64; N]) -> usize {
        let mut rolled = self.below(weights.iter().sum());
        weights
            .iter()
            .position(|weight| rolled.checked_sub(*weight).map(|rest| rolled = rest).is_none())
            .unwrap_or(0)
    }

    fn seldom(&mut self) -> bool {
        self.below(7) == 6
    }

    fn mark(&mut self) -> u64 {
        match self.weighted([6, 3, 1]) {
            0 => 0,
            1 => self.below(8),
            _ => u64::MAX,
        }
    }
}

pub(super) fn step(number: u64) -> Step {
    let dice = &mut Dice(number);
    match dice.weighted([5, 14, 6, 3, 3, 3, 4, 2, 1, 1, 1, 1]) {
        0 => {
            let ttl = [5_000, 5_000, 5_000, 5_000, 5_000, 1_999, u64::MAX];
            Step::Open {
                secret: dice.below(4) as u8,
                other_owner: dice.seldom(),
                ttl: ttl[dice.below(7) as usize],
            }
        }
        1 => acquires(dice),
        2 => Step::Leave { open: dice.pick(), cancels: dice.seldom() },
        3 => {
            let sessions = (0..=dice.below(3)).map(|_| (dice.pick(), !dice.seldom())).collect();
            Step::Expire { sessions, old_epoch: dice.seldom() }
        }
        4 => Step::Again { sent: dice.pick(), mark: dice.mark() },
        5 => Step::Release { grant: dice.pick(), part: dice.below(6) as u8, off: dice.below(3) as i8 - 1 },
        6 => Step::EndLockDelay { lock: dice.below(3) as u8, old_epoch: dice.seldom(), off: dice.seldom() },
        7 => Step::EndWait { open: dice.pick(), old_epoch: dice.seldom() },
        8 => Step::Close(dice.pick()),
        9 => Step::Cancel { session: dice.pick(), number: dice.below(8) },
        10 => Step::Leader { term: dice.below(4), nonce: dice.below(2) },
        _ => {
            let sizes = [0, 1, 2, 3, HISTORY_MAX, HISTORY_MAX + 1];
            let mut size = || sizes[dice.below(6) as usize];
            Step::History { expired_max: size(), others_max: size() }
        }
    }
}

fn acquires(dice: &mut Dice) -> Step {
    let (session, lock) = (dice.pick(), dice.below(3) as Pick);
    let wait = match dice.weighted([4, 2, 2]) {
        0 => Wait::Session,
        1 => Wait::Bounded(Millis(dice.below(3))),
        _ => Wait::Try,
    };
    let delay = match dice.weighted([2, 3, 2]) {
        0 => LockDelay::Named(Millis(0)),
        1 => LockDelay::Named(Millis(5)),
        _ => LockDelay::Default(Millis(1 + dice.below(2))),
    };
    let number = match dice.weighted([12, 3, 2, 1]) {
        0 => Number::Fresh,
        1 => Number::Known(dice.below(8)),
        2 => Number::Absent,
        _ => Number::Largest,
    };
    let mark = dice.mark();
    let odd = if dice.below(13) == 12 { 1 + dice.below(6) as u8 } else { 0 };
    Step::Acquire { session, number, mark, lock, wait, delay, odd }
}

/// Roomy, or so small that every one of them is met.
pub(super) fn limits(number: u64) -> Limits {
    let dice = &mut Dice(number);
    if dice.below(5) < 3 {
        return Limits::default();
    }
    Limits {
        sessions_max: 1 + dice.below(3),
        locks_max: 1 + dice.below(3),
        acquisitions_per_session_max: 1 + dice.below(3) as u32,
        waiters_per_lock_max: 1 + dice.below(2) as u32,
        outcomes_per_session_max: 2 + dice.below(4) as u32,
        ended_sessions_max: dice.below(3) as u32,
        predecessors_max: dice.below(3) as u32,
        ..Limits::default()
    }
}

/// What was sent and granted so far, which later steps come back to.
#[derive(Default)]
pub(super) struct Past {
    sent: Vec<Acquire>,
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

impl Past {
    pub(super) fn remember(&mut self, command: &Command, happened: &[Happened], model: &Reference) {
        if let Command::Acquire(acquire) = command {
            self.sent.push(acquire.clone());
        }
        for event in happened {
            if let Happened::Granted(acquisition, lock, token) = event {
                self.grants.push(Presented {
                    lock: lock.clone(),
                    slot: Slot(0),
                    mode: Mode::Exclusive,
                    token: *token,
                    acquisition: *acquisition,
                });
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

    /// The command that a step stands for now.
    pub(super) fn command(&self, step: &Step, model: &Reference) -> Command {
        let session = |pick| {
            let known = recent(&model.sessions, pick).map(|session| session.id);
            known.filter(|_| pick < 5).unwrap_or(SessionId(1_000_000))
        };
        match step.clone() {
            Step::Open { secret, other_owner, ttl } => Command::OpenSession(OpenSession {
                secret: SecretHash([secret; 32]),
                owner: if other_owner {
                    Principal::new("other").expect("a name")
                } else {
                    Principal::anonymous()
                },
                client: ClientName::new(&format!("client {secret}")).expect("a name"),
                ttl: Millis(ttl),
                replaces: None,
            }),
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
            Step::Acquire { session: pick, number, mark, lock, wait, delay, odd } => {
                let highest = model.session(session(pick)).map_or(0, |session| session.highest.0);
                let number = match number {
                    Number::Fresh => Some(highest.saturating_add(1)),
                    Number::Known(number) => Some(number),
                    Number::Absent => None,
                    Number::Largest => Some(u64::MAX),
                };
                let acquire = self::acquire(session(pick), number, lock, (wait, delay));
                // Seldom so high that nothing fits below it any more.
                let mark = RequestNumber(if mark == u64::MAX { highest } else { mark });
                Command::Acquire(made_odd(Acquire { mark, ..acquire }, odd))
            }
            Step::Again { sent, mark } => match recent(&self.sent, sent) {
                Some(sent) => {
                    Command::Acquire(Acquire { mark: sent.mark.max(RequestNumber(mark)), ..sent.clone() })
                }
                None => Command::Cancel(Cancel { acquisition: AcquisitionId::from_parts(session(0), mark) }),
            },
            Step::Release { grant, part, off } => self.release(grant, part, off),
            Step::Leave { open, cancels } => leave(model, open, cancels),
            Step::Cancel { session: pick, number } => {
                Command::Cancel(Cancel { acquisition: AcquisitionId::from_parts(session(pick), number) })
            }
            Step::EndLockDelay { lock: pick, old_epoch, off } => {
                let name =
                    model.delays.first().filter(|_| pick > 0).map_or(lock(pick), |delay| delay.lock.clone());
                let began = model.delay(&name).map_or(0, |delay| delay.began.0);
                let began = LogIndex(began.wrapping_sub(u64::from(off)));
                Command::EndLockDelay(EndLockDelay {
                    epoch: self.epoch(old_epoch),
                    lock: name,
                    slot: Slot(0),
                    began,
                })
            }
            Step::EndWait { open, old_epoch } => {
                let waiting: Vec<_> = model.requests.iter().filter(|r| r.state == State::Waits).collect();
                let acquisition = recent(&waiting, open).map(|request| request.id);
                let acquisition = acquisition.unwrap_or(AcquisitionId::from_parts(session(0), 1));
                Command::EndWait(EndWait { epoch: self.epoch(old_epoch), acquisition })
            }
            Step::Leader { term, nonce } => {
                Command::LeaderReady(LeaderReady { term: Term(term), node: NodeId(1), nonce })
            }
            Step::History { expired_max, others_max } => {
                Command::SetHistory(HistorySizes { expired_max, others_max })
            }
        }
    }

    fn release(&self, grant: Pick, part: u8, off: i8) -> Command {
        let Some(grant) = recent(&self.grants, grant) else {
            let acquisition = AcquisitionId::from_parts(SessionId(1), 1);
            let token = Token::new(1).expect("a token");
            return Command::Release(Release { acquisition, part: None, token });
        };
        let part = match part {
            0 => None,
            1 => Some((lock(grant.lock.as_str().len() as u8), Slot(0))),
            2 => Some((grant.lock.clone(), Slot(1))),
            _ => Some((grant.lock.clone(), Slot(0))),
        };
        let token = Token::new(grant.token.get().saturating_add_signed(off.into())).unwrap_or(grant.token);
        Command::Release(Release { acquisition: grant.acquisition, part, token })
    }
}

trait FromParts {
    fn from_parts(session: SessionId, number: u64) -> Self;
}

impl FromParts for AcquisitionId {
    fn from_parts(session: SessionId, number: u64) -> Self {
        Self { session, number: RequestNumber(number) }
    }
}

fn acquire(session: SessionId, number: Option<u64>, pick: Pick, (wait, delay): (Wait, LockDelay)) -> Acquire {
    let part = AcquirePart {
        lock: lock(pick),
        mode: Mode::Exclusive,
        capacity: 1,
        permits: 1,
        delay,
        fenced_by: vec![],
    };
    let number = number.map(RequestNumber);
    Acquire { session, number, mark: RequestNumber(0), parts: vec![part], wait, owner: None }
}

/// What must be refused whatever the state, each in its own way.
fn made_odd(mut acquire: Acquire, odd: u8) -> Acquire {
    match odd {
        1 => acquire.parts[0].capacity = 0,
        2 => acquire.parts[0].capacity = 10_001,
        3 => acquire.parts[0].permits = 2,
        4 => acquire.parts[0].permits = 0,
        5 => acquire.parts[0].delay = LockDelay::Named(Millis(u64::MAX)),
        6 => acquire.parts.clear(),
        _ => {}
    }
    acquire
}

/// Ends what holds or waits, rightly.
fn leave(model: &Reference, open: Pick, cancels: bool) -> Command {
    let opened: Vec<_> = model.requests.iter().filter(|request| request.is_open()).collect();
    let Some(request) = recent(&opened, open) else {
        return Command::Cancel(Cancel { acquisition: AcquisitionId::from_parts(SessionId(1), 1) });
    };
    match request.state {
        State::Holds { token, .. } if !cancels => {
            Command::Release(Release { acquisition: request.id, part: None, token })
        }
        _ => Command::Cancel(Cancel { acquisition: request.id }),
    }
}
