//! What every engine on disk must do, whichever it is.

use std::io;
use std::sync::{Arc, mpsc};

use tempfile::TempDir;

use super::{Engine, EngineKind, Identity, LogPoint, Record, RecordKind, Recovered, SavedVote};
use crate::error::OpenError;

pub(super) fn record(term: u64, bytes: usize) -> Record {
    Record { term, kind: RecordKind::Command, body: vec![term as u8; bytes].into() }
}

pub(super) fn records(term: u64, count: usize) -> Vec<Record> {
    vec![record(term, 100); count]
}

/// Appends, and waits until it is durable.
pub(super) fn append(engine: &dyn Engine, first: u64, records: Vec<Record>) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel();
    engine.append(first, records, Box::new(move |result| sender.send(result).expect("the test waits")));
    receiver.recv().expect("the engine answers")
}

/// Votes, and waits until it is durable.
pub(super) fn vote(engine: &dyn Engine, term: u64) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel();
    let vote = SavedVote { term, node: 7, granted: true };
    engine.save_vote(vote, Box::new(move |result| sender.send(result).expect("the test waits")));
    receiver.recv().expect("the engine answers")
}

fn reopen(kind: EngineKind, dir: &TempDir, engine: Arc<dyn Engine>) -> (Arc<dyn Engine>, Recovered) {
    drop(engine);
    let engine = kind.open(dir.path()).expect("it opens");
    let recovered = engine.load().expect("it loads");
    (engine, recovered)
}

/// Runs a story over a new directory of each engine.
fn each(story: impl Fn(EngineKind, &TempDir, Arc<dyn Engine>)) {
    for kind in EngineKind::ALL {
        let dir = TempDir::new().expect("a directory");
        assert_eq!(EngineKind::of(dir.path()).expect("it reads"), None);
        let engine = kind.open(dir.path()).expect("it opens");
        assert_eq!(EngineKind::of(dir.path()).expect("it reads"), Some(kind));
        story(kind, &dir, engine);
    }
}

#[test]
fn what_was_done_is_there_after_reopening() {
    each(|kind, dir, engine| {
        append(&*engine, 1, records(1, 10)).expect("it appends");
        engine.save_vote(SavedVote { term: 2, node: 7, granted: true }, Box::new(|_| {}));
        engine.save_committed(Some(LogPoint { term: 1, index: 4 }));
        append(&*engine, 11, records(2, 2_000)).expect("it appends");
        let (engine, recovered) = reopen(kind, dir, engine);
        assert_eq!(recovered.vote, Some(SavedVote { term: 2, node: 7, granted: true }));
        assert_eq!(recovered.committed, Some(LogPoint { term: 1, index: 4 }));
        assert_eq!(recovered.log, Some((1, 2_010)));
        assert_eq!(recovered.tail.len(), 2_010);
        let read = engine.read(9..13, usize::MAX).expect("they are there");
        assert_eq!(read, [records(1, 2), records(2, 2)].concat());
        engine.save_committed(None);
        append(&*engine, 2_011, records(2, 1)).expect("it appends");
        assert_eq!(reopen(kind, dir, engine).1.committed, None);
    });
}

#[test]
fn whose_data_it_is_is_there_after_reopening() {
    each(|kind, dir, engine| {
        assert_eq!(engine.identity(), None);
        let identity = Identity {
            node: palisade_core::ids::NodeId(7),
            name: palisade_core::ids::NodeName::new("n7").expect("a name"),
            cluster: palisade_core::ids::ClusterName::new("c").expect("a name"),
            cluster_id: None,
            incarnation: None,
        };
        engine.save_identity(identity.clone(), Box::new(|_| {}));
        assert_eq!(reopen(kind, dir, engine).0.identity(), Some(identity));
    });
}

#[test]
fn truncating_keeps_what_is_before() {
    each(|kind, dir, engine| {
        append(&*engine, 1, records(1, 50)).expect("it appends");
        engine.truncate_after(Some(20));
        append(&*engine, 21, records(2, 5)).expect("it appends");
        assert_eq!(
            engine.read(20..22, usize::MAX).expect("they are there"),
            [record(1, 100), record(2, 100)]
        );
        let (engine, recovered) = reopen(kind, dir, engine);
        assert_eq!(recovered.log, Some((1, 25)));
        assert_eq!(recovered.tail, [records(1, 20), records(2, 5)].concat());
        engine.truncate_after(None);
        append(&*engine, 1, records(3, 1)).expect("it appends");
        assert_eq!(reopen(kind, dir, engine).1.tail, records(3, 1));
    });
}

