//! Random steps of a story.
//!
//! A step names things by small numbers, so that repeats, races and mix-ups are frequent; what they mean depends on
//! what went before.

use palisade_core::command::{LockDelay, Terms, Wait};
use palisade_core::history::HistorySizes;
use palisade_core::ids::{GuardName, Millis};
use palisade_core::limits::{HISTORY_MAX, Limits, MoreLimits};
use palisade_core::mode::Mode;
use palisade_core::payload::Payload;

/// The last one is a semaphore, mostly.
pub(super) const LOCKS: [&str; 4] = ["a", "a/b", "b", "s"];

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

/// One lock of an acquire.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) lock: Pick,
    pub(super) mode: Mode,
    pub(super) capacity: u32,
    pub(super) permits: u32,
    pub(super) delay: LockDelay,
    pub(super) guards: Vec<GuardName>,
}

/// Something that is held, or was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) pick: Pick,
    /// Of all that ever were, not only of those that are.
    pub(super) ever: bool,
    /// What is added to the token.
    pub(super) off: i8,
}

/// What a timer was decided on, and how it is past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stale {
    pub(super) old_epoch: bool,
    pub(super) off: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Open {
        secret: u8,
        other_owner: bool,
        ttl: u64,
    },
    TakeOver {
        secret: u8,
        session: Pick,
        wrong_secret: bool,
        proven_dead: bool,
    },
    Close(Pick),
    /// Each session with whether its last command is named rightly.
    Expire {
        sessions: Vec<(Pick, bool)>,
        old_epoch: bool,
    },
    Keep(Vec<Pick>),
    Tick(Stale),
    Acquire {
        session: Pick,
        number: Number,
        mark: u64,
        parts: Vec<Part>,
        wait: Wait,
        owner: u8,
        terms: Terms,
        odd: u8,
    },
    /// An acquire that was sent before, with a mark that the client may have raised since.
    Again {
        sent: Pick,
        mark: u64,
    },
    /// Any command that was sent before.
    Copy(Pick),
    Release {
        held: Held,
        part: u8,
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
    Downgrade(Held),
    HandOver {
        held: Held,
        to: Option<Pick>,
    },
    Metadata {
        held: Held,
        revision: u64,
        bytes: Payload,
    },
    Baton {
        held: Held,
        revision: u64,
        bytes: Payload,
    },
    Report {
        held: Held,
        number: u64,
    },
    EndOverdue {
        held: Held,
        maximum: bool,
        stale: Stale,
        old_report: bool,
    },
    EndLockDelay {
        delay: Pick,
        stale: Stale,
    },
    EndWait {
        open: Pick,
        old_epoch: bool,
    },
    Leader {
        term: u64,
        nonce: u64,
    },
    Break {
        held: Held,
        closed: Option<Millis>,
    },
    Stop {
        session: Pick,
        closed: Option<Millis>,
    },
    Capacity {
        lock: Pick,
        capacity: u32,
    },
    Rule {
        prefix: &'static str,
        bounds: Option<(Millis, Millis)>,
        guards: Vec<GuardName>,
    },
    Limits(Limits, MoreLimits, HistorySizes),
    Confirm {
        delay: Pick,
        guard: GuardName,
        off: i64,
    },
    Version(u32),
    History(HistorySizes),
}

/// Takes small choices out of one number, so that a story is a list of numbers: cheap to draw and to shrink.
struct Dice(u128);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        let sides = u128::from(sides);
        let (rest, rolled) = (self.0 / sides, self.0 % sides);
        self.0 = rest;
        rolled as u64
    }

    fn one_of<T: Copy>(&mut self, things: &[T]) -> T {
        things[self.below(things.len() as u64) as usize]
    }

    fn pick(&mut self) -> Pick {
        self.below(6) as Pick
    }

    fn seldom(&mut self) -> bool {
        self.below(7) == 6
    }

    /// The place of one of these weights.
    fn weighted<const N: usize>(&mut self, weights: [u64; N]) -> usize {
        let mut rolled = self.below(weights.iter().sum());
        weights
            .iter()
            .position(|weight| rolled.checked_sub(*weight).map(|rest| rolled = rest).is_none())
            .unwrap_or(0)
    }

    fn mark(&mut self) -> u64 {
        match self.weighted([16, 3, 2]) {
            0 => 0,
            1 => self.below(8),
            _ => u64::MAX,
        }
    }

    fn held(&mut self) -> Held {
        let (pick, ever) = (self.pick(), self.seldom());
        Held { pick, ever, off: self.one_of(&[0, 0, 0, 0, 0, 0, 0, 0, 1, -1]) }
    }

    fn stale(&mut self) -> Stale {
        Stale { old_epoch: self.seldom(), off: self.seldom() }
    }

    fn guards(&mut self) -> Vec<GuardName> {
        match self.below(5) {
            0..3 => Vec::new(),
            3 => vec![guard(0)],
            _ => vec![guard(0), guard(1)],
        }
    }

    fn closed(&mut self) -> Option<Millis> {
        self.one_of(&[None, None, Some(0), Some(3), Some(86_460_000), Some(86_460_001)]).map(Millis)
    }

    fn payload(&mut self) -> Payload {
        let bytes = vec![b'x'; self.one_of(&[0, 1, 8, 3_000, 4_096])];
        Payload::new(&bytes).expect("it is short")
    }
}

