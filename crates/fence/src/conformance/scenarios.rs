//! The scenarios, each a short story about one resource.

use std::sync::Barrier;
use std::thread;

use palisade_core::holding::Holding;
use palisade_core::ids::LockName;
use palisade_core::limits::TOKEN_MAX;
use palisade_core::mode::Mode;

use super::{SigningCluster, Subject};
use crate::admit::HighWaterMark;
use crate::error::FenceError;
use crate::guard::Scope;
use crate::verifier::SignedFloor;

pub(super) const LOCK: &str = "orders/shard-7";
const OTHER: &str = "orders/shard-8";

pub(super) fn cluster() -> SigningCluster {
    SigningCluster::new(1)
}

pub(super) fn scope(cluster: &SigningCluster) -> Scope {
    Scope::new(cluster.id(), name(LOCK))
}

pub(super) fn name(lock: &str) -> LockName {
    LockName::new(lock).expect("a scenario's lock has a valid name")
}

#[track_caller]
pub(super) fn accepted(outcome: Result<(), FenceError>) {
    if let Err(error) = outcome {
        panic!("what should be accepted was refused: {error}");
    }
}

#[track_caller]
pub(super) fn stale(outcome: Result<(), FenceError>, presented: u64, mark: u64) {
    match outcome {
        Err(FenceError::Stale { presented: told, mark: by, .. }) => {
            assert_eq!((told.get(), by.get()), (presented, mark), "a stale refusal names both tokens");
        }
        Err(error) => panic!("token {presented} should be refused as stale, below {mark}, but: {error}"),
        Ok(()) => panic!("token {presented} should be refused as stale, below {mark}, but was accepted"),
    }
}

#[track_caller]
pub(super) fn holds<S: Subject>(subject: &S, lines: &[&str]) {
    assert_eq!(subject.lines(), lines, "the resource holds what was accepted, in order, and nothing else");
}

/// A paused holder wakes up after its successor wrote.
pub fn stale_after_newer<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = make(scope(&cluster));
    let (old, new) = (cluster.exclusive(LOCK, 34), cluster.exclusive(LOCK, 41));
    accepted(subject.append(&old, "old"));
    accepted(subject.append(&new, "new"));
    stale(subject.append(&old, "stale"), 34, 41);
    holds(&subject, &["old", "new"]);
}

/// One holder writes many times under one token.
pub fn equal_token<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = make(scope(&cluster));
    let holder = cluster.exclusive(LOCK, 34);
    accepted(subject.claim(&holder));
    accepted(subject.append(&holder, "one"));
    accepted(subject.append(&holder, "two"));
    accepted(subject.claim(&holder));
    holds(&subject, &["one", "two"]);
}

/// A claim alone shuts the earlier holder out, and changes no data.
pub fn claim_then_stale<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = make(scope(&cluster));
    let (old, new) = (cluster.exclusive(LOCK, 34), cluster.exclusive(LOCK, 41));
    accepted(subject.append(&old, "old"));
    accepted(subject.claim(&new));
    holds(&subject, &["old"]);
    stale(subject.append(&old, "stale"), 34, 41);
    stale(subject.claim(&cluster.exclusive(LOCK, 40)), 40, 41);
    holds(&subject, &["old"]);
}

/// Each lock of a resource has a mark of its own, also where names run into each other.
pub fn locks_of_one_resource<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = make(scope(&cluster).and(name(OTHER)).and(name("orders/shard-70")).slots(2));
    accepted(subject.append(&cluster.exclusive(OTHER, 90), "other"));
    accepted(subject.append(&cluster.exclusive("orders/shard-70", 80), "longer"));
    accepted(subject.append(&cluster.exclusive(LOCK, 34), "lower, of another lock"));
    stale(subject.append(&cluster.exclusive(OTHER, 89), "stale"), 89, 90);
    stale(subject.append(&cluster.exclusive(LOCK, 33), "stale"), 33, 34);
    holds(&subject, &["other", "longer", "lower, of another lock"]);
}

