use std::collections::VecDeque;

use super::*;
use crate::command::LockDelay;
use crate::ids::{Millis, SessionId};
use crate::mode::Mode;
use crate::reply::Reply;
use crate::table::story::{Story, ask, lock};

fn token(number: u64) -> Token {
    Token::new(number).expect("a token")
}

fn held(name: &str, number: u64) -> SlotStanding {
    SlotStanding { lock: lock(name), slot: Slot(0), standing: Standing::Held(token(number)) }
}

fn open(name: &str) -> SlotStanding {
    SlotStanding { lock: lock(name), slot: Slot(0), standing: Standing::Open }
}

#[test]
fn one_snapshot_covers_every_lock() {
    let floors = Floors::at(50, [(lock("a"), Slot(0), token(34))]);
    assert_eq!(floors.floor(&lock("a"), Slot(0)), token(34));
    assert_eq!(floors.floor(&lock("a"), Slot(1)), token(51), "another slot");
    assert_eq!(floors.floor(&lock("never seen"), Slot(0)), token(51));
    assert_eq!(Floors::at(0, []).floor(&lock("a"), Slot(0)), token(1));
    assert_eq!(Floors::at(u64::MAX, []).floor(&lock("a"), Slot(0)).get(), TOKEN_MAX);
}

#[test]
fn an_end_raises_the_floor_at_once_and_an_entry_counts_once() {
    let mut floors = Floors::at(50, [(lock("a"), Slot(0), token(34))]);
    floors.entry(60, [open("a")]);
    assert_eq!(floors.floor(&lock("a"), Slot(0)), token(61));
    floors.entry(70, [held("a", 70)]);
    assert_eq!(floors.floor(&lock("a"), Slot(0)), token(70));
    floors.entry(60, [open("a")]);
    floors.progress(65);
    assert_eq!((floors.floor(&lock("a"), Slot(0)), floors.applied()), (token(70), 70));
    floors.progress(90);
    assert_eq!(
        (floors.floor(&lock("a"), Slot(0)), floors.floor(&lock("b"), Slot(0))),
        (token(70), token(91))
    );
}

#[test]
fn an_older_snapshot_is_not_taken() {
    let mut floors = Floors::at(50, [(lock("a"), Slot(0), token(34))]);
    assert_eq!(floors.replace(Floors::at(49, [])), Err(Older { offered: 49, known: 50 }));
    assert_eq!(floors.floor(&lock("a"), Slot(0)), token(34));
    // After a restore everything is larger.
    assert_eq!(floors.replace(Floors::at(1_800_000_000_000_000, [])), Ok(()));
    assert_eq!(floors.floor(&lock("a"), Slot(0)), token(1_800_000_000_000_001));
}

/// A small generator, so that each run is the same.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

const NAMES: [&str; 4] = ["a", "a/b", "b", "c"];

