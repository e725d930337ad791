//! Random histories: holders of one lock are paused, cut off from the cluster or from the resource, and have their clocks
//! set, while they write to a real resource.
//!
//! Time, network and pauses are scripted, the lock table and the resource are real, and nothing is random but the seed.
//! Each step belongs to one holder, and any of them may stand still between any two: between the grant and the claim,
//! between the look at its own clock and the write, between the write and its arrival.
//!
//! What is judged does not look at marks: once the resource has accepted a claim or a write of one token, an accepted
//! write of a lower one is stale. An accepted write must also be built on what its holder read: since its claim, nobody
//! else may have added a line.

mod chance;
mod coordinator;

use palisade_core::ids::{LockName, SessionId};
use palisade_core::token::Token;

use self::chance::Chance;
use self::coordinator::{Coordinator, TTL};
use super::{SigningCluster, Subject};
use crate::error::FenceError;
use crate::guard::Scope;

/// Runs over one resource, before a new one is made: its lines are read after each run.
const RUNS_PER_SUBJECT: u64 = 20;
const HOLDERS: usize = 3;
/// Of a run.
const STEPS: u64 = 120;
/// How far time goes on in a step, at most, ms.
const STEP_MAX: u64 = 1_200;
const WRITES_PER_GRANT: u64 = 4;
const LOCK: &str = "runs/one";

/// What the runs came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Histories.
    pub runs: u64,
    /// Writes that the resource accepted.
    pub accepted: u64,
    /// Those of them that were stale.
    pub stale_accepted: u64,
    /// Those of them that were not built on what their holder had read.
    pub lost_updates: u64,
    /// What the resource refused as stale.
    pub refused: u64,
    /// Holders that stood still for longer than a lease.
    pub pauses: u64,
    /// Holders that were cut off from the cluster or the resource.
    pub partitions: u64,
    /// Clocks that were set.
    pub clock_steps: u64,
}

/// Whether the holders of a run go through the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// They do.
    Guarded,
    /// They write as whoever knows of no guard.
    PastTheGuard,
}

/// Plays `count` runs, and shows that they find what they look for: through the guard nothing stale is accepted and no
/// update lost, past it both happen. Gives what both came to.
pub fn check<S: Subject>(make: impl Fn(Scope) -> S, count: u64) -> (Tally, Tally) {
    let guarded = play(&make, Path::Guarded, 1..=count);
    assert_eq!((guarded.runs, guarded.stale_accepted, guarded.lost_updates), (count, 0, 0), "{guarded:?}");
    assert!(guarded.refused > 0 && guarded.accepted > 0, "nobody was late: {guarded:?}");
    assert!(guarded.pauses > 0 && guarded.partitions > 0 && guarded.clock_steps > 0, "{guarded:?}");
    let past = play(&make, Path::PastTheGuard, 1..=count.min(100));
    assert!(past.stale_accepted > 0 && past.lost_updates > 0, "past the guard too: {past:?}");
    (guarded, past)
}

/// Plays the runs of these seeds over resources that `make` makes new.
pub fn play<S: Subject>(
    make: impl Fn(Scope) -> S,
    path: Path,
    seeds: impl IntoIterator<Item = u64>,
) -> Tally {
    let mut tally = Tally::default();
    let mut seeds = seeds.into_iter().peekable();
    while seeds.peek().is_some() {
        let mut run = Run::new(&make, path);
        for seed in seeds.by_ref().take(usize::try_from(RUNS_PER_SUBJECT).unwrap_or(1)) {
            run.play(seed, &mut tally);
        }
    }
    tally
}

struct Run<S> {
    cluster: SigningCluster,
    coordinator: Coordinator,
    subject: S,
    path: Path,
    now: u64,
    /// The largest token of which the resource accepted anything.
    newest: u64,
    /// What it accepted, in order.
    expected: Vec<String>,
    holders: Vec<Holder>,
    on_their_way: Vec<Message>,
}

#[derive(Default)]
struct Holder {
    session: Option<SessionId>,
    claimed: Option<Claimed>,
    written: u64,
    heard: u64,
    believes_until: i64,
    clock_offset: i64,
    paused_until: u64,
    cut_off_until: u64,
}

#[derive(Clone, Copy)]
struct Claimed {
    token: Token,
    /// How many lines it knows of: those that it read, and its own since.
    lines: usize,
}

/// A write on its way to the resource.
struct Message {
    holder: usize,
    arrives: u64,
    token: Token,
    lines: usize,
    text: String,
}

impl<S: Subject> Run<S> {
    fn new(make: &impl Fn(Scope) -> S, path: Path) -> Self {
        let cluster = SigningCluster::new(1);
        let lock = LockName::new(LOCK).expect("a lock name");
        Self {
            coordinator: Coordinator::new(cluster.id(), lock.clone()),
            subject: make(Scope::new(cluster.id(), lock)),
            cluster,
            path,
            now: 0,
            newest: 0,
            expected: Vec::new(),
            holders: Vec::new(),
            on_their_way: Vec::new(),
        }
    }

