//! Scenarios of what goes wrong around a resource: crashes, lost marks, wrong clocks; and of a resource without a guard.

use std::panic::{AssertUnwindSafe, catch_unwind};

use palisade_core::holding::Holding;
use palisade_core::ids::{AcquisitionId, RequestNumber, SessionId, WallTime};
use palisade_core::limits::TOKEN_MAX;
use palisade_core::mode::Mode;

use super::scenarios::{LOCK, accepted, cluster, holds, scope, stale};
use super::{Subject, scenarios};
use crate::admit::HighWaterMark;
use crate::error::FenceError;
use crate::guard::Scope;
use crate::verifier::SignedFloor;

/// The lock was made anew with more slots than the resource was told of: the further ones are refused, and raise nothing.
pub fn slot_of_another_capacity<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let slot = |slot, token| cluster.presented(LOCK, slot, Mode::Exclusive, token);
    let before = make(scope(&cluster).slots(3));
    accepted(before.append(&slot(2, 34), "of three"));
    for further in [slot(3, 41), slot(4, 42)] {
        assert!(matches!(before.append(&further, "of five"), Err(FenceError::WrongSlot { .. })));
        assert!(matches!(before.claim(&further), Err(FenceError::WrongSlot { .. })));
    }
    accepted(before.append(&slot(2, 35), "of three"));
    holds(&before, &["of three", "of three"]);
}

/// A restarted process took the session over, and the lock was granted again: what was signed before is stale.
pub fn sequencer_before_a_takeover<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = make(scope(&cluster));
    let of = |session, token| {
        let mut statement = cluster.statement(LOCK, 0, Mode::Exclusive, token);
        statement.acquisition = AcquisitionId { session: SessionId(session), number: RequestNumber(1) };
        cluster.present(&statement)
    };
    let (before, after) = (of(7, 34), of(8, 41));
    accepted(subject.append(&before, "before"));
    accepted(subject.claim(&after));
    stale(subject.append(&before, "stale"), 34, 41);
    accepted(subject.append(&after, "after"));
    holds(&subject, &["before", "after"]);
}

/// Who comes without a token is refused, and no mark and no line come of it.
pub fn missing_token<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = make(scope(&cluster));
    accepted(subject.append(&cluster.exclusive(LOCK, 34), "before"));
    let Some(outcome) = subject.append_bare("bare") else { return };
    assert!(outcome.is_err(), "a write without a token was accepted");
    accepted(subject.append(&cluster.exclusive(LOCK, 34), "after"));
    holds(&subject, &["before", "after"]);
}

/// A process dies after its admission and before its commit: no part of its write is there, and nobody older gets in.
pub fn crash_before_the_commit<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = make(scope(&cluster));
    accepted(subject.append(&cluster.exclusive(LOCK, 34), "before"));
    let Some(subject) = subject.die_before_the_commit(&cluster.exclusive(LOCK, 41), "cut off") else {
        return;
    };
    holds(&subject, &["before"]);
    stale_after_the_crash(&subject, &cluster.exclusive(LOCK, 33));
    accepted(subject.append(&cluster.exclusive(LOCK, 41), "again"));
    stale(subject.append(&cluster.exclusive(LOCK, 40), "stale"), 40, 41);
    holds(&subject, &["before", "again"]);
}

/// The mark is the one before the crash, or that of the write that was cut off.
fn stale_after_the_crash<S: Subject>(subject: &S, older: &dyn Holding) {
    match subject.append(older, "stale") {
        Err(FenceError::Stale { mark, .. }) => assert!([34, 41].contains(&mark.get()), "the mark is {mark}"),
        other => panic!("an older token after a crash: {other:?}"),
    }
}

/// Marks that are gone admit nobody, however large the token: the store cannot know who is stale.
pub fn lost_marks<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = make(scope(&cluster));
    accepted(subject.append(&cluster.exclusive(LOCK, 41), "before"));
    let Some(subject) = subject.lose_marks() else { return };
    for token in [34, 41, 90] {
        let outcome = subject.append(&cluster.exclusive(LOCK, token), "guessed");
        assert!(outcome.is_err(), "token {token} was accepted by a store that lost its marks");
        assert!(subject.claim(&cluster.exclusive(LOCK, token)).is_err(), "so was its claim");
    }
    holds(&subject, &["before"]);
}

/// A key that the resource does not know proves nothing and moves no mark. It is not called a forgery either: the key may
/// be new.
pub fn unknown_key<S: Subject>(make: &impl Fn(Scope) -> S) {
    let (ours, other) = (cluster(), super::SigningCluster::new(3));
    let subject = make(scope(&ours));
    let text = other.sign(&other.header(), &ours.statement(LOCK, 0, Mode::Exclusive, TOKEN_MAX));
    match ours.verifier().verify(&text) {
        Err(FenceError::UnknownKey { kid }) => assert_eq!(kid, other.header().kid),
        Err(error) => panic!("an unknown key was refused as something else: {error}"),
        Ok(presented) => accepted(subject.append(&presented, "unproved")),
    }
    accepted(subject.append(&ours.exclusive(LOCK, 34), "true"));
    holds(&subject, &["true"]);
}