#[test]
fn purging_drops_the_front_and_may_reach_beyond_the_end() {
    each(|kind, dir, engine| {
        append(&*engine, 1, records(1, 1_500)).expect("it appends");
        engine.purge_to(LogPoint { term: 1, index: 900 });
        append(&*engine, 1_501, records(1, 1)).expect("it appends");
        let (engine, recovered) = reopen(kind, dir, engine);
        assert_eq!(
            (recovered.purged, recovered.log),
            (Some(LogPoint { term: 1, index: 900 }), Some((901, 1_501)))
        );
        engine.purge_to(LogPoint { term: 4, index: 5_000 });
        append(&*engine, 5_001, records(4, 1)).expect("it appends");
        let (engine, recovered) = reopen(kind, dir, engine);
        assert_eq!(recovered.log, Some((5_001, 5_001)));
        assert!(engine.read(1_501..1_502, usize::MAX).is_err());
        engine.purge_to(LogPoint { term: 4, index: 5_001 });
        vote(&*engine, 5).expect("it votes");
        assert_eq!(reopen(kind, dir, engine).1.log, None);
    });
}

#[test]
fn reading_stops_at_the_bytes_asked_for_and_gives_at_least_one() {
    each(|_, _, engine| {
        append(&*engine, 1, vec![record(1, 10_000); 100]).expect("it appends");
        let read = |range, bytes| engine.read(range, bytes).expect("it is there").len();
        assert_eq!(read(1..101, 0), 1);
        assert_eq!(read(1..101, 35_000), 3);
        assert_eq!(read(50..101, usize::MAX), 51);
        assert!(engine.read(101..102, usize::MAX).is_err());
    });
}

#[test]
fn many_appends_at_once_are_answered_in_order() {
    each(|kind, dir, engine| {
        let (sender, receiver) = mpsc::channel();
        for index in 1..=2_000 {
            let sender = sender.clone();
            let done = move |result: io::Result<()>| sender.send((index, result.is_ok())).expect("it waits");
            engine.append(index, records(index, 1), Box::new(done));
        }
        for index in 1..=2_000 {
            assert_eq!(receiver.recv().expect("the engine answers"), (index, true));
        }
        let tail = reopen(kind, dir, engine).1.tail;
        assert!((1..=2_000).map(|index| record(index, 100)).eq(tail));
    });
}

#[test]
fn a_second_opening_is_refused() {
    each(|kind, dir, _engine| {
        assert!(matches!(kind.open(dir.path()), Err(OpenError::InUse { .. })));
    });
}

#[test]
fn an_answer_comes_also_after_the_end() {
    each(|_, _, engine| {
        engine.close();
        assert!(append(&*engine, 1, records(1, 1)).is_err());
    });
}

#[test]
fn a_log_is_carried_from_one_engine_to_the_other() {
    each(|kind, dir, engine| {
        let identity = Identity {
            node: palisade_core::ids::NodeId(7),
            name: palisade_core::ids::NodeName::new("n7").expect("a name"),
            cluster: palisade_core::ids::ClusterName::new("c").expect("a name"),
            cluster_id: None,
            incarnation: None,
        };
        engine.save_identity(identity.clone(), Box::new(|_| {}));
        vote(&*engine, 3).expect("it votes");
        append(&*engine, 1, vec![record(1, 50_000); 60]).expect("it appends");
        engine.purge_to(LogPoint { term: 1, index: 7 });
        engine.save_committed(Some(LogPoint { term: 1, index: 50 }));
        append(&*engine, 61, records(2, 1_000)).expect("it appends");
        let to = TempDir::new().expect("a directory");
        for other in EngineKind::ALL {
            let in_use = super::convert_log((dir.path(), kind), (&to.path().join("a"), other));
            assert!(matches!(in_use, Err(OpenError::InUse { .. })), "it is in use");
        }
        drop(engine);
        let held = kind.open(dir.path()).expect("it opens").load().expect("it loads");
        for (number, other) in EngineKind::ALL.into_iter().enumerate() {
            let to = to.path().join(number.to_string());
            let entries = super::convert_log((dir.path(), kind), (&to, other)).expect("it converts");
            assert_eq!(entries, 1_053);
            let engine = other.open(&to).expect("it opens");
            let loaded = engine.load().expect("it loads");
            assert_eq!(engine.identity().as_ref(), Some(&identity));
            assert_eq!(
                (loaded.vote, loaded.purged, loaded.committed),
                (held.vote, held.purged, held.committed)
            );
            assert_eq!((loaded.log, &loaded.tail), (held.log, &held.tail));
        }
    });
}