/// A lock that does not guard this resource.
pub fn wrong_lock<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = make(scope(&cluster));
    let wrong = cluster.exclusive(OTHER, 90);
    assert!(matches!(subject.append(&wrong, "wrong"), Err(FenceError::WrongLock { .. })));
    assert!(matches!(subject.claim(&wrong), Err(FenceError::WrongLock { .. })));
    accepted(subject.append(&cluster.exclusive(LOCK, 34), "right"));
    holds(&subject, &["right"]);
}

/// A semaphore's slots have marks of their own; a slot that the resource was not told of is refused.
pub fn slots_of_a_semaphore<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let slot = |slot, token| cluster.presented(LOCK, slot, Mode::Exclusive, token);
    let single = make(scope(&cluster));
    assert!(matches!(single.append(&slot(1, 34), "beyond"), Err(FenceError::WrongSlot { .. })));
    holds(&single, &[]);

    let subject = make(scope(&cluster).slots(3));
    accepted(subject.append(&slot(2, 90), "last"));
    accepted(subject.append(&slot(0, 34), "first"));
    stale(subject.append(&slot(2, 89), "stale"), 89, 90);
    assert!(matches!(subject.append(&slot(3, 99), "beyond"), Err(FenceError::WrongSlot { .. })));
    assert!(matches!(subject.claim(&slot(u32::MAX, 99)), Err(FenceError::WrongSlot { .. })));
    holds(&subject, &["last", "first"]);
}

/// Shared holders claim but do not write, unless the resource was told so; their claim shuts earlier writers out.
pub fn shared_claim_and_write<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let reader = || cluster.presented(LOCK, 0, Mode::Shared, 41);
    let subject = make(scope(&cluster));
    accepted(subject.append(&cluster.exclusive(LOCK, 34), "writer"));
    accepted(subject.claim(&reader()));
    accepted(subject.claim(&reader()));
    assert!(matches!(subject.append(&reader(), "shared"), Err(FenceError::WrongMode { .. })));
    stale(subject.append(&cluster.exclusive(LOCK, 34), "stale"), 34, 41);
    holds(&subject, &["writer"]);

    let open = make(scope(&cluster).shared_writers());
    accepted(open.append(&reader(), "one"));
    accepted(open.append(&reader(), "two"));
    holds(&open, &["one", "two"]);
}

/// Another cluster's lock of the same name proves nothing here, and raises nothing.
pub fn other_cluster<S: Subject>(make: &impl Fn(Scope) -> S) {
    let (ours, theirs) = (cluster(), SigningCluster::new(2));
    let subject = make(scope(&ours));
    let foreign = theirs.exclusive(LOCK, TOKEN_MAX);
    assert!(matches!(subject.append(&foreign, "foreign"), Err(FenceError::WrongCluster { .. })));
    assert!(matches!(subject.claim(&foreign), Err(FenceError::WrongCluster { .. })));
    accepted(subject.append(&ours.exclusive(LOCK, 34), "ours"));
    holds(&subject, &["ours"]);
}

/// A restored cluster keeps its id and has larger tokens: earlier holders stay out.
pub fn restored_cluster<S: Subject>(make: &impl Fn(Scope) -> S) {
    let before = cluster();
    let after = cluster().restored();
    let subject = make(scope(&before));
    let base = 1_800_000_000_000_000;
    accepted(subject.append(&before.exclusive(LOCK, 34), "before"));
    accepted(subject.append(&after.exclusive(LOCK, base + 3), "after"));
    stale(subject.append(&before.exclusive(LOCK, 35), "stale"), 35, base + 3);
    holds(&subject, &["before", "after"]);
}

/// The marks are durable wherever the data is.
pub fn marks_survive_reopening<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = make(scope(&cluster));
    accepted(subject.append(&cluster.exclusive(LOCK, 34), "written"));
    accepted(subject.claim(&cluster.exclusive(LOCK, 41)));
    let subject = subject.reopen();
    stale(subject.append(&cluster.exclusive(LOCK, 40), "stale"), 40, 41);
    accepted(subject.append(&cluster.exclusive(LOCK, 41), "claimed"));
    holds(&subject, &["written", "claimed"]);
}