    fn play(&mut self, seed: u64, tally: &mut Tally) {
        let mut chance = Chance::of(seed);
        // The holders of the run before are gone; what they sent may still arrive.
        self.holders = (0..HOLDERS).map(|_| Holder { heard: self.now, ..Holder::default() }).collect();
        for _ in 0..STEPS {
            self.now += 1 + chance.below(STEP_MAX);
            self.coordinator.expire(self.now);
            self.deliver(tally);
            let at = usize::try_from(chance.below(HOLDERS as u64)).unwrap_or(0);
            self.trouble(at, &mut chance, tally);
            if self.holders[at].paused_until <= self.now {
                self.step(at, &mut chance, tally);
            }
        }
        tally.runs += 1;
        assert_eq!(self.subject.lines(), self.expected, "seed {seed}: the resource holds what it accepted");
    }

    fn trouble(&mut self, at: usize, chance: &mut Chance, tally: &mut Tally) {
        let (now, holder) = (self.now, &mut self.holders[at]);
        if chance.once_in(10) {
            holder.paused_until = now + chance.below(3 * TTL);
            tally.pauses += u64::from(holder.paused_until > now + TTL);
        }
        if chance.once_in(12) {
            holder.cut_off_until = now + chance.below(3 * TTL);
            tally.partitions += 1;
        }
        if chance.once_in(12) {
            holder.clock_offset += chance.below(20 * TTL).cast_signed() - (10 * TTL).cast_signed();
            tally.clock_steps += 1;
        }
    }

    fn step(&mut self, at: usize, chance: &mut Chance, tally: &mut Tally) {
        let now = self.now;
        let holder = &mut self.holders[at];
        let reachable = holder.cut_off_until <= now;
        let clock = now.cast_signed() + holder.clock_offset;
        let Some(session) = holder.session else {
            if reachable {
                holder.session = Some(self.coordinator.ask(now));
                holder.believes_until = clock + TTL.cast_signed();
            }
            return;
        };
        if reachable && now >= holder.heard + TTL / 4 {
            holder.heard = now;
            if self.coordinator.keep_alive(session, now) {
                holder.believes_until = clock + TTL.cast_signed();
            }
        }
        // By its own clock, which may have been set: a belief, and no more.
        if clock >= holder.believes_until {
            return self.begin_anew(at);
        }
        let Some(token) = self.coordinator.granted(session) else { return };
        let Some(claimed) = holder.claimed else { return self.claim(at, token, tally) };
        if holder.written == WRITES_PER_GRANT {
            if reachable {
                self.coordinator.release(session, token);
            }
            return self.begin_anew(at);
        }
        holder.written += 1;
        holder.claimed = Some(Claimed { lines: claimed.lines + 1, ..claimed });
        let late = if reachable { chance.below(TTL / 8) } else { chance.below(3 * TTL) };
        let text = format!("{}.{}", token, holder.written);
        let arrives = now + if chance.once_in(2) { 0 } else { late };
        self.on_their_way.push(Message { holder: at, arrives, token, lines: claimed.lines, text });
        self.deliver(tally);
    }

    fn begin_anew(&mut self, at: usize) {
        let holder = &mut self.holders[at];
        (holder.session, holder.claimed, holder.written) = (None, None, 0);
    }

    fn claim(&mut self, at: usize, token: Token, tally: &mut Tally) {
        let outcome = match self.path {
            Path::Guarded => self.subject.claim(&self.cluster.exclusive(LOCK, token.get())),
            Path::PastTheGuard => Ok(()),
        };
        match outcome {
            Ok(()) => {
                self.newest = self.newest.max(token.get());
                self.holders[at].claimed = Some(Claimed { token, lines: self.expected.len() });
            }
            Err(error) => self.refused(at, &error, tally),
        }
    }

    fn refused(&mut self, at: usize, error: &FenceError, tally: &mut Tally) {
        assert!(error.is_stale(), "the resource failed: {error}");
        tally.refused += 1;
        self.begin_anew(at);
    }

    /// What is due arrives, in the order of its arrival.
    fn deliver(&mut self, tally: &mut Tally) {
        self.on_their_way.sort_by_key(|message| message.arrives);
        let due = self.on_their_way.partition_point(|message| message.arrives <= self.now);
        for message in self.on_their_way.drain(..due).collect::<Vec<_>>() {
            self.arrive(message, tally);
        }
    }

    fn arrive(&mut self, message: Message, tally: &mut Tally) {
        let Message { holder, token, lines, text, .. } = message;
        let outcome = match self.path {
            Path::Guarded => self.subject.append(&self.cluster.exclusive(LOCK, token.get()), &text),
            Path::PastTheGuard => {
                self.subject.append_past_the_guard(&text);
                Ok(())
            }
        };
        match outcome {
            Ok(()) => {
                tally.accepted += 1;
                tally.stale_accepted += u64::from(token.get() < self.newest);
                // Its own writes may overtake one another; another's never come between.
                let others =
                    self.expected.iter().skip(lines).any(|line| !line.starts_with(&format!("{token}.")));
                tally.lost_updates += u64::from(others);
                self.newest = self.newest.max(token.get());
                self.expected.push(text);
            }
            Err(error) => {
                let of_this_grant =
                    self.holders[holder].claimed.is_some_and(|claimed| claimed.token == token);
                if of_this_grant {
                    self.refused(holder, &error, tally);
                } else {
                    assert!(error.is_stale(), "the resource failed: {error}");
                    tally.refused += 1;
                }
            }
        }
    }
}
