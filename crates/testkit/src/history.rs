//! What happened, from the log's side and from the clients', and what of it may not be.
//!
//! The log's side: every node reports the events of each entry that it applies. The clients' side: what each asked,
//! when, and what it was told. The checks are those of SPEC 15 that concern exclusive locks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use palisade_core::event::Event;
use palisade_core::ids::{AcquisitionId, LockName, LogIndex, Slot};
use palisade_core::table::LockTable;
use palisade_core::token::Token;

/// A grant as a client was handed it, and how long it worked under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which client.
    pub client: usize,
    /// Which lock.
    pub lock: LockName,
    /// Under which token.
    pub token: Token,
    /// Which acquisition.
    pub acquisition: AcquisitionId,
    /// When the grant was handed out, simulated or real time since the run began.
    pub from: Duration,
    /// The last moment at which the client believed in it: it released, or its own deadline passed. None while it
    /// still works.
    pub until: Option<Duration>,
}

/// What a fenced resource was asked, and said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Which lock.
    pub lock: LockName,
    /// Under which token.
    pub token: Token,
    /// Whether it was let in.
    pub accepted: bool,
}

/// Everything that is known of a run.
#[derive(Debug, Default)]
pub struct History {
    /// Events of each entry, as the first node that applied it saw them.
    log: BTreeMap<LogIndex, Vec<Event>>,
    /// States that were compared, by the last entry that they had applied.
    states: BTreeMap<LogIndex, LockTable>,
    held: Vec<Held>,
    writes: Vec<Write>,
    violations: Vec<String>,
}

impl History {
    /// A node applied an entry. Two nodes that applied the same one must have seen the same.
    pub fn applied(&mut self, node: &str, index: LogIndex, events: &[Event]) {
        match self.log.get(&index) {
            None => {
                self.log.insert(index, events.to_vec());
            }
            Some(seen) if seen.as_slice() == events => {}
            Some(seen) => {
                self.violations
                    .push(format!("{node} applied entry {index} as {events:?}, another as {seen:?}"));
            }
        }
    }

    /// A node's whole state. Replicas that applied the same entries have the same one (SPEC 15: 10), and in each holds
    /// what must hold.
    pub fn state(&mut self, node: &str, table: &LockTable) {
        let index = table.header().applied;
        match self.states.get(&index) {
            Some(seen) if seen == table => {}
            Some(_) => self.violations.push(format!("{node} and another node differ at entry {index}")),
            None => {
                if let Err(why) = table.check_invariants() {
                    self.violations.push(format!("{node} at entry {index}: {why}"));
                }
                self.states.insert(index, table.clone());
            }
        }
    }

    /// A client was handed a grant; the number to end it by.
    pub fn granted(&mut self, held: Held) -> usize {
        self.held.push(held);
        self.held.len() - 1
    }

    /// The client stopped working under it.
    pub fn stopped(&mut self, grant: usize, until: Duration) {
        let held = &mut self.held[grant];
        held.until = Some(held.until.map_or(until, |earlier| earlier.min(until)));
    }

    /// A resource was asked.
    pub fn wrote(&mut self, write: Write) {
        self.writes.push(write);
    }

    /// Something that a client saw may not be.
    pub fn violation(&mut self, words: String) {
        self.violations.push(words);
    }

    /// Grants that clients were handed.
    pub fn grants(&self) -> usize {
        self.held.len()
    }

    /// Writes that were refused.
    pub fn refused(&self) -> usize {
        self.writes.iter().filter(|write| !write.accepted).count()
    }

    /// Entries seen.
    pub fn entries(&self) -> usize {
        self.log.len()
    }

    /// All that is wrong with the run. Empty is what one hopes for.
    pub fn check(&self) -> Vec<String> {
        let mut wrong = self.violations.clone();
        self.check_tenures(&mut wrong);
        self.check_acknowledged(&mut wrong);
        self.check_beliefs(&mut wrong);
        self.check_writes(&mut wrong);
        wrong
    }