/// A floor that the cluster signed shuts earlier holders out, durably, before any successor came. A lower one changes nothing;
/// neither a sequencer nor another resource's floor is one.
pub fn raised_by_a_signed_floor<S: Subject>(make: &impl Fn(Scope) -> S) {
    let (cluster, theirs) = (cluster(), SigningCluster::new(2));
    let subject = make(scope(&cluster));
    accepted(subject.append(&cluster.exclusive(LOCK, 34), "before"));
    raised(subject.raise(&floor(&cluster, LOCK, 0, 41)), 41);
    stale(subject.append(&cluster.exclusive(LOCK, 34), "stale"), 34, 41);
    let subject = subject.reopen();
    stale(subject.append(&cluster.exclusive(LOCK, 40), "stale"), 40, 41);
    accepted(subject.append(&cluster.exclusive(LOCK, 52), "after"));
    raised(subject.raise(&floor(&cluster, LOCK, 0, 50)), 52);
    stale(subject.append(&cluster.exclusive(LOCK, 51), "stale"), 51, 52);

    let of_another_lock = subject.raise(&floor(&cluster, OTHER, 0, 90));
    assert!(matches!(of_another_lock, Err(FenceError::WrongLock { .. })), "{of_another_lock:?}");
    let of_another_slot = subject.raise(&floor(&cluster, LOCK, 1, 90));
    assert!(matches!(of_another_slot, Err(FenceError::WrongSlot { .. })), "{of_another_slot:?}");
    let of_another_cluster = subject.raise(&floor(&theirs, LOCK, 0, 90));
    assert!(matches!(of_another_cluster, Err(FenceError::WrongCluster { .. })), "{of_another_cluster:?}");
    one_is_not_taken_for_the_other(&cluster, &subject);
    accepted(subject.append(&cluster.exclusive(LOCK, 52), "last"));
    holds(&subject, &["before", "after", "last"]);
}

fn floor(cluster: &SigningCluster, lock: &str, slot: u32, floor: u64) -> SignedFloor {
    let text = cluster.floor(lock, slot, floor);
    cluster.verifier().floor(&text).expect("a cluster verifies its own floors")
}

#[track_caller]
fn raised(outcome: Result<HighWaterMark, FenceError>, to: u64) {
    match outcome {
        Ok(HighWaterMark(mark)) => assert_eq!(mark.get(), to, "the mark after a floor"),
        Err(error) => panic!("a floor of the cluster was refused: {error}"),
    }
}

/// The purpose is signed too. Whatever is taken all the same goes to the resource, so that its mark shows it.
fn one_is_not_taken_for_the_other<S: Subject>(cluster: &SigningCluster, subject: &S) {
    let sequencer = cluster.sign(&cluster.header(), &cluster.statement(LOCK, 0, Mode::Exclusive, 90));
    match cluster.verifier().floor(&sequencer) {
        Err(FenceError::WrongPurpose { .. }) => (),
        Err(error) => panic!("a sequencer in the place of a floor was refused as something else: {error}"),
        Ok(floor) => raised(subject.raise(&floor), 52),
    }
    match cluster.verifier().verify(&cluster.floor(LOCK, 0, 90)) {
        Err(FenceError::WrongPurpose { .. }) => (),
        Err(error) => panic!("a floor in the place of a sequencer was refused as something else: {error}"),
        Ok(presented) => assert!(subject.claim(&presented).is_err(), "a floor claimed"),
    }
}

