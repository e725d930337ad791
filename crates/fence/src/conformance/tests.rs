use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Barrier, Mutex};

use palisade_core::ids::Slot;
use palisade_core::signed_floor::FloorStatement;
use palisade_core::token::Token;

use super::*;
use crate::adapters::memory::MemoryResource;
use crate::guard::Guard;

struct Memory(Guard<MemoryResource<Vec<String>>>);

impl Subject for Memory {
    fn claim(&self, holding: &dyn Holding) -> Result<(), FenceError> {
        self.0.claim(holding).map(drop)
    }

    fn append(&self, holding: &dyn Holding, line: &str) -> Result<(), FenceError> {
        self.0.write(holding, |lines| {
            lines.push(line.to_owned());
            Ok(())
        })
    }

    fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        self.0.raise(floor)
    }

    fn lines(&self) -> Vec<String> {
        self.0.adapter().read(Clone::clone).unwrap()
    }

    fn reopen(self) -> Self {
        self
    }

    fn append_past_the_guard(&self, line: &str) {
        self.0.adapter().unguarded(|lines| lines.push(line.to_owned())).unwrap();
    }

    // The types leave no way.
    fn append_bare(&self, _: &str) -> Option<Result<(), FenceError>> {
        None
    }

    // The data dies with its process, and the marks with the data.
    fn die_before_the_commit(self, _: &dyn Holding, _: &str) -> Option<Self> {
        None
    }

    fn lose_marks(self) -> Option<Self> {
        None
    }
}

#[test]
fn a_faulty_resource_is_found_by_the_runs() {
    for fault in [Fault::Unfenced, Fault::ClaimIsNothing] {
        let tally = runs::play(faulty(fault), runs::Path::Guarded, 1..=100);
        assert!(tally.stale_accepted + tally.lost_updates > 0, "{fault:?}: {tally:?}");
    }
}

#[test]
fn memory_passes() {
    check(|scope| Memory(Guard::new(MemoryResource::new(Vec::new()), scope)));
}

/// How a resource can get it wrong.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Unfenced,
    ClaimIsNothing,
    ForgetsWhenReopened,
    RefusesTheEqual,
    OneMarkForAll,
    ChecksThenWrites,
    ComparesText,
    TellsNobody,
    TakesTheBare,
    WritesBeforeTheCommit,
    TakesLostMarksForNone,
    HasNoOtherWay,
    FloorIsNothing,
    FloorLowersTheMark,
    TakesAnyFloor,
}

struct Faulty {
    fault: Fault,
    /// Knows the scope.
    guard: Guard<()>,
    marks: Mutex<BTreeMap<(String, Slot), u64>>,
    lines: Mutex<Vec<String>>,
    between: Mutex<Vec<u64>>,
    gap: Barrier,
}

const RACERS: u64 = 64;

impl Faulty {
    fn admit(&self, holding: &dyn Holding) -> Result<(), FenceError> {
        if !matches!(self.fault, Fault::Unfenced) {
            holding.check()?;
        }
        let key = match self.fault {
            Fault::OneMarkForAll => (String::new(), Slot(0)),
            _ => (holding.lock().to_string(), holding.slot()),
        };
        let mut marks = self.marks.lock().unwrap();
        let mark = marks.entry(key).or_insert(0);
        let token = holding.token().get();
        let stale = match self.fault {
            Fault::Unfenced => false,
            Fault::RefusesTheEqual => token <= *mark,
            Fault::ComparesText => *mark > 0 && token.to_string() < mark.to_string(),
            Fault::ClaimIsNothing
            | Fault::ForgetsWhenReopened
            | Fault::OneMarkForAll
            | Fault::ChecksThenWrites
            | Fault::TakesTheBare
            | Fault::WritesBeforeTheCommit
            | Fault::TakesLostMarksForNone
            | Fault::HasNoOtherWay
            | Fault::FloorIsNothing
            | Fault::FloorLowersTheMark
            | Fault::TakesAnyFloor
            | Fault::TellsNobody => token < *mark,
        };
        if stale {
            let mark = Token::new(*mark).unwrap();
            if !matches!(self.fault, Fault::TellsNobody) {
                holding.rejected(mark);
            }
            return Err(FenceError::Stale {
                lock: holding.lock().clone(),
                slot: holding.slot(),
                presented: holding.token(),
                mark,
            });
        }
        if !matches!(self.fault, Fault::ChecksThenWrites) {
            *mark = token;
        }
        Ok(())
    }

    /// Every racer has been admitted before any of their writes lands, and the newest lands first.
    fn write_later(&self, line: &str) -> Result<(), FenceError> {
        let mut between = self.between.lock().unwrap();
        between.push(line.parse::<u64>().unwrap());
        drop(between);
        if self.gap.wait().is_leader() {
            let mut between = std::mem::take(&mut *self.between.lock().unwrap());
            between.sort_unstable();
            self.lines.lock().unwrap().extend(between.iter().rev().map(u64::to_string));
        }
        Ok(())
    }
}

impl Subject for Faulty {
    fn claim(&self, holding: &dyn Holding) -> Result<(), FenceError> {
        if matches!(self.fault, Fault::ClaimIsNothing) { Ok(()) } else { self.admit(holding) }
    }