    /// Tenures of a slot do not overlap, tokens rise, and an acquisition is granted a slot once (SPEC 15: 1 and 3).
    fn check_tenures(&self, wrong: &mut Vec<String>) {
        let mut holders: BTreeMap<(LockName, Slot), (AcquisitionId, Token)> = BTreeMap::new();
        let mut last: BTreeMap<(LockName, Slot), Token> = BTreeMap::new();
        let mut granted: BTreeSet<(AcquisitionId, LockName, Slot)> = BTreeSet::new();
        for (index, events) in &self.log {
            for event in events {
                match event {
                    Event::Granted { grant, .. } => {
                        for part in &grant.parts {
                            let slot = (part.lock.clone(), part.slot);
                            if let Some(holder) =
                                holders.insert(slot.clone(), (grant.acquisition, part.token))
                            {
                                let id = grant.acquisition;
                                wrong.push(format!(
                                    "entry {index}: {} is granted to {id} while {holder:?} holds it",
                                    part.lock
                                ));
                            }
                            if last.insert(slot, part.token).is_some_and(|before| before >= part.token) {
                                wrong.push(format!(
                                    "entry {index}: token {} of {} does not rise",
                                    part.token, part.lock
                                ));
                            }
                            if !granted.insert((grant.acquisition, part.lock.clone(), part.slot)) {
                                wrong.push(format!(
                                    "entry {index}: {} is granted {} twice",
                                    grant.acquisition, part.lock
                                ));
                            }
                        }
                    }
                    Event::HoldEnded { acquisition, lock, slot, token, .. }
                        if holders.remove(&(lock.clone(), *slot)) != Some((*acquisition, *token)) =>
                    {
                        wrong.push(format!(
                            "entry {index}: {acquisition} ends a tenure of {lock} that it has not"
                        ));
                    }
                    _ => {}
                }
            }
        }
    }

    /// What a client was handed is in the log, and only once (SPEC 15: 2).
    fn check_acknowledged(&self, wrong: &mut Vec<String>) {
        let mut tokens: BTreeMap<(LockName, Token), AcquisitionId> = BTreeMap::new();
        for event in self.log.values().flatten() {
            if let Event::Granted { grant, .. } = event {
                for part in &grant.parts {
                    tokens.insert((part.lock.clone(), part.token), grant.acquisition);
                }
            }
        }
        for held in &self.held {
            match tokens.get(&(held.lock.clone(), held.token)) {
                Some(id) if *id == held.acquisition => {}
                other => wrong.push(format!("the log knows {other:?} for {held:?}")),
            }
        }
    }

    /// No two clients believe in one lock at the same time (SPEC 15: 5 and 6, given the bound on clock rates).
    fn check_beliefs(&self, wrong: &mut Vec<String>) {
        let mut by_lock: BTreeMap<&LockName, Vec<&Held>> = BTreeMap::new();
        for held in &self.held {
            by_lock.entry(&held.lock).or_default().push(held);
        }
        for beliefs in by_lock.values_mut() {
            beliefs.sort_by_key(|held| held.from);
            for pair in beliefs.windows(2) {
                let until = pair[0].until.unwrap_or(Duration::MAX);
                if pair[1].from < until {
                    wrong.push(format!(
                        "{:?} and {:?} believe in one lock at the same time",
                        pair[0], pair[1]
                    ));
                }
            }
        }
    }

    /// Accepted writes bear non-decreasing tokens (SPEC 15: 9).
    fn check_writes(&self, wrong: &mut Vec<String>) {
        let mut marks: BTreeMap<&LockName, Token> = BTreeMap::new();
        for write in self.writes.iter().filter(|write| write.accepted) {
            let mark = marks.entry(&write.lock).or_insert(write.token);
            if write.token < *mark {
                wrong.push(format!("{write:?} was let in after token {mark}"));
            }
            *mark = (*mark).max(write.token);
        }
    }

    /// A number that differs when two runs differ: over every event and every client's story.
    pub fn hash(&self) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        format!("{:?}{:?}{:?}", self.log, self.held, self.writes).hash(&mut hasher);
        hasher.finish()
    }
}

struct Fnv(u64);

impl std::hash::Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