/// Tokens that are none never get as far as the marks; the largest that is one does.
pub fn impossible_tokens<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = make(scope(&cluster));
    accepted(subject.append(&cluster.exclusive(LOCK, 34), "before"));
    for value in ["", "0", "-1", "9007199254740992", "18446744073709551615", "1e3", "34.5", "\"35\"", "null"]
    {
        let text = cluster.sign_altered(&cluster.statement(LOCK, 0, Mode::Exclusive, 35), |claims| {
            if value.is_empty() {
                return claims.replacen(r#""token":35,"#, "", 1);
            }
            claims.replacen(r#""token":35"#, &format!(r#""token":{value}"#), 1)
        });
        let outcome = cluster.verifier().verify(&text);
        assert!(matches!(outcome, Err(FenceError::Malformed(_))), "{value:?} is not a token: {outcome:?}");
    }
    accepted(subject.append(&cluster.exclusive(LOCK, 34), "after"));
    for edge in [i64::from(i32::MAX).unsigned_abs() + 1, u64::from(u32::MAX) + 1, TOKEN_MAX] {
        accepted(subject.append(&cluster.exclusive(LOCK, edge), "edge"));
        stale(subject.append(&cluster.exclusive(LOCK, edge - 1), "stale"), edge - 1, edge);
    }
    holds(&subject, &["before", "after", "edge", "edge", "edge"]);
}

/// A refused holder is told to stop, and stays refused.
pub fn refused_once_refused_always<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = make(scope(&cluster));
    let (old, new) = (cluster.exclusive(LOCK, 34), cluster.exclusive(LOCK, 41));
    accepted(subject.claim(&new));
    accepted(old.check().map_err(FenceError::from));
    stale(subject.append(&old, "stale"), 34, 41);
    assert!(old.check().is_err(), "a stale refusal poisons the holding");
    assert!(subject.append(&old, "again").is_err(), "a poisoned holding was accepted");
    stale(subject.append(&cluster.exclusive(LOCK, 34), "presented afresh"), 34, 41);
    accepted(subject.append(&new, "new"));
    holds(&subject, &["new"]);
}

/// An invented huge token would lock everybody out, so no forgery may move a mark.
pub fn forged_moves_no_mark<S: Subject>(make: &impl Fn(Scope) -> S) {
    let (ours, forger) = (cluster(), SigningCluster::new(3));
    let subject = make(scope(&ours));
    let statement = ours.statement(LOCK, 0, Mode::Exclusive, TOKEN_MAX);
    let forged = forger.sign(&ours.header(), &statement);
    let unknown = forger.sign(&forger.header(), &statement);
    for (text, is_forged) in [(&forged, true), (&unknown, false)] {
        match ours.verifier().verify(text) {
            Err(FenceError::Forged) => assert!(is_forged),
            Err(FenceError::UnknownKey { .. }) => assert!(!is_forged),
            Err(error) => panic!("a forgery was refused as something else: {error}"),
            // What a resource would do with it, so that the mark shows it.
            Ok(presented) => drop(subject.claim(&presented)),
        }
    }
    accepted(subject.append(&ours.exclusive(LOCK, 34), "true"));
    holds(&subject, &["true"]);
}

/// A newer holder that writes the very bytes that are there still shuts the earlier one out.
pub fn identical_bytes<S: Subject>(make: &impl Fn(Scope) -> S) {
    let cluster = cluster();
    let subject = make(scope(&cluster));
    let (old, new) = (cluster.exclusive(LOCK, 34), cluster.exclusive(LOCK, 41));
    accepted(subject.append(&old, "same"));
    accepted(subject.append(&new, "same"));
    stale(subject.append(&old, "same"), 34, 41);
    holds(&subject, &["same", "same"]);
}

/// Holders of `racers` tokens claim and write at once: what was accepted never goes back to an older token.
pub fn concurrent_racers<S: Subject>(make: &impl Fn(Scope) -> S, racers: u64) {
    let cluster = cluster();
    let subject = make(scope(&cluster));
    let holders: Vec<_> = (1..=racers).map(|token| cluster.exclusive(LOCK, token)).collect();
    let start = Barrier::new(holders.len());
    thread::scope(|threads| {
        for holder in &holders {
            threads.spawn(|| {
                start.wait();
                for _ in 0..2 {
                    match subject.append(holder, &holder.token().to_string()) {
                        Ok(()) | Err(FenceError::Stale { .. } | FenceError::NotHolding(_)) => (),
                        Err(error) => panic!("a racer met {error}"),
                    }
                }
            });
        }
    });
    let tokens: Vec<u64> = subject.lines().iter().filter_map(|line| line.parse().ok()).collect();
    assert!(tokens.is_sorted(), "an older token was accepted after a newer one: {tokens:?}");
    let newest = tokens.iter().filter(|token| **token == racers).count();
    assert_eq!(newest, 2, "the newest holder is never refused");
    assert_eq!(tokens.last().copied(), Some(racers), "the newest holder's writes are the last");
}