/// A story of holders that release, close or expire, and what a feed makes of it.
struct Run {
    story: Story,
    draws: Draws,
    sessions: Vec<(SessionId, u64)>,
    /// Every tenure that ever was: lock, slot, token; and the entry that ended it.
    tenures: BTreeMap<(LockName, Slot, Token), Option<u64>>,
    /// What the feed has not taken yet.
    under_way: VecDeque<(u64, Vec<SlotStanding>)>,
    floors: Floors,
    /// The last that was told of each tenure's slot: floors never go down.
    told: BTreeMap<(LockName, Slot), Token>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let story = Story::begin();
        let floors = Floors::at(story.index, []);
        let (sessions, tenures, told) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let draws = Draws(seed);
        Self { story, draws, sessions, tenures, under_way: VecDeque::new(), floors, told }
    }

    fn step(&mut self) {
        match self.draws.below(10) {
            0 | 9 => {
                let session = self.story.open("holder");
                self.sessions.push((session, 0));
            }
            1..=5 if !self.sessions.is_empty() => self.acquire(),
            6 if !self.sessions.is_empty() => {
                let at = self.draws.below(self.sessions.len());
                let (session, _) = self.sessions.remove(at);
                self.story.close(session);
            }
            7 if !self.sessions.is_empty() => {
                let at = self.draws.below(self.sessions.len());
                let (session, _) = self.sessions.remove(at);
                self.story.expire(&[session]);
            }
            8 => self.end_delay(),
            _ => self.release(),
        }
        self.remember();
    }

    fn acquire(&mut self) {
        let at = self.draws.below(self.sessions.len());
        let shared = self.draws.below(3) == 0;
        let delay = LockDelay::Named(Millis([0, 5_000][self.draws.below(2)]));
        let name = NAMES[self.draws.below(NAMES.len())];
        let (session, number) = &mut self.sessions[at];
        *number += 1;
        let asked = ask(*session, *number, name).part(|part| {
            part.delay = delay;
            part.mode = if shared { Mode::Shared } else { Mode::Exclusive };
        });
        self.story.acquire(asked);
    }

    fn release(&mut self) {
        let name = NAMES[self.draws.below(NAMES.len())];
        let Some((session, number, token)) = self.story.holder(name) else { return };
        let reply = self.story.release(session, number, name, token);
        assert!(matches!(reply, Reply::Released(_)), "{reply:?}");
    }

    fn end_delay(&mut self) {
        let name = NAMES[self.draws.below(NAMES.len())];
        let began = self.story.table.lock(&lock(name)).and_then(|lock| match lock.slots.get(&Slot(0)) {
            Some(SlotState::Delayed(delay)) => Some(delay.began.0),
            _ => None,
        });
        let epoch = self.story.epoch();
        if let Some(began) = began {
            self.story.end_lock_delay(epoch, name, began);
        }
    }

    /// What the last entry did goes to the feed, later.
    fn remember(&mut self) {
        let moved = moved(&self.story.events, &self.story.table);
        for event in &self.story.events {
            if let Event::Granted { grant, .. } = event {
                let tenures = grant.parts.iter().map(|part| (part.lock.clone(), part.slot, part.token));
                self.tenures.extend(tenures.map(|tenure| (tenure, None)));
            }
        }
        for ((name, slot, token), end) in &mut self.tenures {
            let lasts = Standing::of(&self.story.table, name, *slot) == Standing::Held(*token);
            if !lasts && end.is_none() {
                *end = Some(self.story.index);
            }
        }
        if self.under_way.back().is_none_or(|(index, _)| *index < self.story.index) {
            self.under_way.push_back((self.story.index, moved));
        }
        while !self.under_way.is_empty() && self.draws.below(3) > 0 {
            let Some((index, moved)) = self.under_way.pop_front() else { return };
            self.floors.entry(index, moved);
        }
        self.check();
    }

    fn check(&mut self) {
        for ((name, slot, token), end) in &self.tenures {
            let floor = self.floors.floor(name, *slot);
            match end {
                Some(end) if *end <= self.floors.applied() => {
                    assert!(floor > *token, "{token} of {name} is over, and {floor} admits it");
                }
                // Its end is under way.
                Some(_) => {}
                None => {
                    assert!(floor <= *token, "the holder of {name} under {token} is refused by {floor}");
                }
            }
            if self.under_way.is_empty() {
                assert_eq!(floor, floor_of(&self.story.table, name, *slot));
            }
            let told = self.told.insert((name.clone(), *slot), floor);
            assert!(told.is_none_or(|told| told <= floor), "the floor of {name} went down to {floor}");
        }
    }
}

#[test]
fn a_holder_is_never_refused_and_what_is_over_always_is() {
    for seed in 0..60 {
        let mut run = Run::new(seed);
        for _ in 0..250 {
            run.step();
        }
        assert!(run.tenures.len() >= 10, "seed {seed}: {} tenures tell too little", run.tenures.len());
    }
}

#[test]
fn a_delay_asks_its_guards_until_each_has_confirmed() {
    let mut story = Story::begin();
    let session = story.open("holder");
    let guard = GuardName::new("orders-db").expect("a name");
    story.acquire(ask(session, 1, "a").part(|part| part.fenced_by = vec![guard.clone()]));
    story.expire(&[session]);
    let [stands] = &moved(&story.events, &story.table)[..] else { panic!("one slot moved") };
    if let Standing::Asking { floor, guards } = &stands.standing {
        assert_eq!((floor.get(), &guards[..]), (story.index, &[guard][..]));
        assert!(*floor < floor_of(&story.table, &lock("a"), Slot(0)), "what the feed says is above it");
    } else {
        panic!("{stands:?}");
    }
}