pub(super) fn guard(pick: Pick) -> GuardName {
    GuardName::new(["g", "h", "other"][usize::from(pick) % 3]).expect("a name")
}

pub(super) fn step(number: u128) -> Step {
    let dice = &mut Dice(number);
    match dice.weighted([50, 260, 54, 24, 30, 30, 40, 20, 8, 10, 10, 8, 190]) {
        0 => {
            let (secret, other_owner) = (dice.below(4) as u8, dice.seldom());
            let ttl = [5_000, 5_000, 5_000, 5_000, 90_000, 1_999, u64::MAX];
            Step::Open { secret, other_owner, ttl: dice.one_of(&ttl) }
        }
        1 => acquires(dice),
        2 => Step::Leave { open: dice.pick(), cancels: dice.seldom() },
        3 => {
            let sessions = (0..=dice.below(3)).map(|_| (dice.pick(), !dice.seldom())).collect();
            Step::Expire { sessions, old_epoch: dice.seldom() }
        }
        4 => Step::Again { sent: dice.pick(), mark: dice.mark() },
        5 => Step::Release { held: dice.held(), part: dice.below(6) as u8 },
        6 => Step::EndLockDelay { delay: dice.pick(), stale: dice.stale() },
        7 => Step::EndWait { open: dice.pick(), old_epoch: dice.seldom() },
        8 => Step::Close(dice.pick()),
        9 => Step::Cancel { session: dice.pick(), number: dice.below(8) },
        10 => Step::Leader { term: dice.below(4), nonce: dice.below(2) },
        11 => Step::History(sizes(dice)),
        _ => later(dice),
    }
}

/// What the first version did not have.
fn later(dice: &mut Dice) -> Step {
    match dice.weighted([20, 20, 25, 10, 15, 20, 20, 12, 8, 10, 8, 5, 15, 2, 3, 3, 12]) {
        0 => Step::TakeOver {
            secret: dice.below(5) as u8,
            session: dice.pick(),
            wrong_secret: dice.seldom(),
            proven_dead: dice.below(2) == 0,
        },
        1 => Step::Downgrade(dice.held()),
        2 => {
            let held = dice.held();
            Step::HandOver { held, to: (dice.below(3) == 0).then(|| dice.pick()) }
        }
        3 => Step::Metadata { held: dice.held(), revision: dice.below(4), bytes: dice.payload() },
        4 => Step::Baton { held: dice.held(), revision: dice.below(4), bytes: dice.payload() },
        5 => Step::Report { held: dice.held(), number: dice.below(4) },
        6 => {
            let (held, stale) = (dice.held(), dice.stale());
            Step::EndOverdue { held, maximum: dice.below(2) == 0, stale, old_report: dice.below(3) == 0 }
        }
        7 => Step::Break { held: dice.held(), closed: dice.closed() },
        8 => Step::Stop { session: dice.pick(), closed: dice.closed() },
        9 => Step::Capacity { lock: dice.one_of(&[0, 1, 2, 3, 3, 3, 3]), capacity: dice.below(5) as u32 },
        10 => {
            let bounds =
                dice.one_of(&[None, Some((0, 60_000)), Some((2, 4)), Some((1, 1)), Some((4, 60_001))]);
            let prefix = dice.one_of(&["", "a", "a/", "s"]);
            let bounds = bounds.map(|(least, most)| (Millis(least), Millis(most)));
            Step::Rule { prefix, bounds, guards: dice.guards() }
        }
        11 => {
            let (number, mut more) = (dice.0, MoreLimits::default());
            more.baton_bytes_max = dice.one_of(&[more.baton_bytes_max, 4_095, 4_096, 7_096]);
            more.delay_rules_max = dice.one_of(&[more.delay_rules_max, 0, 1, 2]);
            Step::Limits(limits(number), more, sizes(dice))
        }
        12 => {
            let (delay, guard) = (dice.pick(), guard(dice.weighted([5, 5, 1]) as Pick));
            Step::Confirm { delay, guard, off: dice.one_of(&[0, 0, 0, 0, 1, -1, i64::MAX]) }
        }
        13 => Step::Version(1 + dice.below(3) as u32),
        14 => Step::Keep((0..dice.below(4)).map(|_| dice.pick()).collect()),
        15 => Step::Tick(dice.stale()),
        _ => Step::Copy(dice.below(12) as Pick),
    }
}