/// Time decides nothing: a node whose clock is a year off signs tokens that are as good, and as stale, as any.
pub fn clock_wrong_by_a_year<S: Subject>(make: &impl Fn(Scope) -> S) {
    const YEAR_US: u64 = 365 * 24 * 3_600 * 1_000_000;
    const NOW_US: u64 = 1_800_000_000_000_000;
    let cluster = cluster();
    let subject = make(scope(&cluster));
    let at = |granted_at, token| {
        let mut statement = cluster.statement(LOCK, 0, Mode::Exclusive, token);
        statement.granted_at = WallTime(granted_at);
        cluster.present(&statement)
    };
    accepted(subject.append(&at(NOW_US + YEAR_US, 34), "a year ahead"));
    accepted(subject.append(&at(NOW_US - YEAR_US, 41), "a year behind"));
    stale(subject.append(&at(NOW_US + YEAR_US, 34), "stale"), 34, 41);
    stale(subject.append(&at(u64::MAX, 40), "stale"), 40, 41);
    accepted(subject.append(&at(0, 41), "no time at all"));
    holds(&subject, &["a year ahead", "a year behind", "no time at all"]);
}

/// The same store, written by somebody who knows of no guard.
struct PastTheGuard<S>(S);

impl<S: Subject> Subject for PastTheGuard<S> {
    fn claim(&self, _: &dyn Holding) -> Result<(), FenceError> {
        Ok(())
    }

    fn append(&self, _: &dyn Holding, line: &str) -> Result<(), FenceError> {
        self.0.append_past_the_guard(line);
        Ok(())
    }

    // Nobody keeps it.
    fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        Ok(HighWaterMark(floor.statement().floor))
    }

    fn lines(&self) -> Vec<String> {
        self.0.lines()
    }

    fn reopen(self) -> Self {
        Self(self.0.reopen())
    }

    fn append_past_the_guard(&self, line: &str) {
        self.0.append_past_the_guard(line);
    }

    fn append_bare(&self, line: &str) -> Option<Result<(), FenceError>> {
        self.append_past_the_guard(line);
        Some(Ok(()))
    }

    fn die_before_the_commit(self, _: &dyn Holding, _: &str) -> Option<Self> {
        Some(self.reopen())
    }

    // There are none.
    fn lose_marks(self) -> Option<Self> {
        Some(self)
    }
}

/// Of the race without a guard; a scheduler that happens to run all of them in order gets further tries.
const RACERS: u64 = 32;
const RACES_MAX: usize = 20;

/// Shows that the suite can fail: past its guard the same store takes the paused holder's write, and the scenarios say so,
/// all but those that a store without a guard passes: the equal token, and what a verifier refuses by itself.
pub fn past_the_guard<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = PastTheGuard(make(scope(&cluster)));
    accepted(subject.append(&cluster.exclusive(LOCK, 34), "paused holder's first"));
    accepted(subject.append(&cluster.exclusive(LOCK, 41), "successor's"));
    accepted(subject.append(&cluster.exclusive(LOCK, 34), "paused holder's second"));
    holds(&subject, &["paused holder's first", "successor's", "paused holder's second"]);

    let make = |scope| PastTheGuard(make(scope));
    let scenarios: [(&str, &dyn Fn()); 19] = [
        ("stale_after_newer", &|| scenarios::stale_after_newer(&make)),
        ("claim_then_stale", &|| scenarios::claim_then_stale(&make)),
        ("locks_of_one_resource", &|| scenarios::locks_of_one_resource(&make)),
        ("wrong_lock", &|| scenarios::wrong_lock(&make)),
        ("slots_of_a_semaphore", &|| scenarios::slots_of_a_semaphore(&make)),
        ("slot_of_another_capacity", &|| slot_of_another_capacity(&make)),
        ("shared_claim_and_write", &|| scenarios::shared_claim_and_write(&make)),
        ("sequencer_before_a_takeover", &|| sequencer_before_a_takeover(&make)),
        ("other_cluster", &|| scenarios::other_cluster(&make)),
        ("restored_cluster", &|| scenarios::restored_cluster(&make)),
        ("lost_marks", &|| lost_marks(&make)),
        ("missing_token", &|| missing_token(&make)),
        ("impossible_tokens", &|| scenarios::impossible_tokens(&make)),
        ("crash_before_the_commit", &|| crash_before_the_commit(&make)),
        ("marks_survive_reopening", &|| scenarios::marks_survive_reopening(&make)),
        ("raised_by_a_signed_floor", &|| scenarios::raised_by_a_signed_floor(&make)),
        ("refused_once_refused_always", &|| scenarios::refused_once_refused_always(&make)),
        ("clock_wrong_by_a_year", &|| clock_wrong_by_a_year(&make)),
        ("identical_bytes", &|| scenarios::identical_bytes(&make)),
    ];
    for (name, scenario) in scenarios {
        assert!(fails(scenario), "{name} passes without a guard, so it shows nothing");
    }
    let race = || scenarios::concurrent_racers(&make, RACERS);
    assert!(
        (0..RACES_MAX).any(|_| fails(race)),
        "concurrent_racers passes without a guard, so it shows nothing"
    );
}

fn fails(scenario: impl Fn()) -> bool {
    catch_unwind(AssertUnwindSafe(scenario)).is_err()
}