    fn append(&self, holding: &dyn Holding, line: &str) -> Result<(), FenceError> {
        self.admit(holding)?;
        if matches!(self.fault, Fault::ChecksThenWrites) {
            return self.write_later(line);
        }
        self.lines.lock().unwrap().push(line.to_owned());
        Ok(())
    }

    fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        if !matches!(self.fault, Fault::TakesAnyFloor) {
            self.guard.check_floor(floor)?;
        }
        let FloorStatement { lock, slot, floor, .. } = floor.statement();
        let mut marks = self.marks.lock().unwrap();
        let mark = marks.entry((lock.to_string(), *slot)).or_insert(0);
        *mark = match self.fault {
            Fault::FloorIsNothing => return Ok(HighWaterMark(*floor)),
            Fault::FloorLowersTheMark => floor.get(),
            _ => floor.get().max(*mark),
        };
        Ok(HighWaterMark(Token::new(*mark).unwrap()))
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn reopen(self) -> Self {
        if matches!(self.fault, Fault::ForgetsWhenReopened) {
            self.marks.lock().unwrap().clear();
        }
        self
    }

    fn append_past_the_guard(&self, line: &str) {
        if !matches!(self.fault, Fault::HasNoOtherWay) {
            self.lines.lock().unwrap().push(line.to_owned());
        }
    }

    fn append_bare(&self, line: &str) -> Option<Result<(), FenceError>> {
        matches!(self.fault, Fault::TakesTheBare).then(|| {
            self.append_past_the_guard(line);
            Ok(())
        })
    }

    fn die_before_the_commit(self, holding: &dyn Holding, line: &str) -> Option<Self> {
        match self.fault {
            Fault::WritesBeforeTheCommit => self.append(holding, line).ok().map(|()| self),
            Fault::ForgetsWhenReopened => Some(self.reopen()),
            _ => None,
        }
    }

    fn lose_marks(self) -> Option<Self> {
        matches!(self.fault, Fault::TakesLostMarksForNone).then(|| {
            self.marks.lock().unwrap().clear();
            self
        })
    }
}

fn faulty(fault: Fault) -> impl Fn(Scope) -> Faulty {
    move |scope| Faulty {
        fault,
        guard: Guard::new((), scope),
        marks: Mutex::default(),
        lines: Mutex::default(),
        between: Mutex::default(),
        gap: Barrier::new(RACERS as usize),
    }
}

fn fails(scenario: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(scenario)).is_err()
}

#[test]
fn the_suite_finds_each_fault() {
    assert!(fails(|| check(faulty(Fault::Unfenced))));
    assert!(fails(|| stale_after_newer(&faulty(Fault::Unfenced))));
    assert!(fails(|| identical_bytes(&faulty(Fault::Unfenced))));
    assert!(fails(|| claim_then_stale(&faulty(Fault::ClaimIsNothing))));
    assert!(fails(|| shared_claim_and_write(&faulty(Fault::ClaimIsNothing))));
    assert!(fails(|| marks_survive_reopening(&faulty(Fault::ForgetsWhenReopened))));
    assert!(fails(|| equal_token(&faulty(Fault::RefusesTheEqual))));
    assert!(fails(|| slots_of_a_semaphore(&faulty(Fault::OneMarkForAll))));
    assert!(fails(|| locks_of_one_resource(&faulty(Fault::OneMarkForAll))));
    assert!(fails(|| concurrent_racers(&faulty(Fault::ChecksThenWrites), RACERS)));
    assert!(fails(|| restored_cluster(&faulty(Fault::ComparesText))));
    assert!(fails(|| refused_once_refused_always(&faulty(Fault::TellsNobody))));
    assert!(fails(|| missing_token(&faulty(Fault::TakesTheBare))));
    assert!(fails(|| crash_before_the_commit(&faulty(Fault::WritesBeforeTheCommit))));
    assert!(fails(|| crash_before_the_commit(&faulty(Fault::ForgetsWhenReopened))));
    assert!(fails(|| lost_marks(&faulty(Fault::TakesLostMarksForNone))));
    assert!(fails(|| past_the_guard(&faulty(Fault::HasNoOtherWay))));
    assert!(fails(|| sequencer_before_a_takeover(&faulty(Fault::ClaimIsNothing))));
    assert!(fails(|| clock_wrong_by_a_year(&faulty(Fault::Unfenced))));
    assert!(fails(|| slot_of_another_capacity(&faulty(Fault::TellsNobody))));
    for fault in [
        Fault::FloorIsNothing,
        Fault::FloorLowersTheMark,
        Fault::TakesAnyFloor,
        Fault::ForgetsWhenReopened,
        Fault::Unfenced,
    ] {
        assert!(fails(|| raised_by_a_signed_floor(&faulty(fault))), "{fault:?}");
    }
    assert!(!fails(|| raised_by_a_signed_floor(&faulty(Fault::TakesTheBare))), "its fault is another");
    // These look at nothing but the marks, so that each of them takes any lock of any cluster.
    assert!(fails(|| wrong_lock(&faulty(Fault::ForgetsWhenReopened))));
    assert!(fails(|| other_cluster(&faulty(Fault::ForgetsWhenReopened))));
}