fn sizes(dice: &mut Dice) -> HistorySizes {
    let sizes = [0, 1, 2, 3, HISTORY_MAX, HISTORY_MAX + 1];
    HistorySizes { expired_max: dice.one_of(&sizes), others_max: dice.one_of(&sizes) }
}

fn part(dice: &mut Dice) -> Part {
    let lock = dice.below(LOCKS.len() as u64) as Pick;
    let semaphore = if dice.below(13) == 12 { lock != 3 } else { lock == 3 };
    let capacity = if semaphore { dice.one_of(&[2, 2, 2, 2, 3]) } else { 1 };
    let permits = if semaphore { dice.one_of(&[1, 1, 2]) } else { 1 };
    let mode = match dice.below(5) {
        0 | 1 if !semaphore => Mode::Shared,
        _ => Mode::Exclusive,
    };
    let delay = match dice.weighted([2, 3, 2]) {
        0 => LockDelay::Named(Millis(0)),
        1 => LockDelay::Named(Millis(2 + dice.below(4))),
        _ => LockDelay::Default(Millis(dice.below(6))),
    };
    Part { lock, mode, capacity, permits, delay, guards: dice.guards() }
}

fn acquires(dice: &mut Dice) -> Step {
    let session = dice.pick();
    let several = dice.one_of(&[1, 1, 1, 1, 2, 2, 3]);
    let mut parts: Vec<Part> = Vec::new();
    for _ in 0..several {
        let part = part(dice);
        if parts.iter().all(|earlier| earlier.lock != part.lock) {
            parts.push(part);
        }
    }
    let wait = match dice.weighted([4, 2, 2]) {
        0 => Wait::Session,
        1 => Wait::Bounded(Millis(dice.one_of(&[1, 1, 2, 2, 2, 0]))),
        _ => Wait::Try,
    };
    let number = match dice.weighted([12, 3, 2, 1]) {
        0 => Number::Fresh,
        1 => Number::Known(dice.below(8)),
        2 => Number::Absent,
        _ => Number::Largest,
    };
    let mark = dice.mark();
    let deadline = [
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        Some(1_000),
        Some(1_000),
        Some(1_000),
        Some(5_000),
        Some(2_592_000_000),
        Some(999),
    ];
    let terms = Terms {
        hold_max: dice.one_of(&deadline).map(Millis),
        progress_every: dice.one_of(&deadline).map(Millis),
        metadata: dice.payload(),
    };
    let odd = if dice.below(13) == 12 { 1 + dice.below(7) as u8 } else { 0 };
    Step::Acquire { session, number, mark, parts, wait, owner: dice.below(4) as u8, terms, odd }
}

/// Roomy, or so small that every one of them is met.
pub(super) fn limits(number: u128) -> Limits {
    let dice = &mut Dice(number);
    if dice.below(5) < 3 {
        return Limits::default();
    }
    Limits {
        sessions_max: 1 + dice.below(4),
        locks_max: 1 + dice.below(4),
        acquisitions_per_session_max: 1 + dice.below(3) as u32,
        waiters_per_lock_max: 1 + dice.below(2) as u32,
        outcomes_per_session_max: 2 + dice.below(4) as u32,
        ended_sessions_max: dice.below(3) as u32,
        predecessors_max: dice.below(3) as u32,
        ..Limits::default()
    }
}
